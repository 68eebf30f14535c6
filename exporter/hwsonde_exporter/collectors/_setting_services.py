"""Which services run that change how a host behaves, and the limits that jobs inherit from their launchers.

A service of systemd that runs has a control group of its name, which shows at the cost of one directory, in a container too.
Sources: systemd.slice(5), proc_pid_limits(5), linux/Documentation/timers/ for clock sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._files import entries, exists, is_folder
from hwsonde_exporter.collectors._setting_rows import Row, file_rows, plain, row
from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.host import Host

# Where control groups of services lie: version 2, the two layouts of version 1.
_SLICES = ("system.slice", "unified/system.slice", "systemd/system.slice")
_TIME_SERVICES = {
    "chrony": "chrony", "chronyd": "chrony", "ntp": "ntpd", "ntpd": "ntpd", "ntpsec": "ntpsec", "openntpd": "openntpd",
    "phc2sys": "phc2sys", "ptp4l": "ptp4l", "systemd-timesyncd": "systemd-timesyncd", "timemaster": "timemaster",
}  # fmt: skip
# Without systemd: the files in which the daemons note their process.
_TIME_FILES = (
    ("run/chrony/chronyd.pid", "chrony"),
    ("run/ntpd.pid", "ntpd"),
    ("run/systemd/timesync/synchronized", "systemd-timesyncd"),
)
# With the module that they serve, where it is not for every host.
_WATCHED = (("irqbalance", ""), ("nvidia-fabricmanager", "nvidia"), ("nvidia-persistenced", "nvidia"), ("tuned", ""))
_LAUNCHERS = ("containerd", "crio", "docker", "kubelet", "pbs", "slurmd")
_LIMITS = ((b"Max locked memory", "memlock"), (b"Max open files", "open_files"), (b"Max stack size", "stack"))
_SERVICE = re.compile(r"([^@]+)(@.*)?\.service\Z")
_CLOCK_FILES = (
    ("time.clock_source", "current_clocksource", plain),
    ("time.clock_sources", "available_clocksource", plain),
)


def service_rows(host: Host) -> Iterator[Row]:
    """Clock source, time service, a few other services, and limits of launchers."""
    yield from file_rows(host, host.paths.sys("devices", "system", "clocksource", "clocksource0"), _CLOCK_FILES)
    running = _running(host)
    time = sorted({_TIME_SERVICES[name] for name in running or () if name in _TIME_SERVICES})
    if not time:
        time = [name for file, name in _TIME_FILES if exists(host.paths.rootfs / file)]
    if time or running:
        yield row("time.service", " ".join(time) or "none")
    if running:
        for name, module in _WATCHED:
            if module and not is_folder(host.paths.sys("module", module)):
                continue
            yield row(f"service.{name}", "running" if name in running else "not running")
    for name in _LAUNCHERS:
        if running and name in running:
            yield from _limit_rows(host, name, running[name])


def _running(host: Host) -> dict[str, str]:
    """Folder of the control group of each service, by the service's name without its instance; empty without systemd."""
    base = host.paths.sys("fs", "cgroup")
    for place in _SLICES:
        found: dict[str, str] = {}
        for name in entries(base / place):
            if match := _SERVICE.match(name):
                found.setdefault(match[1], f"{base}/{place}/{name}")
        if found:
            return found
    return {}


def parse_limits(data: bytes) -> dict[str, str]:
    """Soft limits of /proc/PID/limits that jobs inherit: a number, or ``unlimited``."""
    found = {}
    for line in parsing.lines(data):
        for title, name in _LIMITS:
            words = line[len(title) :].split() if line.startswith(title) else []
            if words and (words[0] == b"unlimited" or parsing.number(words[0]) is not None):
                found[name] = words[0].decode()
    return found


def _limit_rows(host: Host, service: str, folder: str) -> Iterator[Row]:
    try:
        processes = host.files.read_once(f"{folder}/cgroup.procs").split()
        # Process 0 is one that this container cannot see.
        number = next((found for token in processes if (found := parsing.number(token))), None)
        data = host.files.read_once(host.paths.proc(str(number), "limits")) if number else b""
    except ReadError:
        return
    for name, value in parse_limits(data).items():
        yield row(f"limit.{name}", value, service)

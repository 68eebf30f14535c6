"""Every option: one table that makes the flags, the keys of the configuration file and their help."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

from hwsonde_exporter import logs
from hwsonde_exporter.host import IGNORED_DEVICES, IGNORED_MOUNTS, RemoteGroup
from hwsonde_exporter.mesh.sender import Peer
from hwsonde_exporter.patterns import compiled
from hwsonde_exporter.privacy import Level
from hwsonde_exporter.registry import Collector
from hwsonde_exporter.workload_options import WorkloadOptions

DEFAULT_PORT = 9880
DEFAULT_SERIES_LIMIT = max(2000, 16 * (os.cpu_count() or 1))
_TRUE, _FALSE = frozenset({"true", "yes", "on"}), frozenset({"false", "no", "off"})
_MAX_HERTZ = 100.0
_MAX_NAME = 253  # of a host, in the domain name system
_LABEL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes
    ----------
    key
        Section and name, as in ``web.listen-address``: the flag is ``--`` and the key; in the file the section, all before the
        first dot, is a mapping. A key without a dot has no section.
    parse
        Makes the value of a text; raises ValueError with what is allowed.
    default
        The value if nobody says otherwise.
    help
        For ``--help``.
    many
        Whether it may be given several times; the value is then a tuple.
    switch
        Whether it is a flag without a value, with a ``--no-`` twin.
    """

    key: str
    parse: Callable[[str], Any]
    default: Any
    help: str
    many: bool = False
    switch: bool = False


def options(kinds: Mapping[str, type[Collector]]) -> dict[str, Option]:
    """All options by key.

    Parameters
    ----------
    kinds
        Collector classes by name; each makes a switch.
    """
    metric_pattern = _metric_pattern(kinds)
    table = [
        Option(
            "web.listen-address",
            parse_address,
            (("", DEFAULT_PORT),),
            f"address to listen on, HOST:PORT, [IPV6]:PORT or :PORT for all interfaces; may be repeated (default :{DEFAULT_PORT}). "
            "Everybody who reaches it can read the metrics: restrict it by address or firewall",
            many=True,
        ),
        Option(
            "web.config.file",
            _file,
            None,
            "YAML file with TLS, client certificates, users and their passwords, in the form that other exporters of Prometheus read; "
            "what it names is read again when it changes (default none: plain HTTP, open to all)",
        ),
        Option(
            "web.max-scrapes", _integer(1, 64), 4, "scrapes served at once; those beyond get status 503 (default 4)"
        ),
        Option(
            "web.timeout-offset",
            _number(0.0, 30.0),
            0.5,
            "seconds by which a scrape ends before the time-out that Prometheus states, a fifth of it at most (default 0.5)",
        ),
        Option("path.procfs", _folder, Path("/proc"), "where the host's /proc is mounted (default /proc)"),
        Option("path.sysfs", _folder, Path("/sys"), "where the host's /sys is mounted (default /sys)"),
        Option(
            "path.rootfs", _folder, Path("/"), "where the host's / is mounted, for the sizes of filesystems (default /)"
        ),
        Option(
            "collector.timeout",
            _number(0.05, 60.0),
            0.8,
            "seconds that a scrape without a time-out of its own waits (default 0.8)",
        ),
        Option(
            "collector.series-limit",
            _series_limit(kinds),
            (("", DEFAULT_SERIES_LIMIT),),
            "greatest number of series of one collector (default 2000, or 16 a CPU where that is more); may be repeated with the name of "
            "a collector, as in rdma=5000",
            many=True,
        ),
        Option(
            "collector.disable-defaults",
            parse_switch,
            default=False,
            help="run only the collectors that are switched on by name (default off)",
            switch=True,
        ),
        Option(
            "metrics.allow",
            metric_pattern,
            None,
            "publish only these metrics: a regular expression of the whole name, without _sum, _count or _bucket (default all)",
        ),
        Option(
            "metrics.deny",
            metric_pattern,
            None,
            "do not publish these metrics: a regular expression of the whole name, without _sum, _count or _bucket (default none)",
        ),
        Option(
            "collector.network.ignored-devices",
            _pattern,
            IGNORED_DEVICES,
            "network devices that are left out: a regular expression of the whole name (default: those that containers and virtual "
            "machines make, such as veth.*)",
        ),
        Option(
            "collector.filesystem.ignored-mounts",
            _pattern,
            IGNORED_MOUNTS,
            "mount points that are left out: a regular expression of the whole path (default: those of containers, users' sessions "
            "and pseudo filesystems)",
        ),
        Option(
            "collector.network_latency.groups",
            _remote_group,
            (),
            "name for remote addresses, NAME=PREFIX such as rack-a=10.1.0.0/16; may be repeated, also with the same name; the longest prefix "
            "decides, and addresses in none are called private or public (default none)",
            many=True,
        ),
        Option(
            "collector.network_probe.peers",
            _peer,
            (),
            "host to probe, NAME=HOST:PORT; may be repeated; the name is what labels show (default none)",
            many=True,
        ),
        Option(
            "collector.network_probe.listen-address",
            _port_address,
            None,
            "UDP address at which probes of other hosts are answered, HOST:PORT, [IPV6]:PORT or :PORT; everybody who reaches it gets answers, "
            "at most 50 a second and no longer than the question (default none: no probe is answered)",
        ),
        Option(
            "collector.network_probe.interval",
            _number(0.1, 60.0),
            1.0,
            "seconds between two probes of one peer (default 1)",
        ),
        Option(
            "collector.textfile.directory",
            _absolute,
            None,
            "directory whose *.prom files are published with our own metrics; it and they must not be writable by everybody, and be owned "
            "by root or the user of this program (default none)",
        ),
        Option(
            "collector.workload.limit",
            _integer(1, 1000),
            WorkloadOptions().limit,
            "greatest number of workloads with series of their own, up to 40 each; more need a higher collector.series-limit (default 48)",
        ),
        Option(
            "collector.workload.minimum-cpu-seconds",
            _number(0.0, 1e9),
            WorkloadOptions().minimum_cpu_seconds,
            "CPU seconds that a user, a service or a plain control group must have used to be a workload; jobs and containers always are "
            "(default 60)",
        ),
        Option(
            "collector.workload.minimum-memory-bytes",
            _integer(0, 1 << 39),
            WorkloadOptions().minimum_memory_bytes,
            "memory that makes it a workload as well (default 268435456)",
        ),
        Option(
            "collector.workload.tasks",
            _integer(0, 100_000),
            WorkloadOptions().tasks,
            "threads of workloads whose state is looked at in a scrape, shared among them; about 10 us each; 0 for none (default 512)",
        ),
        Option(
            "collector.workload.user-names",
            parse_switch,
            default=False,
            help="show the names of users in the label user of hwsonde_workload_info (default off)",
            switch=True,
        ),
        Option(
            "collector.gpu_process.names",
            parse_switch,
            default=False,
            help="show the names of programs and users in hwsonde_gpu_process_info (default off)",
            switch=True,
        ),
        Option(
            "privacy",
            _choice(*Level),
            Level.STANDARD,
            "standard shows what the collectors' own options allow; strict removes user names, process names and serial numbers from all "
            "labels, and replaces names of hosts, exports, mount points, pods and devices' UUIDs by pseudonyms (default standard)",
        ),
        Option(
            "nvml.library",
            _absolute,
            None,
            "library to load in place of libnvidia-ml.so.1, for drivers in unusual places (default none)",
        ),
        Option(
            "nvml.deadline",
            _number(0.1, 60.0),
            2.0,
            "seconds that NVIDIA's driver may take to answer one group of questions about one GPU before it counts as hung (default 2)",
        ),
        Option(
            "nvml.serials",
            parse_switch,
            default=False,
            help="show serial numbers of GPUs in the label serial of hwsonde_gpu_info (default off)",
            switch=True,
        ),
        Option("sampler.hertz", _rate, 10.0, "ticks a second of the fast sampler, 0 switches it off (default 10)"),
        Option("log.level", _choice(*logs.LEVELS), "info", f"one of {', '.join(logs.LEVELS)} (default info)"),
        Option("log.format", _choice(*logs.FORMATS), "logfmt", f"one of {', '.join(logs.FORMATS)} (default logfmt)"),
    ]
    for name, kind in sorted(kinds.items()):
        text = f"{kind.help.rstrip('.')} (default {'on' if kind.enabled else 'off'})"
        table.append(Option(f"collector.{name}", parse_switch, kind.enabled, text, switch=True))
    return {option.key: option for option in table}


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of a listen address; an empty host stands for all interfaces."""
    allowed = "HOST:PORT, [IPV6]:PORT or :PORT, port 0 to 65535"
    host, colon, port = text.strip().rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not (port.isascii() and port.isdigit()) or len(port) > 5 or int(port) > 65535:
        raise ValueError(allowed)
    if ":" in host and not bracketed:
        raise ValueError(allowed)
    host = host[1:-1] if bracketed else host
    if any(character.isspace() or character in "/[]@" for character in host) or not _is_name(host):
        raise ValueError(allowed)
    return host, int(port)


def _port_address(text: str) -> tuple[str, int]:
    host, port = parse_address(text)
    if port == 0:
        raise ValueError("HOST:PORT, [IPV6]:PORT or :PORT, port 1 to 65535")
    return host, port


def _named(text: str, allowed: str) -> tuple[str, str]:
    """Name and value of ``NAME=VALUE``; a name that is an address would show in labels what is kept out of them."""
    name, equals, value = text.strip().partition("=")
    if not equals or not _LABEL_NAME.fullmatch(name):
        raise ValueError(allowed)
    try:
        ip_address(name)
    except ValueError:
        return name, value
    raise ValueError(allowed)


def _remote_group(text: str) -> RemoteGroup:
    allowed = "NAME=PREFIX such as rack-a=10.1.0.0/16; a name has letters, digits, _, - and ., and is no address; host bits are 0"
    name, prefix = _named(text, allowed)
    try:
        return name, ip_network(prefix)
    except ValueError:
        raise ValueError(allowed) from None


def _peer(text: str) -> Peer:
    allowed = (
        "NAME=HOST:PORT or NAME=[IPV6]:PORT, port 1 to 65535; a name has letters, digits, _, - and ., and is no address"
    )
    name, address = _named(text, allowed)
    try:
        host, port = _port_address(address)
    except ValueError:
        raise ValueError(allowed) from None
    if not host:
        raise ValueError(allowed)
    return Peer(name, host, port)


def _is_name(host: str) -> bool:
    """Whether it can be looked up at all: no empty or endless part between its dots."""
    try:
        return len(host.encode("idna")) <= _MAX_NAME and host.isprintable()
    except UnicodeError:
        return False


def parse_switch(text: str) -> bool:
    """Truth of a word."""
    word = text.strip().lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise ValueError("true or false")


def _integer(least: int, greatest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        allowed = f"an integer from {least} to {greatest}"
        if not (text.strip().isascii() and text.strip().isdigit()) or len(text) > 12:
            raise ValueError(allowed)
        value = int(text)
        if not least <= value <= greatest:
            raise ValueError(allowed)
        return value

    return parse


def _series_limit(kinds: Mapping[str, type[Collector]]) -> Callable[[str], tuple[str, int]]:
    """Give (collector, limit) of ``rdma=5000`` and ("", limit) of a limit for all."""
    limit = _integer(10, 1_000_000)

    def parse(text: str) -> tuple[str, int]:
        name, equals, number = text.strip().rpartition("=")
        allowed = "an integer from 10 to 1000000, alone or behind COLLECTOR="
        if equals and name not in kinds:
            raise ValueError(allowed)
        try:
            return name, limit(number)
        except ValueError:
            raise ValueError(allowed) from None

    return parse


def _number(least: float, greatest: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        allowed = f"a number from {least:g} to {greatest:g}"
        try:
            value = float(text)
        except ValueError:
            raise ValueError(allowed) from None
        if not least <= value <= greatest:
            raise ValueError(allowed)
        return value

    return parse


def _rate(text: str) -> float:
    allowed = f"0, or ticks a second from 0.1 to {_MAX_HERTZ:g}"
    try:
        value = float(text)
    except ValueError:
        raise ValueError(allowed) from None
    if value != 0 and not 0.1 <= value <= _MAX_HERTZ:
        raise ValueError(allowed)
    return value


def _pattern(text: str) -> re.Pattern[str]:
    return _compiled(text, 'a regular expression of whole names, such as "veth.*|tap[0-9]+"; "(?!)" leaves nothing out')


def _metric_pattern(kinds: Mapping[str, type[Collector]]) -> Callable[[str], re.Pattern[str]]:
    names = [metric.name for kind in kinds.values() for metric in kind.metrics]
    return lambda text: _compiled(text, 'a regular expression of whole names, such as "hwsonde_(cpu|memory)_.*"', names)


def _compiled(text: str, allowed: str, names: Iterable[str] = ()) -> re.Pattern[str]:
    try:
        return compiled(text, names)
    except ValueError as error:
        raise ValueError(f"{allowed}; {error}" if str(error) else allowed) from None


def _folder(text: str) -> Path:
    path = Path(text)
    if not text or "\0" in text or not path.is_dir():
        raise ValueError("a folder that exists")
    return path


def _absolute(text: str) -> Path:
    if not text.startswith("/") or "\0" in text:
        raise ValueError("the path of a directory, from the root")
    return Path(text)


def _file(text: str) -> Path:
    if not text or "\0" in text:
        raise ValueError("the path of a file")
    return Path(text)


def _choice(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(" or ".join(words))
        return text

    return parse

"""Every option: one table that makes the flags, the keys of the configuration file and their help."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hwsonde_exporter import logs
from hwsonde_exporter import option_values as values
from hwsonde_exporter.host import IGNORED_DEVICES, IGNORED_MOUNTS
from hwsonde_exporter.privacy import Level
from hwsonde_exporter.registry import Collector
from hwsonde_exporter.workload_options import WorkloadOptions

DEFAULT_PORT = 9880
DEFAULT_SERIES_LIMIT = max(2000, 16 * (os.cpu_count() or 1))
# Where the largest hosts there are have more: eight GPUs with 18 links of NVLink 5 each, of which every link has 16 series.
OWN_SERIES_LIMITS = {"gpu_nvlink_health": max(4000, DEFAULT_SERIES_LIMIT)}


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
    metric_pattern = values.metric_pattern(kinds)
    table = [
        Option(
            "web.listen-address",
            values.parse_address,
            (("", DEFAULT_PORT),),
            f"address to listen on, HOST:PORT, [IPV6]:PORT or :PORT for all interfaces; may be repeated (default :{DEFAULT_PORT}). "
            "Everybody who reaches it can read the metrics: restrict it by address or firewall",
            many=True,
        ),
        Option(
            "web.config.file",
            values.file,
            None,
            "YAML file with TLS, client certificates, users and their passwords, in the form that other exporters of Prometheus read; "
            "what it names is read again when it changes (default none: plain HTTP, open to all)",
        ),
        Option(
            "web.max-scrapes",
            values.integer(1, 64),
            4,
            "scrapes served at once; those beyond get status 503 (default 4)",
        ),
        Option(
            "web.timeout-offset",
            values.number(0.0, 30.0),
            0.5,
            "seconds by which a scrape ends before the time-out that Prometheus states, a fifth of it at most (default 0.5)",
        ),
        Option("path.procfs", values.folder, Path("/proc"), "where the host's /proc is mounted (default /proc)"),
        Option("path.sysfs", values.folder, Path("/sys"), "where the host's /sys is mounted (default /sys)"),
        Option(
            "path.rootfs",
            values.folder,
            Path("/"),
            "where the host's / is mounted, for the sizes of filesystems (default /)",
        ),
        Option(
            "collector.timeout",
            values.number(0.05, 60.0),
            0.8,
            "seconds that a scrape without a time-out of its own waits (default 0.8)",
        ),
        Option(
            "collector.series-limit",
            values.series_limit(kinds),
            (),
            "greatest number of series of one collector, and as many again of those that the fast sampler makes of it (default 2000, or 16 "
            "a CPU where that is more; gpu_nvlink_health=4000); may be repeated with the name of a collector, as in rdma=5000",
            many=True,
        ),
        Option(
            "collector.disable-defaults",
            values.parse_switch,
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
            values.pattern,
            IGNORED_DEVICES,
            "network devices that are left out: a regular expression of the whole name (default: those that containers and virtual "
            "machines make, such as veth.*)",
        ),
        Option(
            "collector.filesystem.ignored-mounts",
            values.pattern,
            IGNORED_MOUNTS,
            "mount points that are left out: a regular expression of the whole path (default: those of containers, users' sessions "
            "and pseudo filesystems)",
        ),
        Option(
            "collector.network_latency.groups",
            values.remote_group,
            (),
            "name for remote addresses, NAME=PREFIX such as rack-a=10.1.0.0/16; may be repeated, also with the same name; the longest prefix "
            "decides, and addresses in none are called private or public (default none)",
            many=True,
        ),
        Option(
            "collector.network_probe.peers",
            values.peer,
            (),
            "host to probe, NAME=HOST:PORT; may be repeated; the name is what labels show (default none)",
            many=True,
        ),
        Option(
            "collector.network_probe.listen-address",
            values.port_address,
            None,
            "UDP address at which probes of other hosts are answered, HOST:PORT, [IPV6]:PORT or :PORT; everybody who reaches it gets answers, "
            "at most 50 a second and no longer than the question (default none: no probe is answered)",
        ),
        Option(
            "collector.network_probe.interval",
            values.number(0.1, 60.0),
            1.0,
            "seconds between two probes of one peer (default 1)",
        ),
        Option(
            "collector.textfile.directory",
            values.absolute,
            None,
            "directory whose *.prom files are published with our own metrics; it and they must not be writable by everybody, and be owned "
            "by root or the user of this program (default none)",
        ),
        Option(
            "collector.workload.limit",
            values.integer(1, 1000),
            WorkloadOptions().limit,
            "greatest number of workloads with series of their own, up to 40 each; more need a higher collector.series-limit (default 48)",
        ),
        Option(
            "collector.workload.minimum-cpu-seconds",
            values.number(0.0, 1e9),
            WorkloadOptions().minimum_cpu_seconds,
            "CPU seconds that a user, a service or a plain control group must have used to be a workload; jobs and containers always are "
            "(default 60)",
        ),
        Option(
            "collector.workload.minimum-memory-bytes",
            values.integer(0, 1 << 39),
            WorkloadOptions().minimum_memory_bytes,
            "memory that makes it a workload as well (default 268435456)",
        ),
        Option(
            "collector.workload.tasks",
            values.integer(0, 100_000),
            WorkloadOptions().tasks,
            "threads of workloads whose state is looked at in a scrape, shared among them; about 10 us each; 0 for none (default 512)",
        ),
        Option(
            "collector.workload.user-names",
            values.parse_switch,
            default=False,
            help="show the names of users in the label user of hwsonde_workload_info (default off)",
            switch=True,
        ),
        Option(
            "collector.gpu_process.names",
            values.parse_switch,
            default=False,
            help="show the names of programs and users in hwsonde_gpu_process_info (default off)",
            switch=True,
        ),
        Option(
            "privacy",
            values.choice(*Level),
            Level.STANDARD,
            "standard shows what the collectors' own options allow; strict removes user names, process names and serial numbers from all "
            "labels, and replaces names of hosts, exports, mount points, pods and devices' UUIDs by pseudonyms (default standard)",
        ),
        Option(
            "nvml.library",
            values.absolute,
            None,
            "library to load in place of libnvidia-ml.so.1, for drivers in unusual places (default none)",
        ),
        Option(
            "nvml.deadline",
            values.number(0.1, 60.0),
            2.0,
            "seconds that NVIDIA's driver may take to answer one group of questions about one GPU before it counts as hung (default 2)",
        ),
        Option(
            "nvml.serials",
            values.parse_switch,
            default=False,
            help="show serial numbers of GPUs in the label serial of hwsonde_gpu_info (default off)",
            switch=True,
        ),
        Option(
            "sampler.hertz", values.rate, 10.0, "ticks a second of the fast sampler, 0 switches it off (default 10)"
        ),
        Option("log.level", values.choice(*logs.LEVELS), "info", f"one of {', '.join(logs.LEVELS)} (default info)"),
        Option(
            "log.format", values.choice(*logs.FORMATS), "logfmt", f"one of {', '.join(logs.FORMATS)} (default logfmt)"
        ),
    ]
    for name, kind in sorted(kinds.items()):
        text = f"{kind.help.rstrip('.')} (default {'on' if kind.enabled else 'off'})"
        table.append(Option(f"collector.{name}", values.parse_switch, kind.enabled, text, switch=True))
    return {option.key: option for option in table}

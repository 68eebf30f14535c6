"""When a host is not fit for a job: a table of rules from samples to findings. Nothing here reads, waits or knows the time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import NamedTuple

from hwsonde_exporter.metric import Sample
from hwsonde_exporter.nvml.check_rules import GPU_RULES, GpuRule

Labels = Mapping[str, str]

_DISABLED = 3  # physical state of an RDMA port that somebody has switched off
_DISK_CLASSES = frozenset(("network", "nvme", "storage"))
# Filesystems of a server, where it is the server that is full: it must not take a whole cluster out of service.
_SHARED = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "fuse.weka", "wekafs", "9p", "virtiofs", "afs")
)
_UNFIT_POOLS = frozenset(("degraded", "faulted", "offline", "removed", "suspended", "unavail"))


class Severity(StrEnum):
    """How bad a finding is: the host is not fit, or it cannot be told."""

    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"


class Finding(NamedTuple):
    """One reason.

    ``rule`` is the name of the rule and ``subject`` the device that it found, empty for the host; together they are what
    `ignored` goes by. ``text`` is a sentence without its subject: what is wrong and what to do.
    """

    severity: Severity
    rule: str
    subject: str
    text: str

    @property
    def line(self) -> str:
        """The finding as one line for people and logs."""
        return f"{self.severity}: {self.rule}: {f'{self.subject} ' if self.subject else ''}{self.text}"


@dataclass(frozen=True, slots=True)
class Limits:
    """Thresholds; ``free_ratio`` is the least share of space and of inodes that a local filesystem must have free."""

    free_ratio: float = 0.02


class Reading:
    """Samples, found by the names of their metrics."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._rows: dict[str, list[tuple[Labels, float]]] = defaultdict(list)
        for sample in samples:
            labels = dict(zip(sample.metric.label_names(sample.suffix), sample.labels, strict=True))
            self._rows[sample.metric.name].append((labels, sample.value))

    def rows(self, name: str) -> list[tuple[Labels, float]]:
        """Labels and value of each series of a metric."""
        return self._rows.get(name, [])

    def by(self, name: str, *labels: str) -> dict[str, float]:
        """Value of each series of a metric, by its device: the values of these labels, joined by slashes."""
        return {"/".join(row[label] for label in labels): value for row, value in self.rows(name)}

    def devices(self, name: str, wrong: float) -> list[str]:
        """Devices whose series of a metric has this value."""
        return [row["device"] for row, value in self.rows(name) if value == wrong]


Judged = Iterator[tuple[str, str]]


class Rule(NamedTuple):
    """One rule.

    ``collectors`` are those whose samples it wants. ``judge`` gives subject and text of each thing that is wrong, or that cannot
    be told where ``severity`` says so.
    """

    name: str
    help: str
    collectors: tuple[str, ...]
    judge: Callable[[Reading, Limits], Judged]
    severity: Severity = Severity.UNHEALTHY


def _nvme_warning(reading: Reading, _: Limits) -> Judged:
    conditions: dict[str, list[str]] = defaultdict(list)
    for labels, value in reading.rows("hwsonde_storage_nvme_critical_warning"):
        if value:
            conditions[labels["device"]].append(labels["condition"].replace("_", " "))
    for device, named in conditions.items():
        cure = "cool it" if named == ["temperature"] else "replace it"
        yield device, f"warns of {', '.join(named)}; {cure}"


def _nvme_unread(reading: Reading, _: Limits) -> Judged:
    for labels, value in reading.rows("hwsonde_storage_nvme_smart_available"):
        if not value and labels["reason"] == "no_permission":
            yield labels["device"], "does not tell its health to this user; run as root"


def _disk_silent(reading: Reading, _: Limits) -> Judged:
    for device in reading.devices("hwsonde_storage_nvme_stuck", 1):
        yield device, "does not answer; reset or replace it"
    for device in reading.devices("hwsonde_storage_md_stuck", 1):
        yield device, "does not answer; look at its members"


def _disk_dead(reading: Reading, _: Limits) -> Judged:
    for device in reading.devices("hwsonde_storage_nvme_live", 0):
        yield device, "is not live: the kernel has lost the controller; reset or replace it"
    for device in reading.devices("hwsonde_storage_scsi_running", 0):
        yield device, "was blocked or taken offline by the kernel; replace it"


def _raid_degraded(reading: Reading, _: Limits) -> Judged:
    for labels, value in reading.rows("hwsonde_storage_md_degraded_devices"):
        if value > 0:
            yield labels["device"], f"lacks {value:.0f} of its members; replace them and rebuild"
    for labels, value in reading.rows("hwsonde_storage_md_members"):
        if labels["state"] == "failed" and value > 0:
            yield labels["device"], f"has {value:.0f} failed members; replace them"
    for labels, value in reading.rows("hwsonde_storage_zfs_pool_state"):
        if value and labels["state"].lower() in _UNFIT_POOLS:
            yield labels["pool"], f"is {labels['state']}; see zpool status"


def _filesystem_stuck(reading: Reading, _: Limits) -> Judged:
    for labels, value in reading.rows("hwsonde_storage_filesystem_stuck"):
        if value:
            yield labels["mountpoint"], f"does not answer; look at {labels['device'] or 'its server'}"


def _filesystem_read_only(reading: Reading, _: Limits) -> Judged:
    for labels, _value in reading.rows("hwsonde_setting_info"):
        if labels["setting"] == "mount.access" and labels["value"] == "forced ro":
            yield labels["device"], "was made read-only by the kernel after an error; see dmesg, then fsck"


def _filesystem_errors(reading: Reading, _: Limits) -> Judged:
    errors: dict[str, float] = defaultdict(float)
    for labels, value in reading.rows("hwsonde_storage_filesystem_errors_total"):
        errors[labels["device"]] += value
    for device, value in errors.items():
        if value > 0:
            yield device, f"has recorded {value:.0f} errors; see dmesg, then fsck"


def _filesystem_full(reading: Reading, limits: Limits) -> Judged:
    readonly = reading.by("hwsonde_storage_filesystem_readonly", "mountpoint")
    for what, total, free in (
        ("space", "hwsonde_storage_filesystem_size_bytes", "hwsonde_storage_filesystem_available_bytes"),
        ("inodes", "hwsonde_storage_filesystem_inodes", "hwsonde_storage_filesystem_free_inodes"),
    ):
        left = reading.by(free, "mountpoint")
        for labels, size in reading.rows(total):
            place = labels["mountpoint"]
            if labels["fstype"] in _SHARED or readonly.get(place) or size <= 0 or place not in left:
                continue
            if left[place] / size < limits.free_ratio:
                yield place, f"has {left[place] / size:.1%} of its {what} left; make room"


def _bond_member_down(reading: Reading, _: Limits) -> Judged:
    for labels, value in reading.rows("hwsonde_network_bond_member_up"):
        if not value:
            yield labels["member"], f"is down and {labels['device']} runs without it; check its cable"


def _rdma_down(reading: Reading, _: Limits) -> Judged:
    physical = reading.by("hwsonde_network_rdma_physical_state", "device", "port")
    for port, value in reading.by("hwsonde_network_rdma_up", "device", "port").items():
        if not value and physical.get(port) != _DISABLED:
            yield port, "is down; check its cable and the switch"


def _rdma_silent(reading: Reading, _: Limits) -> Judged:
    for device in reading.devices("hwsonde_network_rdma_stuck", 1):
        yield device, "does not answer: its firmware hangs; reset it"


def _rdma_slow(reading: Reading, _: Limits) -> Judged:
    """Ports that are slower, or have fewer lanes, than others of their kind in this host."""
    kinds = {
        f"{labels['device']}/{labels['port']}": (labels["hca_type"], labels["board_id"], labels["link_layer"])
        for labels, _value in reading.rows("hwsonde_network_rdma_info")
    }
    up = {port for port, value in reading.by("hwsonde_network_rdma_up", "device", "port").items() if value}
    for metric, verb, scale, unit in (
        ("hwsonde_network_rdma_speed_bytes_per_second", "runs at", 1e9 / 8, "Gbit/s"),
        ("hwsonde_network_rdma_lanes", "uses", 1, "lanes"),
    ):
        values = {port: value for port, value in reading.by(metric, "device", "port").items() if port in up}
        for port, value in values.items():
            alike = [values[other] for other in values if kinds.get(other) == kinds.get(port)]
            if value < max(alike):
                yield (
                    port,
                    f"{verb} {value / scale:g} {unit}, others of its kind {max(alike) / scale:g}; check its cable",
                )


def _pcie_narrow(reading: Reading, _: Limits) -> Judged:
    greatest = reading.by("hwsonde_pcie_link_max_width_lanes", "device")
    for labels, value in reading.rows("hwsonde_pcie_link_width_lanes"):
        most = greatest.get(labels["device"], value)
        if value < most:
            yield labels["device"], f"({labels['class']}) uses {value:.0f} of {most:.0f} PCIe lanes; reseat it"


def _pcie_slow(reading: Reading, _: Limits) -> Judged:
    greatest = reading.by("hwsonde_pcie_link_max_speed_transfers_per_second", "device")
    for labels, value in reading.rows("hwsonde_pcie_link_speed_transfers_per_second"):
        most = greatest.get(labels["device"], value)
        # GPUs and the switches above them run slower while they are idle, which is what they are before a job.
        if value < most and labels["class"] in _DISK_CLASSES:
            yield (
                labels["device"],
                f"({labels['class']}) runs at {value / 1e9:g} of {most / 1e9:g} GT/s; reseat it or its riser",
            )


def _memory_errors(reading: Reading, _: Limits) -> Judged:
    for labels, value in reading.rows("hwsonde_memory_edac_dimm_errors_total"):
        if labels["type"] == "uncorrected" and value > 0:
            yield labels["label"] or labels["dimm"], f"had {value:.0f} uncorrected memory errors; replace it"
    located = {
        labels["controller"]
        for labels, value in reading.rows("hwsonde_memory_edac_dimm_errors_total")
        if labels["type"] == "uncorrected" and value > 0
    }
    for labels, value in reading.rows("hwsonde_memory_edac_errors_total"):
        if labels["type"] == "uncorrected" and value > 0 and labels["controller"] not in located:
            yield labels["controller"], f"had {value:.0f} uncorrected memory errors; test the memory"
    for _labels, value in reading.rows("hwsonde_memory_hardware_corrupted_bytes"):
        if value > 0:
            yield "", f"{value / 1024:.0f} KiB of memory are out of use for hardware faults; test the memory"


def _machine_checks(reading: Reading, _: Limits) -> Judged:
    for _labels, value in reading.rows("hwsonde_cpu_machine_check_exceptions_total"):
        if value > 0:
            yield "", f"{value:.0f} machine check exceptions since boot; see the kernel's log"


def _clock_free(reading: Reading, _: Limits) -> Judged:
    for _labels, value in reading.rows("hwsonde_host_clock_synchronized"):
        if not value:
            yield "", "the clock runs free; start a time service"


def _of_gpus(rule: GpuRule) -> Rule:
    severity = Severity.UNKNOWN if rule.unknown else Severity.UNHEALTHY
    return Rule(rule.name, rule.help, rule.collectors, lambda reading, _: rule.judge(reading), severity)


RULES = (
    Rule("nvme_warning", "an NVMe disk reports a critical warning", ("nvme",), _nvme_warning),
    Rule("nvme_unread", "the health of an NVMe disk may not be read", ("nvme",), _nvme_unread, Severity.UNKNOWN),
    Rule("disk_silent", "a disk or array does not answer", ("nvme", "md"), _disk_silent),
    Rule("disk_dead", "the kernel has given a disk up", ("nvme", "scsi"), _disk_dead),
    Rule("raid_degraded", "an array or pool lacks members", ("md", "zfs"), _raid_degraded),
    Rule("filesystem_stuck", "a mounted filesystem does not answer", ("filesystem",), _filesystem_stuck),
    Rule("filesystem_read_only", "the kernel made a filesystem read-only", ("settings",), _filesystem_read_only),
    Rule("filesystem_errors", "a filesystem has recorded errors", ("filesystem_errors",), _filesystem_errors),
    Rule("filesystem_full", "a local filesystem is nearly full", ("filesystem",), _filesystem_full),
    Rule("bond_member_down", "a bond runs without one of its members", ("bonding",), _bond_member_down),
    Rule("rdma_down", "an RDMA port has no link", ("rdma",), _rdma_down),
    Rule("rdma_silent", "an RDMA device does not answer", ("rdma",), _rdma_silent),
    Rule("rdma_slow", "an RDMA port is slower than its peers in this host", ("rdma",), _rdma_slow),
    Rule("pcie_narrow", "a PCIe device uses fewer lanes than it could", ("pcie",), _pcie_narrow),
    Rule("pcie_slow", "a network device or disk is slower on PCIe than it could be", ("pcie",), _pcie_slow),
    Rule("memory_errors", "uncorrected memory errors", ("edac", "memory"), _memory_errors),
    Rule("machine_checks", "machine check exceptions since boot", ("interrupts",), _machine_checks),
    Rule("clock_free", "the clock is not kept by a time service", ("host",), _clock_free),
    *(_of_gpus(rule) for rule in GPU_RULES),
)


def judge(reading: Reading, limits: Limits = Limits(), rules: Iterable[Rule] = RULES) -> list[Finding]:
    """Everything that the rules find wrong, in their order."""
    found: dict[tuple[str, str, str], Finding] = {}
    for rule in rules:
        for subject, text in rule.judge(reading, limits):
            found.setdefault((rule.name, subject, text), Finding(rule.severity, rule.name, subject, text))
    return list(found.values())


def ignored(finding: Finding, patterns: Iterable[str]) -> bool:
    """Whether a finding is to be passed over.

    A pattern is the name of a rule, or a rule and a subject with a colon between, in which ``*`` and ``?`` stand for anything.
    """
    for pattern in patterns:
        rule, colon, subject = pattern.partition(":")
        # Names of settings have brackets, which a pattern takes for a set of characters.
        meant = not colon or finding.subject == subject or fnmatchcase(finding.subject, subject)
        if meant and fnmatchcase(finding.rule, rule):
            return True
    return False

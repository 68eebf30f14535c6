"""Software RAID: members that failed, and how far a rebuild or a check has come."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._asking import Asker, Hanging
from hwsonde_exporter.collectors._files import entries, sys_number, sys_text
from hwsonde_exporter.collectors.storage import SECTOR_BYTES
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

_ARRAY = re.compile(r"md(\d+|_\S+)\Z")
_RUNNING = frozenset({"readonly", "read-auto", "clean", "active", "write-pending", "active-idle"})
# What holds the disks of a firmware's arrays (IMSM, DDF), and never runs itself. Its arrays, which do, are named after it: external:/md127/0, with
# a minus for the slash while their metadata must not be touched.
_CONTAINER = re.compile(r"external:[^/-]")
_STATES = ("active", "recovering", "spare", "journal", "failed")
_ACTIONS = ("idle", "resync", "recover", "check", "repair", "reshape", "frozen")
_TIMEOUT_SECONDS = 2.0

_BASE = "/sys/block/mdN/md"
_gauge = partial(Metric, kind=Kind.GAUGE, labels=("device",), subsystem="storage")

INFO = _gauge(
    name="hwsonde_storage_md_info",
    help="Constant 1 labelled with the kind of a software RAID array.",
    labels=("device", "level", "metadata"),
    source=f"{_BASE}/{{level,metadata_version}}",
)
RUNNING = _gauge(
    name="hwsonde_storage_md_running",
    help="Whether a software RAID array runs (1) or is inactive, suspended or broken (0); absent for a container of IMSM or DDF, which never runs.",
    source=f"{_BASE}/array_state",
)
DEGRADED = _gauge(
    name="hwsonde_storage_md_degraded_devices",
    help="Members missing from a software RAID array.",
    source=f"{_BASE}/degraded",
)
REQUIRED = _gauge(
    name="hwsonde_storage_md_required_members",
    help="Members that a complete software RAID array has, spares not counted.",
    source=f"{_BASE}/raid_disks",
)
MEMBERS = _gauge(
    name="hwsonde_storage_md_members",
    help="Members of a software RAID array by state.",
    labels=("device", "state"),
    source=f"{_BASE}/dev-*/{{state,slot}}",
)
MEMBER_ERRORS = Metric(
    name="hwsonde_storage_md_member_errors_total",
    kind=Kind.COUNTER,
    help="Read errors of a member that did not cost it its place, because they were corrected.",
    labels=("device", "member"),
    subsystem="storage",
    source=f"{_BASE}/dev-*/errors",
)
ACTION = _gauge(
    name="hwsonde_storage_md_sync_action",
    help="Whether a software RAID array does this at present (1) or not (0).",
    labels=("device", "action"),
    source=f"{_BASE}/sync_action",
)
COMPLETED = _gauge(
    name="hwsonde_storage_md_sync_completed_ratio",
    help="Share of the present rebuild or check that is done; absent where none runs.",
    unit="ratio",
    source=f"{_BASE}/sync_completed",
)
SPEED = _gauge(
    name="hwsonde_storage_md_sync_bytes_per_second",
    help="Speed of the present rebuild or check; absent where none runs.",
    unit="bytes_per_second",
    source=f"{_BASE}/sync_speed (KiB/s)",
)
MISMATCHED = _gauge(
    name="hwsonde_storage_md_mismatched_bytes",
    help="Bytes in which copies or parity disagreed in the latest check or repair.",
    unit="bytes",
    source=f"{_BASE}/mismatch_cnt (sectors of 512 bytes)",
)
STUCK = _gauge(
    name="hwsonde_storage_md_stuck",
    help="Whether a software RAID array leaves a question for its state unanswered (1) or not (0).",
    source=f"{_BASE}, which could not be read in time",
)


@dataclass(frozen=True, slots=True)
class Array:
    """What sysfs says of one array: lines of its files by name, and state, slot and errors of its members."""

    lines: dict[str, str]
    members: dict[str, tuple[str, str, int | None]] = field(default_factory=dict)


def parse_completed(line: str) -> float | None:
    """Share that is done of ``123 / 456``; None for ``none``, ``delayed`` and what cannot be."""
    done, slash, whole = line.encode().partition(b"/")
    part, total = parsing.number(done.strip()), parsing.number(whole.strip())
    if not slash or part is None or not total or part > total:
        return None
    return part / total


def member_state(state: str, slot: str) -> str:
    """One of `_STATES` for the flags of a member (``in_sync,write_mostly``) and its slot (a number or ``none``)."""
    flags = set(state.split(","))
    if "faulty" in flags:
        return "failed"
    if "journal" in flags:
        return "journal"
    if "in_sync" in flags:
        return "active"
    # A spare that has a slot is being filled.
    return "recovering" if slot.isdigit() else "spare"


@register
class MdCollector:
    """State, members and rebuilds of software RAID arrays.

    The kernel answers under the lock of the array, which it may hold for as long as a dying member takes, so each array is
    asked through an `Asker`. Arrays of device mapper (LVM) have no such files.
    """

    name: ClassVar[str] = "md"
    help: ClassVar[str] = "Software RAID: failed members, rebuilds and checks"
    metrics: ClassVar[tuple[Metric, ...]] = (
        INFO, RUNNING, DEGRADED, REQUIRED, MEMBERS, MEMBER_ERRORS, ACTION, COMPLETED, SPEED, MISMATCHED, STUCK,
    )  # fmt: skip
    period: ClassVar[float | None] = 10.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host, *, timeout: float = _TIMEOUT_SECONDS) -> None:
        self.host = host
        self._block = str(host.paths.sys("block"))
        self._asker: Asker[str, Array] = Asker("md", timeout)

    def probe(self) -> None:
        """Raise `Unavailable` where there is no array."""
        if not self._arrays():
            raise Unavailable(Reason.NO_HARDWARE, f"no software RAID: {self._block} has no md array")

    def collect(self) -> Iterable[Sample]:
        """Read some ten small files an array and three a member."""
        answers = self._asker.ask({device: partial(self._read, device) for device in self._arrays()})
        samples: list[Sample] = []
        for device, answer in answers.items():
            samples.append(Sample(STUCK, (device,), int(isinstance(answer, Hanging))))
            if isinstance(answer, Array):
                samples += _array_samples(device, answer)
        return samples

    def _arrays(self) -> list[str]:
        return [name for name in entries(self._block) if _ARRAY.match(name)]

    def _read(self, device: str) -> Array:
        base = f"{self._block}/{device}/md"
        names = (
            "level", "metadata_version", "array_state", "degraded", "raid_disks", "sync_action", "sync_completed", "sync_speed",
            "mismatch_cnt",
        )  # fmt: skip
        lines = {name: sys_text(self.host, f"{base}/{name}") for name in names}
        members = {}
        for name in entries(base):
            if name.startswith("dev-"):
                state, slot = (sys_text(self.host, f"{base}/{name}/{file}") for file in ("state", "slot"))
                if state:
                    members[parsing.text(name[4:].encode())] = (
                        state,
                        slot,
                        sys_number(self.host, f"{base}/{name}/errors"),
                    )
        return Array(lines, members)


def _array_samples(device: str, array: Array) -> list[Sample]:
    lines = array.lines
    samples: list[Sample] = []
    if lines["level"]:
        samples.append(Sample(INFO, (device, lines["level"], lines["metadata_version"]), 1))
    if lines["array_state"] and not _CONTAINER.match(lines["metadata_version"]):
        samples.append(Sample(RUNNING, (device,), int(lines["array_state"] in _RUNNING)))
    # While an array is reshaped its files give the new number and the old one in brackets.
    for metric, name, scale in (
        (DEGRADED, "degraded", 1),
        (REQUIRED, "raid_disks", 1),
        (MISMATCHED, "mismatch_cnt", SECTOR_BYTES),
    ):
        value = _first_number(lines[name])
        if value is not None:
            samples.append(Sample(metric, (device,), value * scale))
    if lines["sync_action"]:
        samples += [Sample(ACTION, (device, action), int(lines["sync_action"] == action)) for action in _ACTIONS]
    completed = parse_completed(lines["sync_completed"])
    if completed is not None:
        samples.append(Sample(COMPLETED, (device,), completed))
        speed = _first_number(lines["sync_speed"])
        if speed is not None:
            samples.append(Sample(SPEED, (device,), speed * 1024))
    counts = Counter(member_state(state, slot) for state, slot, _ in array.members.values())
    samples += [Sample(MEMBERS, (device, state), counts[state]) for state in _STATES]
    for member, (_, _, errors) in array.members.items():
        if errors is not None:
            samples.append(Sample(MEMBER_ERRORS, (device, member), errors))
    return samples


def _first_number(line: str) -> int | None:
    return parsing.number(line.partition(" ")[0].encode())

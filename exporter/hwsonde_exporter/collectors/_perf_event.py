"""perf_event_open(2): counters of a CPU or of a memory controller, opened in groups and read one call a group."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import NamedTuple, Protocol

from hwsonde_exporter.collectors._files import sys_text
from hwsonde_exporter.host import Host

HARDWARE, SOFTWARE, HARDWARE_CACHE = 0, 1, 3  # PERF_TYPE_*

_ALL_PROCESSES = -1
_NO_LEADER = -1
_CLOSE_ON_EXEC = 8  # PERF_FLAG_FD_CLOEXEC
# PERF_FORMAT_TOTAL_TIME_ENABLED | _TOTAL_TIME_RUNNING | _GROUP
_READ_FORMAT = 1 | 2 | 8
# struct perf_event_attr as Linux 2.6.33 has it (PERF_ATTR_SIZE_VER1), which every kernel since takes: type, size, config,
# sample_period, sample_type, read_format, flags, wakeup_events, bp_type, config1, config2.
ATTRIBUTES = struct.Struct("=IIQQQQQIIQQ")
_HEADER = struct.Struct("=QQQ")  # number of values, time enabled, time running (ns)
_CALL_NUMBERS = {
    "x86_64": 298, "i686": 336, "aarch64": 241, "riscv64": 241, "loongarch64": 241, "ppc64le": 319, "s390x": 331,
}  # fmt: skip
_MAX_DESCRIPTORS = 1 << 20


class Outcome(StrEnum):
    """What became of opening an event on one CPU."""

    COUNTED = "counted"
    NO_HARDWARE = "no_hardware"
    NO_PERMISSION = "no_permission"
    NO_KERNEL_SUPPORT = "no_kernel_support"
    NO_DESCRIPTORS = "no_descriptors"
    BUSY = "busy"
    FAILED = "failed"


_OUTCOMES = {
    # EINVAL and EOPNOTSUPP too: what a processor's table of cache events or an emulated counter unit does not have.
    errno.ENOENT: Outcome.NO_HARDWARE,
    errno.EINVAL: Outcome.NO_HARDWARE,
    errno.EOPNOTSUPP: Outcome.NO_HARDWARE,
    errno.EACCES: Outcome.NO_PERMISSION,
    errno.EPERM: Outcome.NO_PERMISSION,
    errno.ENOSYS: Outcome.NO_KERNEL_SUPPORT,
    errno.EMFILE: Outcome.NO_DESCRIPTORS,
    errno.ENFILE: Outcome.NO_DESCRIPTORS,
    errno.EBUSY: Outcome.BUSY,
}


def outcome_of(error: OSError) -> Outcome:
    """Tell the cause of a refusal."""
    return _OUTCOMES.get(error.errno or 0, Outcome.FAILED)


@dataclass(frozen=True, slots=True)
class Event:
    """What is to be counted: ``type`` and ``config`` as in perf_event_attr, and our name for it."""

    name: str
    type: int
    config: int
    config1: int = 0
    config2: int = 0


def attributes(event: Event) -> bytes:
    """The perf_event_attr of an event that counts at once, for everything that runs on the CPU."""
    return ATTRIBUTES.pack(
        event.type, ATTRIBUTES.size, event.config, 0, 0, _READ_FORMAT, 0, 0, 0, event.config1, event.config2
    )


class Kernel(Protocol):
    """The system calls; each raises OSError."""

    def open(self, event: Event, cpu: int, leader: int) -> int:
        """Open an event on a CPU, in the group of the descriptor ``leader`` (-1: it leads one); gives a descriptor."""

    def read(self, descriptor: int, size: int) -> bytes:
        """Read a group by the descriptor of its leader."""

    def close(self, descriptor: int) -> None:
        """Close a descriptor, which ends its event."""

    def raise_limit(self) -> bool:
        """Let the process have as many descriptors as it may; says whether that is more than before."""


@cache
def _syscall() -> Callable[..., int]:
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    function.argtypes = (ctypes.c_long, ctypes.c_char_p, *(ctypes.c_long,) * 4)
    return function


class SystemKernel:
    """The kernel that runs this process."""

    def open(self, event: Event, cpu: int, leader: int) -> int:
        """See `Kernel`."""
        number = _CALL_NUMBERS.get(os.uname().machine)
        if number is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        descriptor = _syscall()(number, attributes(event), _ALL_PROCESSES, cpu, leader, _CLOSE_ON_EXEC)
        if descriptor < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return descriptor

    def read(self, descriptor: int, size: int) -> bytes:
        """See `Kernel`."""
        return os.read(descriptor, size)

    def close(self, descriptor: int) -> None:
        """See `Kernel`."""
        os.close(descriptor)

    def raise_limit(self) -> bool:
        """See `Kernel`."""
        # Linux has it always; imported here because only hosts with many CPUs need it.
        import resource  # noqa: PLC0415

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MAX_DESCRIPTORS)
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            return False
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return False
        return True


SYSTEM = SystemKernel()


class Reading(NamedTuple):
    """What a group says: nanoseconds since it was enabled, nanoseconds of these in which it counted, the counts."""

    enabled: int
    running: int
    counts: tuple[int, ...]


class Growth(NamedTuple):
    """What a group has counted since the reading before, each count scaled to the whole time."""

    enabled: int
    running: int
    counts: tuple[int, ...]


def parse_group(data: bytes, size: int) -> Reading | None:
    """Parse what read(2) gives for a group of ``size`` events; None if it is anything else, as for an event that is gone."""
    if len(data) != _HEADER.size + 8 * size:
        return None
    number, enabled, running = _HEADER.unpack_from(data)
    if number != size or running > enabled:
        return None
    return Reading(enabled, running, struct.unpack_from(f"={size}Q", data, _HEADER.size))


def grown(before: Reading, now: Reading) -> Growth | None:
    """Growth between two readings of a group; None if it was not running in between, so that nothing is known.

    While other groups have the counters the kernel keeps time enabled going and time running not. The counts of the time
    in which the group ran stand for all of it. Scaling the growth rather than the whole keeps a counter from falling.
    """
    running = now.running - before.running
    if running <= 0:
        return None
    enabled = now.enabled - before.enabled
    pairs = zip(before.counts, now.counts, strict=True)
    return Growth(enabled, running, tuple(max(0, new - old) * enabled // running for old, new in pairs))


class Group:
    """Events of one CPU that count at the same time.

    Attributes
    ----------
    events
        In the order of the counts.
    lost
        Whether it counts no longer: its CPU went offline, which ends an event for good even if the CPU comes back.
    """

    __slots__ = ("_counted", "_descriptors", "_kernel", "_latest", "_read", "_shared", "_size", "events", "lost")

    def __init__(self, kernel: Kernel, events: Sequence[Event], descriptors: Sequence[int]) -> None:
        self.events = tuple(events)
        self.lost = False
        self._read = False
        self._kernel = kernel
        self._descriptors = list(descriptors)
        self._size = _HEADER.size + 8 * len(self.events)
        # The newest reading, the one up to which growth was given, the one up to which `share` was.
        self._latest = self._counted = self._shared = Reading(0, 0, (0,) * len(self.events))

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """End its events."""
        while self._descriptors:
            # A leader that is closed first would make groups of their own of the others.
            with suppress(OSError):
                self._kernel.close(self._descriptors.pop())

    @property
    def descriptors(self) -> int:
        """Number of descriptors that it holds."""
        return len(self._descriptors)

    def advance(self) -> Growth | None:
        """Growth since the last call that gave some; None if the group did not run since. Sets ``lost``."""
        try:
            reading = parse_group(self._kernel.read(self._descriptors[0], self._size), len(self.events))
        except (OSError, IndexError):
            reading = None
        # The time enabled of an event that its CPU took along stands still; that of a new one may not have begun.
        if reading is None or (self._read and reading.enabled <= self._latest.enabled):
            self.lost = True
            return None
        self._read = True
        growth = grown(self._counted, reading)
        self._latest = reading
        if growth is not None:
            self._counted = reading
        return growth

    def share(self) -> float | None:
        """Share of the time since the last call of this in which it counted; None if it was not read in between."""
        before, self._shared = self._shared, self._latest
        enabled = self._latest.enabled - before.enabled
        return (self._latest.running - before.running) / enabled if enabled > 0 else None


def open_groups(kernel: Kernel, plan: Sequence[Sequence[Event]], cpu: int) -> tuple[list[Group], dict[str, Outcome]]:
    """Open the planned groups on a CPU.

    An event that the processor does not have is left out of its group. One that it has, but cannot count together with
    those before it, makes a group of its own.

    Parameters
    ----------
    plan
        Groups of events that should be counted together.
    cpu
        Number of the CPU.

    Returns
    -------
    tuple
        The groups, and what became of each event, by its name.
    """
    groups: list[Group] = []
    outcomes: dict[str, Outcome] = {}
    for events in plan:
        members: list[tuple[Event, int]] = []
        for event in events:
            leader = members[0][1] if members else _NO_LEADER
            try:
                members.append((event, kernel.open(event, cpu, leader)))
                outcomes[event.name] = Outcome.COUNTED
            except OSError as error:
                outcomes[event.name] = outcome_of(error)
                if members and error.errno == errno.EINVAL:
                    outcomes[event.name] = _open_alone(kernel, event, cpu, groups)
        if members:
            groups.append(Group(kernel, [event for event, _ in members], [descriptor for _, descriptor in members]))
    return groups, outcomes


def _open_alone(kernel: Kernel, event: Event, cpu: int, groups: list[Group]) -> Outcome:
    try:
        groups.append(Group(kernel, [event], [kernel.open(event, cpu, _NO_LEADER)]))
    except OSError as error:
        return outcome_of(error)
    return Outcome.COUNTED


def permission_advice(host: Host) -> str:
    """One sentence on what keeps the exporter from counting on whole CPUs."""
    level = sys_text(host, host.paths.proc("sys", "kernel", "perf_event_paranoid")) or "not readable"
    return (
        f"the kernel refuses events of whole CPUs (/proc/sys/kernel/perf_event_paranoid is {level}); give the exporter CAP_PERFMON "
        "(CAP_SYS_ADMIN before Linux 5.8) or set it to 0; in a container its seccomp profile must allow perf_event_open too"
    )

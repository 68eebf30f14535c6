"""What the fixture hosts answer beside their files: clock, disks, filesystems, drivers and counters, by the name of the host's folder."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from hwsonde_exporter.collectors._nvme_ioctl import SmartError
from hwsonde_exporter.collectors._perf_event import Event
from hwsonde_exporter.collectors.filesystem import Usage
from hwsonde_exporter.collectors.host import Clock
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.host import Host
from tests.exporter.collectors.perf_kernel import FakeKernel, FixtureKernel

CLOCK = Clock(synchronized=True, offset=-0.000012, maximum_error=0.0042, estimated_error=0.00003, frequency=-0.0000125)
_FREE_RUNNING = Clock(synchronized=False, offset=0.0, maximum_error=16.0, estimated_error=16.0, frequency=0.0000412)

_RDMA_OBJECTS = {
    "node192": {f"mlx5_{number}": {"pd": 6, "cq": 52, "qp": 418 + number, "mr": 2204, "cm_id": 0} for number in range(8)},
    "amd": {
        **{f"bnxt_re{number}": {"pd": 2, "cq": 21, "qp": 20, "mr": 118} for number in range(2)},
        **{f"mlx5_{number}": {"pd": 4, "cq": 26, "qp": 204, "mr": 811, "cm_id": 2} for number in range(2)},
    },
    "sick": {"mlx5_0": {"pd": 41_204, "cq": 90_118, "qp": 131_072, "mr": 811_204, "cm_id": 0}},
}  # fmt: skip
# Where the server of the homes is gone.
_HOMELESS = frozenset({"node192", "sick", "vm"})
# Run by an exporter without privilege in a network namespace of its own.
_CONFINED = frozenset({"container"})


class NoController:
    """A board without a management controller, whatever this machine has."""

    def check(self) -> None:
        raise Unavailable(Reason.NO_HARDWARE, "no management controller")

    def ask(self) -> bytes:
        raise AssertionError("asked for nothing")


class RefusingKernel(FakeKernel):
    """Counts nothing for anybody without privilege."""

    def open(self, event: Event, cpu: int, leader: int) -> int:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))


def name_of(host: Host) -> str:
    """Name of a fixture host."""
    return host.paths.procfs.parent.name


def is_confined(host: Host) -> bool:
    """Whether the exporter runs without privilege in a network namespace of its own."""
    return name_of(host) in _CONFINED


def clock_of(host: Host) -> Callable[[], Clock]:
    """The system clock; of the sick host nobody keeps it."""
    return lambda: _FREE_RUNNING if name_of(host) == "sick" else CLOCK


def events_of(host: Host) -> FakeKernel:
    """Counters of events."""
    return RefusingKernel() if is_confined(host) else FixtureKernel(host)


def rdma_objects(host: Host) -> Callable[[Path], dict[str, dict[str, int]]]:
    """Objects in use by RDMA device."""
    return refuse if is_confined(host) else lambda _: _RDMA_OBJECTS.get(name_of(host), {})


def refuse(*_: object) -> NoReturn:
    """What asking the host's network says in another namespace."""
    raise Unavailable(Reason.NO_PERMISSION, "this is not the host's network namespace; run in the host's network")


def ask(path: bytes) -> Usage:
    """What a filesystem says of its size: the server of the homes is gone."""
    # Only the last part of the path counts: where this checkout lies must not matter.
    name = path.rsplit(b"/", 1)[-1]
    if name.startswith(b"home"):
        raise OSError(errno.ESTALE, "Stale file handle")
    return _usage(name)


def usage_of(host: Host) -> Callable[[bytes], Usage]:
    """What the filesystems of a host say of their size."""
    return ask if name_of(host) in _HOMELESS else lambda path: _usage(path.rsplit(b"/", 1)[-1])


def _usage(name: bytes) -> Usage:
    gib = 1 << 30
    return Usage(100 * gib + len(name), 40 * gib, 6_553_600, 6_000_000)


def smart_log(path: str) -> bytes:
    """SMART log of a disk of a fixture: the third one wears out, the last one may not be asked."""
    number = int(path[-1])
    if number == 3:
        raise SmartError("no_permission")
    worn = number == 2
    log = bytearray(512)
    struct.pack_into(
        "<BHBBB", log, 0, 0b101 if worn else 0, 273 + 39 + number, 4 if worn else 100, 10, 91 if worn else 7
    )
    units, commands = 481_204_118 + 1000 * number, 30_118_204_118
    counts = (units, units // 3, commands, commands // 3, 41_204, 38, 20_411, 21, 3 if worn else 0, 204)
    for place, count in enumerate(counts):
        log[32 + 16 * place : 48 + 16 * place] = count.to_bytes(16, "little")
    struct.pack_into("<II8H", log, 192, 12 if worn else 0, 0, 273 + 45 + number, *[0] * 7)
    struct.pack_into("<IIII", log, 216, 4, 0, 118, 0)
    return bytes(log)


def smart_logs(host: Host) -> Callable[[str], bytes]:
    """SMART logs of a host; every disk of the sick one is worn out."""
    return (lambda path: smart_log(f"{path[:-1]}2")) if name_of(host) == "sick" else smart_log

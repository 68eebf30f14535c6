"""All kinds of fault, by name."""

from __future__ import annotations

from benchmarks.faults.injectors.base import Injector
from benchmarks.faults.injectors.cpu_hog import CpuHog, CpuHogFull
from benchmarks.faults.injectors.cpu_quota import CpuQuota
from benchmarks.faults.injectors.disk import BlockThrottle, DiskRead, DiskWrite
from benchmarks.faults.injectors.flood import UdpFlood
from benchmarks.faults.injectors.handles import HandleLeak
from benchmarks.faults.injectors.memory import MemoryPressure, Thrash
from benchmarks.faults.injectors.peer_setting import PeerSetting
from benchmarks.faults.injectors.stopped import ExporterHang, Stopped
from benchmarks.faults.injectors.storms import ForkStorm, SwitchStorm
from benchmarks.faults.injectors.wire import Delay, Loss2, Loss10, RateLimit

_ALL: tuple[type[Injector], ...] = (
    CpuHog,
    CpuHogFull,
    CpuQuota,
    ForkStorm,
    SwitchStorm,
    Stopped,
    MemoryPressure,
    Thrash,
    DiskWrite,
    DiskRead,
    BlockThrottle,
    Loss2,
    Loss10,
    RateLimit,
    Delay,
    UdpFlood,
    HandleLeak,
    PeerSetting,
    ExporterHang,
)
KINDS: dict[str, type[Injector]] = {one.kind: one for one in _ALL}
"""Class by kind, in the order in which tables show them."""

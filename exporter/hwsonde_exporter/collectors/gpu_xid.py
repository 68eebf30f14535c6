"""Errors that NVIDIA's drivers report by number: XIDs of GPUs and SXIDs of NVSwitches, counted once whoever tells of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import ClassVar, NamedTuple, Protocol

from hwsonde_exporter.collectors._nvidia_procfs import Identity, has_driver, read_gpus, short_address
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.nvml.answer import WorkerState
from hwsonde_exporter.nvml.kmsg import DriverLoaded, LogReader, OpenLog, SxidLine, XidLine, open_log
from hwsonde_exporter.nvml.merge import Count, Key, Merger, Source
from hwsonde_exporter.nvml.xid import MOST, PRECREATED, explain, switch_advice, switch_unit
from hwsonde_exporter.registry import register

# More GPUs, codes and switches than any host has: what goes beyond was not written by a driver.
_MOST_KEYS = 2048
# Other collectors ask the library every few seconds; where there are none, this one does.
_ALONE_SECONDS = 20.0

_gauge = partial(Metric, kind=Kind.GAUGE, subsystem="gpu")
_counter = partial(Metric, kind=Kind.COUNTER, subsystem="gpu")
_KMSG = "/dev/kmsg (nvidia-nvswitchN: SXid)"

ERRORS = _counter(
    name="hwsonde_gpu_xid_errors_total",
    help="XID errors seen since the exporter started; codes that are worth a page are at 0 from the start.",
    labels=("gpu", "uuid", "xid"),
    source="nvmlEventSetWait_v2 (nvmlEventTypeXidCriticalError), /dev/kmsg (NVRM: Xid); what both tell counts once",
)
LAST = _gauge(
    name="hwsonde_gpu_xid_last_timestamp_seconds",
    help="Unix time of the latest XID error of a code.",
    labels=("gpu", "uuid", "xid"),
    unit="seconds",
    source="time of receipt of the event",
)
LOGGED = _gauge(
    name="hwsonde_gpu_xid_logged_errors",
    help="XID errors in the kernel's log since the driver was loaded, or since boot, as far back as the log goes.",
    labels=("gpu", "uuid", "xid"),
    source="/dev/kmsg (NVRM: Xid), from its beginning",
)
INFO = _gauge(
    name="hwsonde_gpu_xid_info",
    help="Constant 1 that explains an XID code that was seen: what it is, whose fault it usually is, how bad it is, what to do.",
    labels=("xid", "name", "class", "severity", "action"),
    source="built-in table, see docs/xid.md",
)
SWITCH_ERRORS = _counter(
    name="hwsonde_gpu_sxid_errors_total",
    help="NVSwitch errors (SXID) seen since the exporter started.",
    labels=("switch", "sxid", "severity"),
    source=_KMSG,
)
SWITCH_LAST = _gauge(
    name="hwsonde_gpu_sxid_last_timestamp_seconds",
    help="Unix time of the latest NVSwitch error of a code.",
    labels=("switch", "sxid", "severity"),
    unit="seconds",
    source="time of receipt of the line",
)
SWITCH_INFO = _gauge(
    name="hwsonde_gpu_sxid_info",
    help="Constant 1 that explains an SXID code that was seen: which unit of the switch found it, and what to do.",
    labels=("sxid", "severity", "unit", "action"),
    source="built-in table, see docs/xid.md",
)
SOURCE_UP = _gauge(
    name="hwsonde_gpu_xid_source_up",
    help="Whether XID errors are heard of from a source (1) or not (0): the driver's library, and the kernel's log.",
    labels=("source",),
    source="state of the NVML worker, reading of /dev/kmsg",
)
LOST = _counter(
    name="hwsonde_gpu_kernel_log_lost_records_total",
    help="Records of the kernel's log that were overwritten before they were read; errors among them are not counted.",
    source="gaps in the numbers of /dev/kmsg",
)


class DriverEvent(Protocol):
    """An XID as the library reports it: see `hwsonde_exporter.nvml.answer.Event`."""

    @property
    def sequence(self) -> int:
        """Counts from 1; no number comes twice."""

    @property
    def time(self) -> float:
        """Unix time of receipt."""

    @property
    def uuid(self) -> str:
        """The GPU; empty where the library cannot tell."""

    @property
    def bus_id(self) -> str:
        """PCI address of the GPU; empty where the library cannot tell."""

    @property
    def xid(self) -> int:
        """The code."""


class Told(NamedTuple):
    """What the library tells in one look: whether it works, the GPUs it knows, and the events behind a number."""

    running: bool
    gpus: Sequence[Identity]
    events: Sequence[DriverEvent]
    listening: bool = True  # whether events of all GPUs that the driver counts would be heard


# Given the number of the last event that was taken.
AskDriver = Callable[[int], Told]


def ask_library(host: Host, after: int) -> Told:
    """Ask the worker of this host for what it has heard meanwhile; never waits for a call to the driver."""
    client = host.nvml
    if client is None:
        return Told(running=False, gpus=(), events=())
    state, gpus = client.known()
    events, _ = client.events(after)
    return Told(state is WorkerState.RUNNING, [Identity(*gpu) for gpu in gpus], events, client.listening)


@register
class GpuXidCollector:
    """XIDs and SXIDs by GPU, switch and code.

    Counts begin when the exporter starts. Details that drivers print (process, address, engine) become no labels.

    Parameters
    ----------
    host
        Whose kernel files are read.
    ask
        Gives what the driver's library tells.
    log
        Opens the kernel's log.
    wall
        Gives the Unix time.
    """

    name: ClassVar[str] = "gpu_xid"
    help: ClassVar[str] = "XID errors of NVIDIA GPUs and SXID errors of NVSwitches"
    metrics: ClassVar[tuple[Metric, ...]] = (
        ERRORS, LAST, LOGGED, INFO, SWITCH_ERRORS, SWITCH_LAST, SWITCH_INFO, SOURCE_UP, LOST,
    )  # fmt: skip
    period: ClassVar[float | None] = 1.0
    enabled: ClassVar[bool] = True

    def __init__(
        self,
        host: Host,
        *,
        ask: AskDriver | None = None,
        log: OpenLog | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.host = host
        self._ask = ask or partial(ask_library, host)
        self._reader = LogReader(log or partial(open_log, host.paths.rootfs))
        self._history = LogReader(log or partial(open_log, host.paths.rootfs), from_start=True)
        self._wall = wall
        self._merger = Merger()
        self._logged: Counter[Key] = Counter()
        self._switches: Counter[SxidLine] = Counter()
        self._switch_times: dict[SxidLine, float] = {}
        self._taken = 0  # number of the last event of the library
        self._known: dict[str, Identity] = {}  # by address
        self._drained: float | None = None  # when the end of the log was last reached

    def probe(self) -> None:
        """Open the log, so that nothing is missed while a driver is still to come; raise `Unavailable` where there is nothing to hear.

        Repeated: what is open stays open, and what was counted stays counted.
        """
        refused: Unavailable | None = None
        try:
            self._reader.open()
        except Unavailable as error:
            refused = error
        else:
            if self._drained is None:
                self._drained = self._wall()
        self._wake()
        told = self._ask(self._taken)
        if not has_driver(self.host) and not told.running:
            raise Unavailable(Reason.NO_HARDWARE, "no driver of NVIDIA's is loaded; looked for again every minute")
        if refused is not None and not told.running:
            raise refused

    def collect(self) -> Iterable[Sample]:
        """Take what both sources have to tell since the last look; bounded, however much it is."""
        now = self._wall()
        self._wake()
        told = self._ask(self._taken)
        self._identify(told.gpus)
        for event in told.events:
            if event.sequence > self._taken and 0 < event.xid <= MOST:
                self._add(Source.NVML, Key(self._address(event), event.xid), (event.time, event.time), 1)
        self._taken = max((event.sequence for event in told.events), default=self._taken)
        readable = self._read_log(now)
        self._read_history()
        self._merger.forget(now)
        heard = {Source.NVML: told.running and told.listening, Source.KMSG: readable}
        sources = [Sample(SOURCE_UP, (source.value,), int(up)) for source, up in heard.items()]
        return [*self._xid_samples(), *self._switch_samples(), *sources, Sample(LOST, (), self._reader.lost)]

    def _wake(self) -> None:
        """Start the worker, or another one, where no other collector does; without one the library hears of nothing."""
        client = self.host.nvml
        if client is None or (client.known()[0] is not WorkerState.STOPPED and client.idle() < _ALONE_SECONDS):
            return
        if client.settings.library is not None or has_driver(self.host):
            client.collect(())

    def _identify(self, gpus: Iterable[Identity]) -> None:
        """Learn which GPU is at which address; what the library says is better than what the module says."""
        for identity, _ in read_gpus(self.host):
            known = self._known.get(identity.address)
            if known is None or not known.uuid:
                self._known[identity.address] = identity
        for identity in gpus:
            address = short_address(identity.address)
            if address:
                self._known[address] = identity._replace(address=address)

    def _read_log(self, now: float) -> bool:
        try:
            poll = self._reader.poll()
        except Unavailable:
            return False
        # A line was written after the last look that reached the end, and before now.
        began = now if self._drained is None else min(self._drained, now)
        if poll.finished:
            self._drained = now
        for line, count in Counter(poll.lines).items():
            if isinstance(line, XidLine):
                self._add(Source.KMSG, Key(line.address, line.code), (began, now), count)
            elif isinstance(line, SxidLine) and (line in self._switches or len(self._switches) < _MOST_KEYS):
                self._switches[line] += count
                self._switch_times[line] = now
        return True

    def _read_history(self) -> None:
        """Count what the driver has printed since it was loaded, before this program started too."""
        try:
            poll = self._history.poll()
        except Unavailable:
            return
        for line in poll.lines:
            if isinstance(line, DriverLoaded):
                self._logged.clear()
            elif isinstance(line, XidLine):
                key = Key(line.address, line.code)
                if key in self._logged or len(self._logged) < _MOST_KEYS:
                    self._logged[key] += 1

    def _add(self, source: Source, key: Key, span: tuple[float, float], count: int) -> None:
        if key in self._merger or len(self._merger) < _MOST_KEYS:
            self._merger.add(source, key, span, count)

    def _address(self, event: DriverEvent) -> str:
        """PCI address of an event's GPU; where the library tells only its UUID, the one where that was seen."""
        address = short_address(event.bus_id)
        if not address and event.uuid:
            return next((known.address for known in self._known.values() if known.uuid == event.uuid), "")
        return address

    def _labels(self, address: str) -> tuple[str, str]:
        """Labels of the GPU at an address; of one that nobody knows the address itself."""
        known = self._known.get(address)
        return (known.gpu, known.uuid) if known is not None else (address, "")

    def _xid_samples(self) -> list[Sample]:
        counts = dict(self._merger.counts())
        for address in self._known:
            for code in PRECREATED:
                counts.setdefault(Key(address, code), Count(0, 0.0))
        joined: dict[tuple[str, str, str], Count] = {}
        for key, count in counts.items():
            labels = (*self._labels(key.address), str(key.code))
            before = joined.get(labels, Count(0, 0.0))
            joined[labels] = Count(before.total + count.total, max(before.last, count.last))
        samples = [Sample(ERRORS, labels, count.total) for labels, count in sorted(joined.items())]
        samples += [Sample(LAST, labels, count.last) for labels, count in sorted(joined.items()) if count.total]
        logged: Counter[tuple[str, str, str]] = Counter()
        for key, times in self._logged.items():
            logged[(*self._labels(key.address), str(key.code))] += times
        samples += [Sample(LOGGED, labels, times) for labels, times in sorted(logged.items())]
        for code in sorted(
            {key.code for key, count in counts.items() if count.total} | {key.code for key in self._logged}
        ):
            row = explain(code)
            words = (row.origin.value, row.severity.value, row.advice.value)
            samples.append(Sample(INFO, (str(code), row.name, *words), 1))
        return samples

    def _switch_samples(self) -> list[Sample]:
        samples = []
        for line, count in sorted(self._switches.items()):
            labels = (line.switch, str(line.code), line.severity)
            samples += [Sample(SWITCH_ERRORS, labels, count), Sample(SWITCH_LAST, labels, self._switch_times[line])]
        for code, severity in sorted({(line.code, line.severity) for line in self._switches}):
            words = (switch_unit(code), switch_advice(code, severity))
            samples.append(Sample(SWITCH_INFO, (str(code), severity, *words), 1))
        return samples

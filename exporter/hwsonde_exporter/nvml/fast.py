"""Samples of the quantities that change within a second: from the driver's own buffers, or by looking. Part of the worker.

The driver keeps the last samples of some quantities, so that asking once a second misses none. Where it keeps none, or only
as many as one would get by asking once a second, the worker looks itself, as often as the fast sampler wants.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from math import isfinite

from hwsonde_exporter.nvml.gpu import Gpu, GpuGone

# Name of the quantity, the driver's buffer of it, and how to look at it.
_BUFFERS = (
    ("utilization", "NVML_GPU_UTILIZATION_SAMPLES"),
    ("power", "NVML_TOTAL_POWER_SAMPLES"),
    ("clock", "NVML_PROCESSOR_CLK_SAMPLES"),
)
_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
# A buffer with fewer samples a second than this is no better than one look a second.
_LEAST_RATE = 2.0
_JUDGED_AFTER_SECONDS = 5.0
# The driver renews its readings at least this often: one that is the same so much later has been taken anew.
_RENEWED_SECONDS = 1.0
# How much of its time the worker may spend looking; where the driver is slow it looks less often.
_SHARE = 0.01
_KEPT = 32


@dataclass(slots=True)
class _Quantity:
    """One quantity of one GPU."""

    last_seen: int = 0  # the driver's time of the newest sample, microseconds
    began: float = 0.0  # monotonic time of the first look into the buffer
    found: int = 0  # samples since then
    poll: bool = False
    value: float | None = None
    changed: float = 0.0  # monotonic time of the last observation
    samples: list[float] = field(default_factory=list)

    def add(self, value: float) -> None:
        # What is no number fits into no message.
        if isfinite(value):
            self.samples.append(value)
            del self.samples[:-_KEPT]


class FastReader:
    """Collects samples of all GPUs until they are taken.

    Parameters
    ----------
    hertz
        Looks a second; 0 for none, and no samples at all.
    clock
        Monotonic seconds.
    """

    def __init__(self, hertz: float, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._period = 1.0 / hertz if hertz > 0 else None
        self._due = clock()
        self._known: dict[str, dict[str, _Quantity]] = {}

    def wait(self) -> float | None:
        """Seconds until the next look; None if there is none to come."""
        if self._period is None or not self._known:
            return None
        return max(0.0, self._due - self._clock())

    def look(self, gpus: list[Gpu], enter: Callable[[Gpu, str], None], skip: Collection[tuple[int, str]] = ()) -> bool:
        """Look at what the driver keeps no samples of, if it is time; gives whether a GPU was lost meanwhile.

        Parameters
        ----------
        gpus
            The GPUs that there are.
        enter
            Is told of the GPU and the group of calls, before each, whose calls are made next.
        skip
            Pairs of the number of a GPU and a group of calls that is left out, since it hung.

        Raises
        ------
        DriverGone
            If no GPU can be asked any more.
        """
        began = self._clock()
        if self._period is None or began < self._due:
            return False
        lost = False
        try:
            for gpu in gpus:
                quantities = self._known.get(gpu.uuid)
                if quantities is None or gpu.error:
                    continue
                try:
                    self._look_at(gpu, quantities, enter, skip)
                except GpuGone as gone:
                    # The others are looked at all the same.
                    gpu.error, lost = str(gone), True
        finally:
            ended = self._clock()
            # Late looks are not made up for.
            self._due = max(self._due + self._period, ended, began + (ended - began) / _SHARE)
        return lost

    def read_buffers(self, gpu: Gpu) -> None:
        """Take what the driver has kept since the last time."""
        if self._period is None:
            return
        quantities = self._known.setdefault(gpu.uuid, {})
        now = self._clock()
        for name, buffer in _BUFFERS:
            quantity = quantities.setdefault(name, _Quantity(began=now))
            if quantity.poll:
                continue
            self._read_buffer(gpu, quantity, buffer, now)
        quantities.setdefault("memory", _Quantity(poll=True))

    def take(self) -> list[list[object]]:
        """Give UUID, name and values of every quantity that has any, once."""
        taken: list[list[object]] = []
        for uuid, quantities in self._known.items():
            for name, quantity in quantities.items():
                if quantity.samples:
                    taken.append([uuid, name, quantity.samples])
                    quantity.samples = []
        return taken

    def keep(self, uuids: set[str]) -> None:
        """Forget the GPUs that are not among these."""
        for uuid in self._known.keys() - uuids:
            del self._known[uuid]

    def _read_buffer(self, gpu: Gpu, quantity: _Quantity, buffer: str, now: float) -> None:
        first = quantity.last_seen == 0
        kind = getattr(gpu.nvml, buffer)
        found = gpu.ask("nvmlDeviceGetSamples", kind, quantity.last_seen, key=kind)
        if found is not None and 0 <= found[0] < len(_MEMBERS):
            member = _MEMBERS[found[0]]
            # Places that were never written to have no time; some drivers give again what was seen.
            fresh = sorted(
                (each for each in found[1] if each.timeStamp > quantity.last_seen), key=lambda each: each.timeStamp
            )
            if fresh:
                quantity.last_seen = fresh[-1].timeStamp
                # What was kept before anybody asked is the past.
                values = [getattr(each.sampleValue, member) for each in (fresh[-1:] if first else self._thinned(fresh))]
                quantity.found += len(values)
                for value in values:
                    quantity.add(value)
        elapsed = now - quantity.began
        if elapsed >= _JUDGED_AFTER_SECONDS:
            quantity.poll = quantity.found < _LEAST_RATE * elapsed
            quantity.began, quantity.found = now, 0

    def _thinned(self, samples: list) -> list:  # type: ignore[type-arg]
        """Samples that lie at least a look apart: the sampler takes no more than that."""
        apart = int((self._period or 0.0) * 0.9e6)
        kept = samples[:1]
        for sample in samples[1:]:
            if sample.timeStamp - kept[-1].timeStamp >= apart:
                kept.append(sample)
        return kept

    def _look_at(
        self,
        gpu: Gpu,
        quantities: dict[str, _Quantity],
        enter: Callable[[Gpu, str], None],
        skip: Collection[tuple[int, str]],
    ) -> None:
        now = self._clock()
        for name, quantity in quantities.items():
            if not quantity.poll or (gpu.number, name) in skip:
                continue
            # A call that hangs here hangs in the group of the same name, too, and that is what is left out then.
            enter(gpu, name)
            value = LOOKS[name](gpu)
            # Memory in use is counted at each call; the others are renewed by the driver in its own time.
            if value is None or (
                name != "memory" and value == quantity.value and now - quantity.changed < _RENEWED_SECONDS
            ):
                continue
            quantity.value, quantity.changed = value, now
            quantity.add(value)


def _memory(gpu: Gpu) -> float | None:
    nvml, handle = gpu.nvml, gpu.handle
    found = gpu.first(
        ("nvmlDeviceGetMemoryInfo_v2", lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)),
        ("nvmlDeviceGetMemoryInfo", lambda: nvml.nvmlDeviceGetMemoryInfo(handle)),
    )
    return None if found is None else found.used


def _power(gpu: Gpu) -> float | None:
    field_ = (gpu.nvml.NVML_FI_DEV_POWER_INSTANT, gpu.nvml.NVML_POWER_SCOPE_GPU)
    return gpu.field_or(field_, gpu.fields([field_]), "nvmlDeviceGetPowerUsage")


def _clock(gpu: Gpu) -> float | None:
    value: float | None = gpu.ask("nvmlDeviceGetClockInfo", gpu.nvml.NVML_CLOCK_SM, key="sm")
    return value


def _utilization(gpu: Gpu) -> float | None:
    rates = gpu.ask("nvmlDeviceGetUtilizationRates")
    return None if rates is None else rates.gpu


# By the name of the quantity, which is that of the group of calls that asks the same.
LOOKS: dict[str, Callable[[Gpu], float | None]] = {
    "memory": _memory,
    "power": _power,
    "clock": _clock,
    "utilization": _utilization,
}

"""The library from its start to its end: which GPUs there are, and one reply to each request. Part of the worker."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from hwsonde_exporter.nvml.event_thread import EventThread
from hwsonde_exporter.nvml.fast import FastReader
from hwsonde_exporter.nvml.gpu import DriverGone, Gpu, GpuGone, Library
from hwsonde_exporter.nvml.groups import GROUPS
from hwsonde_exporter.nvml.progress import NO_DEVICE, Slot
from hwsonde_exporter.nvml.read_gpm import release
from hwsonde_exporter.nvml.read_nvlink import bus_id

SAMPLES = "samples"
EVENTS = "events"
Reading = list[object]
_MAX_GPUS = 256
_MAX_ROWS = 4000
# Several collectors ask at about the same time; the GPUs are counted once for all.
_COUNT_SECONDS = 0.5
# A group that takes longer than this is not read every time: it may use a fifth of the time at most.
_CHEAP_SECONDS = 0.25
_SHARE = 0.2


class _Rest(NamedTuple):
    """A group that takes long: until when it is not read again, and what is told meanwhile."""

    until: float
    gauges: list[Reading]


class Session:
    """A library that has started.

    Parameters
    ----------
    library
        The binding.
    slot
        Where the parent sees what is being done.
    fast
        Collects samples.
    events
        Receives events; None for none.
    """

    def __init__(self, library: Library, slot: Slot, fast: FastReader, events: EventThread | None) -> None:
        self.library = library
        self._nvml = library.nvml
        self._clock = library.clock
        self._slot = slot
        self._fast = fast
        self._events = events
        self._gpus: dict[str, Gpu] = {}
        self._counted = float("-inf")
        self._count = 0
        self._avoided: set[int] = set()
        self._numbers: set[int] = set()  # of the GPUs that were found the last time
        self._unreachable: dict[int, str] = {}
        self._calls: list[list[object]] = []
        self._rest: dict[tuple[str, str], _Rest] = {}
        self._skip: frozenset[tuple[int, str]] = frozenset()

    def versions(self) -> dict[str, str]:
        """Versions of the driver, the library and CUDA, as far as they can be had."""
        found = {}
        for name, function, shown in (
            ("driver_version", "nvmlSystemGetDriverVersion", str),
            ("nvml_version", "nvmlSystemGetNVMLVersion", str),
            (
                "cuda_version",
                "nvmlSystemGetCudaDriverVersion_v2",
                lambda value: f"{value // 1000}.{value % 1000 // 10}",
            ),
        ):
            self._enter(None, "versions")
            try:
                found[name] = shown(getattr(self._nvml, function)())
            except Exception as error:  # noqa: BLE001  (the binding raises what it likes)
                self.library.count(self.library.error_name(error))
            finally:
                self._slot.leave(self._clock())
        return found

    def count(self, avoid: Collection[int], skip: Collection[tuple[int, str]] = ()) -> None:
        """Find the GPUs that there are, but for those of these numbers, and wait for their events.

        Groups of calls in ``skip``, by number of the GPU, are left out from now on.

        Raises
        ------
        DriverGone
            If the driver does not even count them.
        """
        now = self._clock()
        if now - self._counted < _COUNT_SECONDS and self._avoided == set(avoid) and self._skip == set(skip):
            return
        self._skip = frozenset(skip)
        self.library.group = "attach"
        self._slot.enter(NO_DEVICE, "count", now)
        try:
            self._count = min(int(self._nvml.nvmlDeviceGetCount()), _MAX_GPUS)
        except Exception as error:
            name = self.library.error_name(error)
            self.library.count(name)
            raise DriverGone(name) from error
        finally:
            self._slot.leave(self._clock())
        self._unreachable, self._avoided = {}, set(avoid)
        present: dict[str, Gpu] = {}
        for number in range(self._count):
            if number in avoid:
                self._unreachable[number] = "timeout"
                continue
            gpu = self._find(number)
            if gpu is not None and gpu.uuid not in present:
                present[gpu.uuid] = gpu
        for uuid in self._gpus.keys() - present.keys():
            release(self._gpus.pop(uuid))
        self._gpus = present
        self._numbers = {gpu.number for gpu in present.values()}
        self._fast.keep(set(present))
        self._rest = {key: rest for key, rest in self._rest.items() if key[0] in present}
        if self._events is not None:
            self.library.group = EVENTS
            try:
                wanted = [gpu for gpu in present.values() if (gpu.number, EVENTS) not in self._skip]
                self._events.watch(wanted, lambda gpu: self._enter(gpu, EVENTS))
            finally:
                self._slot.leave(self._clock())
        self._counted = now

    def reply(
        self, number: int, groups: Collection[str], avoid: Collection[int], skip: Collection[tuple[int, str]]
    ) -> dict[str, Any]:
        """Read groups of all GPUs; raises `DriverGone`."""
        self.count(avoid, skip)
        devices = []
        for gpu in self._gpus.values():
            gpu.error = ""
            readings = self._read(gpu, groups, {group for place, group in skip if place == gpu.number})
            devices.append({
                "number": gpu.number, "uuid": gpu.uuid, "bus_id": gpu.bus_id, "error": gpu.error, "readings": readings,
            })  # fmt: skip
        calls, self._calls = self._calls, []
        errors, self.library.errors = self.library.errors, type(self.library.errors)()
        return {
            "number": number,
            "gpus": self._count,
            "devices": devices,
            "unreachable": sorted(self._unreachable.items()),
            "calls": calls,
            "errors": [[group, error, times] for (group, error), times in errors.items()],
            "fast": self._fast.take() if SAMPLES in groups else [],
            "lost_events": 0 if self._events is None else self._events.lost,
            "listening": self._listening(),
        }

    def wait(self) -> float | None:
        """Seconds until `look` has something to do; None if it never has."""
        return self._fast.wait()

    def look(self) -> None:
        """Look at the quantities that are sampled; raises `DriverGone`."""
        self.library.group = SAMPLES
        try:
            if self._fast.look(list(self._gpus.values()), self._enter, self._skip):
                self._counted = float("-inf")
        finally:
            self._slot.leave(self._clock())

    def _listening(self) -> bool:
        """Whether events of every GPU that the driver counts would be heard: of one that is not to be found, none are."""
        return self._events is not None and not self._unreachable and self._events.hears(list(self._gpus.values()))

    def _enter(self, gpu: Gpu | None, group: str) -> None:
        self._slot.enter(NO_DEVICE if gpu is None else gpu.number, group, self._clock())

    def _find(self, number: int) -> Gpu | None:
        """Give the GPU of a number, or None and note why not."""
        nvml = self._nvml
        # The first time may wake it up, which takes long; after that only a sick one keeps us waiting.
        self._slot.enter(number, "identify" if number in self._numbers else "attach", self._clock())
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(number)
            # What follows wakes nothing up.
            self._slot.enter(number, "identify", self._clock())
            uuid = nvml.nvmlDeviceGetUUID(handle)
            known = self._gpus.get(uuid)
            if known is not None:
                known.renew(handle, number)
                return known
            return Gpu(self.library, handle, number, uuid, bus_id(nvml.nvmlDeviceGetPciInfo(handle).busId))
        except Exception as error:  # noqa: BLE001  (the binding raises what it likes)
            name = self.library.error_name(error)
            self.library.count(name)
            self._unreachable[number] = name
            return None
        finally:
            self._slot.leave(self._clock())

    def _read(self, gpu: Gpu, groups: Collection[str], skip: Collection[str]) -> list[Reading]:
        readings: list[Reading] = []
        asked = answered = told = 0
        for name in groups:
            if name in skip or (name not in GROUPS and name != SAMPLES):
                continue
            now = self._clock()
            rest = self._rest.get((gpu.uuid, name))
            if rest is not None and now < rest.until:
                readings += rest.gauges
                continue
            asked += 1
            before, first = self.library.errors.total(), len(readings)
            self.library.group = name
            self._slot.enter(gpu.number, name, now)
            try:
                self._run(gpu, name, readings)
            except GpuGone as gone:
                # The library may still give what it had noted of a GPU that is lost: all that would be stale.
                gpu.error = str(gone)
                self._rest = {key: rest for key, rest in self._rest.items() if key[0] != gpu.uuid}
                return []
            finally:
                ended = self._clock()
                self._slot.leave(ended)
                self._calls.append([name, ended - now])
            self._note(gpu, name, ended - now, ended, readings[first:])
            told += len(readings) - first
            answered += self.library.errors.total() == before
        if asked and not told and not answered and not gpu.error:
            gpu.error = "unknown"
            return []
        return readings

    def _run(self, gpu: Gpu, name: str, readings: list[Reading]) -> None:
        if name == SAMPLES:
            self._fast.read_buffers(gpu)
            return
        try:
            for reading, labels, value in GROUPS[name](gpu):
                if len(readings) < _MAX_ROWS and _sound(value):
                    readings.append([reading, [_short(label) for label in labels], value])
        except (GpuGone, DriverGone):
            raise
        except Exception:  # noqa: BLE001  (a defect of ours in one group must not cost the others)
            self.library.count("exception")

    def _note(self, gpu: Gpu, name: str, seconds: float, now: float, readings: list[Reading]) -> None:
        """Let a group that took long rest for a while.

        Its gauges are told meanwhile, or they would come and go with each reading. Its counters are not: one that stands still
        and then jumps has a rate that never was.
        """
        if seconds > _CHEAP_SECONDS:
            gauges = [reading for reading in readings if not _counts(str(reading[0]))]
            self._rest[gpu.uuid, name] = _Rest(now + seconds / _SHARE, gauges)
        else:
            self._rest.pop((gpu.uuid, name), None)


def _counts(name: str) -> bool:
    return name.partition("@")[0].endswith("_total")


def _short(label: object) -> str:
    # Some functions of the binding give bytes where others give text.
    text = label.decode("utf-8", "replace") if isinstance(label, bytes) else str(label)
    return text[:256]


def _sound(value: object) -> bool:
    if type(value) is float:
        return value == value and abs(value) != float("inf")  # noqa: PLR0124  (NaN is not itself)
    return isinstance(value, int)

"""From the driver's readings to samples: ranges, scales, and counters that wrap or stumble."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from hwsonde_exporter import parsing
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.nvml.answer import Device, Reading

_WORD = 1 << 32
# Patterns that stand for "not known" in one of the interfaces of NVIDIA: all bits set, and the blanks of its data centre tools,
# of which there are sixteen each, up from 2^47 and around 2^63.
_ALL_ONES = frozenset({_WORD - 1, (1 << 31) - 1, (1 << 64) - 1})
_BLANKS = ((1 << 47, (1 << 47) + 16), ((1 << 63) - 16, 1 << 65))
MOST_COUNTED = 1 << 62


@dataclass(frozen=True, slots=True)
class Row:
    """How a reading becomes a sample.

    Attributes
    ----------
    metric
        What it becomes; its labels are ``gpu``, ``uuid`` and those of the reading.
    least, most
        Range of the number that the driver gives, both ends included. What lies outside is rejected and counted.
    scale
        What the number is multiplied by to be in the metric's unit.
    ceiling
        What a number that is in the range and above this is rounded down to.
    cumulative
        Whether the exporter counts itself, from its start on, what the driver's counter has grown: it may wrap at any time.
    """

    metric: Metric
    least: float
    most: float
    scale: float = 1.0
    ceiling: float = float("inf")
    cumulative: bool = False

    def value(self, raw: float) -> float | None:
        """Value in the metric's unit, or None if the driver cannot mean it."""
        if not self.least <= raw <= self.most or is_blank(raw):
            return None
        raw = min(raw, self.ceiling)
        # Dividing by a power of ten is exact where multiplying by its inverse is not.
        if self.scale < 1:
            return raw / round(1 / self.scale)
        return raw * self.scale if self.scale > 1 else raw


def is_blank(raw: float) -> bool:
    """Whether a number is one of the patterns that stand for "not known"."""
    return raw in _ALL_ONES or any(low <= raw < high for low, high in _BLANKS)


class Growth:
    """Sums up what counters grow, from the first reading on.

    A counter that falls was either set back or has wrapped. That it wrapped is believed if it counts in 32 bits, or if it stood in
    the upper half of 32 and the driver says that it has more; unless another counter tells that all were set back. One that was
    set back has counted at least its present value since.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, ...], tuple[float, float]] = {}

    def total(self, key: tuple[str, ...], raw: float, bits: int, set_back: Callable[[], bool] = lambda: False) -> float:
        """Give what the counter of this key has grown since its first reading; ``set_back`` is asked if it falls."""
        last, total = self._last.get(key, (raw, 0))
        if raw >= last:
            total += raw - last
        elif set_back():
            total += raw
        elif bits <= 32 or _WORD // 2 <= last < _WORD:
            total += (raw - last) % _WORD
        else:
            total += raw
        self._last[key] = (raw, total)
        return total


class Steady:
    """Holds a counter that falls until a second reading says the same: a lone wrong number would count twice as a restart."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, ...], float] = {}
        self._doubted: set[tuple[str, ...]] = set()

    def falls(self, key: tuple[str, ...], raw: float) -> bool:
        """Whether a reading is below what is believed now."""
        return raw < self._last.get(key, raw)

    def value(self, key: tuple[str, ...], raw: float) -> float:
        """Give the reading, or the last one that was believed."""
        last = self._last.get(key, raw)
        if raw < last and key not in self._doubted:
            self._doubted.add(key)
            return last
        self._doubted.discard(key)
        self._last[key] = raw
        return raw


class _Series(NamedTuple):
    """What a reading of one GPU with one set of labels becomes."""

    row: Row
    labels: tuple[str, ...]
    key: tuple[str, ...]
    bits: int


class Converter:
    """Turns readings into samples and counts those that it rejects.

    Parameters
    ----------
    rows
        By name of the reading.
    """

    def __init__(self, rows: Mapping[str, Row]) -> None:
        self._rows = rows
        self._growth = Growth()
        self._steady = Steady()
        # Most readings are those of the last time: their labels need not be looked at again.
        self._known: dict[tuple[str, str, tuple[str, ...]], _Series | None] = {}
        self.rejected: Counter[str] = Counter()

    def samples(self, devices: Iterable[Device]) -> list[Sample]:
        """Samples of all readings that have a row, each series once."""
        samples: list[Sample] = []
        known, present = self._known, {}
        seen: set[tuple[str, ...]] = set()
        for device in devices:
            for reading in device.readings:
                place = (device.uuid, reading.name, reading.labels)
                series = known[place] if place in known else self._series(device, reading)
                present[place] = series
                if series is None or series.key in seen:
                    continue
                seen.add(series.key)
                value = self._value(series, reading.value, device)
                if value is None:
                    self.rejected[series.key[0]] += 1
                else:
                    samples.append(Sample(series.row.metric, series.labels, value))
        self._known = present
        return samples

    def _series(self, device: Device, reading: Reading) -> _Series | None:
        name, _, bits = reading.name.partition("@")
        row = self._rows.get(name)
        if row is None:
            return None
        # A text of the driver may hold anything.
        labels = (
            device.index,
            device.uuid,
            *(parsing.text(label.encode("utf-8", "replace")) for label in reading.labels),
        )
        if len(labels) != len(row.metric.labels):
            self.rejected[name] += 1
            return None
        return _Series(row, labels, (name, *labels), int(bits) if bits.isdigit() else 64)

    def _value(self, series: _Series, raw: float, device: Device) -> float | None:
        row = series.row
        value = row.value(raw)
        if value is None:
            return None
        if row.cumulative:
            return self._growth.total(series.key, raw, series.bits, partial(self._set_back, device)) * row.scale
        if row.metric.kind is Kind.COUNTER:
            return self._steady.value(series.key, value)
        return value

    def _set_back(self, device: Device) -> bool:
        """Whether a counter of a GPU that never wraps has fallen: then the GPU was reset, or the driver loaded anew."""
        for reading in device.readings:
            series = self._series(device, reading) if reading.name in self._rows else None
            if series is None or series.row.cumulative or series.row.metric.kind is not Kind.COUNTER:
                continue
            value = series.row.value(reading.value)
            if value is not None and self._steady.falls(series.key, value):
                return True
        return False


def by_reading(rows: Iterable[Row], prefix: str = "hwsonde_gpu_") -> dict[str, Row]:
    """Rows by the name of their reading, which is that of the metric without the prefix."""
    return {row.metric.name.removeprefix(prefix): row for row in rows}

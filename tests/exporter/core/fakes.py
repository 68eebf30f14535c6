"""Collectors, clocks and hosts for the tests of the core."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from hwsonde_exporter.cell import Clocks
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import Quantity

WIDGETS = Metric(
    "hwsonde_widget_seconds_total", Kind.COUNTER, "Seconds of widgets.", ("widget",), "seconds", "cpu", "fake"
)
HEAT = Metric("hwsonde_heat_celsius", Kind.GAUGE, "Heat.", (), "celsius", "thermal", "fake")
OTHER = Metric("hwsonde_other_bytes", Kind.GAUGE, "Not declared.", (), "bytes")


def gauge(name: str, labels: tuple[str, ...] = ()) -> Metric:
    return Metric(f"hwsonde_{name}", Kind.GAUGE, f"The {name}.", labels)


class Clock:
    """A clock that moves only when told to."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


REAL_CLOCKS = Clocks(time.monotonic, time.time)


def collector_kind(
    name: str,
    collect: Callable[[], Iterable[Sample]],
    *,
    metrics: tuple[Metric, ...] = (WIDGETS, HEAT),
    probe: Callable[[], None] = lambda: None,
    period: float | None = None,
    enabled: bool = True,
    observe: Callable[[], Sequence[Any]] | None = None,
    quantities: tuple[Quantity, ...] = (),
) -> type[Any]:
    """Class of a collector that does what the functions do; each call of ``collect`` is counted in ``calls``."""

    class Fake:
        calls: ClassVar[list[float]] = []

        def __init__(self, host: Host) -> None:
            self.host = host

        def probe(self) -> None:
            probe()

        def collect(self) -> Iterable[Sample]:
            self.calls.append(time.monotonic())
            return collect()

    Fake.name = name  # type: ignore[attr-defined]
    Fake.help = f"Fake {name}."  # type: ignore[attr-defined]
    Fake.metrics = metrics  # type: ignore[attr-defined]
    Fake.period = period  # type: ignore[attr-defined]
    Fake.enabled = enabled  # type: ignore[attr-defined]
    Fake.calls = []
    if observe is not None:
        Fake.observe = lambda self: observe()  # type: ignore[attr-defined]
        Fake.quantities = quantities  # type: ignore[attr-defined]
    return Fake


def heat_of(degrees: float) -> Callable[[], list[Sample]]:
    return lambda: [Sample(HEAT, (), degrees)]


class Gate:
    """A collect function that hangs until opened."""

    def __init__(self, samples: Sequence[Sample] = ()) -> None:
        self.event = threading.Event()
        self.samples = list(samples)

    def __call__(self) -> list[Sample]:
        self.event.wait(30)
        return self.samples

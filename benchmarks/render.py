"""Rendering 1,000 series: one template against prometheus_client's generate_latest, in the same run.

``python benchmarks/render.py`` prints both times and their ratio, for values as hosts have them (counts, times in hundredths,
ratios) and for the worst case (every value with 17 digits). Both sides begin with values ready in memory; ours begin with
fresh `Sample` tuples, so finding the shape again is counted. Exit status 1 if the ratio for host values is below 20.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from hwsonde_exporter.exposition import block_of, render
from hwsonde_exporter.metric import Kind, Metric, Sample

FAMILIES = 150
SERIES = 1000
REQUIRED = 20.0


def best_milliseconds(work: Callable[[], object], repetitions: int = 20, rounds: int = 9) -> float:
    """Least time of a call: what the work costs when nobody disturbs it."""
    work()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(repetitions):
            work()
        times.append((time.perf_counter() - began) / repetitions * 1e3)
    return min(times)


def host_value(generator: random.Random) -> float:
    """A value as a host gives it: mostly counts, some times in hundredths of a second, some ratios."""
    kind = generator.random()
    if kind < 0.7:
        return generator.randrange(10**9)
    if kind < 0.9:
        return generator.randrange(10**7) / 100
    return round(generator.random(), 4)


def ratio(value: Callable[[], float]) -> tuple[float, float]:
    """Milliseconds of generate_latest and of the template, for the same values."""
    registry = CollectorRegistry()
    samples: list[Sample] = []
    for number in range(FAMILIES):
        name = f"hwsonde_bench{number}_bytes"
        metric = Metric(name, Kind.GAUGE, f"Help text of metric number {number}.", ("device",))
        gauge = Gauge(name, metric.help, ["device"], registry=registry)
        for device in range(SERIES // FAMILIES + (number < SERIES % FAMILIES)):
            amount = value()
            gauge.labels(device=f"dev{device}").set(amount)
            samples.append(Sample(metric, (f"dev{device}",), amount))
    shape = block_of(samples).shape
    # Labels as a parser makes them: equal, but not the same objects.
    fresh = [sample._replace(labels=("".join(list(sample.labels[0])),)) for sample in samples]
    return (
        best_milliseconds(lambda: generate_latest(registry)),
        best_milliseconds(lambda: render([block_of(fresh, shape)])),
    )


def main() -> int:
    """Print the comparison."""
    generator = random.Random(1)
    reached = 0.0
    for name, value in (
        ("host values", lambda: host_value(generator)),
        ("17 digits", lambda: generator.random() * 1e9),
    ):
        peer, ours = ratio(value)
        print(
            f"{SERIES} series, {name}: generate_latest {peer:.2f} ms, template {ours:.3f} ms, ratio {peer / ours:.1f}"
        )
        if name == "host values":
            reached = peer / ours
    return 0 if reached >= REQUIRED else 1


if __name__ == "__main__":
    sys.exit(main())

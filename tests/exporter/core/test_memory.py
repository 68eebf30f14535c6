import gc
import itertools
import sys

from hwsonde_exporter.cell import Clocks
from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.exporter import Exporter, ExporterSettings
from hwsonde_exporter.exposition import Format, render
from hwsonde_exporter.host import Paths
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import Quantity
from hwsonde_exporter.runner import RunnerSettings
from tests.exporter.core.fakes import HEAT, WIDGETS, Clock, collector_kind, gauge

SPEED = Quantity(
    Metric("hwsonde_speed_sampled_hertz", Kind.SUMMARY, "Speed.", ("device",), "hertz"), 1.0, cumulative=False
)
ROUNDS = 600


def test_memory_is_flat_over_thousands_of_scrapes() -> None:
    """Though devices come and go, a collector fails with ever new words and another is never the same shape twice."""
    clock, numbers = Clock(), itertools.count()

    def failing() -> list[Sample]:
        raise ReadError(f"gone {next(numbers)}")

    kinds = {
        "changing": collector_kind(
            "changing", lambda: [Sample(WIDGETS, (f"w{next(numbers)}",), 1), Sample(HEAT, (), next(numbers))]
        ),
        "failing": collector_kind("failing", failing, metrics=(gauge("failing"),)),
        "fast": collector_kind(
            "fast",
            list,
            metrics=(),
            observe=lambda: [(SPEED, (f"d{next(numbers) // 7}",), float(next(numbers)))],
            quantities=(SPEED,),
        ),
    }
    settings = ExporterSettings(RunnerSettings(frozenset(kinds), 5.0, 100), 10.0)
    exporter = Exporter(kinds, Paths(), settings, Clocks(clock, clock))
    sizes = []
    for _ in range(3):
        for _ in range(ROUNDS):
            clock.now += 1.0
            exporter._sampler.tick()
            for form in Format:
                assert render(exporter.scrape(), form)
            for kind in kinds.values():
                kind.calls.clear()
        gc.collect()
        sizes.append(sys.getallocatedblocks())
    exporter.stop()
    assert sizes[2] - sizes[1] < 500, sizes

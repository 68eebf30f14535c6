import re

from hwsonde_exporter.exporter import Exporter, ExporterSettings
from hwsonde_exporter.exposition import render
from hwsonde_exporter.guard import Guard
from hwsonde_exporter.host import Paths
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import Quantity
from hwsonde_exporter.runner import RunnerSettings
from hwsonde_exporter.selection import EVERYTHING, Selection
from tests.exporter.core.fakes import HEAT, OTHER, REAL_CLOCKS, WIDGETS, collector_kind, gauge

SAMPLES = [Sample(WIDGETS, ("a",), 1), Sample(HEAT, (), 2.5), Sample(WIDGETS, ("b",), 3)]
NO_WIDGETS = Selection(deny=re.compile("hwsonde_widget_.*"))


def published(guard: Guard) -> list[tuple[str, float]]:
    block, dropped = guard.block(SAMPLES)
    assert dropped == {}
    return [(sample.metric.name, sample.value) for sample in block.samples]


def test_what_is_denied_is_left_out_and_not_counted_as_lost() -> None:
    guard = Guard((WIDGETS, HEAT), 10, NO_WIDGETS)
    assert published(guard) == [(HEAT.name, 2.5)]
    guard.selection = Selection(allow=re.compile("hwsonde_widget_.*"))
    assert published(guard) == [(WIDGETS.name, 1), (WIDGETS.name, 3)]
    guard.selection = Selection(allow=re.compile("hwsonde_.*"), deny=re.compile("hwsonde_heat_celsius"))
    assert published(guard) == [(WIDGETS.name, 1), (WIDGETS.name, 3)]
    guard.selection = EVERYTHING
    assert len(published(guard)) == 3


def test_it_is_asked_once_for_each_metric_and_not_again_while_the_shape_stays() -> None:
    asked: list[str] = []

    class Counting(Selection):
        def hides(self, metric: Metric) -> bool:
            asked.append(metric.name)
            return False

    guard = Guard((WIDGETS, HEAT), 10, Counting())
    many = [Sample(WIDGETS, (str(number),), number) for number in range(8)]
    for _ in range(5):
        guard.block(many)
    assert asked == [WIDGETS.name]


def test_what_is_denied_does_not_use_up_the_series_limit() -> None:
    block, dropped = Guard((WIDGETS, HEAT), 1, NO_WIDGETS).block(SAMPLES)
    assert (len(block.samples), dropped) == (1, {})


def test_an_undeclared_metric_that_is_denied_is_no_defect() -> None:
    assert Guard((HEAT,), 9, Selection(deny=re.compile(OTHER.name))).block([Sample(OTHER, (), 1)])[1] == {}


SUMMARY = Metric("hwsonde_heat_sampled_celsius", Kind.SUMMARY, "Heat.", (), "celsius", "thermal", "fake")
QUANTITY = Quantity(SUMMARY, 20.0, cumulative=False)


def text_of(selection: Selection) -> tuple[Exporter, set[str]]:
    kind = collector_kind(
        "heat",
        lambda: [Sample(HEAT, (), 1.0), Sample(gauge("cold"), (), 2.0)],
        metrics=(HEAT, gauge("cold")),
        observe=lambda: [(QUANTITY, (), 21.0)],
        quantities=(QUANTITY,),
    )
    settings = ExporterSettings(RunnerSettings(frozenset({"heat"}), selection=selection), 0.1)
    exporter = Exporter({"heat": kind}, Paths(), settings, REAL_CLOCKS)
    exporter._sampler.tick()
    return exporter, families(exporter)


def families(exporter: Exporter) -> set[str]:
    return set(re.findall(r"^# TYPE (\S+)", render(exporter.scrape()).decode(), re.MULTILINE))


def test_it_holds_for_collectors_the_sampler_and_the_exporters_own_metrics() -> None:
    exporter, found = text_of(EVERYTHING)
    assert {HEAT.name, "hwsonde_cold", SUMMARY.name, f"{SUMMARY.name}_minimum", "hwsonde_exporter_build_info"} <= found
    new = ExporterSettings(
        RunnerSettings(
            frozenset({"heat"}), selection=Selection(deny=re.compile("hwsonde_heat_.*|hwsonde_exporter_build.*"))
        ),
        0.1,
    )
    exporter.configure(new)
    found = families(exporter)
    assert "hwsonde_cold" in found
    assert "hwsonde_exporter_scrapes_total" in found
    assert not {name for name in found if name.startswith(("hwsonde_heat", "hwsonde_exporter_build"))}
    exporter.stop()
    exporter, found = text_of(Selection(allow=re.compile("hwsonde_heat_sampled_celsius")))
    assert found == {SUMMARY.name}
    exporter.stop()

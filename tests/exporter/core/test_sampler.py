import logging
import re
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.exposition import Format
from hwsonde_exporter.metric import Kind, Metric
from hwsonde_exporter.privacy import SHOW
from hwsonde_exporter.registry import Quantity
from hwsonde_exporter.sampler import Sampler, SourceSeries, derived_metrics
from hwsonde_exporter.selection import EVERYTHING, Selection
from tests.exporter.core.fakes import Clock, collector_kind

BUSY = Quantity(
    Metric("hwsonde_cpu_busy_sampled_ratio", Kind.SUMMARY, "Busy share.", (), "ratio", "cpu", "/proc/stat"),
    0.5,
    cumulative=True,
)
POWER = Quantity(
    Metric("hwsonde_power_sampled_watts", Kind.SUMMARY, "Power.", ("device",), "watts", "power"),
    100.0,
    cumulative=False,
)


def sampler_of(clock: Clock, *kinds: Any, hertz: float = 10.0, **options: Any) -> Sampler:
    return Sampler({kind.name: (kind, lambda kind=kind: kind(None)) for kind in kinds}, hertz, clock, **options)


def source(name: str, observe: Callable[[], Any], *quantities: Quantity) -> Any:
    return collector_kind(name, list, metrics=(), observe=observe, quantities=quantities or (BUSY, POWER))


def published(sampler: Sampler) -> dict[str, float]:
    lines = b"".join(block.text(Format.TEXT) for block in sampler.blocks().values()).decode().splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}


def test_derived_metrics_name_what_is_published() -> None:
    names = [(metric.name, metric.kind, metric.labels) for metric in derived_metrics(POWER)]
    assert names == [
        ("hwsonde_power_sampled_watts", Kind.SUMMARY, ("device",)),
        ("hwsonde_power_sampled_watts_squared_deviation_total", Kind.COUNTER, ("device",)),
        ("hwsonde_power_sampled_watts_minimum", Kind.GAUGE, ("device",)),
        ("hwsonde_power_sampled_watts_maximum", Kind.GAUGE, ("device",)),
    ]
    assert "(value - 100.0)^2" in derived_metrics(POWER)[1].help


def test_a_gauge_is_observed_as_it_stands() -> None:
    clock, values = Clock(), iter([90.0, 110.0, 130.0])
    sampler = sampler_of(clock, source("power", lambda: [(POWER, ("a",), next(values))]))
    for _ in range(3):
        clock.now += 0.1
        sampler.tick()
    assert published(sampler) == {
        'hwsonde_power_sampled_watts_sum{device="a"}': 330.0,
        'hwsonde_power_sampled_watts_count{device="a"}': 3,
        'hwsonde_power_sampled_watts_squared_deviation_total{device="a"}': 100.0 + 100.0 + 900.0,
        'hwsonde_power_sampled_watts_minimum{device="a"}': 90.0,
        'hwsonde_power_sampled_watts_maximum{device="a"}': 130.0,
    }


def test_a_counter_is_observed_by_its_difference_over_the_time_that_passed() -> None:
    clock, totals = Clock(), iter([100.0, 100.05, 100.35])
    sampler = sampler_of(clock, source("cpu", lambda: [(BUSY, (), next(totals))]))
    for step in (0.1, 0.1, 0.3):
        clock.now += step
        sampler.tick()
    found = published(sampler)
    assert found["hwsonde_cpu_busy_sampled_ratio_count"] == 2
    assert found["hwsonde_cpu_busy_sampled_ratio_minimum"] == pytest.approx(0.5)
    assert found["hwsonde_cpu_busy_sampled_ratio_maximum"] == pytest.approx(1.0)
    assert found["hwsonde_cpu_busy_sampled_ratio_sum"] == pytest.approx(1.5)


@pytest.mark.parametrize("bad", [-5.0, float("nan"), float("inf")])
def test_impossible_values_are_dropped_and_counted(bad: float) -> None:
    clock, values = Clock(), iter([5.0, bad, 6.0])
    sampler = sampler_of(clock, source("power", lambda: [(POWER, ("a",), next(values))]))
    for _ in range(3):
        clock.now += 0.1
        sampler.tick()
    assert published(sampler)['hwsonde_power_sampled_watts_sum{device="a"}'] == 11.0
    assert sampler.counts().refused == 1


def test_a_counter_that_goes_backwards_loses_one_observation() -> None:
    clock, totals = Clock(), iter([10.0, 10.1, 2.0, 2.1])
    sampler = sampler_of(clock, source("cpu", lambda: [(BUSY, (), next(totals))]))
    for _ in range(4):
        clock.now += 0.1
        sampler.tick()
    assert published(sampler)["hwsonde_cpu_busy_sampled_ratio_count"] == 2
    assert sampler.counts().refused == 1


def test_series_may_come_and_go_and_change_places() -> None:
    series = SourceSeries((POWER,))
    a, b = (POWER, ("a",), 1.0), (POWER, ("b",), 2.0)
    for now, observations in enumerate([[a, b], [a, b], [b, a], [b], [], [a, b]]):
        assert series.read(observations, 1000.0 + now) == 0
    counts = {sample.labels[0]: sample.value for sample in series.block(1006.0).samples if sample.suffix == "_count"}
    assert counts == {"a": 4, "b": 5}


def test_a_series_that_is_gone_is_forgotten_with_its_last_extremes() -> None:
    series = SourceSeries((POWER,))
    series.read([(POWER, ("a",), 1.0), (POWER, ("b",), 1.0)], 1000.0)
    series.read([(POWER, ("b",), 1.0)], 1055.0)
    assert {sample.labels for sample in series.block(1060.0).samples} == {("a",), ("b",)}
    assert {sample.labels for sample in series.block(1061.0).samples} == {("b",)}
    series.read([(POWER, ("a",), 1.0), (POWER, ("b",), 1.0)], 1062.0)
    assert sum(sample.suffix == "_count" for sample in series.block(1062.0).samples) == 2


def test_what_is_not_declared_or_comes_twice_is_dropped_each_time_and_counted_once() -> None:
    series = SourceSeries((POWER,))
    observations = [(POWER, ("a",), 1.0), (BUSY, (), 1.0), (POWER, (), 1.0), (POWER, ("a",), 5.0)]
    for now in (1000.0, 1000.1):
        assert series.read(observations, now) == 3
    samples = {sample.metric.name + sample.suffix: sample.value for sample in series.block(1000.2).samples}
    assert samples["hwsonde_power_sampled_watts_count"] == 2
    assert samples["hwsonde_power_sampled_watts_sum"] == 2.0


def powers(*devices: str) -> list[Any]:
    return [(POWER, (device,), 1.0) for device in devices]


def counted(series: SourceSeries, now: float) -> dict[str, float]:
    """Observations so far, by device."""
    return {sample.labels[0]: sample.value for sample in series.block(now).samples if sample.suffix == "_count"}


def test_no_more_series_than_the_limit_and_those_beyond_it_are_counted_with_each_block() -> None:
    series = SourceSeries((POWER,), 14)  # each device has five
    for now in (1000.0, 1000.1, 1000.2):
        assert series.read(powers("a", "b", "c", "d"), now) == 0
    assert counted(series, 1000.3) == {"a": 3, "b": 3}
    assert (series.size, series.beyond, series.full) == (10, 10, True)
    assert counted(series, 1000.4) == {"a": 3, "b": 3}
    assert series.beyond == 20
    # Who came first stays, in whatever order they come.
    assert series.read(powers("d", "c", "b", "a"), 1000.5) == 0
    assert counted(series, 1000.6) == {"a": 4, "b": 4}
    series.read([], 1000.7)
    assert not series.full
    series.read(powers("d", "c", "b", "a"), 1000.8)
    assert series.full


def test_what_a_source_kept_back_itself_is_counted_too() -> None:
    series = SourceSeries((POWER,), 10)
    assert series.most == 2
    series.read(powers("a", "b"), 1000.0, 7)
    series.block(1000.1)
    assert series.beyond == 35


def test_room_that_is_left_is_taken_and_a_new_limit_holds_at_once() -> None:
    series = SourceSeries((POWER,), 10)
    series.read(powers("a", "b", "c"), 1000.0)
    series.read(powers("b", "c"), 1030.0)
    assert counted(series, 1061.0) == {"b": 2}
    series.read(powers("b", "c"), 1062.0)
    assert counted(series, 1062.0) == {"b": 3, "c": 1}
    series.bound(5)
    series.read(powers("b", "c"), 1063.0)
    assert counted(series, 1063.0) == {"b": 4}
    series.bound(1000)
    series.read(powers("b", "c"), 1064.0)
    assert counted(series, 1064.0) == {"b": 5, "c": 1}
    assert not series.full


def test_what_is_not_published_uses_up_no_room() -> None:
    series = SourceSeries((POWER, BUSY), 10)
    series.select(Selection(deny=re.compile(".*_(minimum|maximum|total)|hwsonde_cpu_.*")), SHOW)
    observations = [(BUSY, (), 1.0), *powers("a", "b", "c", "d", "e", "f")]
    series.read(observations, 1000.0)
    assert counted(series, 1000.1).keys() == {"a", "b", "c", "d", "e"}
    assert series.beyond == 2
    series.select(EVERYTHING, SHOW)
    assert len(series.block(1000.2).samples) <= 10


def test_the_sampler_bounds_each_source_and_tells_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    kinds = [source(name, lambda: powers("a", "b", "c"), POWER) for name in ("one", "two")]
    sampler = sampler_of(clock, *kinds)
    sampler.bound({"one": 5, "two": 100}.__getitem__)
    for _ in range(3):
        sampler.tick()
        sampler.blocks()
    counts = sampler.counts()
    assert counts.series == {"one": 5, "two": 15}
    assert counts.beyond == {"one": 30}
    assert [record.getMessage() for record in caplog.records] == [
        "sampler: one has more series than its limit; raise --collector.series-limit one=N"
    ]
    sampler.bound(lambda _: 1000)
    sampler.tick()
    sampler.blocks()
    assert sampler.counts().series == {"one": 15, "two": 15}


def test_a_source_that_can_give_less_is_told_how_much_is_of_use() -> None:
    class Many:
        name, quantities = "many", (POWER,)
        most, left_out = 0, 0

        def observe(self) -> list[Any]:
            self.left_out = 100 - self.most
            return powers(*map(str, range(self.most)))

    sampler = Sampler({"many": (Many, Many)}, 10.0, Clock())  # type: ignore[dict-item]
    sampler.bound(lambda _: 20)
    sampler.tick()
    assert len(published(sampler)) == 20
    assert sampler.counts().beyond == {"many": 96 * 5}


def test_moments_through_the_whole_sampler_equal_numpy() -> None:
    clock, generator = Clock(), np.random.default_rng(1)
    values = generator.uniform(80, 120, 400)
    stream = iter(values)
    sampler = sampler_of(clock, source("power", lambda: [(POWER, ("a",), float(next(stream)))]))
    snapshots = []
    for tick in range(400):
        clock.now += 0.1
        sampler.tick()
        if tick % 100 == 99:
            found = published(sampler)
            snapshots.append(
                [value for name, value in found.items() if "minimum" not in name and "maximum" not in name]
            )
    for start, (before, after) in enumerate(pairwise(snapshots), 1):
        total, count, squares = np.subtract(after, before)
        window = values[start * 100 : (start + 1) * 100]
        assert count == 100
        assert total / count == pytest.approx(window.mean(), rel=1e-12)
        assert squares / count - (total / count - 100.0) ** 2 == pytest.approx(window.var(), rel=1e-9)


def test_a_source_that_fails_harms_no_other_and_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock, calls, broken = Clock(), [], [True]

    def observe() -> Any:
        calls.append(clock.now)
        if broken:
            raise ReadError("gone")
        return [(BUSY, (), clock.now / 2)]

    sampler = sampler_of(clock, source("bad", observe, BUSY), source("good", lambda: [(POWER, ("a",), 1.0)], POWER))
    for _ in range(15):
        clock.now += 0.1
        sampler.tick()
    assert len(calls) == 2  # it is left alone for a second
    assert sampler.counts().errors == {"bad": 2, "good": 0}
    assert published(sampler)['hwsonde_power_sampled_watts_count{device="a"}'] == 15
    broken.clear()
    for _ in range(15):
        clock.now += 0.1
        sampler.tick()
    assert published(sampler)["hwsonde_cpu_busy_sampled_ratio_count"] > 5
    assert [record.getMessage() for record in caplog.records] == [
        "sampler: bad gives nothing: gone",
        "sampler: bad answers again",
    ]


def test_a_source_that_cannot_work_here_is_not_asked() -> None:
    clock, usable = Clock(), [False]
    sampler = sampler_of(clock, source("power", lambda: [(POWER, ("a",), 1.0)]), usable=lambda _: usable[0])
    for _ in range(15):
        clock.now += 0.1
        sampler.tick()
    assert published(sampler) == {}
    assert sampler.counts().errors == {"power": 0}
    usable[0] = True
    for _ in range(15):
        clock.now += 0.1
        sampler.tick()
    assert published(sampler)['hwsonde_power_sampled_watts_count{device="a"}'] >= 5


class Steps:
    """A clock whose sleep moves it, with chosen overshoots; ends the loop after the last one."""

    def __init__(self, overshoots: list[float]) -> None:
        self.now = 1000.0
        self.overshoots = iter(overshoots)
        self.sampler: Sampler | None = None
        self.done = threading.Event()

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        overshoot = next(self.overshoots, None)
        if overshoot is None:
            assert self.sampler is not None
            self.sampler.stop()
            self.done.set()
            return
        self.now += seconds + overshoot


def test_late_ticks_are_dropped_and_counted_and_the_grid_is_kept() -> None:
    steps, seen = Steps([0, 0, 0.31, 0, 0.04, 0.06, 0]), []

    def observe() -> Any:
        seen.append(round(steps.now - 1000.0, 6))
        return [(POWER, ("a",), 1.0)]

    sampler = Sampler(
        {"power": (source("power", observe), lambda: source("power", observe)(None))}, 10.0, steps, sleep=steps.sleep
    )
    steps.sampler = sampler
    sampler.start()
    assert steps.done.wait(5)
    # 0.61 is three ticks late; 0.76 and the tick after 0.74 keep to the grid of tenths.
    assert seen == [0.1, 0.2, 0.61, 0.7, 0.84, 0.96, 1.1]
    assert sampler.counts().late == 4
    assert sampler.counts().ticks == 7


def test_a_source_that_hangs_is_passed_over_until_it_answers() -> None:
    gate, hanging, good = threading.Event(), [], []

    def hang() -> Any:
        hanging.append(1)
        if len(hanging) == 1:
            gate.wait(30)
        return [(BUSY, (), time.monotonic())]

    def observe() -> Any:
        good.append(1)
        return [(POWER, ("a",), 1.0)]

    offset = [0.0]
    kinds = {"a": source("a", hang, BUSY), "b": source("b", observe, POWER)}
    sampler = Sampler(
        {name: (kind, lambda kind=kind: kind(None)) for name, kind in kinds.items()},
        50.0,
        lambda: time.monotonic() + offset[0],
    )
    sampler.start()
    assert _eventually(lambda: bool(hanging))
    assert good == []
    offset[0] += 2.5
    sampler.blocks()
    assert _eventually(lambda: len(good) > 3)
    assert len(hanging) == 1
    assert sampler.counts().errors["a"] == 1
    gate.set()
    assert _eventually(lambda: len(hanging) > 2)
    sampler.stop()
    assert _eventually(lambda: not any(thread.name == "sampler" for thread in threading.enumerate()))


def test_zero_hertz_is_off_and_new_settings_keep_the_moments() -> None:
    kind = source("power", lambda: [(POWER, ("a",), 1.0)], POWER)
    kinds = {"power": (kind, lambda: kind(None))}
    sampler = Sampler(kinds, 0.0, time.monotonic)
    sampler.start()
    assert not any(thread.name == "sampler" for thread in threading.enumerate())
    sampler.configure(kinds, 50.0)
    assert _eventually(lambda: sampler.counts().ticks > 3)
    sampler.configure(kinds, 25.0)
    assert published(sampler)['hwsonde_power_sampled_watts_count{device="a"}'] > 3
    sampler.stop()


def test_a_selection_gives_the_moments_of_these_sources_only() -> None:
    clock = Clock()
    sampler = sampler_of(
        clock,
        source("one", lambda: [(POWER, ("a",), 1.0)], POWER),
        source("two", lambda: [(POWER, ("b",), 1.0)], POWER),
    )
    sampler.tick()
    assert set(sampler.blocks({"two"})) == {"two"}
    assert sampler.blocks(set()) == {}


def _eventually(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()

import os
import time
from pathlib import Path

from hwsonde_exporter.cell import Clocks
from hwsonde_exporter.exporter import Exporter, ExporterSettings
from hwsonde_exporter.exposition import Block, Format, render
from hwsonde_exporter.guard import Guard
from hwsonde_exporter.host import Paths
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import Quantity
from hwsonde_exporter.runner import RunnerSettings
from hwsonde_exporter.sampler import SamplerCounts
from hwsonde_exporter.self_metrics import METRICS, ProcessUse, ScrapeCounts, own_samples, read_process
from hwsonde_exporter.state import State
from tests.exporter.core.fakes import REAL_CLOCKS, collector_kind, heat_of

STATES = [
    State(
        "a",
        "A.",
        None,
        available=True,
        success=True,
        last_success=1.5e9,
        duration=0.01,
        series=3,
        errors={"timeout": 0},
        dropped={"limit": 2},
        rejected=7,
    ),
    State("b", "B.", None, available=False, reason="no_hardware", detail="none"),
    State("c", "C.", None, available=True, success=False, duration=0.5, series=3, errors={"timeout": 4}),
]


def own(**changes):
    arguments = {
        "states": STATES,
        "scrapes": ScrapeCounts(5, 1, 0.25),
        "sampler": SamplerCounts(100, 2, 3, {"a": 1}),
        "process": ProcessUse(1.5, 1 << 20, 12, 1.4e9),
        "reload_success": True,
    } | changes
    return {
        (sample.metric.name.removeprefix("hwsonde_exporter_") + sample.suffix, *sample.labels): sample.value
        for sample in own_samples(**arguments)
    }


def test_every_metric_is_declared_and_given() -> None:
    samples = own_samples(
        STATES,
        ScrapeCounts(5, 1, 0.25, 2, {"tls": 3}),
        SamplerCounts(1, 2, 3, {"a": 1}),
        ProcessUse(1, 2, 3, 4),
        reload_success=True,
    )
    block, dropped = Guard(METRICS, 1000).block(samples)
    assert dropped == {}
    assert {sample.metric for sample in block.samples} == set(METRICS)
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_what_is_said_of_collectors() -> None:
    found = own()
    assert found["collector_available", "a", ""] == 1
    assert found["collector_available", "b", "no_hardware"] == 0
    assert found["collector_success", "c"] == 0
    assert found["collector_errors_total", "c", "timeout"] == 4
    assert found["collector_errors_total", "a", "timeout"] == 0
    assert found["dropped_series_total", "a", "limit"] == 2
    assert found["rejected_readings_total", "a"] == 7
    assert ("rejected_readings_total", "c") not in found
    assert (found["series", "a"], found["series", "c"]) == (3, 0)
    assert found["collector_last_success_timestamp_seconds", "a"] == 1.5e9
    assert [key for key in found if "b" in key[1:]] == [("collector_available", "b", "no_hardware")]


def test_what_is_not_known_is_left_out() -> None:
    found = own(sampler=None, process=ProcessUse(1.0, None, None, 2.0))
    assert not any("sampler" in key[0] or "resident" in key[0] or "fds" in key[0] for key in found)


def test_the_process_reads_its_own_numbers(tmp_path: Path) -> None:
    use = read_process(7.0)
    assert use.resident_bytes is not None
    assert 5e6 < use.resident_bytes < 5e9
    with open(os.devnull) as _, open(os.devnull) as _:
        more = read_process(7.0)
    assert use.descriptors is not None
    assert more.descriptors is not None
    assert more.descriptors >= use.descriptors + 1
    assert use.started == 7.0
    missing = read_process(7.0, tmp_path)
    assert (missing.resident_bytes, missing.descriptors) == (None, None)


SPEED = Quantity(Metric("hwsonde_speed_sampled_hertz", Kind.SUMMARY, "Speed.", (), "hertz"), 1.0, cumulative=False)


def test_the_whole_exporter_answers_with_collectors_moments_and_its_own() -> None:
    kind = collector_kind("heat", heat_of(1.0), observe=lambda: [(SPEED, (), 2.0)], quantities=(SPEED,))
    exporter = Exporter(
        {"heat": kind}, Paths(), ExporterSettings(RunnerSettings(frozenset({"heat"})), 50.0), REAL_CLOCKS
    )
    exporter.start()
    assert exporter.ready
    deadline = time.monotonic() + 5
    while b"hwsonde_speed_sampled_hertz_sum" not in render(exporter.scrape()) and time.monotonic() < deadline:
        time.sleep(0.01)
    exporter.refused()
    text = render(exporter.scrape()).decode()
    assert "hwsonde_exporter_scrapes_refused_total 1\n" in text
    for name in (
        "heat_celsius 1.0",
        "speed_sampled_hertz_count",
        "exporter_sampler_ticks_total",
        "exporter_scrape_duration_seconds_sum",
    ):
        assert f"hwsonde_{name}" in text
    assert render(exporter.scrape({"heat"}), Format.TEXT).count(b"hwsonde_exporter") == 0
    exporter.configure(ExporterSettings(RunnerSettings(frozenset()), 0.0))
    text = render(exporter.scrape()).decode()
    assert 'collector_available{collector="heat",reason="disabled"} 0' in text
    assert "sampler_ticks" not in text
    assert "heat_celsius" not in text
    exporter.stop()
    assert not exporter.ready


def test_sampled_series_have_the_collectors_limit_and_are_counted_with_its_own() -> None:
    watts = Quantity(
        Metric("hwsonde_power_sampled_watts", Kind.SUMMARY, "Power.", ("device",), "watts"), 1.0, cumulative=False
    )
    kind = collector_kind(
        "heat",
        heat_of(1.0),
        observe=lambda: [(watts, (str(device),), 2.0) for device in range(600)],
        quantities=(watts,),
    )
    settings = ExporterSettings(RunnerSettings(frozenset({"heat"}), series_limits={"heat": 20}), 0.1)
    exporter = Exporter({"heat": kind}, Paths(), settings, REAL_CLOCKS)

    def scraped() -> tuple[int, float, float]:
        """Sampled series, and what is said of the collector's series and of those that are dropped."""
        exporter._sampler.tick()
        samples = [sample for block in exporter.scrape() for sample in block.samples]
        own = {(sample.metric.name, *sample.labels): sample.value for sample in samples}
        return (
            sum("_sampled_" in sample.metric.name for sample in samples),
            own["hwsonde_exporter_series", "heat"],
            own.get(("hwsonde_exporter_dropped_series_total", "heat", "limit"), 0),
        )

    assert scraped() == (20, 21, 596 * 5)
    assert scraped() == (20, 21, 2 * 596 * 5)
    exporter.configure(ExporterSettings(RunnerSettings(frozenset({"heat"}), series_limits={"heat": 4000}), 0.1))
    assert scraped() == (3000, 3001, 2 * 596 * 5)
    exporter.stop()


def test_the_time_of_values_is_that_of_those_in_the_same_answer(monkeypatch) -> None:
    """Or a run that ends while a scrape is answered would give the old values the new time, and no later scrape would tell."""
    runs = [0]

    def collect() -> list[Sample]:
        runs[0] += 1
        return heat_of(float(runs[0]))()

    exporter = Exporter(
        {"slow": collector_kind("slow", collect, period=0.01)},
        Paths(),
        ExporterSettings(RunnerSettings(frozenset({"slow"})), 0.0),
        Clocks(time.monotonic, lambda: float(runs[0])),
    )
    exporter.start()
    exporter.settle(5)

    def meanwhile(_names: object) -> dict[str, Block]:
        """What comes between the collectors' values and the exporter's own: here, two more runs."""
        before, deadline = runs[0], time.monotonic() + 5
        while runs[0] < before + 3 and time.monotonic() < deadline:
            time.sleep(0.001)
        assert runs[0] > before
        return {}

    monkeypatch.setattr(exporter._sampler, "blocks", meanwhile)
    found = {
        (sample.metric.name, *sample.labels): sample.value for block in exporter.scrape() for sample in block.samples
    }
    exporter.stop()
    time_of_values = found["hwsonde_exporter_collector_last_success_timestamp_seconds", "slow"]
    assert time_of_values == found["hwsonde_heat_celsius",]


def test_a_constant_set_of_series_is_compiled_once() -> None:
    exporter = Exporter({}, Paths(), ExporterSettings(RunnerSettings(frozenset()), 0.0), REAL_CLOCKS)
    first, second = exporter.scrape(), exporter.scrape()
    assert second[-1].shape is first[-1].shape
    assert isinstance(first[-1].samples[0], Sample)

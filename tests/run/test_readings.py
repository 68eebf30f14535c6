"""What the quick start makes of Prometheus's answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quickstart.pages import EventLog, PageBook, delivered, parse_event
from quickstart.readings import (
    DETECTOR_ERRORS,
    EXPORTER_ERRORS,
    SCRAPE_SECONDS,
    WINDOWS,
    Monitor,
    Series,
    decode,
    selector,
)

START = 1000.0
READ_ERRORS = "hwsonde_detector_read_errors_total"


def series(name: str, values: list[tuple[float, float]], **labels: str) -> Series:
    return Series(name, labels, tuple(time for time, _ in values), tuple(value for _, value in values))


def test_health_of_a_run() -> None:
    found = [
        series("scrape_samples_scraped", [(1009, 400)], job="hwsonde-exporter"),
        series("scrape_samples_scraped", [(1009, 90)], job="hwsonde-detector"),
        series("hwsonde_exporter_collector_success", [(1009, 1)], collector="cpu"),
        series("hwsonde_exporter_collector_success", [(1009, 0)], collector="memory"),
        series("hwsonde_exporter_collector_success", [(1009, 1)], collector="storage"),
        series(WINDOWS, [(1008, 10), (1009, 11)]),
        series("hwsonde_anomaly_score", [(1007, 0.5), (1008, 2.5), (1009, 1.5)], detector="fused"),
        series("hwsonde_anomaly_score", [(1009, 9.0)], detector="zscore"),
        series("hwsonde_anomaly_subsystem_score", [(1009, 1.1)], subsystem="cpu"),
        series("hwsonde_anomaly_subsystem_score", [(1009, 0.4)], subsystem="memory"),
        series("hwsonde_anomaly_calibrated", [(1009, 1)]),
        series("hwsonde_anomaly_learning_rows", [(1009, 240)]),
        series("hwsonde_anomaly_learning_rows_needed", [(1009, 240)]),
        series("ALERTS", [(1009, 1)], alertstate="firing", alertname="HwsondeHostAnomaly", severity="critical"),
        series("ALERTS", [(1009, 1)], alertstate="pending", alertname="HwsondeExporterDown", severity="critical"),
        series("ALERTS", [(1009, 1)], alertstate="firing", alertname="HwsondeWatchdog", severity="info"),
        series("ALERTS", [(1009, 1)], alertstate="firing", alertname="HwsondeClockOffset", severity="warning"),
        series("hwsonde_incident_active", [(1009, 1)], subsystem="cpu"),
    ]
    health = Monitor(START, START).update(found, 1010)
    assert (health.exporter_series, health.collectors_ok, health.windows_scored) == (400, 2, 11)
    assert (health.score, health.max_score, health.subsystem, health.calibrated) == (1.5, 2.5, "cpu", True)
    assert (health.alerts_firing, health.incidents, health.errors) == (1, ("cpu",), 0)
    assert (health.learning_rows, health.learning_needed) == (240, 240)


def test_nothing_is_known_of_a_silent_stack() -> None:
    health = Monitor(START, START).update([], 1010)
    assert health.score is None
    assert not health.calibrated
    assert (health.exporter_series, health.errors, health.learning_needed) == (0, 0, 0)


def test_samples_of_an_earlier_run_are_not_looked_at() -> None:
    monitor = Monitor(START, START)
    health = monitor.update(
        [series("hwsonde_anomaly_score", [(998, 7.0), (999, 8.0)], detector="fused"), series(WINDOWS, [(999, 500)])],
        1001,
    )
    assert (health.score, health.max_score, health.windows_scored) == (None, 0.0, 0)


def test_what_stopped_a_while_ago_is_not_the_present() -> None:
    health = Monitor(START, START).update([series("hwsonde_incident_active", [(1005, 1)], subsystem="cpu")], 1009.5)
    assert health.incidents == ()


def test_errors_are_counted_once_and_over_restarts() -> None:
    monitor = Monitor(START, START)
    name = READ_ERRORS
    assert monitor.update([series(name, [(1001, 0), (1002, 2)], reason="refused")], 1003).errors == 2
    assert monitor.update([series(name, [(1001, 0), (1002, 2), (1003, 3)], reason="refused")], 1004).errors == 3
    # The program began anew, and failed once already.
    assert monitor.update([series(name, [(1003, 3), (1005, 1)], reason="refused")], 1006).errors == 4


def test_a_collector_that_cannot_work_here_is_no_error() -> None:
    monitor = Monitor(START, START)
    found = [
        series(EXPORTER_ERRORS, [(1001, 5)], collector="gpu", reason="no_hardware"),
        series(EXPORTER_ERRORS, [(1001, 1)], collector="cpu", reason="read_error"),
    ]
    assert monitor.update(found, 1002).errors == 1


def test_failed_scrapes_count_once_everything_had_come_up() -> None:
    monitor = Monitor(START, settled=1003)
    up = series("up", [(1001, 0), (1002, 0), (1003, 1), (1004, 0), (1005, 1)], job="hwsonde-detector")
    assert monitor.update([up], 1005).errors == 1
    assert monitor.update([up], 1006).errors == 1


def test_every_counted_error_is_named() -> None:
    monitor = Monitor(START, START)
    found = [series(name, [(1001, 1)]) for name in DETECTOR_ERRORS]
    found += [
        series(EXPORTER_ERRORS, [(1001, 0), (1002, 2), (1003, 3)], collector="cpu", reason="timeout"),
        series(EXPORTER_ERRORS, [(1001, 1)], collector="storage", reason="read_error"),
        series("up", [(1002, 0)], job="hwsonde-exporter"),
    ]
    health = monitor.update(found, 1004)
    assert [(one.time, one.words, one.number, one.late) for one in health.news] == [
        (1001, "the detector could not read Prometheus", 1, False),
        (1001, "a step of the detector failed", 1, False),
        (1001, "the detector could not save its state", 1, False),
        (1002, "collector cpu of the exporter failed (timeout)", 2, True),
        (1003, "collector cpu of the exporter failed (timeout)", 1, True),
        (1001, "collector storage of the exporter failed (read_error)", 1, False),
        (1002, "the scrape of hwsonde-exporter failed", 1, False),
    ]
    assert (health.errors, health.late) == (sum(one.number for one in health.news), 3)
    again = monitor.update(found, 1005)
    assert (again.news, again.errors, again.late) == ((), health.errors, 3)


def test_a_scrape_that_came_too_late_is_told_from_one_that_was_refused() -> None:
    labels = {"job": "hwsonde-exporter", "instance": "127.0.0.1:1"}
    other = {**labels, "instance": "127.0.0.1:2"}
    found = [
        series("up", [(1001, 0), (1002, 0), (1003, 1)], **labels),
        series("up", [(1001, 0)], **other),
        series(SCRAPE_SECONDS, [(1001, 0.001), (1002, 0.4503), (1003, 0.46)], **labels),
        series(SCRAPE_SECONDS, [(1001, 0.4501)], **other),
    ]
    health = Monitor(START, START, 0.45).update(found, 1004)
    assert [(one.time, one.words, one.late) for one in health.news] == [
        (1001, "the scrape of hwsonde-exporter failed", False),
        (1002, "the scrape of hwsonde-exporter was not answered within 0.45 s", True),
        (1001, "the scrape of hwsonde-exporter was not answered within 0.45 s", True),
    ]
    assert (health.errors, health.late) == (3, 2)


def test_the_newest_scrape_is_known_whether_it_failed_or_not() -> None:
    monitor = Monitor(START, START)
    monitor.update([], 1001)
    assert monitor.newest == 0
    monitor.update([series("up", [(998, 1)], job="a")], 1001)
    assert monitor.newest == 0, "that was an earlier run"
    monitor.update([series("up", [(1001, 1), (1002, 0)], job="a"), series("up", [(1001, 1)], job="b")], 1003)
    assert monitor.newest == 1002
    monitor.update([], 1004)
    assert monitor.newest == 1002


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(1, 9))
def test_looking_often_or_seldom_counts_the_same(steps: list[int], every: int) -> None:
    total, values = 0, []
    for second, step in enumerate(steps):
        total += step
        values.append((START + second, float(total)))
    monitor = Monitor(START, START)
    errors = 0
    for stop in [*range(every, len(values), every), len(values)]:
        errors = monitor.update([series(READ_ERRORS, values[:stop], reason="refused")], START + stop).errors
    assert errors == total


def test_decode() -> None:
    found: dict[str, Any] = {"metric": {"__name__": "up", "job": "a"}, "values": [[1.5, "1"], [2.5, "NaN"]]}
    one = decode(found)
    assert (one.name, one.labels, one.times) == ("up", {"job": "a"}, (1.5, 2.5))
    assert one.values[1] != one.values[1]


def test_the_selector_asks_for_raw_samples() -> None:
    assert selector(["a", "b"], 5) == '{__name__=~"a|b",job=~"hwsonde-exporter|hwsonde-detector|"}[5s]'


TRIGGER = (
    '{"received": 5.5, "ok": true, "status": 202, "errors": [], "body": {"event_action": "trigger", "dedup_key": "k",'
    ' "payload": {"summary": "s", "class": "HwsondeHostAnomaly", "component": "cpu"}}}\n'
)
RESOLVE = '{"received": 9.5, "ok": true, "status": 202, "errors": [], "body": {"event_action": "resolve", "dedup_key": "k"}}\n'
REFUSED = '{"received": 5.5, "ok": false, "status": 400, "errors": ["no"], "body": null}\n'


def test_events_are_read_line_by_line(tmp_path: Any) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(TRIGGER, encoding="utf-8")
    log = EventLog(path)
    assert log.new() == []
    with path.open("a", encoding="utf-8") as file:
        file.write(REFUSED + TRIGGER + RESOLVE[:20])
        file.flush()
        assert [event.action for event in log.new()] == ["trigger"]
        file.write(RESOLVE[20:])
        file.flush()
        assert [(event.action, event.key, event.received) for event in log.new()] == [("resolve", "k", 9.5)]
    assert log.new() == []


def test_lines_that_are_no_events_are_passed_over(tmp_path: Any) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path)
    # A full disk cut the first line short; the next one was written behind it.
    path.write_bytes(TRIGGER[:30].encode() + RESOLVE.encode() + b"5\n[]\n{}\n\xff\xfe\n" + TRIGGER.encode())
    assert [event.action for event in log.new()] == ["trigger"]


def test_a_log_that_does_not_exist_yet(tmp_path: Any) -> None:
    log = EventLog(tmp_path / "none")
    assert log.new() == []
    (tmp_path / "none").write_text(TRIGGER, encoding="utf-8")
    assert [event.subsystem for event in log.new()] == ["cpu"]


def test_pages_are_counted_as_the_one_on_call_does() -> None:
    book = PageBook()
    trigger, resolve = (parse_event(line) for line in (TRIGGER, RESOLVE))
    assert trigger is not None
    assert resolve is not None
    book.add([trigger, trigger, resolve, trigger])
    assert (book.sent, book.open) == (2, {"k"})


def test_deliveries_are_what_did_not_fail() -> None:
    text = (
        "# TYPE alertmanager_notifications_total counter\n"
        'alertmanager_notifications_total{integration="email"} 7\n'
        'alertmanager_notifications_total{integration="pagerduty"} 5\n'
        'alertmanager_notifications_failed_total{integration="pagerduty",reason="clientError"} 1\n'
        'alertmanager_notifications_failed_total{integration="pagerduty",reason="serverError"} 1\n'
    )
    assert delivered(text) == 3
    assert delivered("") == 0


@pytest.mark.parametrize("value", [-1.0, 0.0])
def test_a_series_without_growth_counts_nothing(value: float) -> None:
    monitor = Monitor(START, START)
    health = monitor.update(
        [series("up", [(1001, 1)]), series("hwsonde_anomaly_score", [(1001, value)], detector="fused")], 1002
    )
    assert (health.errors, health.max_score) == (0, 0.0)

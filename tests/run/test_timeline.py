"""What the demo calls a success."""

from __future__ import annotations

from quickstart.pages import Event
from quickstart.readings import Series
from quickstart.timeline import Timeline

UNRESOLVED = "the page was not resolved in time: the detector's page says what still deviates"

PAGE = Event(104.0, "trigger", "k", "host: cpu deviates", "HwsondeHostAnomaly", "cpu")
RESOLVE = Event(140.0, "resolve", "k", "", "", "")


def score(*samples: tuple[float, float]) -> Series:
    return Series(
        "hwsonde_anomaly_score", {"detector": "fused"}, tuple(t for t, _ in samples), tuple(v for _, v in samples)
    )


def alert(time: float) -> Series:
    labels = {"alertname": "HwsondeHostAnomaly", "alertstate": "firing", "subsystem": "cpu"}
    return Series("ALERTS", labels, (time,), (1.0,))


def test_a_fault_that_is_found_paged_and_resolved() -> None:
    line = Timeline(100.0, "cpu")
    assert line.see([score((99.0, 5.0), (100.5, 0.4))], []) == []
    assert line.see([score((101.5, 3.0)), alert(103.0)], []) == [
        "    +1.5 s  first score above 1",
        "    +3.0 s  alert firing: HwsondeHostAnomaly, subsystem cpu",
    ]
    assert line.see([score((101.5, 3.0), (102.5, 4.0)), alert(103.0)], [PAGE, PAGE]) == [
        "    +4.0 s  page: host: cpu deviates"
    ]
    assert line.see([], [RESOLVE]) == ["   +40.0 s  resolve, with the page's key"]
    assert line.peak == 4.0
    assert line.problems() == []


def test_no_page() -> None:
    line = Timeline(100.0, "cpu")
    line.see([score((101.0, 1.5))], [])
    assert line.problems() == ["no page came (highest score 1.50)"]


def test_wrong_subsystem_and_no_resolve() -> None:
    line = Timeline(100.0, "storage")
    line.see([], [PAGE])
    assert line.problems() == ["the page names cpu, not storage", UNRESOLVED]


def test_a_resolve_with_another_key_is_not_the_page_s() -> None:
    line = Timeline(100.0, "cpu")
    line.see([], [PAGE, RESOLVE._replace(key="other")])
    assert line.problems() == [UNRESOLVED, "1 other events came: resolve"]


def test_a_second_page_is_a_failure() -> None:
    line = Timeline(100.0, "cpu")
    line.see([], [PAGE, PAGE._replace(key="other", summary="another")])
    line.see([], [RESOLVE])
    assert line.problems() == ["1 other events came: trigger another"]

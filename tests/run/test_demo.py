"""What the demo waits for before it makes a fault, and what it says of that."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from quickstart import demo
from quickstart.errors import QuickstartError
from quickstart.faults import Plan
from quickstart.layout import Options, Ports
from quickstart.pages import Event
from quickstart.readings import Health
from quickstart.stack import Stack
from quickstart.timeline import Timeline
from quickstart.watch import LiveLine, Watch

CALM = Health(windows_scored=60, score=0.4, calibrated=True)
FIRING = replace(CALM, alerts_firing=1)


class Scripted(Watch):
    """Health by the second; each look is a second later."""

    def __init__(self, stack: Stack, health: Callable[[int], Health]) -> None:
        super().__init__(stack)
        self._by_second, self.seconds = health, 0
        self.health = health(0)

    def look(self) -> list[Event]:
        self.seconds += 1
        self.health = self._by_second(self.seconds)
        return []


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[int], Health]], Scripted]:
    def make(health: Callable[[int], Health]) -> Scripted:
        watch = Scripted(Stack(Options(tmp_path, Ports.from_base(21000), "n1"), lambda _: None), health)
        monkeypatch.setattr(time, "sleep", lambda _: None)
        monkeypatch.setattr(time, "monotonic", lambda: 1000.0 + watch.seconds)
        return watch

    return make


Make = Callable[[Callable[[int], Health]], Scripted]


def test_a_host_at_rest_is_not_waited_for_long(script: Make) -> None:
    said = io.StringIO()
    watch = script(lambda _: CALM)
    demo.wait_quiet(watch, LiveLine(said))
    assert watch.seconds == demo.QUIET_LOOKS
    assert "Before a fault" not in said.getvalue()


def test_an_alert_of_an_earlier_fault_is_waited_for_and_named_once(script: Make) -> None:
    said = io.StringIO()
    watch = script(lambda second: FIRING if second < 60 else CALM)
    demo.wait_quiet(watch, LiveLine(said))
    assert watch.seconds == 60 + demo.QUIET_LOOKS
    assert said.getvalue().count("Before a fault is made: an alert of something earlier is still firing.") == 1


def test_what_does_not_end_is_named_when_the_demo_gives_up(script: Make) -> None:
    watch = script(lambda _: FIRING)
    with pytest.raises(QuickstartError, match="still firing"):
        demo.wait_quiet(watch, LiveLine(io.StringIO()), patience=30.0)


def test_a_host_that_is_quiet_only_for_moments_is_said_to_be_so(script: Make) -> None:
    watch = script(lambda second: CALM if second % 4 else FIRING)
    with pytest.raises(QuickstartError, match="does not come to rest"):
        demo.wait_quiet(watch, LiveLine(io.StringIO()), patience=50.0)


@pytest.mark.parametrize(
    ("health", "words"),
    [
        (Health(), "0 of 12 windows"),
        (replace(CALM, windows_scored=11), "11 of 12 windows"),
        (replace(CALM, incidents=("cpu", "memory"), score=1.25), r"open \(cpu, memory\), score 1.25"),
        (FIRING, "still firing"),
        (replace(CALM, score=1.0), "1.00, not below"),
    ],
)
def test_each_unrest_has_words(script: Make, health: Health, words: str) -> None:
    with pytest.raises(QuickstartError, match=words):
        demo.wait_quiet(script(lambda _: health), LiveLine(io.StringIO()), patience=1.0)


def test_an_open_page_is_waited_for(script: Make) -> None:
    watch = script(lambda _: CALM)
    watch.book.open.add("a key")
    with pytest.raises(QuickstartError, match="not resolved yet"):
        demo.wait_quiet(watch, LiveLine(io.StringIO()), patience=1.0)


@pytest.mark.parametrize("page", [None, Event(7.0, "trigger", "key", "cpu deviates", "HwsondeHostAnomaly", "cpu")])
def test_who_saw_no_page_is_told_why_that_can_be(
    script: Make, monkeypatch: pytest.MonkeyPatch, page: Event | None
) -> None:
    said: list[str] = []
    watch = script(lambda _: CALM)
    line = Timeline(0.0, "cpu", page=page, peak=1.14)
    monkeypatch.setattr(demo, "Watch", lambda _: watch)
    monkeypatch.setattr(demo, "watch_fault", lambda *_: line)
    plan = Plan("memory", "cpu", 1, "a fault")
    assert demo.run(watch.stack, plan, 25.0, LiveLine(io.StringIO()), said.append) == 1
    if page is None:
        assert said == ["demo failed: no page came (highest score 1.14)", demo.MISSED]
    else:
        assert said == ["demo failed: the page was not resolved in time: the detector's page says what still deviates"]

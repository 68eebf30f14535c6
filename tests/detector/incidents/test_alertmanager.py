"""Alertmanager beside the loop: what it said is known at once, nobody waits, and silence of its own ends no silence."""

from __future__ import annotations

import threading

from hwsonde_detector.errors import SourceUnreachable
from hwsonde_detector.incidents.alertmanager import Follower
from hwsonde_detector.incidents.entry import entry_of
from hwsonde_detector.types.alerts import Alert
from hwsonde_detector.types.guidance import Matcher, Normal
from tests.detector.web.data import NOW, StillClock

from .made import episode

MARKER = (Matcher("hwsonde_normal", "true"),)
SILENCE = Normal((Matcher("node", "node17"),), NOW, NOW + 1000, "silence", "silence 1")
OWN = Alert((("alertname", "A"), ("cluster", "a"), ("node", "node17")), "active", NOW, "busy")
ENTRY = entry_of(episode(NOW), NOW)


class Fake:
    def __init__(self) -> None:
        self.failing, self.asked, self.wait, self.closed = False, 0, threading.Event(), False
        self.wait.set()

    def alerts(self):
        self.wait.wait(5)
        self.asked += 1
        if self.failing:
            raise SourceUnreachable("/etc/token: no", shown="Alertmanager cannot be asked; check alertmanager.url")
        return (OWN, Alert((("alertname", "B"), ("node", "node18")), "active", NOW))

    def silences(self, marker, labels):
        assert (marker, labels) == (MARKER, {"cluster", "node"})
        return (SILENCE,)

    def close(self) -> None:
        self.closed = True


def follower(fake: Fake, marker=MARKER) -> tuple[Follower, StillClock]:
    clock = StillClock()
    return Follower(fake, clock, 0.01, marker, ("cluster", "node")), clock


def test_only_the_hosts_own_alerts_are_shown() -> None:
    one, clock = follower(Fake())
    assert one.of(ENTRY)["sentence"].startswith("Not known: Alertmanager has not answered yet")
    one.ask()
    clock.now += 7000
    said = one.of(ENTRY)
    assert said["sentence"] == "1 alert of this host, by Alertmanager 7 s ago."
    assert [alert["name"] for alert in said["alerts"]] == ["A"]


def test_what_was_said_stays_while_it_does_not_answer(caplog) -> None:
    fake = Fake()
    one, _ = follower(fake)
    one.ask()
    fake.failing = True
    for _ in range(3):
        one.ask()
    assert one.normal() == (SILENCE,)
    assert "since then it does not answer" in one.of(ENTRY)["sentence"]
    assert one.of(ENTRY)["state"] == "failing"
    assert "/etc/token" not in one.of(ENTRY)["sentence"], "clients learn no file of this host"
    assert [record.message for record in caplog.records] == ["alertmanager: /etc/token: no"]


def test_without_a_matcher_silences_are_not_asked_for() -> None:
    one, _ = follower(Fake(), ())
    one.ask()
    assert one.normal() == ()


def test_nobody_waits_for_it() -> None:
    fake = Fake()
    fake.wait.clear()
    one, _ = follower(fake)
    one.start()
    assert one.normal() == ()
    assert one.of(ENTRY)["state"] == "not yet"
    fake.wait.set()
    for _ in range(500):
        if fake.asked > 2:
            break
        threading.Event().wait(0.01)
    one.stop()
    assert fake.asked > 2
    assert fake.closed


def test_a_host_that_is_named_by_its_instance_has_alerts() -> None:
    labels = {"cluster": "a", "instance": "node17:9100"}
    fake = Fake()
    fake.alerts = lambda: tuple(  # type: ignore[method-assign]
        Alert(tuple(sorted({"alertname": name, **labels, **more}.items())), "active", NOW)
        for name, more in (
            ("A", {}),
            ("B", {"node": "node18"}),
            ("C", {"instance": "node1:9100"}),
            ("D", {"cluster": "b"}),
        )
    )
    one, _ = follower(fake)
    one.ask()
    assert [alert["name"] for alert in one.of(ENTRY)["alerts"]] == ["A"]

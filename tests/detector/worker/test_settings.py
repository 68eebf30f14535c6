"""Settings that differ among hosts, and settings that changed before an episode, from samples to reports."""

from __future__ import annotations

import pytest

from hwsonde_detector.plan import fingerprints
from hwsonde_detector.types import SettingFinding
from hwsonde_detector.worker import restore, snapshot
from tests.detector.worker.fleets import (
    PLAN,
    START_MS,
    Fleet,
    entity,
    patient,
    play,
    raised,
    reports,
    told,
)

# Settings are in one batch of thirty, so that this is seen 20 s late.
CHANGED, SEEN = 100, 120


def rows(host: int, second: int):
    yield "memory.swappiness", "", "60" if host == 3 else "10"
    yield "network.mtu_bytes", "eth0", "9000"
    yield "cpu.governor", "", "powersave" if host == 5 and second >= CHANGED else "performance"


def test_a_setting_of_one_of_eight_is_named_with_both_values_and_how_many_have_which() -> None:
    _, outputs = play(Fleet(seconds=70, infos=rows).ticks())
    assert reports(outputs, 3)[-1].settings == (
        SettingFinding(entity(3), "memory.swappiness", "", "60", usual="10", agree=7, peers=7),
    )
    for host in (1, 2, 4, 5, 6, 7, 8):
        assert reports(outputs, host)[-1].settings == ()


def test_three_hosts_have_no_usual_value() -> None:
    _, outputs = play(Fleet(seconds=70, hosts=3, infos=rows).ticks())
    assert not any(report.settings for report in reports(outputs, 3))


def test_a_setting_that_changed_before_an_episode_is_evidence() -> None:
    fault = raised((5,), ("cpu_0", "cpu_1", "cpu_2"), 160, 180, 60.0)
    _, outputs = play(Fleet(seconds=180, infos=rows).ticks(fault))
    (event,) = told(outputs)
    assert event.episode.entity == entity(5)
    assert event.episode.settings == (
        SettingFinding(
            entity(5),
            "cpu.governor",
            "",
            "powersave",
            "performance",
            7,
            7,
            "performance",
            START_MS + 1000 * SEEN + 500,
        ),
    )
    assert reports(outputs, 5)[-1].settings == event.episode.settings


def test_a_change_is_told_for_as_long_as_configured_and_then_still_differs() -> None:
    plan = patient(PLAN, settings_before_ms=20_000)
    _, outputs = play(Fleet(seconds=150, infos=rows).ticks(), plan=plan)
    second = {(report.scores[-1].end_ms - START_MS) // 1000: report for report in reports(outputs, 5) if report.scores}
    assert second[125].settings[0].changed_at_ms is not None
    assert second[145].settings[0].changed_at_ms is None
    assert second[145].settings[0].usual == "performance"


def test_settings_outlive_a_restart() -> None:
    ticks = Fleet(seconds=150, infos=rows).ticks()
    state, _ = play(ticks[:95])
    _, outputs = play(ticks[92:], restore(*snapshot(state), PLAN))
    (finding,) = reports(outputs, 5)[-1].settings
    assert (finding.previous, finding.changed_at_ms) == ("performance", START_MS + 1000 * SEEN + 500)
    assert reports(outputs, 3)[0].settings[0].setting == "memory.swappiness"


def test_switched_off_nothing_is_said() -> None:
    _, outputs = play(Fleet(seconds=70, infos=rows).ticks(), plan=patient(PLAN, enabled=False))
    assert not any(report.settings for report in reports(outputs, 3))


@pytest.mark.parametrize("changes", [{"enabled": False}, {"minimum": 6}, {"by": ("rack",)}])
def test_what_is_compared_shapes_no_model(changes) -> None:
    assert fingerprints(patient(PLAN, **changes)) == fingerprints(PLAN)

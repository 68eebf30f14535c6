"""Workloads that begin, end, change phase and return, and levels that shift: what is paged, what is not, and for how long."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hwsonde_detector.hoststate import restore_host, snapshot_host
from hwsonde_detector.settings import LearningSettings
from hwsonde_detector.types import EpisodeEvent, Outputs, Phase, Subsystem
from hwsonde_detector.worker import restore, snapshot
from tests.detector.worker.hosts import ENTITY, START_MS, events, healthy, play, scores, second_of
from tests.detector.worker.jobs import (
    ERRORS,
    JOB_SETTINGS,
    REGIMES,
    changes,
    plan_for,
    settling,
    ticks,
    used_by,
    within,
)
from tests.detector.worker.many import spread

WIDTH = JOB_SETTINGS.window.rows
# Rows until a former regime is recognised: a window lies in it wholly after its width less one, and must be quiet for so many rows.
RECOGNISED = WIDTH - 1 + REGIMES.confirm_rows


def turns(outputs: list[Outputs]) -> list[EpisodeEvent]:
    return [event for event in events(outputs) if event.phase is not Phase.CHANGED]


def loud(outputs: list[Outputs], begin: int, end: int) -> float:
    """Share of windows above 1."""
    return float(np.mean([score.fused >= 1 for score in scores(outputs) if begin <= second_of(score.end_ms) < end]))


def test_a_workload_that_starts_is_learned_and_does_not_page() -> None:
    spans = [(300, 700)]
    state, outputs = play(ticks(700, used_by(spans), {"job:1": spans}), plan_for())
    assert not events(outputs)
    # It was far from what had been learned, and is known after the stated rows.
    assert loud(outputs, 303, 410) > 0.9
    assert loud(outputs, 300 + REGIMES.learn_rows + 5, 700) < 0.03
    (learned,) = changes(outputs)
    assert learned == ("learned", 300 + REGIMES.learn_rows - 1)
    told = settling(outputs)
    assert {second for second, reason in told.items() if reason} == set(range(300, 300 + REGIMES.learn_rows - 1))
    assert set(told.values()) == {"start", ""}
    assert all(score.calibrated for score in scores(outputs) if second_of(score.end_ms) > 150)
    assert len(state.hosts[ENTITY].regimes.former) == 1
    excused = sum(report.excused.get("start", 0) for output in outputs for report in output.reports)
    assert excused == sum(score.fused >= 1 for score in scores(outputs) if 300 <= second_of(score.end_ms) < 420)


def test_without_a_mark_the_same_pages() -> None:
    _, outputs = play(ticks(360, used_by([(300, 360)]), {}), plan_for())
    assert [event.phase for event in turns(outputs)] == [Phase.OPENED]


def test_a_returning_regime_is_recognised_at_once() -> None:
    spans = [(300, 560), (760, 900)]
    marks = {"job:1": spans[:1], "job:2": spans[1:]}
    _, outputs = play(ticks(1000, used_by(spans), marks), plan_for())
    assert not events(outputs)
    found = changes(outputs)
    assert [change for change, _ in found] == ["learned", "returned", "returned", "returned"]
    for (_, second), border in zip(found[1:], (560, 760, 900), strict=True):
        assert border <= second <= border + RECOGNISED
        assert loud(outputs, second + 1, second + 60) < 0.05


@pytest.mark.slow
def test_without_any_mark_a_returning_regime_is_still_recognised() -> None:
    """It was learned while nothing paged yet; the next ones are told by their rows alone."""
    spans = [(300, 620), (760, 900)]
    _, outputs = play(ticks(900, used_by(spans), {}), plan_for())
    said = [(event.phase, event.episode.because) for event in turns(outputs)]
    # The first time it is an episode, that lasts and becomes normal.
    assert said == [(Phase.OPENED, ""), (Phase.CLOSED, "new normal")]
    assert [change for change, _ in changes(outputs)] == ["rebased", "returned", "returned"]


@pytest.mark.parametrize("after", [0, 5, 60])
def test_a_fault_that_no_workload_explains_pages_at_any_time(after: int) -> None:
    spans = [(300, 500)]
    errors = [(300 + after, 340 + after)]
    _, outputs = play(ticks(500, used_by(spans), {"job:1": spans}, errors), plan_for())
    opened, closed = turns(outputs)
    assert (opened.phase, closed.phase) == (Phase.OPENED, Phase.CLOSED)
    assert 0 <= second_of(opened.at_ms) - (300 + after) <= 6
    assert opened.episode.subsystem is Subsystem.MEMORY
    assert [part.channel.name for part in opened.episode.top] == [ERRORS]
    assert ERRORS in opened.episode.title
    assert second_of(closed.at_ms) - (340 + after) <= JOB_SETTINGS.episodes.clear_windows + WIDTH + 1
    # The workload is learned all the same, and the errors are not.
    assert ("learned", 300 + REGIMES.learn_rows - 1) in changes(outputs)


def test_a_hiccup_of_a_fault_while_a_workload_is_learned_does_not_page() -> None:
    spans = [(300, 500)]
    _, outputs = play(ticks(420, used_by(spans), {"job:1": spans}, [(305, 306), (330, 331)]), plan_for())
    assert not events(outputs)


@pytest.mark.slow
def test_what_a_workload_explains_waits_while_one_is_learned_and_pages_later() -> None:
    spans = [(300, 800)]
    begins = {"storage": 320, "memory": 720}

    def fault(name: str, second: int, value: float) -> float:
        begin = begins.get(name.split("_", maxsplit=1)[0], 800)
        return value * 4 if begin <= second < begin + 30 else value

    _, outputs = play(ticks(800, used_by(spans, also=fault), {"job:1": spans}), plan_for())
    opened, _ = turns(outputs)
    assert 720 <= second_of(opened.at_ms) <= 726
    assert opened.episode.subsystem is Subsystem.MEMORY


def test_a_lasting_shift_pages_once_and_is_quiet_after_the_stated_rows() -> None:
    spans = [(300, 800)]
    _, outputs = play(ticks(950, used_by(spans), {}), plan_for())
    opened, closed = turns(outputs)
    assert second_of(opened.at_ms) <= 306
    assert closed.episode.because == "new normal"
    assert closed.episode.title.endswith("; closed: new normal")
    since = second_of(closed.at_ms) - second_of(opened.at_ms)
    assert REGIMES.rebase_rows - 1 <= since <= REGIMES.rebase_rows + 2
    assert loud(outputs, second_of(closed.at_ms) + 1, 800) < 0.03
    # Back to what it was: known.
    assert [change for change, _ in changes(outputs)] == ["rebased", "returned"]


def test_what_no_workload_explains_never_becomes_normal() -> None:
    fault = used_by([(300, 900)], also=healthy)
    _, outputs = play(ticks(700, fault, {}, [(300, 700)]), plan_for())
    assert [event.phase for event in turns(outputs)] == [Phase.OPENED]


def test_an_episode_that_is_not_steady_does_not_become_normal() -> None:
    def worse(name: str, second: int, value: float) -> float:
        return value * (1 + (second - 300) / 20) if name in {"cpu_1", "cpu_2", "cpu_3"} and second >= 300 else value

    _, outputs = play(ticks(600, worse, {}), plan_for())
    assert [event.phase for event in turns(outputs)] == [Phase.OPENED]


@pytest.mark.slow
def test_a_slow_drift_is_followed() -> None:
    settings = replace(JOB_SETTINGS, learning=LearningSettings(40, 120, 400, 0.5, 30, 600))

    def drift(name: str, second: int, value: float) -> float:
        return value + 0.03 * max(second - 200, 0) if name.startswith("cpu") else value

    _, outputs = play(ticks(1400, drift, {}), plan_for(settings))
    # 36 in the end, twelve deviations of what was learned first.
    assert not events(outputs)
    assert loud(outputs, 1000, 1400) < 0.1


def test_a_mark_that_comes_late_takes_the_page_back() -> None:
    _, outputs = play(ticks(600, used_by([(300, 600)]), {"job:1": [(310, 600)]}), plan_for())
    opened, closed = turns(outputs)
    assert second_of(opened.at_ms) <= 306
    assert (second_of(closed.at_ms), closed.episode.because) == (310, "workload started")
    assert ("learned", 310 + REGIMES.learn_rows - 1) in changes(outputs)


@pytest.mark.parametrize(
    ("seconds", "after", "taken"),
    [(1, 15, True), (1, 16, False), (5, 3, True), (5, 4, False), (15, 2, True), (15, 3, False)],
)
def test_a_mark_may_come_fifteen_seconds_late_or_two_scrapes(seconds: int, after: int, *, taken: bool) -> None:
    used = used_by([(300, 340)])
    (opened,) = turns(play(spread(ticks(312, used, {}), seconds), plan_for())[1])
    row = second_of(opened.at_ms) // seconds
    assert 300 <= row <= 306
    marked = ticks(340, used, {"job:1": [(row + after, 340)]})
    told = turns(play(spread(marked, seconds), plan_for())[1])
    assert [event.episode.because for event in told] == (["", "workload started"] if taken else [""])


def test_a_workload_that_starts_in_an_old_episode_does_not_end_it() -> None:
    def fault(name: str, second: int, value: float) -> float:
        return value * 4 if name.startswith("storage") and 300 <= second < 400 else value

    _, outputs = play(ticks(440, fault, {"job:1": [(340, 440)]}), plan_for())
    _, closed = turns(outputs)
    assert closed.episode.because == ""
    assert second_of(closed.at_ms) >= 400


def test_the_end_of_a_workload_does_not_explain_what_began_before() -> None:
    spans = [(300, 803)]

    def fault(name: str, second: int, value: float) -> float:
        return value * 4 if name.startswith("storage") and 800 <= second < 830 else value

    _, outputs = play(ticks(860, used_by(spans, also=fault), {"job:1": spans}), plan_for())
    opened = turns(outputs)[0]
    assert 800 <= second_of(opened.at_ms) <= 806
    assert opened.episode.subsystem is Subsystem.STORAGE


def test_a_job_that_hangs_is_not_taken_for_an_idle_host() -> None:
    spans = [(300, 850)]
    _, outputs = play(ticks(800, used_by([(300, 740)]), {"job:1": spans}), plan_for())
    (opened,) = turns(outputs)
    assert 740 <= second_of(opened.at_ms) <= 746


@pytest.mark.slow
def test_phases_that_were_learned_together_are_one_regime() -> None:
    spans = [(300, 900)]

    def phases(name: str, second: int, value: float) -> float:
        phase = (second - 300) % 40
        if not within(second, spans):
            return value
        if name.startswith("storage"):
            # Loads, computes, and writes a checkpoint.
            return value * (3 if phase < 8 else 5 if phase >= 35 else 1)
        return value * (4 if name.startswith("cpu") and 8 <= phase < 35 else 1)

    _, outputs = play(ticks(900, phases, {"job:1": spans}), plan_for())
    assert not events(outputs)
    assert [change for change, _ in changes(outputs)] == ["learned"]
    assert loud(outputs, 430, 900) < 0.05


def test_the_next_phase_of_a_young_regime_is_learned_too() -> None:
    spans = [(300, 900)]

    def phases(name: str, second: int, value: float) -> float:
        if not within(second, spans):
            return value
        # It loads for longer than a change is learned for, and then computes.
        return value * 3 if name.startswith("storage" if second < 500 else "cpu") else value

    _, outputs = play(ticks(900, phases, {"job:1": spans}), plan_for())
    assert not events(outputs)
    assert [change for change, _ in changes(outputs)] == ["learned", "learned"]
    told = settling(outputs)
    assert {told[second] for second in range(505, 600)} == {"phase"}
    assert loud(outputs, 500 + REGIMES.learn_rows + 10, 900) < 0.05


@pytest.mark.slow
def test_what_starts_all_the_time_does_not_make_blind() -> None:
    spans = [(begin, begin + 10) for begin in range(300, 1800, 20)]
    made = ticks(1800, healthy, {"job:1": spans})
    _, outputs = play(made, plan_for())
    told = settling(outputs)
    assert not events(outputs)
    assert np.mean([bool(told[second]) for second in told if second >= 300]) < 0.55
    begin = next(second for second in range(1400, 1700) if not any(told[at] for at in range(second, second + 8)))

    def fault(name: str, second: int, value: float) -> float:
        return value * 3 if name.startswith("storage") and second >= begin else value

    _, outputs = play(ticks(begin + 10, fault, {"job:1": spans}), plan_for())
    assert turns(outputs)[0].phase is Phase.OPENED


def test_one_scrape_without_marks_is_no_end() -> None:
    spans = [(150, 300), (301, 500)]
    state, outputs = play(ticks(400, used_by([(0, 500)]), {"job:1": [(0, 150), *spans]}), plan_for())
    assert not any(settling(outputs).values())
    assert state.hosts[ENTITY].regimes.marks.on == {"jobs{workload=job:1}"}


@pytest.mark.slow
def test_a_rare_job_of_the_training_is_remembered() -> None:
    """It ran while nothing paged, left the newest rows long ago, and is known when it runs again."""
    settings = replace(JOB_SETTINGS, learning=LearningSettings(40, 120, 200, 0.5, 60, 600))
    fault = used_by([(60, 100), (900, 940)], factor=1.5)
    made = ticks(960, fault, {})
    _, outputs = play(made, plan_for(settings))
    assert not events(outputs)
    # The test says something: who forgets is surprised.
    forgetful = replace(settings, regimes=replace(REGIMES, forget_ms=60_000))
    _, outputs = play(made, plan_for(forgetful))
    assert 900 <= second_of(events(outputs)[0].at_ms) <= 906


@pytest.mark.parametrize(
    "second", [570, *(pytest.param(second, marks=pytest.mark.slow) for second in (310, 345, 421, 505, 660))]
)
def test_a_state_saved_in_the_middle_goes_on_equally(second: int) -> None:
    spans = [(300, 560)]

    def fault(name: str, at: int, value: float) -> float:
        return value * 3 if name in {"storage_1", "storage_2"} and 650 <= at < 680 else value

    made = ticks(720, used_by(spans, also=fault), {"job:1": spans}, [(340, 350)])
    plan = plan_for()
    state, _ = play(made[:second], plan)
    document, arrays = snapshot(state)
    kept, expected = play(made[second:], plan, state)
    again, found = play(made[second - 10 :], plan, restore(document, arrays, plan))
    assert [score.fused for score in scores(found)] == [score.fused for score in scores(expected)]
    assert changes(found) == changes(expected)
    first, second_ = snapshot(kept), snapshot(again)
    for one in (first, second_):
        # Patience after a start, and what it keeps from opening, are meant to differ.
        for name in ("persistence", "onset_ms", "told_peak", "episode"):
            one[0]["hosts"][0].pop(name)
    if second not in (310, 345, 660):
        assert first[0] == second_[0]
        assert first[1].keys() == second_[1].keys()
        assert all(np.array_equal(first[1][key], second_[1][key], equal_nan=True) for key in first[1])


@pytest.mark.slow
def test_two_runs_give_the_same_bytes() -> None:
    spans = [(300, 500)]
    made = ticks(560, used_by(spans), {"job:1": spans})
    first, second = (snapshot(play(made, plan_for())[0]) for _ in range(2))
    assert first[0] == second[0]
    assert all(np.array_equal(first[1][key], second[1][key], equal_nan=True) for key in first[1])


@pytest.mark.slow
def test_batches_may_be_cut_anywhere() -> None:
    fault = used_by([(300, 620)])
    _, one = play(ticks(720, fault, {}), plan_for())
    for size in (7, 100):
        _, other = play(ticks(720, fault, {}, size=size), plan_for())
        assert [score.fused for score in scores(other)] == pytest.approx(
            [score.fused for score in scores(one)], rel=1e-9
        )
        assert [(event.phase, event.at_ms) for event in events(other)] == [
            (event.phase, event.at_ms) for event in events(one)
        ]


def test_former_regimes_are_bounded_and_the_oldest_goes() -> None:
    settings = replace(JOB_SETTINGS, regimes=replace(REGIMES, kept=2))
    made, spans = {}, []
    for number in range(4):
        begin = 300 + 150 * number
        made[f"job:{number}"] = [(begin, begin + 150)]
        spans.append((begin, begin + 150))

    def fault(name: str, second: int, value: float) -> float:
        part = ("cpu", "memory", "network", "storage")[(second - 300) // 150] if 300 <= second < 900 else ""
        return value * 4 if part and name.startswith(part) else value

    state, outputs = play(ticks(900, fault, made), plan_for(settings))
    assert not events(outputs)
    former = state.hosts[ENTITY].regimes.former
    assert [second_of(one.used_ms) for one in former] == sorted(second_of(one.used_ms) for one in former)
    assert len(former) == 2
    assert min(second_of(one.used_ms) for one in former) > 500


def test_models_of_other_settings_forget_former_regimes_and_go_on() -> None:
    spans = [(300, 450)]
    made = ticks(520, used_by(spans), {"job:1": spans})
    state, _ = play(made[:440], plan_for())
    other = plan_for(replace(JOB_SETTINGS, window=replace(JOB_SETTINGS.window, features=("mean", "deviation"))))
    state = restore(*snapshot(state), other)
    assert not state.hosts[ENTITY].regimes.former
    _, outputs = play(made[430:], other, state)
    assert len(scores(outputs)) > 60


def test_a_damaged_regime_is_refused() -> None:
    spans = [(300, 450)]
    state, _ = play(ticks(440, used_by(spans), {"job:1": spans}), plan_for())
    document, arrays = snapshot_host(state.hosts[ENTITY])
    restore_host(document, arrays, JOB_SETTINGS, same_settings=True)
    for key in (
        "regimes.ages.values",
        "regimes.pending.times",
        "regimes.former.0.model.centre",
        "regimes.former.0.ages.times",
    ):
        less = {name: value for name, value in arrays.items() if name != key}
        with pytest.raises((KeyError, ValueError)):
            restore_host(document, less, JOB_SETTINGS, same_settings=True)
    with pytest.raises(ValueError, match="blocks of a regime"):
        restore_host(
            document,
            {**arrays, "regimes.ages.values": np.zeros((1, 2, 3), np.float32)},
            JOB_SETTINGS,
            same_settings=True,
        )
    with pytest.raises(KeyError):
        restore_host({**document, "regimes": {}}, arrays, JOB_SETTINGS, same_settings=True)


def test_times_are_those_of_the_rows() -> None:
    spans = [(300, 450)]
    state, _ = play(ticks(440, used_by(spans), {"job:1": spans}), plan_for())
    (former,) = state.hosts[ENTITY].regimes.former
    assert former.used_ms == START_MS + 1000 * (300 + REGIMES.learn_rows - 1)
    assert former.ages.times.max() < START_MS + 300_000
    assert former.busy is False

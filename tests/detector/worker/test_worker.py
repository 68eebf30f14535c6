"""The way from samples to episodes, on a host whose faults are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hwsonde_detector.hoststate import restore_host
from hwsonde_detector.plan import Plan
from hwsonde_detector.settings import LearningSettings, WindowSettings
from hwsonde_detector.types import Phase, SampleBatch, Subsystem
from hwsonde_detector.worker import WorkerState, last_row_ms, restore, snapshot, step
from tests.detector.worker.hosts import (
    CHANNELS,
    ENTITY,
    PLAN,
    PROFILE,
    SETTINGS,
    START_MS,
    batches,
    burst,
    events,
    phases,
    play,
    rates,
    rule,
    scores,
    second_of,
)


def test_quiet_host_scores_but_never_pages() -> None:
    state, outputs = play(batches(rates(600)))
    got = scores(outputs)
    assert len(got) > 500
    assert not events(outputs)
    assert got[0].calibrated is False
    assert got[-1].calibrated is True
    assert np.mean([score.fused > 1 for score in got if score.calibrated]) < 0.005
    assert last_row_ms(state) == START_MS + 599_000


def test_first_scores_come_before_they_count() -> None:
    _, outputs = play(batches(rates(100)))
    got = scores(outputs)
    assert second_of(got[0].end_ms) <= 45
    assert not any(score.calibrated for score in got)


@pytest.mark.parametrize("subsystem", ["cpu", "memory", "network", "storage"])
def test_planted_fault_is_found_named_and_closed(subsystem: str) -> None:
    culprits = (f"{subsystem}_1", f"{subsystem}_3")
    _, outputs = play(batches(rates(400, fault=burst(culprits, 300, 330))))
    opened, closed = (event for event in events(outputs) if event.phase is not Phase.CHANGED)
    assert (opened.phase, closed.phase) == (Phase.OPENED, Phase.CLOSED)
    assert 302 <= second_of(opened.at_ms) <= 304
    assert opened.episode.subsystem == Subsystem(subsystem)
    assert {entry.channel.name for entry in opened.episode.top[:2]} == set(culprits)
    assert second_of(opened.episode.onset_ms) in (300, 301)
    assert opened.episode.identity == closed.episode.identity
    assert 338 <= second_of(closed.at_ms) <= 345
    assert culprits[0] in opened.episode.title or culprits[1] in opened.episode.title
    assert all(second_of(at) == 300 for name, at in opened.episode.first_channels if name in culprits)


def test_a_burst_in_the_learned_time_does_not_hide_a_fault_in_one_channel() -> None:
    def noisy(name: str, second: int, value: float) -> float:
        return value * 3 if 64 <= second < 80 or (name == "memory_2" and 500 <= second < 530) else value

    _, outputs = play(batches(rates(560, fault=noisy)))
    opened, closed = (event for event in events(outputs) if event.phase is not Phase.CHANGED)
    assert 501 <= second_of(opened.at_ms) <= 503
    assert 530 <= second_of(closed.at_ms) <= 545
    # Nothing lies beyond the tails that the burst has made; where it is, is told all the same.
    assert opened.episode.subsystem is Subsystem.MEMORY
    assert [part.channel.name for part in opened.episode.top] == ["memory_2"]
    assert "memory_2" in opened.episode.title


@pytest.mark.parametrize("length", [1, 2])
def test_hiccup_does_not_open_an_episode(length: int) -> None:
    made = rates(400, fault=burst(CHANNELS[:8], 300, 300 + length, 5.0))
    _, outputs = play(batches(made))
    assert max(score.fused for score in scores(outputs)) > 1
    assert not events(outputs)


def test_nothing_opens_before_scores_count() -> None:
    _, outputs = play(batches(rates(110, fault=burst(CHANNELS[:5], 60, 90))))
    assert not events(outputs)


def test_batches_may_be_cut_anywhere() -> None:
    made = rates(380, fault=burst(("network_2", "network_4"), 300, 320))
    _, one = play(batches(made))
    for size in (7, 100):
        _, other = play(batches(made, size=size))
        # Products of one row and of many differ in the last bit; equal ticks give equal bytes (below).
        assert [score.end_ms for score in scores(other)] == [score.end_ms for score in scores(one)]
        assert [score.fused for score in scores(other)] == pytest.approx(
            [score.fused for score in scores(one)], rel=1e-9
        )
        assert [(event.phase, event.at_ms, event.episode.title) for event in events(other)] == [
            (event.phase, event.at_ms, event.episode.title) for event in events(one)
        ]


def test_two_runs_give_the_same_bytes() -> None:
    made = batches(rates(260), size=3)
    first, second = (snapshot(play(made)[0]) for _ in range(2))
    assert first[0] == second[0]
    assert all(np.array_equal(first[1][key], second[1][key], equal_nan=True) for key in first[1])


def test_shares_do_not_move_when_an_unrelated_channel_is_added() -> None:
    fault = burst(("cpu_1", "memory_3"), 300, 320)
    plain = play(batches(rates(312, fault=fault)))[1]
    more = Plan(
        SETTINGS, (replace(PROFILE, rules=(*PROFILE.rules, rule("storage_quiet", subsystem=Subsystem.STORAGE))),)
    )
    wider = play(batches(rates(312, fault=fault, names=(*CHANNELS, "storage_quiet"))), more)[1]
    before, after = scores(plain)[-1], scores(wider)[-1]
    assert {entry.channel.name: entry.share for entry in before.top} == pytest.approx(
        {entry.channel.name: entry.share for entry in after.top}
    )
    ratio = {name: value / before.fused for name, value in before.subsystems.items()}
    assert ratio == pytest.approx({name: value / after.fused for name, value in after.subsystems.items()})


def test_subsystem_scores_sum_to_the_score() -> None:
    _, outputs = play(batches(rates(330, fault=burst(("cpu_1",), 300, 320))))
    for score in scores(outputs):
        assert sum(score.subsystems.values()) == pytest.approx(score.fused, abs=1e-9)
        assert set(score.subsystems) == {"cpu", "memory", "network", "storage"}


def test_restart_in_the_middle_of_an_episode_goes_on() -> None:
    ticks = batches(rates(420, fault=burst(("cpu_1", "cpu_2"), 300, 360)))
    state, before = play(ticks[:320])
    assert phases(before) == [Phase.OPENED]
    state = restore(*snapshot(state), PLAN)
    # The service reads some overlap again.
    state, after = play(ticks[312:], state=state)
    assert phases(after) == [Phase.CLOSED]
    assert events(after)[-1].episode.identity == events(before)[0].episode.identity
    assert min(second_of(score.end_ms) for score in scores(after)) == 320, "nothing is scored twice"


def test_restart_while_quiet_opens_nothing_for_a_while() -> None:
    # The detector's own start costs CPU: what deviates only then is our doing; what lasts longer still pages.
    made = rates(420, fault=burst(CHANNELS[:5], 318, 322))
    ticks = batches(made)
    state, _ = play(ticks[:318])
    state, after = play(ticks[310:], state=restore(*snapshot(state), PLAN))
    assert not events(after)
    lasting = batches(rates(420, fault=burst(CHANNELS[:5], 318, 400)))
    state, _ = play(lasting[:318])
    _, after = play(lasting[310:], state=restore(*snapshot(state), PLAN))
    assert phases(after) == [Phase.OPENED, Phase.CLOSED]


def test_restored_state_scores_equally() -> None:
    ticks = batches(rates(300))
    state, _ = play(ticks[:250])
    document, arrays = snapshot(state)
    _, kept = play(ticks[250:], state=state)
    _, again = play(ticks[240:], state=restore(document, arrays, PLAN))
    assert [score.fused for score in scores(again)] == [score.fused for score in scores(kept)]


def test_a_gap_is_neither_judged_nor_blamed() -> None:
    made = rates(420, fault=burst(CHANNELS[:5], 305, 312))
    skip = frozenset(range(300, 307))
    _, outputs = play(batches(made, skip=skip))
    judged = {second_of(score.end_ms) for score in scores(outputs)}
    # A rate over the gap is not known, and a window needs three known rows behind it.
    assert not judged & set(range(300, 309))
    assert not events(outputs)
    assert sum(report.skipped.get("not_full", 0) for output in outputs for report in output.reports) >= 2


def test_one_missed_scrape_is_no_gap() -> None:
    _, outputs = play(batches(rates(420, fault=burst(("cpu_1", "cpu_2"), 305, 330)), skip=frozenset({300})))
    assert phases(outputs) == [Phase.OPENED, Phase.CLOSED]


def test_fault_is_not_learned_but_a_lasting_shift_is() -> None:
    settings = replace(SETTINGS, learning=LearningSettings(40, 120, 400, 0.5, 100, frozen_rows=200))
    fault = burst(("cpu_1", "cpu_2", "storage_1"), 300, 10_000)
    _, outputs = play(batches(rates(1200, fault=fault)), Plan(settings, (PROFILE,)))
    got = {second_of(score.end_ms): score for score in scores(outputs)}
    assert min(got[second].fused for second in range(310, 480)) > 1
    assert max(got[second].fused for second in range(1100, 1200)) < 1
    assert phases(outputs) == [Phase.OPENED, Phase.CLOSED]
    rows = {
        second_of(output.reports[0].scores[0].end_ms): output.reports[0].learning
        for output in outputs
        if output.reports and output.reports[0].scores
    }
    assert rows[400].frozen
    assert rows[400].rows == rows[310].rows


def test_models_of_other_settings_are_made_anew_from_the_kept_rows() -> None:
    ticks = batches(rates(220))
    state, _ = play(ticks[:200])
    document, arrays = snapshot(state)
    other = Plan(replace(SETTINGS, window=WindowSettings(features=("mean", "deviation"))), (PROFILE,))
    state, outputs = play(ticks[190:], other, restore(document, arrays, other))
    assert len(scores(outputs)) >= 18
    assert all(score.calibrated for score in scores(outputs))
    assert len(state.hosts[ENTITY].memory.times) > 200
    quieter = Plan(replace(SETTINGS, episodes=replace(SETTINGS.episodes, raise_windows=2)), (PROFILE,))
    assert restore(document, arrays, quieter).hosts[ENTITY].model is not None


@pytest.mark.parametrize("width", [1, 5, 75])
def test_windows_of_any_width_are_judged_live(width: int) -> None:
    plan = Plan(replace(SETTINGS, window=WindowSettings(rows=width)), (PROFILE,))
    _, outputs = play(batches(rates(260)), plan)
    assert len(scores(outputs)) > 260 - max(40, width) - 10


def test_a_step_spreads_windows() -> None:
    plan = Plan(replace(SETTINGS, window=WindowSettings(step=4)), (PROFILE,))
    _, outputs = play(batches(rates(200)), plan)
    ends = [second_of(score.end_ms) for score in scores(outputs)]
    assert set(np.diff(ends)) == {4}


def test_a_host_without_its_label_says_so() -> None:
    made = batches(rates(5))
    bare = [
        (
            replace(
                batch,
                series=tuple(
                    replace(one, labels=tuple(pair for pair in one.labels if pair[0] != "node")) for one in batch.series
                ),
            ),
            now,
        )
        for batch, now in made
    ]
    assert [report.named_by_instance for output in play(bare)[1] for report in output.reports][-1] is True
    assert [report.named_by_instance for output in play(made)[1] for report in output.reports][-1] is False


def test_missing_half_of_the_channels_is_not_judged() -> None:
    made = rates(330)
    ticks = batches(made)
    state, _ = play(ticks[:300])
    few = batches({name: values for name, values in made.items() if name in CHANNELS[:6]})
    _, outputs = play(few[300:], state=state)
    late = [score for score in scores(outputs) if second_of(score.end_ms) > 304]
    assert not late
    assert sum(report.skipped.get("coverage", 0) for output in outputs for report in output.reports) > 10


def test_new_channel_is_learned_later_and_harms_nothing_now() -> None:
    made = rates(500, names=(*CHANNELS, "cpu_new"))
    plan = Plan(SETTINGS, (replace(PROFILE, rules=(*PROFILE.rules, rule("cpu_new", subsystem=Subsystem.CPU))),))
    old = batches({name: values for name, values in made.items() if name != "cpu_new"})
    state, first = play(old[:200], plan)
    state, second = play(batches(made)[200:], plan, state)
    assert not events(first)
    assert not events(second)
    assert {channel.name for channel in state.hosts[ENTITY].memory.channels} == {*CHANNELS, "cpu_new"}


@pytest.mark.slow
def test_hosts_do_not_touch_each_other() -> None:
    ours = batches(rates(330, fault=burst(("cpu_1", "cpu_2"), 300, 330)))
    other = [
        (
            replace(
                batch,
                series=tuple(
                    replace(one, labels=tuple((k, "n2" if k == "node" else v) for k, v in one.labels))
                    for one in batch.series
                ),
            ),
            now,
        )
        for batch, now in batches(rates(330, seed=11))
    ]
    both = []
    for (left, now), (right, _) in zip(ours, other, strict=True):
        joined = sorted(
            [(one, left, index) for index, one in enumerate(left.series)]
            + [(one, right, index) for index, one in enumerate(right.series)],
            key=lambda item: item[0],
        )
        times = np.concatenate(
            [batch.times[batch.offsets[index] : batch.offsets[index + 1]] for _, batch, index in joined]
        )
        values = np.concatenate(
            [batch.values[batch.offsets[index] : batch.offsets[index + 1]] for _, batch, index in joined]
        )
        both.append(
            (
                SampleBatch(
                    tuple(one for one, _, _ in joined), np.arange(len(joined) + 1, dtype=np.int64), times, values
                ),
                now,
            )
        )
    _, outputs = play(both)
    _, alone = play(ours)
    assert [score for score in scores(outputs) if score.entity == ENTITY] == scores(alone)
    assert {event.episode.entity for event in events(outputs)} == {ENTITY}


def test_damaged_state_is_refused() -> None:
    state, _ = play(batches(rates(200)))
    document, arrays = snapshot(state)
    for key in ("0/memory.values", "0/model.centre"):
        with pytest.raises((KeyError, ValueError, TypeError)):
            restore(document, {name: value for name, value in arrays.items() if name != key}, PLAN)
    with pytest.raises(ValueError, match="memory"):
        restore_host(
            document["hosts"][0],
            {"memory.times": np.zeros(3, np.int64), "memory.values": np.zeros((2, 1))},
            SETTINGS,
            same_settings=True,
        )


def test_empty_worker_says_nothing() -> None:
    state, output = step(WorkerState(), SampleBatch.empty(), START_MS, PLAN)
    assert (output.reports, output.events, output.gone) == ((), (), ())
    assert last_row_ms(state) is None

"""Counters that the exporter reads every few seconds and shows at every scrape, on the way to scores."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import numpy as np

from hwsonde_detector.plan import Plan
from hwsonde_detector.signals.profiles.rules import Clock
from hwsonde_detector.types import Phase, SampleBatch, Series, Subsystem
from tests.detector.worker.hosts import (
    CHANNELS,
    PROFILE,
    SETTINGS,
    START_MS,
    Fault,
    batches,
    events,
    healthy,
    play,
    rates,
    rule,
    scores,
    second_of,
)

SLOW = tuple(f"network_slow_{index}" for index in range(3))
PERIOD = 5
CLOCK = Clock("read_seconds", "ethtool")


def plan(*, clock: Clock | None = CLOCK) -> Plan:
    rules = (replace(rule(name, subsystem=Subsystem.NETWORK), clock=clock) for name in SLOW)
    return Plan(SETTINGS, (replace(PROFILE, rules=(*PROFILE.rules, *rules)),))


def shown(seconds: int, fault: Fault = healthy, *, steady: bool = False) -> list[tuple[SampleBatch, int]]:
    """Scrapes of the usual host; the slow counters are those of the newest fifth second."""
    made = rates(seconds, fault=fault, names=(*CHANNELS, *SLOW))
    if steady:
        made |= {name: np.full(seconds, 100.0) for name in SLOW}
    result = []
    ticks = batches(made)
    for second, (batch, now) in enumerate(ticks):
        read = second // PERIOD * PERIOD
        old = ticks[read][0]
        slow = np.array([one.name[2:-6] in SLOW for one in batch.series])
        labels = tuple(sorted((*batch.series[0].labels, ("collector", CLOCK.collector))))
        series = (*batch.series, Series(CLOCK.metric, labels))
        values = np.append(np.where(slow, old.values, batch.values), START_MS / 1000 + read - 0.4)
        times = np.append(batch.times, batch.times[0])
        result.append((SampleBatch(series, np.arange(len(series) + 1), times, values), now))
    return result


def test_a_steady_counter_has_no_variance() -> None:
    state, _ = play(shown(150, steady=True), plan())
    (host,) = state.hosts.values()
    columns = {channel.name: column for channel, column in zip(host.memory.channels, host.memory.values.T, strict=True)}
    for name in SLOW:
        values = columns[name][2 * PERIOD :]
        np.testing.assert_allclose(values, 100.0, rtol=1e-6)
    # Without the clock it looks like a burst every five seconds.
    state, _ = play(shown(150, steady=True), plan(clock=None))
    (host,) = state.hosts.values()
    columns = {channel.name: column for channel, column in zip(host.memory.channels, host.memory.values.T, strict=True)}
    assert np.nanstd(columns[SLOW[0]][2 * PERIOD :]) > 100


def test_a_burst_is_one_step_and_not_spikes() -> None:
    begin, end = 300, 330

    def burst(name: str, second: int, value: float) -> float:
        return value * 3.0 if name in SLOW and begin <= second < end else value

    _, outputs = play(shown(400, burst), plan())
    opened, closed = (event for event in events(outputs) if event.phase is not Phase.CHANGED)
    assert (opened.phase, closed.phase) == (Phase.OPENED, Phase.CLOSED)
    assert opened.episode.subsystem is Subsystem.NETWORK
    assert {entry.channel.name for entry in opened.episode.top[:3]} == set(SLOW)
    # A reading late, and as long as the burst.
    assert begin <= second_of(opened.episode.onset_ms) <= begin + PERIOD + 1
    high = [
        (above, [second_of(score.end_ms) for score in group])
        for above, group in groupby(
            (score for score in scores(outputs) if begin - 5 <= second_of(score.end_ms) < end + 15),
            key=lambda score: score.fused > 1,
        )
    ]
    assert [above for above, _ in high] == [False, True, False]
    assert abs(len(high[1][1]) - (end - begin)) <= PERIOD + SETTINGS.window.rows


def test_a_quiet_host_with_slow_counters_never_pages() -> None:
    _, outputs = play(shown(600), plan())
    assert not events(outputs)
    assert np.mean([score.fused > 1 for score in scores(outputs) if score.calibrated]) < 0.01
    # They are judged like the others: nothing is missing once two readings have been seen.
    assert min(score.coverage for score in scores(outputs)) == 1.0

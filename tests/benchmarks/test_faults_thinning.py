"""A recording as a slower scrape would have made it."""

from __future__ import annotations

import numpy as np

from benchmarks.faults.thinning import Thinner
from hwsonde_detector.types import SampleBatch, Series
from tests.benchmarks.faults_archive import START_MS, batches


def test_a_thinned_recording_is_one_of_a_slower_scrape() -> None:
    thinner = Thinner(15_000)
    times: dict[Series, list[int]] = {}
    for batch, _ in batches(120, {}):
        thin = thinner.thin(batch)
        assert len(thin.offsets) == len(thin.series) + 1
        for number, one in enumerate(thin.series):
            times.setdefault(one, []).extend(thin.times[thin.offsets[number] : thin.offsets[number + 1]].tolist())
    assert len(times) == 8
    for found in times.values():
        assert sorted(set(found)) == [START_MS + 15_000 * number for number in range(8)]


def test_phases_share_the_scrapes_among_them() -> None:
    at = 1000 * np.arange(300, dtype=np.int64)
    batch = SampleBatch((Series("s", (("instance", "a:1"),)),), np.array([0, 300]), at, np.ones(300))
    kept = [Thinner(15_000, phase_ms=phase).thin(batch).times for phase in range(0, 15_000, 1000)]
    assert sorted(np.concatenate(kept).tolist()) == sorted(batch.times.tolist())


def test_scrapes_that_are_late_are_kept_or_dropped_whole() -> None:
    random = np.random.default_rng(5)
    at = 1000 * np.arange(300) + random.integers(-200, 200, 300)
    labels = (("instance", "a:1"), ("job", "x"))
    series = tuple(Series(f"s{number}", labels) for number in range(3))
    batch = SampleBatch(series, 300 * np.arange(4, dtype=np.int64), np.tile(at, 3).astype(np.int64), np.ones(900))
    thin = Thinner(15_000).thin(batch)
    kept = [thin.times[thin.offsets[n] : thin.offsets[n + 1]].tolist() for n in range(3)]
    assert kept[0] == kept[1] == kept[2]
    assert len(kept[0]) == 20
    assert np.diff(kept[0]).min() > 13_000


def test_nothing_is_thinned_at_the_recorded_pace() -> None:
    batch = batches(10, {})[0][0]
    assert Thinner(1000).thin(batch) is batch
    assert Thinner(15_000).thin(SampleBatch.empty()).times.size == 0

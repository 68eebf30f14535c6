"""Channels against their naive twin, however the samples are split into batches."""

import math
from random import Random

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.detector.signals import naive
from tests.detector.signals.build import batch_of, rows_of, same_rows, series
from tests.detector.signals.entity import PROFILE, A, B, run

ODD = [math.nan, math.inf, -1.0, 1e19, 0.0, 1e6, 3.0, 77.5]


def slow_samples(random, times, interval, oddity):
    """Samples of two collectors that are read at a pace of their own and shown at each scrape, and of their clocks."""
    samples = {}
    for collector, keys in (
        ("slow", [series("slow_total", **A, device=device) for device in "xy"]
                 + [series(name, **A) for name in ("slow_bytes", "slow_requests_total")]
                 + [series(f"slow_watts_{end}", **A) for end in ("sum", "count", "squared_deviation_total")]),
        ("lazy", [series("lazy_total", **A), series("lazy_heat", **A, chip="1"), series("lazy_heat", **A, chip="2")]),
    ):  # fmt: skip
        period = random.choice([0.3, 0.9, 1.1, 2, 5, 5, 7.5, 30]) * interval
        # Right, an hour wrong, not there at all; and a host that was born in 1970.
        skew = random.choice([0, 0, 700, 3_600_000, -3_600_000, -(10**6), None])
        said, pairs = [], {key: [] for key in keys}
        values = dict.fromkeys(keys, 0.0)
        read, due, stuck = None, times[0] - random.random() * period, 0
        for at in times:
            while due <= at:
                stuck = stuck - 1 if stuck else random.choice([0] * 12 + [1, 4])
                if not stuck or read is None:
                    read = (due + random.random() * min(50.0, at - due)) / 1000
                    for key in keys:
                        value = values[key] if math.isfinite(values[key]) else 1.0
                        values[key] = (
                            random.choice(ODD) if random.random() < oddity else value + random.choice([0, 1, 12])
                        )
                if random.random() < 0.01 and skew is not None:
                    skew += random.choice([-20, -3, 2, 50, 4000]) * interval
                due += period * random.uniform(0.95, 1.05)
            if skew is not None and random.random() > oddity / 4:
                said.append((at, max(read + skew / 1000, 0.0) if random.random() > oddity / 4 else random.choice(ODD)))
            for key in keys:
                if random.random() > oddity / 4:
                    pairs[key].append((at, values[key]))
        samples |= pairs
        # The clock's series changes a label half of the way.
        cut = times[len(times) // 2] if random.random() < 0.3 else times[-1]
        samples[series("read_seconds", **A, collector=collector)] = [pair for pair in said if pair[0] <= cut]
        samples[series("read_seconds", **A, collector=collector, zone="new")] = [pair for pair in said if pair[0] > cut]
        samples[series("read_seconds", **A, collector="unknown")] = [(at, 1.0) for at in times]
    return samples


def scenario(seed, interval, oddity):
    """Samples of a primary and another target, with gaps, resets, nonsense, series that come and go, slow
    collectors; and all their times."""
    random = Random(seed)
    primary = [series("work_total", **A, mode=mode, cpu=cpu) for mode in ("user", "idle") for cpu in "01"]
    primary += [series(name, **A) for name in ("level_bytes", "errors_total", "requests_total", "coldest")]
    primary += [series(f"power_sampled_watts_{end}", **A) for end in ("sum", "count", "squared_deviation_total")]
    other = [series("heat", **B, device="f"), series("heat", **B, device="f", side="left")]
    other.append(series("work_total", **B, mode="sys"))
    samples, last = {}, None
    # The primary is never silent for so long that the other takes its place: one of its series never goes away.
    for keys, longest in ((primary, 4), (other, 8)):
        time, times = 10**6 + random.randrange(interval), []
        for _ in range(random.randint(1, 40)):
            times.append(time)
            step = random.choice([1, 1, 1, 1, 1, 2, longest])
            time += step * interval + random.randint(-interval // 20, interval // 20)
        last = times[-1] if last is None else last
        times = [time for time in times if time <= last + 2 * interval]
        for key in keys:
            value, pairs, away = 0.0, [], 0
            for number, at in enumerate(times):
                value = random.choice(ODD) if random.random() < oddity else value + random.choice([0.0, 1.0, 12.5])
                away = away - 1 if away else random.choice([0] * 12 + [1, 3, 25])
                if not away or (number == 0 and keys is primary) or key is primary[0]:
                    pairs.append((at, value))
                value = value if math.isfinite(value) else 1.0
            samples[key] = pairs
        if keys is primary:
            samples |= slow_samples(Random(seed + 1), times, interval, oddity)
    return samples, sorted({time for pairs in samples.values() for time, _ in pairs})


def split(samples, cuts, overlap):
    before = -(10**9)
    for cut in cuts:
        yield batch_of(
            {key: [(t, v) for t, v in pairs if before - overlap < t <= cut] for key, pairs in samples.items()}
        )
        before = cut


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([200, 1000, 30_000]),
    st.sampled_from([0.0, 0.05, 0.5]),
    st.lists(st.floats(0, 1), max_size=8),
    st.sampled_from([0, 3]),
)
@example(seed=5277799, interval=1000, oddity=0.05, places=[], overlap=0)
# The other target is silent for so long that it is forgotten, if anyone looks.
@example(seed=1668, interval=30_000, oddity=0.05, places=[0.875], overlap=0)
def test_equals_the_naive_twin_however_the_samples_are_split(seed, interval, oddity, places, overlap):
    samples, times = scenario(seed, interval, oddity)
    known = {key: pairs for key, pairs in samples.items() if pairs}
    expected, resets, rejected = naive.channel_rows(known, (PROFILE,), ("a", "n1:1"))
    whole = run([batch_of(samples)])[0]
    same_rows(rows_of([whole.frame]), expected)
    assert (whole.resets, whole.rejected) == (resets, rejected)
    # The first batch must show the primary, or another target would give the rows their times.
    first = min(pairs[0][0] for key, pairs in known.items() if naive.target(key) == ("a", "n1:1"))
    cuts = {times[int(place * (len(times) - 1))] for place in places} | {times[-1]}
    parts = run(split(samples, sorted(cut for cut in cuts if cut >= first), overlap * interval))
    same_rows(rows_of(part.frame for part in parts), expected)
    assert (sum(part.resets for part in parts), sum(part.rejected for part in parts)) == (resets, rejected)
    assert any(part.restarted for part in parts) == whole.restarted


def test_long_history_in_blocks_equals_ticks():
    rng = np.random.default_rng(3)
    keys = [series("work_total", **A, mode=str(number)) for number in range(5)]
    times = np.cumsum(rng.integers(900, 1100, 700)).tolist()
    samples = {key: list(zip(times, np.cumsum(rng.random(700)).tolist(), strict=True)) for key in keys}
    whole = run([batch_of(samples)])[0]
    parts = run(batch_of({key: [pairs[row]] for key, pairs in samples.items()}) for row in range(700))
    same_rows(rows_of([whole.frame]), rows_of(part.frame for part in parts))
    assert whole.interval_ms == parts[-1].interval_ms

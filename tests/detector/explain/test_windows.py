"""Windows as arrays say what the windows themselves say."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.explain.series import between
from hwsonde_detector.explain.windows import Windows, as_windows
from tests.detector.explain.planted import T0, host, quiet, score

N1 = host("n1")
SCORES = st.lists(
    st.tuples(st.integers(0, 50), st.floats(0, 5) | st.just(math.nan), st.booleans()),
    unique_by=lambda one: one[0],
    max_size=30,
).map(lambda rows: [score(N1, end, fused, calibrated=judged) for end, fused, judged in sorted(rows)])


def told(scores):
    return [(one.end_ms, str(one.fused), one.calibrated, one.coverage) for one in scores]


@given(SCORES, st.integers(-5, 55), st.integers(-5, 55))
def test_some_of_them(scores, first, last):
    windows = as_windows(N1, scores)
    assert told(windows) == told(scores)
    assert told(windows.within(first, last)) == told(between(scores, first, last))
    assert told(between(windows, first, last)) == told(between(scores, first, last))
    assert told(windows.finite()) == told(one for one in scores if math.isfinite(one.fused))
    judged = [one for one in scores if one.calibrated and math.isfinite(one.fused)]
    assert told(windows.judged()) == told(judged)
    worst = max((one.fused for one in between(judged, first, last)), default=None)
    assert windows.worst(first, last) == worst


def test_they_are_a_sequence_of_windows_without_channels():
    windows = as_windows(N1, quiet(N1, 5))
    assert isinstance(windows, Windows)
    assert as_windows(N1, windows) is windows
    assert (len(windows), windows[-1].end_ms, windows[1:3][0].end_ms) == (5, T0 + 5000, T0 + 2000)
    assert (windows[0].top, windows[0].fused) == ((), 0.4)
    with pytest.raises(IndexError):
        windows[5]


def test_of_some_only_the_loudest_of_each_stretch_is_known():
    windows = Windows(*[getattr(as_windows(N1, quiet(N1, 3, step_ms=60_000)), name) for name in (
        "entity", "ends_ms", "fused", "calibrated", "coverage")], grain_ms=60_000)  # fmt: skip
    at = int(windows.ends_ms[1])
    assert at % 60_000 == T0 % 60_000
    begin = at // 60_000 * 60_000
    assert windows.worst(begin + 59_999, begin + 59_999) == 0.4
    assert windows.worst(begin + 240_000, begin + 250_000) is None

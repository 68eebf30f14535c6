"""Coordinates stay in their pictures, whatever is drawn."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.drawing import Chart, channel_chart, score_chart, time_ticks

NUMBERS = st.floats(-1e300, 1e300) | st.floats(-10, 10) | st.sampled_from([0.0, 1.0, 5e-324])


def finding(times, values, lower=None, upper=None, first_ms=None, step_ms=1000):
    chart = {"times": list(times), "values": list(values), "step_ms": step_ms}
    return {
        "channel": "c", "label": "c", "unit": "bytes/s", "sentence": "s", "lower": lower, "upper": upper, "first_ms": first_ms, "chart": chart,
    }  # fmt: skip


def inside(chart: Chart) -> None:
    """Every coordinate is a number within the picture."""
    for path in chart.paths:
        assert re.fullmatch(r"M-?\d+\.\d -?\d+\.\d(L-?\d+\.\d -?\d+\.\d)+", path)
        for x, y in re.findall(r"(-?\d+\.\d) (-?\d+\.\d)", path):
            assert chart.left <= float(x) <= chart.right
            assert chart.top <= float(y) <= chart.bottom
    for x, y in chart.dots:
        assert chart.left <= float(x) <= chart.right
        assert chart.top <= float(y) <= chart.bottom
    for box in chart.boxes:
        assert chart.left <= float(box.x)
        assert float(box.x) + float(box.width) <= chart.right + 1.1
        assert chart.top <= float(box.y)
        assert float(box.y) + float(box.height) <= chart.bottom + 1.1
    for tick in (*chart.x_ticks, *chart.marks):
        assert chart.left <= float(tick.at) <= chart.right
    for tick in chart.y_ticks:
        assert chart.top - 0.1 <= float(tick.at) <= chart.bottom + 0.1


@given(
    st.dictionaries(st.integers(0, 4_000_000_000_000), NUMBERS | st.none(), max_size=40).map(dict.items).map(sorted),
    NUMBERS | st.none(),
    NUMBERS | st.none(),
    st.integers(0, 4_000_000_000_000) | st.none(),
)
def test_any_channel_stays_in_its_picture(pairs, lower, upper, first_ms):
    if lower is not None and upper is not None and lower > upper:
        lower, upper = upper, lower
    chart = channel_chart(finding([at for at, _ in pairs], [value for _, value in pairs], lower, upper, first_ms))
    if any(value is not None for _, value in pairs):
        assert chart is not None
        inside(chart)
        assert len(chart.y_ticks) >= 1
    else:
        assert chart is None


@given(st.lists(st.floats(0, 1e6), max_size=40), st.integers(1, 10**9))
def test_any_scores_stay_in_their_picture(scores, step):
    times = [1_800_000_000_000 + step * place for place in range(1, len(scores) + 1)]
    end = 1_800_000_000_000 + step * 41
    timeline = {
        "times": times, "scores": scores, "calibrated_from_ms": times[len(times) // 2] if times else None,
        "gaps": [[1_800_000_000_000, 1_800_000_000_000 + step]],
        "episodes": [{"start_ms": 1_700_000_000_000, "end_ms": None, "subsystem": "cpu"}],
    }  # fmt: skip
    chart = score_chart(timeline, 1_800_000_000_000, end)
    inside(chart)
    kinds = [box.kind for box in chart.boxes]
    assert kinds.count("gap") == kinds.count("episode") == 1
    assert ("learning" in kinds) == (len(times) > 1)
    assert "1" in [tick.text for tick in chart.y_ticks]


def test_what_was_learned_meanwhile_is_no_gap():
    timeline = {
        "times": [2000, 5000, 9000], "scores": [0.5, 0.5, 0.5], "calibrated_from_ms": 5000,
        "gaps": [[0, 5000], [9000, 10_000]], "episodes": [],
    }  # fmt: skip
    chart = score_chart(timeline, 0, 10_000)
    width = chart.right - chart.left
    spans = [
        (box.kind, round((float(box.x) - chart.left) / width, 2), round(float(box.width) / width, 2))
        for box in chart.boxes
    ]
    assert spans == [("gap", 0.0, 0.2), ("gap", 0.9, 0.1), ("learning", 0.2, 0.3)]


def test_a_line_breaks_where_rows_are_missing():
    times = [0, 1000, 2000, 9000, 10_000, 30_000]
    chart = channel_chart(finding(times, [1.0] * 6, 0.0, 2.0))
    assert chart is not None
    assert [path.count("L") for path in chart.paths] == [2, 1]
    assert len(chart.dots) == 1


def test_the_band_lies_where_its_bounds_are():
    chart = channel_chart(finding([0, 1000], [0.0, 10.0], 2.0, 4.0, first_ms=500))
    assert chart is not None
    band = next(box for box in chart.boxes if box.kind == "band")
    (bottom,), (top,) = ([float(tick.at) for tick in chart.y_ticks if tick.text == text] for text in ("0 B/s", "5 B/s"))
    a_unit = (bottom - top) / 5
    assert float(band.y) == pytest.approx(bottom - 4 * a_unit, abs=0.2)
    assert float(band.height) == pytest.approx(2 * a_unit, abs=0.2)
    assert float(chart.marks[0].at) == pytest.approx((chart.left + chart.right) / 2, abs=0.1)


def test_a_band_that_is_far_away_leaves_the_line_readable():
    chart = channel_chart(finding([0, 1000, 2000], [10.0, 11.0, 10.0], 1e6, 2e6))
    assert chart is not None
    heights = [float(y) for y in re.findall(r"\d+\.\d (\d+\.\d)", chart.paths[0])]
    assert max(heights) - min(heights) > 50


@given(st.integers(0, 4_000_000_000_000), st.integers(0, 400 * 86_400_000), st.integers(1, 12))
def test_time_ticks_are_round_and_few(start, span, most):
    found = time_ticks(start, start + span, most)
    assert len(found) <= most
    assert all(start <= at_ms <= start + span and at_ms % 1000 == 0 for at_ms, _ in found)
    if span >= 2000:
        assert found or most < 3
    assert [at_ms for at_ms, _ in found] == sorted({at_ms for at_ms, _ in found})


@pytest.mark.parametrize(
    ("span_s", "text"), [(60, "00:00:00"), (7200, "00:00"), (3 * 86_400, "01-01 00:00"), (60 * 86_400, "01-01")]
)
def test_times_are_written_as_short_as_they_can(span_s, text):
    assert time_ticks(0, span_s * 1000, 8)[0] == (0, text)


def test_a_number_is_never_a_word_of_python():
    chart = channel_chart(finding([0, 1000], [math.ulp(0.0), 1e300]))
    assert chart is not None
    assert not re.search(r"nan|inf", " ".join(chart.paths))

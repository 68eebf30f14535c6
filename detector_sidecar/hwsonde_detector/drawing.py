"""Charts as coordinates: what the page turns into SVG. Pure.

Only numbers and texts leave this module; the template writes the elements, and escapes every text on the way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from hwsonde_detector.explain.titles import quantity

_STEPS_MS = tuple(
    1000 * step
    for step in (
        1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200,
        86_400, 172_800, 432_000, 604_800, 1_209_600, 2_592_000,
    )
)  # fmt: skip
_DAY_MS = 86_400_000
# A band that lies so many times the width of the line away is drawn at the edge, and the line stays readable.
_FAR = 3.0
# Two points further apart than so many steps are not joined.
_BREAK = 2.5
_SCORES = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis: where, in the units of the picture, and what it says."""

    at: str
    text: str


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle: left, top, width, height, and of what kind."""

    x: str
    y: str
    width: str
    height: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture.

    Attributes
    ----------
    width, height
        Of the whole picture.
    left, right, top, bottom
        Edges of the plot in it.
    paths
        The line, one path for each stretch without a gap.
    dots
        Points that have no neighbour to be joined with: x and y.
    boxes
        Rectangles behind the line.
    marks
        Upright lines.
    x_ticks, y_ticks
        Axes.
    words
        What the picture shows, for those who do not see it.
    """

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    paths: tuple[str, ...]
    dots: tuple[tuple[str, str], ...]
    boxes: tuple[Box, ...]
    marks: tuple[Tick, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    words: str


@dataclass(frozen=True, slots=True)
class _Plot:
    """Where times and heights land; ``low`` and ``high`` are the ends of the upright axis."""

    width: int
    height: int
    left: int
    start_ms: int
    end_ms: int
    low: float
    high: float
    top: int = 8
    right_margin: int = 10
    bottom_margin: int = 20
    ticks: tuple[float, ...] = field(default=())

    @property
    def right(self) -> int:
        return self.width - self.right_margin

    @property
    def bottom(self) -> int:
        return self.height - self.bottom_margin

    def x(self, ms: float) -> float:
        part = (ms - self.start_ms) / max(self.end_ms - self.start_ms, 1)
        return self.left + (self.right - self.left) * min(max(part, 0.0), 1.0)

    def y(self, value: float) -> float:
        part = (value - self.low) / max(self.high - self.low, 1e-300)
        return self.bottom - (self.bottom - self.top) * min(max(part, 0.0), 1.0)

    def box(self, start_ms: float, end_ms: float, kind: str) -> Box:
        begin, end = self.x(start_ms), self.x(end_ms)
        return Box(_px(begin), _px(self.top), _px(max(end - begin, 1.0)), _px(self.bottom - self.top), kind)

    def band(self, lower: float, upper: float) -> Box:
        top, bottom = self.y(upper), self.y(lower)
        return Box(_px(self.left), _px(top), _px(self.right - self.left), _px(max(bottom - top, 1.0)), "band")


def score_chart(timeline: Mapping[str, Any], start_ms: int, end_ms: int) -> Chart:
    """Scores of a host over the whole range, on a logarithmic axis: 1 is the threshold.

    Parameters
    ----------
    timeline
        One of the document's ``timelines``.
    start_ms, end_ms
        The range, the same for all hosts, so that they can be compared.
    """
    scores = timeline["scores"]
    most = max([3.0, *scores])
    plot = _Plot(1040, 110, 36, start_ms, end_ms, 0.0, _height(most))
    learning = _learning(timeline)
    gaps = [part for gap in timeline["gaps"] for part in _without(tuple(gap), learning)]
    boxes = [plot.box(first, last, "gap") for first, last in gaps]
    if learning is not None:
        boxes.append(plot.box(*learning, "learning"))
    boxes += [
        plot.box(one["start_ms"], end_ms if one["end_ms"] is None else one["end_ms"], "episode")
        for one in timeline["episodes"]
    ]
    paths, dots = _line(timeline["times"], [_height(score) for score in scores], plot, _usual(timeline["times"]))
    ticks = tuple(Tick(_px(plot.y(_height(score))), f"{score:g}") for score in _SCORES if score <= most)
    peak = f"largest score {max(scores):.2g}" if scores else "no window was judged"
    found = len(timeline["episodes"])
    words = f"Score over time: {peak}, {found} episode{'s' if found != 1 else ''}."
    return _chart(plot, paths, dots, boxes, (), ticks, words)


def _learning(timeline: Mapping[str, Any]) -> tuple[int, int] | None:
    """The time in which windows were scored by a model that had not learned enough."""
    times, calibrated = timeline["times"], timeline["calibrated_from_ms"]
    if not times or calibrated == times[0]:
        return None
    return times[0], times[-1] if calibrated is None else calibrated


def _without(gap: tuple[int, int], taken: tuple[int, int] | None) -> list[tuple[int, int]]:
    """What is left of a stretch without another one."""
    if taken is None:
        return [gap]
    parts = [(gap[0], min(gap[1], taken[0])), (max(gap[0], taken[1]), gap[1])]
    return [(first, last) for first, last in parts if first < last]


def channel_chart(finding: Mapping[str, Any]) -> Chart | None:
    """A channel over time with the band that was expected; None where nothing is known of it.

    Parameters
    ----------
    finding
        One of a cause's ``channels`` in the document.
    """
    chart = finding["chart"]
    pairs = [] if chart is None else [
        (at_ms, value) for at_ms, value in zip(chart["times"], chart["values"], strict=True) if value is not None
    ]  # fmt: skip
    if not pairs:
        return None
    times, values = [at_ms for at_ms, _ in pairs], [value for _, value in pairs]
    low, high = _ends(values, finding["lower"], finding["upper"])
    # As wide as its longest label needs, about seven units a letter.
    ticks = _value_ticks(low, high)
    labels = [quantity(value, finding["unit"]) for value in ticks]
    left = 10 + 6 * max(len(label) for label in labels)
    plot = _Plot(360, 132, min(left, 130), times[0], max(times[-1], times[0] + 1), low, high)
    boxes = []
    if finding["lower"] is not None and finding["upper"] is not None:
        boxes.append(plot.band(finding["lower"], finding["upper"]))
    paths, dots = _line(times, values, plot, chart["step_ms"])
    first = finding["first_ms"]
    inside = first is not None and times[0] <= first <= times[-1]
    marks = (Tick(_px(plot.x(first)), "onset"),) if inside else ()
    y_ticks = tuple(Tick(_px(plot.y(value)), label) for value, label in zip(ticks, labels, strict=True))
    span = f"between {quantity(min(values), finding['unit'])} and {quantity(max(values), finding['unit'])}"
    words = f"{finding['label'][:120]} over time, {span}; {finding['sentence']}."
    return _chart(plot, paths, dots, boxes, marks, y_ticks, words)


def time_ticks(start_ms: int, end_ms: int, most: int) -> list[tuple[int, str]]:
    """Round moments (UTC) in a stretch of time, at most ``most``, and how they are written."""
    span = max(end_ms - start_ms, 1)
    step = next(
        (one for one in _STEPS_MS if span // one + 1 <= most), _STEPS_MS[-1] * (span // (most * _STEPS_MS[-1]) + 1)
    )
    form = "%m-%d" if step >= _DAY_MS else "%H:%M" if step >= 60_000 else "%H:%M:%S"
    if form == "%H:%M" and start_ms // _DAY_MS != end_ms // _DAY_MS:
        form = "%m-%d %H:%M"
    first = -(-start_ms // step) * step
    return [
        (at_ms, datetime.fromtimestamp(at_ms / 1000, UTC).strftime(form)) for at_ms in range(first, end_ms + 1, step)
    ][:most]


def _chart(
    plot: _Plot,
    paths: tuple[str, ...],
    dots: tuple[tuple[str, str], ...],
    boxes: Sequence[Box],
    marks: tuple[Tick, ...],
    y_ticks: tuple[Tick, ...],
    words: str,
) -> Chart:
    most = max((plot.right - plot.left) // 74, 1)
    x_ticks = tuple(Tick(_px(plot.x(at_ms)), text) for at_ms, text in time_ticks(plot.start_ms, plot.end_ms, most))
    return Chart(
        plot.width, plot.height, plot.left, plot.right, plot.top, plot.bottom, paths, dots, tuple(boxes), marks, x_ticks, y_ticks, words,
    )  # fmt: skip


def _line(
    times: Sequence[int], heights: Sequence[float], plot: _Plot, step_ms: float
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Paths of the stretches without a gap, and the points that stand alone."""
    stretches: list[list[tuple[str, str]]] = []
    before: int | None = None
    for at_ms, height in zip(times, heights, strict=True):
        point = (_px(plot.x(at_ms)), _px(plot.y(height)))
        if before is None or at_ms - before > _BREAK * step_ms:
            stretches.append([])
        stretches[-1].append(point)
        before = at_ms
    paths = tuple("M" + "L".join(f"{x} {y}" for x, y in points) for points in stretches if len(points) > 1)
    return paths, tuple(points[0] for points in stretches if len(points) == 1)


def _usual(times: Sequence[int]) -> float:
    """Usual distance of thinned points: gaps of the judging have boxes of their own, so only long ones break the line."""
    steps = sorted(after - before for before, after in pairwise(times))
    return 2.0 * steps[len(steps) // 2] if steps else 1.0


def _height(score: float) -> float:
    """0 stays 0, the threshold is well above it, and a hundred still fits."""
    return math.log2(1.0 + max(score, 0.0))


def _ends(values: Sequence[float], lower: float | None, upper: float | None) -> tuple[float, float]:
    """Ends of the upright axis: the line, and the band as far as it is near."""
    low, high = min(values), max(values)
    near = _FAR * ((high - low) or abs(high) or 1.0)
    for bound in (lower, upper):
        if bound is not None and low - near <= bound <= high + near:
            low, high = min(low, bound), max(high, bound)
    room = 0.06 * ((high - low) or abs(high) or 1.0)
    return (low if low == 0.0 else low - room), high + room


def _value_ticks(low: float, high: float) -> list[float]:
    """Two to four round values on an axis."""
    span = high - low
    if not 1e-290 < span < math.inf:
        return [low]
    power = 10.0 ** math.floor(math.log10(span))
    step = next((part * power for part in (0.2, 0.5, 1.0, 2.0, 5.0) if span / (part * power) <= 4), 5.0 * power)
    first = math.ceil(low / step)
    return [place * step for place in range(first, math.floor(high / step) + 1)][:5] or [low]


def _px(value: float) -> str:
    return f"{value:.1f}"

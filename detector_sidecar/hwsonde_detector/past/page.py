"""The results as one HTML file that needs nothing else: no script, no other file, no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from hwsonde_detector.past.document import figure, percent, told_coverage, told_rate, told_share, told_spread, warnings

_HERE = Path(__file__).parent
_PALETTE = _HERE.parent / "web" / "static" / "palette.css"

# A chart for each of so many hosts; who has more looks at the JSON.
MOST_CHARTS = 40
MOST_EPISODES = 500
_WIDTH, _HEIGHT = 960.0, 64.0
# Scores from 0 to so much are drawn; 1, the threshold, lies in the middle.
_TOP = 2.0


def backtest_page(document: Mapping[str, Any]) -> str:
    """Draw the page of a document of `hwsonde_detector.past.document.backtest_document`."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": percent, "rate": told_rate, "share": told_share, "coverage": told_coverage, "spread": told_spread, "figure": figure,
    }  # fmt: skip
    presets = [_preset(preset, document) for preset in document["presets"]]
    return environment.get_template("backtest.html").render(
        document=document,
        presets=presets,
        palette=_PALETTE.read_text(encoding="utf-8"),
        warnings=warnings(document),
        width=_WIDTH,
        height=_HEIGHT,
    )


def _preset(preset: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    loudest = sorted(preset["hosts"], key=lambda host: (-host["pages"], -_peak(host["peaks"]), host["host"]))
    return {
        **preset,
        "charts": [_chart(host, preset, document) for host in loudest[:MOST_CHARTS]],
        "more_hosts": max(len(loudest) - MOST_CHARTS, 0),
        "episodes": preset["episodes"][:MOST_EPISODES],
        "more_episodes": max(len(preset["episodes"]) - MOST_EPISODES, 0),
    }


def _chart(host: Mapping[str, Any], preset: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    begin, length = document["from_ms"], document["to_ms"] - document["from_ms"]

    def bar(start_ms: int, end_ms: int | None) -> dict[str, float]:
        left = min(max((start_ms - begin) / length, 0.0), 1.0)
        right = min(max(((end_ms if end_ms is not None else begin + length) - begin) / length, 0.0), 1.0)
        # One that is shorter than a point of the screen is still to be seen.
        return {"x": round(left * _WIDTH, 2), "width": round(max((right - left) * _WIDTH, 2.0), 2)}

    faulty = preset["faults"]["faults"] if preset["faults"] is not None else ()
    return {
        "host": host,
        "line": line(host["peaks"]),
        "episodes": [
            {**bar(one["start_ms"], one["end_ms"]), "text": one["sentence"], "subsystem": one["subsystem"]}
            for one in preset["episodes"]
            if one["host"] == host["host"]
        ],
        "faults": [
            {**bar(one["start_ms"], one["end_ms"]), "text": one["kind"]}
            for one in faulty
            if one["host"] == host["host"]
        ],
    }


def line(peaks: Sequence[float | None]) -> str:
    """Path of an SVG drawing through the known peaks; it breaks where nothing was judged, and a single one is a short dash."""
    step = _WIDTH / max(len(peaks), 1)
    parts: list[str] = []
    pen_down = False
    for number, value in enumerate(peaks):
        if value is None:
            pen_down = False
            continue
        height = _HEIGHT * (1 - min(max(value, 0.0), _TOP) / _TOP)
        # Each peak stands for a stretch of time.
        parts.append(f"{'L' if pen_down else 'M'}{number * step:.1f} {height:.1f}H{(number + 1) * step:.1f}")
        pen_down = True
    return "".join(parts)


def _peak(peaks: Sequence[float | None]) -> float:
    return max((value for value in peaks if value is not None), default=-1.0)

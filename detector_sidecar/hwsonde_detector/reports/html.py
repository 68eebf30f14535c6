"""A report's document as one page of HTML that needs nothing else: no script, no font, no address.

Names come from labels that anybody may set: every text is escaped by the template, shortened, and freed of characters that cannot be seen or
that turn the direction of writing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2

from hwsonde_detector.explain.titles import quantity
from hwsonde_detector.explain.verdict import percent, seconds
from hwsonde_detector.reports.drawing import channel_chart, score_chart

_HERE = Path(__file__).parent
# The colours are those of the incident page.
_PALETTE = _HERE.parent / "web" / "static" / "palette.css"
_LONGEST = 160
_MISSING = "\N{EN DASH}"


def page(document: Mapping[str, Any]) -> bytes:
    """UTF-8 of the page of a document (`hwsonde_detector.explain.report.document`)."""
    loader = jinja2.FileSystemLoader(_HERE / "templates")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "name": shown,
        "when": _when,
        "span": _span,
        "percent": _percent,
        "quantity": _quantity,
        "score": _score,
    }
    text = environment.get_template("report.html").render(
        report=document,
        palette=_PALETTE.read_text(encoding="utf-8"),
        style=(_HERE / "templates" / "report.css").read_text(encoding="utf-8"),
        score_chart=score_chart,
        channel_chart=channel_chart,
    )
    return text.encode("utf-8", "replace")


def shown(text: object, most: int = _LONGEST) -> str:
    """A name or sentence as it is shown: one line, what cannot be seen replaced, the middle of what is very long left out."""
    plain = str(text)
    if len(plain) > most:
        plain = f"{plain[: most - 40]}\N{HORIZONTAL ELLIPSIS}{plain[-39:]}"
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in plain)


def _when(ms: int | None, form: str = "%Y-%m-%d %H:%M:%SZ") -> str:
    return _MISSING if ms is None else datetime.fromtimestamp(ms / 1000, UTC).strftime(form)


def _span(ms: float | None) -> str:
    return _MISSING if ms is None else seconds(ms)


def _percent(share: float | None) -> str:
    return _MISSING if share is None else percent(share)


def _quantity(value: float | None, unit: str) -> str:
    return _MISSING if value is None else quantity(value, unit)


def _score(value: float | None) -> str:
    return _MISSING if value is None else f"{value:.2f}"

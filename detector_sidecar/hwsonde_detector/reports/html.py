"""A report's document as one page of HTML that needs nothing else: no script, no font, no address."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hwsonde_detector.drawing import channel_chart, score_chart
from hwsonde_detector.showing import SHARED, environment, palette, shown

__all__ = ["page", "shown"]

_HERE = Path(__file__).parent


def page(document: Mapping[str, Any]) -> bytes:
    """UTF-8 of the page of a document (`hwsonde_detector.explain.report.document`)."""
    text = (
        environment(_HERE / "templates", SHARED)
        .get_template("report.html")
        .render(
            report=document,
            palette=palette(),
            style=(_HERE / "templates" / "report.css").read_text(encoding="utf-8"),
            score_chart=score_chart,
            channel_chart=channel_chart,
        )
    )
    return text.encode("utf-8", "replace")

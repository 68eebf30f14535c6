"""How names, times and sizes are written on pages made from templates.

Names come from labels that anybody may set: every text is escaped by the template, shortened, and freed of characters that cannot be seen or
that turn the direction of writing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import jinja2

from hwsonde_detector.explain.titles import quantity
from hwsonde_detector.explain.verdict import brief, percent, seconds

# The colours are those of the page.
_PALETTE = Path(__file__).parent / "web" / "static" / "palette.css"
# Macros of more than one page.
SHARED = Path(__file__).parent / "templates"
_LONGEST = 160
_MISSING = "\N{EN DASH}"


def environment(*folders: Path) -> jinja2.Environment:
    """Templates of these folders: all text is escaped, what is not given is an error, and the filters below are known."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "name": shown,
        "when": when,
        "span": span,
        "percent": share,
        "quantity": amount,
        "score": score,
    }
    return made


def palette() -> str:
    """The style sheet that names the colours."""
    return _PALETTE.read_text(encoding="utf-8")


def shown(text: object, most: int = _LONGEST) -> str:
    """A name or sentence as it is shown: one line, what cannot be seen replaced, the middle of what is very long left out.

    Of a sentence that is too long the long words are shortened first.
    """
    plain = str(text)
    if len(plain) > most and " " in plain:
        # What a sentence says stands beside its names.
        plain = " ".join(brief(word) for word in plain.split(" "))
    if len(plain) > most:
        plain = f"{plain[: most - 40]}\N{HORIZONTAL ELLIPSIS}{plain[-39:]}"
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in plain)


def when(ms: int | None, form: str = "%Y-%m-%d %H:%M:%SZ") -> str:
    """A moment, UTC."""
    return _MISSING if ms is None else datetime.fromtimestamp(ms / 1000, UTC).strftime(form)


def span(ms: float | None) -> str:
    """A length of time."""
    return _MISSING if ms is None else seconds(ms)


def share(part: float | None) -> str:
    """A part of a whole, given as 0..1."""
    return _MISSING if part is None else percent(part)


def amount(value: float | None, unit: str) -> str:
    """A value with its unit."""
    return _MISSING if value is None else quantity(value, unit)


def score(value: float | None) -> str:
    """A score with two decimals."""
    return _MISSING if value is None else f"{value:.2f}"

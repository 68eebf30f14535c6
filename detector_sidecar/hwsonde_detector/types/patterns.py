"""Patterns that people write for Alertmanager or Prometheus, whose language differs from Python's in places.

What Python refuses is told by that. What it takes and understands otherwise has to be found: a pattern that silently matches nothing, or
something else, would call the wrong hosts normal.
"""

from __future__ import annotations

import re

_ESCAPED = re.compile(r"\\.", re.DOTALL)
# An escaped character, a set of characters with what is in it, or a repeat without a lower bound, which others take literally.
_PIECE = re.compile(r"\\.|\[(\^?\]?(?:\\.|[^]\\])*)(?:\]|\\?\Z)|(\{,\d*\})", re.DOTALL)
# What Python warns of in a set, as it may mean something else one day, and the beginning of a class such as [:lower:], which ends with the set.
_ODD = re.compile(r"\[|.*(?:--|&&|~~|\|\||\[:.*:\Z)", re.DOTALL)


def has_odd_set(pattern: str) -> bool:
    """Whether it has a set of characters that is read in several ways, such as ``[[:lower:]]``."""
    return any(piece[1] and _ODD.match(_ESCAPED.sub("x", piece[1])) for piece in _PIECE.finditer(pattern))


def compiled(pattern: str) -> re.Pattern[str] | None:
    """Compile a pattern; None where it is none, or means something else here than where it was written for."""
    if has_odd_set(pattern) or any(piece[2] for piece in _PIECE.finditer(pattern)):
        return None
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return None

"""Moments as people and programs write them -> milliseconds, and back. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)
_UNIX = re.compile(r"(\d{1,10})(?:\.(\d{1,9}))?", re.ASCII)
_EPOCH = datetime.fromtimestamp(0, UTC)

ALLOWED = "RFC 3339 with its time zone, such as 2026-11-29T19:00:00Z, or Unix seconds"


def parse_instant(text: str) -> int:
    """Milliseconds since the epoch, UTC, of a moment; fractions of a millisecond are cut off.

    Examples
    --------
    >>> parse_instant("2026-11-29T20:00:00.5+01:00") == parse_instant("1795978800.5")
    True

    Raises
    ------
    ValueError
        The text is neither RFC 3339 with a time zone nor Unix seconds, or a moment before 1970.
    """
    unix = _UNIX.fullmatch(text)
    if unix is not None:
        return int(unix[1]) * 1000 + int((unix[2] or "").ljust(3, "0")[:3])
    if _RFC_3339.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no moment")
    # Digits beyond the microsecond say nothing here, and not every version of Python reads them.
    plain = re.sub(r"(\.\d{6})\d+", r"\1", text.upper().replace(" ", "T"))
    moment = datetime.fromisoformat(plain)
    ms = (moment - _EPOCH) // timedelta(milliseconds=1)
    if ms < 0:
        raise ValueError(f"{text!r} lies before 1970")
    return ms


def format_instant(ms: int) -> str:
    """RFC 3339 in UTC, with milliseconds only where there are some.

    Examples
    --------
    >>> format_instant(1500)
    '1970-01-01T00:00:01.500Z'
    """
    moment = _EPOCH + timedelta(milliseconds=ms)
    return moment.isoformat(timespec="milliseconds" if ms % 1000 else "seconds").replace("+00:00", "Z")

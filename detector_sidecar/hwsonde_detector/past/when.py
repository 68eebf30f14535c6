"""The times of a command line: moments, or durations back from a moment. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hwsonde_detector.config import parse_duration
from hwsonde_detector.errors import ConfigError
from hwsonde_detector.past.instants import ALLOWED, format_instant, parse_instant

_BACK = re.compile(r"-\d", re.ASCII)


def joined(arguments: Sequence[str], flags: Sequence[str] = ("--from", "--to")) -> list[str]:
    """Arguments in which a time back, such as ``-6h``, is tied to its flag: standing alone it looks like another flag.

    Examples
    --------
    >>> joined(["backtest", "--from", "-6h"])
    ['backtest', '--from=-6h']
    """
    result: list[str] = []
    for argument in arguments:
        if result and result[-1] in flags and _BACK.match(argument):
            result[-1] += f"={argument}"
        else:
            result.append(argument)
    return result


def parse_when(flag: str, text: str, now_ms: int) -> int:
    """Milliseconds of a time on the command line.

    Parameters
    ----------
    flag
        For the error line.
    text
        A moment (`parse_instant`), ``now``, or a duration back from now such as ``-6h``.
    now_ms
        What ``now`` means.

    Raises
    ------
    ConfigError
        It is none of them.
    """
    try:
        return _moment(text, now_ms)
    except (ValueError, OverflowError):
        raise ConfigError(
            f"{flag}: {text!r} is no time; allowed: {ALLOWED}, now, or a duration back from now such as -6h"
        ) from None


def _moment(text: str, now_ms: int) -> int:
    if text == "now":
        return now_ms
    if not text.startswith("-"):
        return parse_instant(text)
    back = parse_duration(text[1:])
    if back > now_ms:
        raise ValueError("before 1970")
    return now_ms - back


def parse_range(first: str, last: str, now_ms: int) -> tuple[int, int]:
    """The range of ``--from`` and ``--to``, ms.

    Raises
    ------
    ConfigError
        One of them is no time, or there is nothing between them.
    """
    start_ms, end_ms = parse_when("--from", first, now_ms), parse_when("--to", last, now_ms)
    if start_ms >= end_ms:
        raise ConfigError(
            f"--from: {format_instant(start_ms)} is not before --to ({format_instant(end_ms)}); there is nothing between them"
        )
    return start_ms, end_ms

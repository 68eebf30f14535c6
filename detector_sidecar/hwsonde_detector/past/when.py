"""The times of a command line: moments, or durations back from a moment. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hwsonde_detector.config import parse_duration
from hwsonde_detector.errors import ConfigError
from hwsonde_detector.past.instants import ALLOWED, format_instant, parse_instant

_LONGEST_MS = 366 * 86_400_000
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


def asked_range(first: str | None, last: str | None, now_ms: int, whole: tuple[int, int] | None) -> tuple[int, int]:
    """The range that a command is to look at, ms.

    Parameters
    ----------
    first, last
        ``--from`` and ``--to``, None where they are not given.
    now_ms
        Now.
    whole
        First and last time of the archive that is read, None where a Prometheus is asked. An archive's end is its ``now``.

    Raises
    ------
    ConfigError
        One of them is no time, there is nothing between them, the end lies in the future, or nothing says where to begin.
    """
    if whole is not None:
        # Unix seconds, as an operator could have written them.
        begin = first if first is not None else f"{whole[0] // 1000}.{whole[0] % 1000:03d}"
        return parse_range(begin, last or "now", whole[1])
    if first is None:
        raise ConfigError("--from: it is missing; say where to begin, such as --from -6h")
    start_ms, end_ms = parse_range(first, last or "now", now_ms)
    if end_ms > now_ms:
        raise ConfigError(f"--to: {format_instant(end_ms)} lies in the future; give a past time, or leave --to out")
    return start_ms, end_ms


def parse_span(flag: str, text: str, least_ms: int = 0) -> int:
    """Milliseconds of a duration on the command line, which is at most a year.

    Raises
    ------
    ConfigError
        It is none, or shorter than ``least_ms`` or longer than that.
    """
    try:
        ms = parse_duration(text)
    except ValueError:
        ms = -1
    if not least_ms <= ms <= _LONGEST_MS:
        least = f" of at least {least_ms}ms" if least_ms else ""
        raise ConfigError(f"{flag}: {text!r} is not usable; allowed: a duration{least}, written as 30s, 5m or 2h")
    return ms

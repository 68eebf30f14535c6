"""Regular expressions that the configuration gives, tried before they are relied on.

The engine of this language goes back and forth over a text as long as an expression lets it, for years with one such as
``(a+)+!``, and meanwhile no other thread runs: neither scrapes nor signals would be answered. So each expression is tried on
texts of the kind that it will see, and refused if that takes too long.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterable
from typing import NoReturn

# An expression that is fit for its work takes less than a millisecond for all of them.
_MOST_CPU_SECONDS = 0.25
# Long runs of what names are made of; each ends in something that matches little, so that every way to match is tried.
_PIECES = ("a", "A", "0", "_", "a_", "cpu_", "-0", "a.b", "/a", "/data", "veth0", "aA0_", " ", ":", "é", "[", "#")
_LENGTH = 96
_RUNS = tuple((piece * _LENGTH)[:_LENGTH] + end for piece in _PIECES for end in ("", "!"))

_ESCAPED = re.compile(r"\\.", re.DOTALL)
_SET = re.compile(r"\\.|\[(\^?\]?(?:\\.|[^]\\])*)(?:\]|\\?\Z)", re.DOTALL)
# What this language warns of in a set, as it may mean something else one day, and a class such as [:lower:], which it reads as letters.
_ODD = re.compile(r"\[|.*(?:--|&&|~~|\|\||\[:.*:\Z)", re.DOTALL)


class _TooSlow(BaseException):
    """The time is up."""


def compiled(text: str, names: Iterable[str] = ()) -> re.Pattern[str]:
    """Compile an expression of whole names.

    Parameters
    ----------
    text
        The expression.
    names
        Names that it will be matched with, besides others that nobody knows beforehand.

    Raises
    ------
    ValueError
        If it is empty or none, takes too long, or has a set that others read otherwise; the message says so in the last two cases and is
        empty in the others.
    """
    if not text:
        raise ValueError
    if any(found[1] and _ODD.match(_ESCAPED.sub("x", found[1])) for found in _SET.finditer(text)):
        raise ValueError("a set such as [[:lower:]] is read differently elsewhere: write [a-z], and \\[ for a bracket")
    try:
        pattern = re.compile(text)
    except (re.error, OverflowError, RecursionError, MemoryError):
        raise ValueError from None
    # A signal is the one thing that gets through to an expression at work, and only the main thread gets signals.
    if threading.current_thread() is threading.main_thread() and not _is_quick(pattern, (*names, *_RUNS)):
        raise ValueError("it takes too long: put no * or + around what has one itself")
    return pattern


def _is_quick(pattern: re.Pattern[str], texts: Iterable[str]) -> bool:
    """Whether it does with so much time of this process's CPU; a busy host must not make a good expression a slow one."""
    before = signal.signal(signal.SIGVTALRM, _give_up)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, _MOST_CPU_SECONDS, _MOST_CPU_SECONDS)
        for text in texts:
            pattern.fullmatch(text)
    except _TooSlow:
        return False
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)
    return True


def _give_up(*_: object) -> NoReturn:
    raise _TooSlow

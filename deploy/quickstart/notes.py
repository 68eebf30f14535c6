"""Names every counted error in a line for people. Pure but for the time zone."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

GATHER_SECONDS = 60.0


class Mishap(NamedTuple):
    """``number`` errors of one kind.

    ``time`` is that of the first, in seconds since the epoch; ``late`` says that something was not done in time, which
    befalls any program on a host that is starved.
    """

    time: float
    words: str
    number: int = 1
    late: bool = False


@dataclass(slots=True)
class Notes:
    """Lines for mishaps: the first of a kind at once, those that follow within a minute together after it."""

    _said: dict[str, float] = field(default_factory=dict)
    _waiting: dict[str, Mishap] = field(default_factory=dict)

    def take(self, news: Iterable[Mishap], now: float) -> list[str]:
        """Lines that are due at ``now`` (seconds of a monotonic clock)."""
        for one in news:
            before = self._waiting.get(one.words)
            self._waiting[one.words] = before._replace(number=before.number + one.number) if before else one
        due = [words for words in self._waiting if now - self._said.get(words, float("-inf")) >= GATHER_SECONDS]
        self._said.update(dict.fromkeys(due, now))
        return [line(self._waiting.pop(words)) for words in due]

    def rest(self) -> list[str]:
        """Lines of all that still waits."""
        waiting, self._waiting = self._waiting, {}
        return [line(one) for one in waiting.values()]


def line(one: Mishap) -> str:
    """Say when, what and how often."""
    at = time.strftime("%H:%M:%S", time.localtime(one.time))
    return f"error at {at}: {one.words}" + (f", {one.number} times since" if one.number > 1 else "")

"""Who makes models in a step. Pure.

Making a model takes as long as judging thousands of rows, and hosts that were started together, or that a job begins on together, want theirs at
the same row. All of them in one step would keep it for minutes from telling and saving anything. So in each step some hosts have their turn, and
the others go on with the model that they have until it is theirs. A few hosts hold nothing up, and always have their turn.

What is counted is what there is to do and not the time that it takes, so that the same samples give the same models on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# So many hosts may all make their models in one step.
_FEW = 4
# A model of hundreds of channels takes a second or two. Those of one step shall not take longer than a scrape interval, or every score comes late.
_MODEL_MS = 2000
# Nor shall a detector that is told to end still be at work when whoever told it loses patience.
_MOST = 8
# A step that catches up does the work of many: of so many rows of a host one turn is due. With fewer a slow step would make the next one slower.
_ROWS = 4
# What is left of turns that were taken in parts.
_NOTHING = 1e-6


@dataclass(slots=True)
class Turn:
    """A host's part in one step: whether it may make models, as many as its rows call for, and whether it has made any."""

    given: bool = True
    taken: bool = False


class Turns:
    """The turns of one step.

    Parameters
    ----------
    intervals_ms
        Scrape intervals of the hosts that are there, None where none is known yet; the shortest one counts, as its scores are the first to be late.
    unhurried
        Nobody waits for the step: every host has its turn.
    """

    def __init__(self, intervals_ms: Iterable[int | None], *, unhurried: bool = False) -> None:
        intervals = list(intervals_ms)
        shortest = min((interval for interval in intervals if interval), default=0)
        self._left = float(min(max(shortest // _MODEL_MS, 1), _MOST))
        if unhurried or len(intervals) <= _FEW:
            self._left = float("inf")

    def give(self) -> Turn:
        """The next host's."""
        return Turn(given=self._left > _NOTHING)

    def count(self, turn: Turn, rows: int) -> None:
        """A host is done with its ``rows`` new rows."""
        if turn.taken:
            self._left -= 1.0 / max(rows // _ROWS, 1)

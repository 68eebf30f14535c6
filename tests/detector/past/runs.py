"""Runs of the command over one history: what it reads and what it is asked."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from itertools import count

from hwsonde_detector.past.world import World
from tests.detector.past.history import FAULT_FROM, FAULT_TO, SECONDS, START_MS, History, at

HISTORY = History()
NOW_MS = START_MS + SECONDS * 1000
FIRST, LAST = at(300), at(680)
FAULT = ("n1", FAULT_FROM, FAULT_TO, "slow disk", "storage")


def world(stopped: Callable[[], bool] = lambda: False, monotonic: Callable[[], float] = lambda: 0.0) -> World:
    return World(lambda: NOW_MS, monotonic, stopped, lambda _: None, io.StringIO(), io.StringIO())


def said(one: World) -> tuple[str, str]:
    assert isinstance(one.out, io.StringIO)
    assert isinstance(one.err, io.StringIO)
    return one.out.getvalue(), one.err.getvalue()


def ticking(seconds: float) -> Callable[[], float]:
    """A clock that goes on by so much whenever it is looked at."""
    numbers: Iterator[int] = count()
    return lambda: seconds * next(numbers)

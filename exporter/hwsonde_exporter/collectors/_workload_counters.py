"""Counters of things that come and go, made to be counters."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

REMEMBERED = 512
Value = TypeVar("Value")


class Recent(Generic[Value]):
    """Values by key; beyond a limit the one that was not asked for the longest is forgotten.

    Parameters
    ----------
    make
        Makes the value of a key that is asked for first.
    limit
        Greatest number of values.
    """

    def __init__(self, make: Callable[[], Value], limit: int = REMEMBERED) -> None:
        self._make = make
        self._limit = limit
        self._values: OrderedDict[Hashable, Value] = OrderedDict()

    def of(self, key: Hashable) -> Value:
        """The value of a key."""
        value = self._values.get(key)
        if value is None:
            value = self._values[key] = self._make()
            if len(self._values) > self._limit:
                self._values.popitem(last=False)
        else:
            self._values.move_to_end(key)
        return value

    def __len__(self) -> int:
        """Give the number of values that are remembered."""
        return len(self._values)


@dataclass(slots=True)
class _Life:
    """What is known of the counters under one name: ``past`` of the lives that are over, ``last`` of the present one."""

    identity: int | None = None
    past: dict[Hashable, int] = field(default_factory=dict)
    last: dict[Hashable, int] = field(default_factory=dict)


class Continued:
    """Goes on counting where a workload of the same name ended.

    A service that is restarted, or a job that is queued again, gets a new cgroup whose counters begin at 0. Each name's
    counters here never fall, for as long as it is remembered: the lives of a name are added up.
    """

    def __init__(self) -> None:
        self._lives = Recent(_Life)

    def begin(self, name: str, identity: int) -> Callable[[Hashable, int], int]:
        """Give what turns the present values of the cgroup with this ``identity`` (its inode) into steady ones."""
        life = self._lives.of(name)
        if life.identity != identity:
            life.identity = identity
            for key, value in life.last.items():
                life.past[key] = life.past.get(key, 0) + value
            life.last = {}
        past, last = life.past, life.last

        def steady(key: Hashable, present: int) -> int:
            before = last.get(key, 0)
            if present < before:
                if present >= before // 2:
                    present = before  # the kernel's own rounding; a counter that was set back falls further
                else:
                    past[key] = past.get(key, 0) + before
            last[key] = present
            return past.get(key, 0) + present

        return steady


class Gathered:
    """Sum of counters of parts that come and go; it only grows, by what each part has grown.

    What a part counted before it was first seen counts only where the part is known to be new; its last moments, between
    the last look and its end, are lost.
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, int] = {}
        self._total: int | None = None

    def update(self, parts: Mapping[Hashable, int], is_new: Callable[[Hashable], bool]) -> int:
        """Take the present value of each part; ``is_new`` says of a part that was not there before whether it began since."""
        if self._total is None:
            self._total = sum(parts.values())
        else:
            for key, value in parts.items():
                before = self._last.get(key)
                if before is not None:
                    self._total += max(0, value - before)
                elif is_new(key):
                    self._total += value
        self._last = dict(parts)
        return self._total


class Rest:
    """What a whole counted beyond some of its parts, though the parts that are named change.

    A part that was not named the time before has, since then, counted for the rest.
    """

    def __init__(self) -> None:
        self._whole: int | None = None
        self._parts: dict[str, int] = {}
        self._rest = 0
        self._given = 0

    def update(self, whole: int, parts: Mapping[str, int]) -> int:
        """Take the present values of the whole and of the named parts; give the rest, which never falls."""
        if self._whole is None:
            self._rest = whole - sum(parts.values())
        else:
            self._rest += max(0, whole - self._whole)
            for key, value in parts.items():
                before = self._parts.get(key)
                if before is not None:
                    self._rest -= max(0, value - before)
        self._whole, self._parts = whole, dict(parts)
        # Whole and parts are not read at the same moment: what falls a little now comes back with the next reading.
        self._given = max(self._given, self._rest)
        return self._given

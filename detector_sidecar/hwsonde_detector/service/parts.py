"""One configuration, turned into what the loop uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

from hwsonde_detector.engines.base import Engine
from hwsonde_detector.sources.base import Read, Source
from hwsonde_detector.types import Outputs
from hwsonde_detector.types.guidance import Guidance


class Recorder(Protocol):
    """Keeps every answer, for a replay; never raises."""

    def record(self, now_ms: int, read: Read) -> None:
        """Append the answer that was scored at ``now_ms``."""

    def record_guidance(self, guidance: Guidance) -> None:
        """Append what people told before the next answer."""

    def record_start(self, document: Mapping[str, Any] | None, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Append that the engine begins (again), with this state or cold."""

    def close(self) -> None:
        """Write out what is left."""


@dataclass(slots=True)
class Parts:
    """What a configuration decides.

    Attributes
    ----------
    address
        Where the source is, without credentials, for people.
    fixed_ms
        Distance of ticks; None follows the scrape.
    longest_ms
        Bound of one read.
    history_ms
        How much of the past is read at a start without state, and at most after a gap.
    shadow
        Nobody is paged.
    step
        Rows from one window to the next.
    keep_ms
        For how long it is kept how long hosts were watched: as long as incidents are.
    links
        Names and addresses for the page.
    """

    source: Source
    engine: Engine
    address: str = ""
    fixed_ms: int | None = None
    longest_ms: int = 600_000
    history_ms: int = 3_600_000
    shadow: bool = False
    step: int = 1
    keep_ms: int = 90 * 86_400_000
    recorder: Recorder | None = None
    links: tuple[tuple[str, str], ...] = field(default_factory=tuple)


Interruptible = Callable[[], AbstractContextManager[None]]
Observer = Callable[[Outputs], None]
Adviser = Callable[[int], Guidance]

"""The contract of a source of samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from hwsonde_detector.types import SampleBatch


@dataclass(frozen=True, slots=True)
class Read:
    """One answer.

    Attributes
    ----------
    batch
        Samples later than ``since_ms``.
    warnings
        Harmless remarks of the server, one line each.
    raw
        What the server sent (several answers are joined by `decode.SEPARATOR`), for the archive; None where nothing was asked.
    since_ms
        Samples up to here were left out of ``batch``.
    future
        How many samples were left out because they are later than the time that was asked for.
    """

    batch: SampleBatch
    warnings: tuple[str, ...] = ()
    raw: bytes | None = None
    since_ms: int = 0
    future: int = 0


class Source(Protocol):
    """Where samples come from. Every failure is a `hwsonde_detector.errors.SourceError`; the next call tries anew."""

    def read(self, since_ms: int, now_ms: int) -> Read:
        """Give all samples later than ``since_ms`` and not later than ``now_ms``."""

    def history(self, start_ms: int, end_ms: int, step_ms: int | None = None) -> Iterator[Read]:
        """Give samples later than ``start_ms`` up to ``end_ms`` in order of time, in parts of bounded size.

        With ``step_ms`` None they are the samples as they were scraped; otherwise values on a grid of multiples of ``step_ms``, where a
        value may be repeated: only for stretches too long to be read whole.
        """

    def close(self) -> None:
        """Give connections back."""

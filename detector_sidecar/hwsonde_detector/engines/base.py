"""The contract of an engine: who runs workers, and where."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from hwsonde_detector.plan import Plan
from hwsonde_detector.types import Entity, Outputs, SampleBatch
from hwsonde_detector.types.guidance import UNGUIDED, Guidance
from hwsonde_detector.worker import idle


class Engine(Protocol):
    """Runs `worker.step` for a set of hosts and keeps their state between steps."""

    plan: Plan

    def step(
        self, batch: SampleBatch, now_ms: int, guidance: Guidance = UNGUIDED, alive: Callable[[], None] = idle
    ) -> Outputs:
        """Take the samples of one tick, and what people told since the last; samples seen before change nothing.

        ``alive`` is called again and again while it goes on.
        """

    def last_row_ms(self) -> int | None:
        """Time of the newest row of any host; None before the first."""

    def entities(self) -> frozenset[Entity]:
        """The hosts that it knows."""

    def snapshot(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Document and arrays for the state on disk."""

    def restore(self, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from `snapshot`; raises `hwsonde_detector.errors.StateError` and changes nothing if it does not fit."""

"""The run over history: every batch through `worker.step` with each preset, kept now and then so that it can be interrupted."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hwsonde_detector import __version__
from hwsonde_detector.errors import StateError
from hwsonde_detector.past.labels import Label
from hwsonde_detector.past.reading import Position
from hwsonde_detector.past.tally import Tally
from hwsonde_detector.past.unfinished import Run, Unfinished
from hwsonde_detector.plan import Plan, fingerprints
from hwsonde_detector.types import SampleBatch
from hwsonde_detector.worker import WorkerState, step

SAVE_EVERY_S = 30.0
# Saving may take no more than about this part of the time.
_SAVE_PART = 0.05

log = logging.getLogger("hwsonde_detector.past")


@dataclass(slots=True)
class Keeper:
    """Keeps a run on disk now and then.

    Parameters
    ----------
    unfinished
        Where.
    asked
        What the run was asked to do: it goes on only if it is asked the same.
    monotonic
        Seconds.
    """

    unfinished: Unfinished
    asked: Mapping[str, Any]
    monotonic: Callable[[], float]
    _due: float = field(default=0.0)
    _works: bool = field(default=True)

    def start(self) -> None:
        """Begin to count the time until it is due."""
        self._due = self.monotonic() + SAVE_EVERY_S

    def save_if_due(self, position: Position, runs: Sequence[Run]) -> None:
        """Keep the run if some time has passed."""
        if self.monotonic() >= self._due:
            self.save(position, runs)

    def save(self, position: Position, runs: Sequence[Run]) -> bool:
        """Keep the run; says whether that worked, and once why not: a run that cannot be kept is still worth ending."""
        if not self._works:
            return False
        began = self.monotonic()
        try:
            self.unfinished.save(self.asked, position, runs)
        except (StateError, TypeError) as error:
            self._works = False
            log.warning("if this run is interrupted it begins anew: %s", error)
            return False
        ended = self.monotonic()
        self._due = ended + max(SAVE_EVERY_S, (ended - began) / _SAVE_PART)
        return True


def new_runs(plans: Mapping[str, Plan], start_ms: int, end_ms: int, labels: Sequence[Label]) -> list[Run]:
    """Runs at their beginning, one a preset."""
    return [
        Run(name, plan, WorkerState(), Tally(start_ms, end_ms, plan.settings.window.step, tuple(labels)))
        for name, plan in plans.items()
    ]


def run_through(
    records: Iterable[tuple[SampleBatch, int]],
    runs: Sequence[Run],
    position: Position,
    told: Callable[[Position], bool],
) -> Position:
    """Step all runs through the records.

    Parameters
    ----------
    records
        Batches with the times of their ticks, from ``position`` on.
    runs
        Changed in place.
    position
        How far they are.
    told
        Told how far they are after every batch; True ends the run there.

    Returns
    -------
    Position
        How far they came.
    """
    for batch, now_ms in records:
        for run in runs:
            run.state, outputs = step(run.state, batch, now_ms, run.plan, unhurried=True)
            run.tally.take(outputs, now_ms)
        position = Position(position.batches + 1, now_ms)
        if told(position):
            break
    return position


def digest(plans: Mapping[str, Plan], more: object) -> str:
    """Digest of all that shapes a run's results: program, presets, labels, source."""
    shaping = [(name, sorted(fingerprints(plan).items()), repr(plan.settings)) for name, plan in plans.items()]
    return hashlib.sha256(repr((__version__, shaping, more)).encode()).hexdigest()

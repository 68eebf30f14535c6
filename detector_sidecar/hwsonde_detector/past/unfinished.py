"""A run over history that was interrupted, kept beside its results until it is done."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from hwsonde_detector.errors import StateError
from hwsonde_detector.past.keeping import freeze, thaw
from hwsonde_detector.past.reading import Position
from hwsonde_detector.past.tally import Tally
from hwsonde_detector.plan import Plan
from hwsonde_detector.state import load_state, save_state
from hwsonde_detector.worker import WorkerState

FOLDER = "unfinished"
_FORM = 1

log = logging.getLogger("hwsonde_detector.past")


@dataclass(slots=True)
class Run:
    """One preset's way through the history: its plan, and what has been learned and counted so far."""

    name: str
    plan: Plan
    state: WorkerState
    tally: Tally


@dataclass(frozen=True, slots=True)
class Kept:
    """What lies on disk of an interrupted run.

    ``asked`` is what the run was asked to do, ``start_ms`` and ``end_ms`` what its range came to, ``position`` how far it is.
    """

    asked: Mapping[str, Any]
    start_ms: int
    end_ms: int
    position: Position
    parts: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]


class Unfinished:
    """The folder ``unfinished`` in the folder of results.

    Parameters
    ----------
    folder
        The folder of results.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / FOLDER

    def load(self) -> Kept | None:
        """What was interrupted; None where there is nothing that can be used, with one line in the log if there was something."""
        try:
            found = load_state(self.folder)
        except StateError as error:
            log.warning("%s", str(error).replace("learning starts anew", "the run begins anew"))
            return None
        if found is None:
            return None
        try:
            return _kept(*found)
        except (KeyError, ValueError, TypeError, IndexError) as error:
            log.warning("%s: it does not fit (%s: %s); the run begins anew", self.folder, type(error).__name__, error)
            return None

    def save(self, asked: Mapping[str, Any], position: Position, runs: Sequence[Run]) -> None:
        """Keep everything.

        Raises
        ------
        StateError
            It cannot be written.
        TypeError
            Something in it cannot be kept.
        """
        tally = runs[0].tally
        parts, arrays = freeze([[run.name, run.state, run.tally] for run in runs], _given(runs))
        document = {
            "form": _FORM,
            "asked": dict(asked),
            "range": [tally.start_ms, tally.end_ms],
            "position": [position.batches, position.now_ms],
            "parts": parts,
        }
        save_state(self.folder, document, arrays)

    def restore(self, kept: Kept, runs: Sequence[Run]) -> bool:
        """Give runs the state that was kept; False, with one line in the log, where it does not fit."""
        try:
            found = _fitting(thaw(kept.parts, kept.arrays, _given(runs)), runs)
        except (KeyError, ValueError, TypeError, IndexError, AttributeError, ImportError) as error:
            log.warning("%s: it does not fit (%s: %s); the run begins anew", self.folder, type(error).__name__, error)
            return False
        for run, (_, state, tally) in zip(runs, found, strict=True):
            run.state, run.tally = state, tally
        return True

    def remove(self) -> None:
        """Forget it."""
        with suppress(OSError):
            shutil.rmtree(self.folder)


def _kept(document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Kept:
    """Read what `Unfinished.save` wrote; raises KeyError, ValueError, TypeError or IndexError when it did not."""
    if document["form"] != _FORM:
        raise ValueError("another version wrote it")
    batches, now_ms = document["position"]
    start_ms, end_ms = document["range"]
    return Kept(
        document["asked"], int(start_ms), int(end_ms), Position(int(batches), now_ms), document["parts"], arrays
    )


def _fitting(found: Any, runs: Sequence[Run]) -> list[tuple[str, WorkerState, Tally]]:  # noqa: ANN401 - it may be anything
    """The same, if it is what these runs need; raises ValueError or TypeError otherwise."""
    if [name for name, _, _ in found] != [run.name for run in runs]:
        raise ValueError("other presets")
    if not all(isinstance(state, WorkerState) and isinstance(tally, Tally) for _, state, tally in found):
        raise TypeError("no states and tallies")
    return [(name, state, tally) for name, state, tally in found]


def _given(runs: Sequence[Run]) -> list[object]:
    """What a new start makes from the configuration: plans and all that they consist of."""
    given: list[object] = []
    for run in runs:
        given += [run.plan, run.plan.settings, run.plan.profiles]
        for profile in run.plan.profiles:
            given += [profile, profile.rules, *profile.rules]
            given += [part for rule in profile.rules for part in (rule.parts, *rule.parts)]
    return given

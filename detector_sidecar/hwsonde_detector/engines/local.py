"""The engine of one machine: the worker, called in the loop's own thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from hwsonde_detector import worker
from hwsonde_detector.errors import StateError
from hwsonde_detector.plan import Plan, same_models, stale
from hwsonde_detector.types import Entity, Outputs, SampleBatch
from hwsonde_detector.types.guidance import UNGUIDED, Guidance
from hwsonde_detector.worker import WorkerState, idle

log = logging.getLogger("hwsonde_detector.engine")

# So many rules or hosts are named in one line.
_NAMED = 5


class LocalEngine:
    """Runs the worker for all hosts.

    Parameters
    ----------
    plan
        Settings and profiles. May be replaced between steps by one that shapes models equally.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._state = WorkerState()
        self._crowded = False

    def step(
        self, batch: SampleBatch, now_ms: int, guidance: Guidance = UNGUIDED, alive: Callable[[], None] = idle
    ) -> Outputs:
        """Take the samples of one tick, and what people told since the last; samples seen before change nothing.

        ``alive`` is called after each host.
        """
        self._state, outputs = worker.step(self._state, batch, now_ms, self.plan, guidance, alive)
        if outputs.crowded_out and not self._crowded:
            self._crowded = True
            log.info(
                "more hosts came and went than are kept: what was learned of those that have been gone for longest is forgotten, first of %s",
                _named([str(entity) for entity in outputs.crowded_out]),
            )
        return outputs

    def last_row_ms(self) -> int | None:
        """Time of the newest row of any host."""
        return worker.last_row_ms(self._state)

    def entities(self) -> frozenset[Entity]:
        """The hosts that it knows."""
        return frozenset(self._state.hosts)

    def snapshot(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Document and arrays for the state on disk."""
        return worker.snapshot(self._state)

    def restore(self, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from `snapshot`; on an error the engine is as it was.

        Raises
        ------
        StateError
            If the state does not fit the plan or lacks something.
        """
        try:
            self._state = worker.restore(document, arrays, self.plan)
        except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
            raise StateError(
                f"the saved models do not fit this version or these settings ({type(error).__name__}: {error})"
            ) from error
        self._tell(document["made_by"])

    def _tell(self, theirs: Mapping[str, Any]) -> None:
        """Say what of the kept state is learned anew."""
        if gone := sorted(stale(theirs, self.plan)):
            log.info("what was learned is kept but for what other profiles made otherwise: %s", _named(gone))
        elif not same_models(theirs, self.plan):
            log.info("what was learned is kept; models are made of it anew, as other settings or profiles shape them")


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")

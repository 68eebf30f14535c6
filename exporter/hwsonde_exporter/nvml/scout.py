"""Tries a GPU that the worker hung in, in a process of its own, so that nobody waits for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from hwsonde_exporter.nvml.launcher import Launch, Worker
from hwsonde_exporter.nvml.quarantine import FINDING, Quarantine
from hwsonde_exporter.nvml.supervisor import allowed_seconds
from hwsonde_exporter.nvml.wire import Broken

# A trial that neither hangs nor ends is one that hangs where nobody looks.
_LONGEST_SECONDS = 60.0


class _Trial:
    """A scout on its way."""

    def __init__(self, worker: Worker, number: int, left_out: set[str], avoid: list[int], began: float) -> None:
        self.worker = worker
        self.number = number
        self.left_out = left_out
        self.avoid = avoid
        self.began = began
        self.asked = False

    def skip(self) -> list[tuple[int, str]]:
        """Pairs of its GPU and each group of calls that it leaves out."""
        return [(self.number, group) for group in sorted(self.left_out)]


class Scouts:
    """Sends one scout at a time to what is due in the quarantine. Nothing here waits, but for the half second in which a scout dies.

    Parameters
    ----------
    launch
        Makes a worker.
    quarantine
        What is to be tried, and where the outcome goes.
    clock
        Monotonic seconds.
    """

    def __init__(self, launch: Launch, quarantine: Quarantine, clock: Callable[[], float]) -> None:
        self._launch = launch
        self._quarantine = quarantine
        self._clock = clock
        self._trial: _Trial | None = None
        self._stuck: Worker | None = None

    def look(self, start: Mapping[str, Any], groups: Collection[str], others: Collection[int], deadline: float) -> None:
        """Send a scout if one is due, or see how the one that is on its way fares.

        Parameters
        ----------
        start
            First message for a worker.
        groups
            What to try.
        others
            Numbers of all GPUs, of which it must keep away from all but one.
        deadline
            Seconds that a group may take.
        """
        if self._stuck is not None:
            if not self._stuck.gone():
                return
            self._stuck.close()
            self._stuck = None
        if self._trial is None:
            self._send(start, others)
        else:
            self._follow(self._trial, groups, deadline)

    def stop(self) -> None:
        """End the one that is on its way."""
        trial, self._trial = self._trial, None
        if trial is not None:
            self._end(trial.worker)

    def _send(self, start: Mapping[str, Any], others: Collection[int]) -> None:
        now = self._clock()
        due = self._quarantine.due(now)
        if due is None:
            return
        number, left_out = due
        try:
            worker = self._launch()
        except OSError:
            self._quarantine.failed(number, "", now)
            return
        avoid = sorted(set(others) - {number})
        self._trial = _Trial(worker, number, left_out, avoid, now)
        with suppress(Broken):  # found out when it is followed
            worker.send({**start, "avoid": avoid, "skip": self._trial.skip()})

    def _follow(self, trial: _Trial, groups: Collection[str], deadline: float) -> None:
        now = self._clock()
        try:
            message = trial.worker.receive(0.0)
            if isinstance(message, dict) and "hello" in message:
                self._ask(trial, groups)
                return
        except Broken:
            message = {}
        if message is None:
            where = trial.worker.where()
            if where is not None and now - where.since > allowed_seconds(where.group, deadline):
                self._finish(trial, where.group, now)
            elif now - trial.began > _LONGEST_SECONDS:
                self._finish(trial, "", now)
            return
        answered = trial.asked and isinstance(message, dict) and "number" in message
        self._finish(trial, None if answered else "", now)

    def _ask(self, trial: _Trial, groups: Collection[str]) -> None:
        trial.asked = True
        wanted = sorted(set(groups) - trial.left_out - FINDING)
        trial.worker.send({"number": 1, "groups": wanted, "avoid": trial.avoid, "skip": trial.skip()})

    def _finish(self, trial: _Trial, hung_in: str | None, now: float) -> None:
        """End a scout; ``hung_in`` is None if it came back."""
        self._trial = None
        self._end(trial.worker)
        if hung_in is None:
            self._quarantine.passed(trial.number, trial.left_out, now)
        else:
            self._quarantine.failed(trial.number, hung_in, now)

    def _end(self, worker: Worker) -> None:
        if worker.kill():
            worker.close()
        else:
            self._stuck = worker

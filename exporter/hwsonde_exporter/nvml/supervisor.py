"""Keeps one worker running, and no more than one."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from hwsonde_exporter.nvml.answer import WorkerState
from hwsonde_exporter.nvml.launcher import Launch, Worker
from hwsonde_exporter.nvml.progress import Where
from hwsonde_exporter.nvml.wire import Broken, RawEvent

# The library's start, and finding a GPU: that may wake it up, which takes seconds where no persistence daemon keeps it awake.
_SLOW_SECONDS = {"init": 30.0, "attach": 10.0}
# Nothing hangs and still no answer comes: a host so busy that nothing runs, or a worker that is lost in itself.
_LONGEST_SECONDS = 30.0
# How long a request waits for a worker that starts, unless who asks says otherwise; the start itself may take longer.
_PATIENCE_SECONDS = 1.0
_LOOK_SECONDS = 0.1
_BACK_OFF_SECONDS = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)
# A worker that ran for so long ended for a new reason.
_SOUND_SECONDS = 120.0
REASONS = (WorkerState.HUNG, WorkerState.CRASHED)


def allowed_seconds(group: str, deadline: float) -> float:
    """How long a group of calls on one GPU may take before it counts as hung."""
    return max(deadline, _SLOW_SECONDS.get(group, 0.0))


class Hung(Exception):
    """The worker does not answer.

    Parameters
    ----------
    where
        What it is in, or None if it does not say.
    """

    def __init__(self, where: Where | None) -> None:
        super().__init__()
        self.where = where


class _Condition(NamedTuple):
    state: WorkerState
    detail: str


class Supervisor:
    """Starts the worker when somebody asks, ends it when it fails, and waits before it starts the next one.

    Parameters
    ----------
    launch
        Makes a worker.
    deadline
        Seconds that one group of calls may take.
    clock
        Monotonic seconds.
    patience
        Gives the seconds that the present request may wait for a worker that starts; None for a second.
    """

    def __init__(
        self,
        launch: Launch,
        deadline: float,
        clock: Callable[[], float],
        patience: Callable[[], float] | None = None,
    ) -> None:
        self._launch = launch
        self.deadline = deadline
        self._clock = clock
        self._patience = patience
        self._worker: Worker | None = None
        self._stuck: Worker | None = None
        self._began = 0.0
        self._retry = float("-inf")
        self._failures = 0
        self._condition = _Condition(WorkerState.STOPPED, "nobody has asked yet")
        self.driver: Mapping[str, str] = {}
        self.hurry = False  # set by another thread: give up waiting
        self.restarts: Counter[str] = Counter({state.value: 0 for state in REASONS})
        self.left: deque[RawEvent] = deque()  # events that workers had handed over when they ended

    @property
    def state(self) -> WorkerState:
        """What the worker does, or why there is none."""
        return self._condition.state

    @property
    def detail(self) -> str:
        """The same in one sentence; empty while it runs."""
        return self._condition.detail

    @property
    def worker(self) -> Worker | None:
        """The present worker, ready or not."""
        return self._worker

    @property
    def may_start(self) -> bool:
        """Whether there is no worker and a new one need not wait."""
        return self._worker is None and self._stuck is None and self._clock() >= self._retry

    def ready(self, start: Callable[[], object]) -> Worker | None:
        """Give a worker that takes requests, or None if there is none now.

        ``start`` gives the first message for a new worker.

        Raises
        ------
        Hung
            If the new worker hangs in its start. The caller must `fail` then.
        """
        if self._stuck is not None and not self._bury():
            return None
        now = self._clock()
        if self._worker is None:
            if now < self._retry:
                return None
            try:
                self._worker = self._launch()
                self._worker.send(start())
            except (OSError, Broken) as error:
                self.fail(WorkerState.CRASHED, f"the worker cannot be started: {error}")
                return None
            self._began, self._condition = (
                now,
                _Condition(WorkerState.STARTING, "the driver is being asked for its GPUs"),
            )
        if self.state is WorkerState.STARTING and not self._greeted(self._worker):
            return None
        return self._worker

    def exchange(self, worker: Worker, request: object) -> object | None:
        """Send a request and give what comes back; None if the worker had ended, which is noted.

        Raises
        ------
        Hung
            If nothing comes back. The caller must `fail` then.
        """
        try:
            worker.send(request)
            message = self._wait(worker, _LONGEST_SECONDS)
        except Broken as error:
            self.fail(WorkerState.CRASHED, str(error))
            return None
        if message is None:
            raise Hung(worker.where())
        if self._failed(message):
            return None
        if self._clock() - self._began > _SOUND_SECONDS:
            self._failures = 0
        return message

    def fail(self, state: WorkerState, detail: str, *, at_once: bool = False) -> None:
        """End the worker, and let the next one wait the longer the more have failed, or not at all.

        ``at_once`` says that the next one will not do again what this one failed in.
        """
        self._end()
        if not at_once:
            delay = _BACK_OFF_SECONDS[min(self._failures, len(_BACK_OFF_SECONDS) - 1)]
            self._failures += 1
            self._retry = self._clock() + delay
        if state in REASONS:
            self.restarts[state.value] += 1
        if self._stuck is None:
            self._condition = _Condition(state, detail)

    def stop(self) -> None:
        """End the worker; the next request starts a new one."""
        self._end()
        self._failures, self._retry = 0, float("-inf")
        if self._stuck is None:
            self._condition = _Condition(WorkerState.STOPPED, "nobody asks")

    def _greeted(self, worker: Worker) -> bool:
        patience = _PATIENCE_SECONDS if self._patience is None else self._patience()
        try:
            message = self._wait(worker, patience)
        except Broken as error:
            self.fail(WorkerState.CRASHED, f"{error} while it started")
            return False
        if message is None:
            if self._clock() - self._began > _LONGEST_SECONDS * 4:
                raise Hung(worker.where())
            return False
        if self._failed(message):
            return False
        hello = message.get("hello") if isinstance(message, dict) else None
        if not isinstance(hello, dict):
            self.fail(WorkerState.CRASHED, "the worker does not greet")
            return False
        self.driver = {str(key): str(value)[:128] for key, value in hello.items()}
        self._condition = _Condition(WorkerState.RUNNING, "")
        return True

    def _failed(self, message: object) -> bool:
        """Whether the worker says that it cannot go on; that is noted."""
        if not isinstance(message, dict) or "failed" not in message:
            return False
        state, detail = WorkerState.ERROR, "the worker gives no reason"
        try:
            name, detail = message["failed"]
            state, detail = WorkerState(name), str(detail)[:256]
        except (TypeError, ValueError):
            pass
        self.fail(state, detail)
        return True

    def _wait(self, worker: Worker, patience: float) -> object | None:
        """Give the next message, or None after ``patience`` seconds; raises `Hung` when one group takes too long."""
        end = self._clock() + patience
        while True:
            left = end - self._clock()
            message = worker.receive(max(0.0, min(left, _LOOK_SECONDS)))
            if message is not None:
                return message
            now, where = self._clock(), worker.where()
            if where is not None and now - where.since > allowed_seconds(where.group, self.deadline):
                raise Hung(where)
            if now >= end:
                return None
            if self.hurry:
                raise Broken("nobody waits for it any more")

    def _end(self) -> None:
        worker, self._worker, self.driver = self._worker, None, {}
        if worker is None:
            return
        if worker.kill():
            self.left.extend(worker.events())
            worker.close()
        else:
            self._stuck = worker
            self._condition = _Condition(
                WorkerState.STUCK, "the worker was killed and does not end, the driver holds it; a reboot may be needed"
            )

    def _bury(self) -> bool:
        """Whether the worker that did not die has died by now."""
        worker = self._stuck
        if worker is None:
            return True
        if not worker.gone():
            return False
        self.left.extend(worker.events())
        worker.close()
        self._stuck = None
        self._condition = _Condition(WorkerState.HUNG, "the worker that did not end has ended at last")
        return True

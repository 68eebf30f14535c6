"""What collectors ask: the worker's answers, its events and its samples, with a deadline on everything."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hwsonde_exporter.nvml.answer import Answer, Event, Malformed, Reply, WorkerState, parse_reply
from hwsonde_exporter.nvml.fleet import Fleet
from hwsonde_exporter.nvml.kept import Kept
from hwsonde_exporter.nvml.launcher import ChildProcess, Launch, Worker
from hwsonde_exporter.nvml.quarantine import Quarantine
from hwsonde_exporter.nvml.scout import Scouts
from hwsonde_exporter.nvml.supervisor import Hung, Supervisor
from hwsonde_exporter.nvml.wire import NO_INSTANCE

_MAX_EVENTS = 10_000
_MAX_CALLS = 10_000
_MAX_ERRORS = 500
# Two seconds of samples at ten a second; beyond that the oldest are dropped.
_MAX_SAMPLES = 20
# A hang costs a restart, after which the same request is sent once more: so the other GPUs lose nothing.
_TRIES = 2
# States that pass, mostly, and how long whoever waits for that leaves the worker alone. One that crashes twice is not waited for.
_PASSING = frozenset({WorkerState.STARTING, WorkerState.HUNG})
_AGAIN_SECONDS = 0.05
# In these the driver says nothing of any GPU, and why lies neither in the library nor in whether there is a driver.
_SILENT = _PASSING | {WorkerState.CRASHED, WorkerState.STUCK, WorkerState.STOPPED}


@dataclass(frozen=True, slots=True)
class NvmlSettings:
    """What may be configured.

    Attributes
    ----------
    library
        Library to load in place of libnvidia-ml.so.1.
    deadline
        Seconds that one group of calls on one GPU may take before the worker is killed.
    serials
        Whether serial numbers are labels.
    hertz
        How often a second quantities are sampled that the driver keeps no samples of; 0 for never.
    """

    library: Path | None = None
    deadline: float = 2.0
    serials: bool = False
    hertz: float = 10.0


class Client:
    """The only way to NVML. Safe for several threads; what is asked at the same time is asked one after the other.

    The worker starts with the first request. No method raises: what is not known is not in the answer, and why is.

    Parameters
    ----------
    settings
        See `NvmlSettings`.
    launch
        Makes a worker; tests give their own.
    clock
        Monotonic seconds.
    until
        For whoever asks once: until when, by the clock, requests wait for a worker that starts, or for the next one after a hang.
        Their answers then say whether they are any (`Answer.unanswered`). None for whoever asks again.
    """

    def __init__(
        self,
        settings: NvmlSettings | None = None,
        launch: Launch = ChildProcess,
        clock: Callable[[], float] = time.monotonic,
        until: float | None = None,
    ) -> None:
        self.settings = settings or NvmlSettings()
        self._clock = clock
        self._until = until
        patience = None if until is None else self._left
        self._supervisor = Supervisor(launch, self.settings.deadline, clock, patience)
        self._fleet = Fleet()
        self._quarantine = Quarantine()
        self._scouts = Scouts(launch, self._quarantine, clock)
        self._kept = Kept()
        self._groups: set[str] = set()  # what was ever asked for
        self._numbers: set[int] = set()  # of the GPUs that the driver counts
        self._lock = threading.Lock()
        self._book_lock = threading.Lock()
        self._number = 0
        self._stopped = False
        self._events: deque[Event] = deque(maxlen=_MAX_EVENTS)
        self._last_event = 0  # number of the newest event
        self._lost_events = 0
        self._lost_by: tuple[Worker | None, int] = (None, 0)  # what the present worker has said of it
        self._calls: deque[tuple[str, float]] = deque(maxlen=_MAX_CALLS)
        self._errors: Counter[tuple[str, str]] = Counter()
        self._rejected: Counter[str] = Counter()
        self._fast: dict[tuple[str, str], deque[float]] = {}
        self._asked = float("-inf")  # monotonic time of the last request
        self._count: int | None = None  # GPUs that the driver counted the last time
        self._listening: tuple[Worker | None, bool] = (None, False)  # what a worker has said of it

    def configure(self, settings: NvmlSettings) -> None:
        """Take over settings; where they differ the worker ends, and the next request starts another."""
        if settings != self.settings:
            self.settings = settings
            with self._lock:
                self._scouts.stop()
                self._supervisor.stop()
                self._supervisor.deadline = settings.deadline

    def collect(self, groups: Collection[str], every: float = 0.0) -> Answer:
        """Ask for groups of readings (see `hwsonde_exporter.nvml.groups`), of all GPUs.

        Returns within the deadline of one group if that hangs, and within seconds otherwise; for whoever asks once, see ``until``,
        it may take as long as that. An empty ``groups`` asks only which GPUs there are.

        Parameters
        ----------
        groups
            Names of the groups.
        every
            How many seconds old the readings may be. Those of a GPU that does not answer are never given.
        """
        answer = self._answered(groups, every)
        if self._until is None:
            return answer
        while answer.state in _PASSING and not self._stopped and self._left() > 0:
            time.sleep(_AGAIN_SECONDS)
            answer = self._answered(groups, every)
        # That a GPU is lost is news, whoever else could not be asked.
        told = any(device.up is False for device in answer.devices)
        return replace(answer, unanswered=answer.state in _SILENT and not told)

    def _left(self) -> float:
        """Seconds for which whoever asks once waits for the worker."""
        return 0.0 if self._until is None else max(0.0, self._until - self._clock())

    def _answered(self, groups: Collection[str], every: float) -> Answer:
        self._asked = self._clock()
        with self._lock:
            due = every <= 0 or self._kept.due(groups, every, self._clock())
            answer = self._collect(groups if due else ())
            self._kept.note(answer)
            if every <= 0 or answer.state is not WorkerState.RUNNING:
                return answer
            if due:
                self._kept.store(groups, answer, self._clock())
                return answer
            return self._kept.complete(groups, answer)

    def known(self) -> tuple[WorkerState, list[tuple[str, str, str]]]:
        """Give what the worker does, and label, UUID and PCI address of each GPU ever seen; never waits for a request."""
        return self._supervisor.state, self._fleet.names()

    @property
    def listening(self) -> bool:
        """Whether the driver's events of all GPUs that it counts are heard; not before the present worker has said so."""
        worker, heard = self._listening
        return heard and worker is self._supervisor.worker and self._supervisor.state is WorkerState.RUNNING

    def idle(self) -> float:
        """Seconds since the last request. A worker that is lost is replaced only when somebody asks."""
        return self._clock() - self._asked

    def events(self, after: int = 0) -> tuple[list[Event], int]:
        """Give the events with a number above ``after``, oldest first, and how many were lost since the start.

        Only the newest 10,000 are kept. An event that was received before a worker died is here; none is here twice. What
        happens while no worker runs is not seen.
        """
        with self._book_lock:
            self._drain()
            return [event for event in self._events if event.sequence > after], self._lost_events

    def take_fast(self) -> list[tuple[str, str, str, float]]:
        """Give one sample of each fast quantity that has one: label and UUID of the GPU, name of the quantity, raw value.

        Never waits for the worker or for a request that is under way.
        """
        taken = []
        for (uuid, name), samples in list(self._fast.items()):
            try:
                value = samples.popleft()
            except IndexError:
                continue
            label = self._fleet.name(uuid)
            if label is not None:
                taken.append((label, uuid, name, value))
        return taken

    def take_calls(self) -> list[tuple[str, float]]:
        """Give group and seconds of each group of calls made since this was last asked."""
        taken = []
        while self._calls:
            taken.append(self._calls.popleft())
        return taken

    def errors(self) -> Mapping[tuple[str, str], int]:
        """Calls that failed since the start, by group and error."""
        with self._book_lock:
            return dict(self._errors)

    def reject(self, readings: Mapping[str, int]) -> None:
        """Count readings that a collector did not believe, by name."""
        with self._book_lock:
            self._rejected.update(readings)

    def rejected(self) -> Mapping[str, int]:
        """Readings that were not believed since the start, by name."""
        with self._book_lock:
            return dict(self._rejected)

    def restarts(self) -> Mapping[str, int]:
        """Workers that were lost since the start, by reason."""
        return dict(self._supervisor.restarts)

    def stop(self) -> None:
        """End the worker for good, and the request that is under way."""
        self._stopped = self._supervisor.hurry = True
        with self._lock:
            self._scouts.stop()
            self._supervisor.stop()

    def _collect(self, groups: Collection[str]) -> Answer:
        self._groups.update(groups)
        for _ in range(_TRIES):
            if self._stopped:
                break
            reply = self._ask(groups)
            if reply is not None:
                self._scouts.look(self._start(), self._groups, self._numbers, self.settings.deadline)
                return self._answer(reply)
            if not self._supervisor.may_start:
                break
        state = self._supervisor.state
        return Answer(state, self._supervisor.detail, self._fleet.dark(state, self._clock()))

    def _ask(self, groups: Collection[str]) -> Reply | None:
        """One try: a reply, or None if the supervisor knows why there is none."""
        try:
            worker = self._supervisor.ready(self._start)
            if worker is None:
                return None
            self._number += 1
            message = self._supervisor.exchange(
                worker,
                {
                    "number": self._number,
                    "groups": sorted(groups),
                    "avoid": self._quarantine.devices(),
                    "skip": self._quarantine.groups(),
                },
            )
        except Hung as hung:
            self._note_hang(hung)
            return None
        if message is None:
            if self._supervisor.state is not WorkerState.CRASHED:
                # The driver itself has gone, and when it comes back all is new.
                self._quarantine.clear()
            return None
        try:
            reply = parse_reply(message, self._number)
        except Malformed as error:
            self._supervisor.fail(WorkerState.CRASHED, f"the worker sends nonsense: {error}")
            return None
        self._note(reply)
        return reply

    def _start(self) -> dict[str, object]:
        library = self.settings.library
        return {
            "library": None if library is None else str(library),
            "hertz": self.settings.hertz,
            "events": True,
            "avoid": self._quarantine.devices(),
            "skip": self._quarantine.groups(),
        }

    def _answer(self, reply: Reply) -> Answer:
        now = self._clock()
        skipped = {number: self._quarantine.remaining(number, now) for number in self._numbers}
        devices = self._fleet.merge(reply, skipped, now)
        return Answer(WorkerState.RUNNING, "", devices, reply.gpus, self._supervisor.driver)

    def _note_hang(self, hung: Hung) -> None:
        where, place, known = hung.where, "", False
        if where is not None:
            place = f" in {where.group}"
            known = where.number >= 0
        if where is not None and known:
            place += f" of GPU {where.number}"
            self._quarantine.hang(where.number, where.group, self._clock())
            self._fleet.blame(where.number)
        self._supervisor.fail(
            WorkerState.HUNG, f"the driver did not answer{place}; the worker was killed", at_once=known
        )

    def _note(self, reply: Reply) -> None:
        self._calls.extend(reply.calls)
        self._listening = (self._supervisor.worker, reply.listening)
        if self._count not in {None, reply.gpus}:
            # The driver has numbered the GPUs anew: what is left alone by its number may be another one now.
            self._quarantine.clear()
        self._count, self._numbers = reply.gpus, set(range(reply.gpus))
        for (uuid, name), values in reply.fast.items():
            self._fast.setdefault((uuid, name), deque(maxlen=_MAX_SAMPLES)).extend(values)
        present = {device.uuid for device in reply.devices}
        for key in [key for key in self._fast if key[0] not in present]:
            del self._fast[key]
        with self._book_lock:
            for group, error, count in reply.errors:
                if (group, error) in self._errors or len(self._errors) < _MAX_ERRORS:
                    self._errors[group, error] += count
            worker, before = self._lost_by
            self._lost_by = (self._supervisor.worker, reply.lost_events)
            self._lost_events += max(0, reply.lost_events - (before if worker is self._supervisor.worker else 0))
            self._drain()

    def _drain(self) -> None:
        """Number the events that have come; those of a worker that has ended first."""
        raws = [self._supervisor.left.popleft() for _ in range(len(self._supervisor.left))]
        worker = self._supervisor.worker
        if worker is not None:
            raws += worker.events()
        for raw in raws:
            self._last_event += 1
            instance = None if raw.gpu_instance == NO_INSTANCE else raw.gpu_instance
            self._events.append(Event(self._last_event, raw.time, raw.uuid, raw.bus_id, raw.xid, instance))

"""Questions that may never be answered, each in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

from hwsonde_exporter.errors import ReadError

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")

MAX_THREADS = 64


class Hanging(ReadError):
    """A question that has not been answered in time; it still runs and is not asked again until it returns."""


class _Question(threading.Thread, Generic[Answer]):
    """One call in a thread of its own, because nothing else can be left behind when it hangs."""

    def __init__(self, name: str, call: Callable[[], Answer]) -> None:
        super().__init__(name=name, daemon=True)
        self._call = call
        self._answer: Answer | None = None
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            self._answer = self._call()
        except Exception as error:  # noqa: BLE001  (whatever it is, it goes to whoever asked)
            self._error = error

    def outcome(self) -> Answer | Exception:
        """Answer or error of a question that has ended; `Hanging` of one that has not."""
        if self.is_alive():
            return Hanging("no answer in time; it is not asked again until it returns")
        return self._error if self._error is not None else self._answer  # type: ignore[return-value]


class Asker(Generic[Key, Answer]):
    """Asks several things that may hang for ever, all at once, and waits for all of them together.

    A call on a network filesystem whose server is gone, or on a controller that does not answer, stays in the kernel for
    minutes or for ever and cannot be called off. So each has a thread of its own; one that has not come back in time is left
    behind, and the same thing is not asked again until it has. However many hang, the number of threads is bounded.

    Parameters
    ----------
    name
        Name of the threads.
    timeout
        Seconds after which what has not come back counts as hanging.
    max_threads
        Greatest number of threads at once, those that hang included.
    """

    def __init__(self, name: str, timeout: float, max_threads: int = MAX_THREADS) -> None:
        self._name = name
        self._timeout = timeout
        self._max_threads = max_threads
        self._hanging: dict[Key, _Question[Answer]] = {}

    @property
    def hanging(self) -> Mapping[Key, threading.Thread]:
        """Threads of the questions that had not been answered when they were last looked at."""
        return dict(self._hanging)

    def ask(self, calls: Mapping[Key, Callable[[], Answer]]) -> dict[Key, Answer | Exception]:
        """Answer of each call, or the error that it ended with: `Hanging` where it has not ended.

        Those for which there is no room, since too many others hang, are left out: nothing is known of them.
        """
        self._hanging = {key: question for key, question in self._hanging.items() if question.is_alive()}
        deadline = time.monotonic() + self._timeout
        outcomes: dict[Key, Answer | Exception] = {}
        for key, question in self._start(calls, deadline).items():
            question.join(0 if key in self._hanging else max(0.0, deadline - time.monotonic()))
            outcomes[key] = question.outcome()
            if isinstance(outcomes[key], Hanging):
                self._hanging[key] = question
        return outcomes

    def _start(self, calls: Mapping[Key, Callable[[], Answer]], deadline: float) -> dict[Key, _Question[Answer]]:
        questions: dict[Key, _Question[Answer]] = {}
        running: list[_Question[Answer]] = []
        for key, call in calls.items():
            question = self._hanging.get(key)
            if question is None:
                running = self._make_room(running, deadline)
                if len(self._hanging) + len(running) >= self._max_threads:
                    continue
                question = _Question(self._name, call)
                try:
                    question.start()
                except RuntimeError:  # the limit on threads of the process or of its cgroup is reached
                    continue
                running.append(question)
            questions[key] = question
        return questions

    def _make_room(self, running: list[_Question[Answer]], deadline: float) -> list[_Question[Answer]]:
        """Wait until there is room for one more thread or the time is up; give those that still run."""
        while running and len(self._hanging) + len(running) >= self._max_threads:
            remaining = deadline - time.monotonic()
            running[0].join(max(0.0, remaining))
            running = [question for question in running if question.is_alive()]
            if remaining <= 0:
                break
        return running

"""Recording: learn the host healthy, make faults in random order, look on healthy; continue where a killed run ended."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TextIO

from benchmarks.faults.errors import BenchError
from benchmarks.faults.injectors.base import Injector, Room
from benchmarks.faults.labels import Benign, Book, Injection, Session
from benchmarks.faults.workload import MEASURED

_BEAT_SECONDS = 5.0
_PREPARE_SECONDS = 8.0
_COMPARE_SECONDS = 25.0


@dataclass(frozen=True, slots=True)
class Durations:
    """Seconds.

    Attributes
    ----------
    learn
        Healthy, only learned from; not judged.
    before, after
        Healthy, judged, before the first fault and after the last.
    on, off
        A fault, and the healthy stretch before each.
    settle
        Healthy after a killed run went on.
    """

    learn: float = 3000.0
    before: float = 600.0
    on: float = 25.0
    off: float = 35.0
    after: float = 1200.0
    settle: float = 60.0

    def total(self, faults: int) -> float:
        """How long all of it takes."""
        return self.settle + self.learn + self.before + faults * (self.on + self.off + 3) + self.after


class Host(Room, Protocol):
    """A room, and how its workload is tended."""

    def units(self) -> tuple[str, ...]:
        """Units of the workload that can be started anew."""

    def restart(self, unit: str) -> None:
        """Stop and start one."""

    def tend(self) -> list[str]:
        """Start again what has ended; give words."""


class Clock(Protocol):
    """Time, which tests replace."""

    def now_ms(self) -> int:
        """UTC."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class RealClock:
    """The host's."""

    def now_ms(self) -> int:
        """UTC."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class Line:
    """One line of progress: rewritten in place on a terminal, once a minute elsewhere."""

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self._stream, self._terminal = stream, stream.isatty()
        self._shown = float("-inf")

    def show(self, text: str, now: float) -> None:
        """Show how things stand at ``now`` (monotonic seconds)."""
        if self._terminal:
            self._stream.write(f"\r\x1b[K{text[:150]}")
        elif now - self._shown >= 60.0:
            self._shown = now
            self._stream.write(f"{text}\n")
        self._stream.flush()

    def say(self, text: str) -> None:
        """Write a line that stays."""
        self._stream.write(f"\r\x1b[K{text}\n" if self._terminal else f"{text}\n")
        self._stream.flush()


def order(kinds: Iterable[str], repetitions: int, seed: int) -> list[tuple[str, int]]:
    """Kinds in random order, each once before any comes a second time, so that a recording that ends early has all of them."""
    chance, found = random.Random(seed), []
    for repetition in range(1, repetitions + 1):
        round_ = list(kinds)
        chance.shuffle(round_)
        found += [(kind, repetition) for kind in round_]
    return found


class Recorder:
    """Runs a session to its end.

    Parameters
    ----------
    book, session
        Where it is written down; a session that was killed goes on with its next fault.
    host
        The running bench.
    kinds
        Class of each kind of fault.
    durations, clock, line
        Seconds, time, and where progress is shown.
    """

    def __init__(
        self,
        book: Book,
        session: Session,
        host: Host,
        kinds: Mapping[str, Callable[[], Injector]],
        durations: Durations,
        clock: Clock,
        line: Line,
    ) -> None:
        self.book, self.session, self.host, self.kinds = book, session, host, kinds
        self.durations, self.clock, self.line = durations, clock, line
        self._saved = float("-inf")

    def run(self) -> None:
        """Go through the stages that are left."""
        session, seconds = self.session, self.durations
        now = self.clock.now_ms()
        again = bool(session.segments)
        session.segments.append([now, now])
        self._save()
        if again and session.stage != "learn":
            self._wait(seconds.settle, "settling")
        if session.stage == "learn":
            self._healthy(seconds.learn, "learning", ("training",))
            session.learned_ms = self.clock.now_ms()
            self._stage("before")
        if session.stage == "before":
            self._healthy(seconds.before, "healthy, before", ("training", "ring"))
            self._stage("inject")
        if session.stage == "inject":
            while session.done < len(session.plan):
                self._next()
            self._stage("after")
        if session.stage == "after":
            self._healthy(seconds.after, "healthy, after", ("reader", "training"))
            self._stage("done")

    def _stage(self, name: str) -> None:
        self.session.stage = name
        self._save()

    def _healthy(self, seconds: float, what: str, units: tuple[str, ...]) -> None:
        """Look on, and let units of the workload end and start on the way, as jobs do."""
        mine = [unit for unit in units if unit in self.host.units()]
        for unit in mine:
            self._wait(seconds / (len(mine) + 1), what)
            began = self.clock.now_ms()
            self.host.restart(unit)
            self._benign(f"{unit} was stopped and started", began)
        self._wait(seconds / (len(mine) + 1), what)

    def _next(self) -> None:
        """Make the next fault of the plan, or write down why it cannot be made."""
        kind, repetition = self.session.plan[self.session.done]
        make = self.kinds.get(kind)
        why = "this version has no such kind" if make is None else None
        injector = make() if make is not None else None
        if injector is None or (why := injector.missing(self.host)):
            self.session.skipped[kind] = why or ""
            self.session.done += 1
            self._save()
            return
        compare = min(_COMPARE_SECONDS, 0.7 * self.durations.off)
        prepare = min(_PREPARE_SECONDS, 0.5 * compare)
        self._wait(self.durations.off - compare, f"healthy, before {kind}")
        first = self._progress()
        self._wait(compare - prepare, f"healthy, before {kind}")
        try:
            injector.prepare(self.host)
            self._wait(prepare, f"healthy, before {kind}")
            before = rates(first, self._progress())
        except (BenchError, OSError) as error:
            self.end(injector, self.host)
            self.session.skipped[kind] = f"could not be prepared: {error}"
            self.session.done += 1
            self._save()
            return
        except BaseException:
            self.end(injector, self.host)
            raise
        self._inject(injector, repetition, before)

    def _inject(self, injector: Injector, repetition: int, before: Mapping[str, float]) -> None:
        label = Injection(
            injector.kind,
            repetition,
            tuple(sorted(injector.subsystems)),
            injector.node(self.host),
            self.clock.now_ms(),
        )
        self.session.injections.append(label)
        # Whatever becomes of it: a run that is killed now goes on with the next.
        self.session.done += 1
        self._save()
        try:
            first = self._progress()
            injector.start(self.host)
            self._wait(max(self.durations.on, injector.least_seconds), f"fault {injector.kind} {repetition}")
            effect = injector.effect(self.host)
            label.effective, label.effect = effect.acted, effect.words
            label.harm = injector.harm(before, rates(first, self._progress()))
        except (BenchError, OSError) as error:
            label.aborted, label.effect = True, f"failed: {error}"
        except BaseException:
            label.aborted, label.effect = True, "the run was ended meanwhile"
            raise
        finally:
            self.end(injector, self.host)
            label.end_ms = self.clock.now_ms()
            self._save()
        self.line.say(f"{label.kind} {repetition}: {'acted' if label.effective else 'no effect'}: {label.effect}")

    @staticmethod
    def end(injector: Injector, host: Room) -> None:
        """End a fault for certain."""
        with suppress(BenchError, OSError):
            injector.stop(host)

    def _progress(self) -> dict[str, tuple[float, float]]:
        """Seconds and progress of each part that is measured."""
        return {part: (self.host.now(), self.host.progress(part)) for part in MEASURED if self.host.pid_of(part)}

    def _wait(self, seconds: float, what: str) -> None:
        end = self.host.now() + seconds
        while (left := end - self.host.now()) > 0:
            self.clock.sleep(min(left, 1.0))
            began = self.clock.now_ms()
            for words in self.host.tend():
                self._benign(words, began)
            self.session.segments[-1][1] = self.clock.now_ms()
            now = self.host.now()
            if now - self._saved >= _BEAT_SECONDS:
                self._save()
            self.line.show(f"{self.session.done}/{len(self.session.plan)} faults, {what}: {max(left, 0):.0f} s", now)

    def _benign(self, what: str, began: int) -> None:
        self.session.benign.append(Benign(what, began, self.clock.now_ms()))
        self._save()

    def _save(self) -> None:
        self.session.segments[-1][1] = max(self.clock.now_ms(), self.session.segments[-1][1])
        self._saved = self.host.now()
        self.book.save()


def rates(first: Mapping[str, tuple[float, float]], last: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """Progress a second of the parts that ran all the time; one that began anew meanwhile counts as standing."""
    found = {}
    for part, (begin, low) in first.items():
        end, high = last.get(part, (begin, low))
        if end > begin:
            found[part] = max(high - low, 0.0) / (end - begin)
    return found

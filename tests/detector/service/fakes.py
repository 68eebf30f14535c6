"""A clock, a source, an engine and a recorder that a test drives by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.errors import StateError
from hwsonde_detector.plan import Plan
from hwsonde_detector.settings import Settings
from hwsonde_detector.sources.base import Read
from hwsonde_detector.types import (
    Entity,
    EntityReport,
    Episode,
    EpisodeEvent,
    Learning,
    Outputs,
    Phase,
    SampleBatch,
    Score,
    Series,
    Subsystem,
)
from hwsonde_detector.types.guidance import UNGUIDED, Guidance

START = 1_796_000_000_000
HOST = Entity((("node", "n1"),))


class FakeClock:
    """Moves only when told to, or when the loop waits."""

    def __init__(self) -> None:
        self.wall, self.elapsed, self.waits = START, 1000.0, []  # type: ignore[var-annotated]

    def now_ms(self) -> int:
        return self.wall

    def monotonic(self) -> float:
        return self.elapsed

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.wall += round(seconds * 1000)
        self.elapsed += seconds

    def wake(self) -> None:
        pass


class FakeSource:
    """Holds one sample a second, 437 ms after it, since ``first_ms``; ``trouble`` is raised by the next reads, one each."""

    def __init__(self, clock: FakeClock, first_ms: int = START - 5_000) -> None:
        self.clock, self.first_ms = clock, first_ms
        self.trouble: list[BaseException] = []
        self.asked: list[tuple[int, int]] = []
        self.late_ms = 80
        self.closed = False

    def read(self, since_ms: int, now_ms: int) -> Read:
        self.asked.append((since_ms, now_ms))
        if self.trouble:
            raise self.trouble.pop(0)
        low = max(since_ms + 1, self.first_ms)
        stored = min(now_ms, self.clock.wall - self.late_ms)
        times = np.array([second * 1000 + 437 for second in range(low // 1000 - 1, stored // 1000 + 1)], np.int64)
        times = times[(times >= low) & (times <= stored)]
        series = (Series("up", (("node", "n1"),)),) if times.size else ()
        offsets = np.array([0, len(times)] if times.size else [0], np.int64)
        return Read(SampleBatch(series, offsets, times, np.ones(len(times))), raw=b"x", since_ms=since_ms)

    def history(self, start_ms: int, end_ms: int, step_ms: int | None = None) -> Iterator[Read]:
        yield self.read(start_ms, end_ms)

    def close(self) -> None:
        self.closed = True


class FakeEngine:
    """Scores each new row once; ``trouble`` is raised by the next steps; ``events`` come with the next one.

    An episode is open while the newest row lies in ``fault`` (first and last ms). ``others`` are the scrape intervals of hosts that have no rows yet.
    """

    def __init__(self, plan: Plan | None = None) -> None:
        self.plan = plan or Plan(Settings(), ())
        self.rows: list[int] = []
        self.times: list[int] = []
        self.told: list[Guidance] = []
        self.trouble: list[Exception] = []
        self.events: list[EpisodeEvent] = []
        self.fault = (0, 0)
        self.others: tuple[int, ...] = ()
        self.during: Callable[[], None] = lambda: None
        self.alive: Callable[[], None] = lambda: None

    def step(
        self, batch: SampleBatch, now_ms: int, guidance: Guidance = UNGUIDED, alive: Callable[[], None] = lambda: None
    ) -> Outputs:
        self.times.append(now_ms)
        self.alive = alive
        self.told.append(guidance)
        if self.trouble:
            raise self.trouble.pop(0)
        self.during()
        last = self.rows[-1] if self.rows else 0
        new = [int(time) for time in batch.times if time > last]
        self.rows += new
        if not self.rows:
            return Outputs()
        scores = tuple(window(time) for time in new)
        learning = Learning(len(self.rows), 240, None, frozen=False, channels=1, channels_judged=1)
        events, self.events = tuple(self.events), []
        opened = (event(Phase.OPENED).episode,) if self.fault[0] <= self.rows[-1] <= self.fault[1] else ()
        report = EntityReport(HOST, scores, learning, 1000, opened, skipped={"not_full": 1, "reset": 2} if new else {})
        report = replace(report, excused={"start": 3} if new else {}, changes={"learned": 1} if new else {})
        slow = tuple(
            replace(report, entity=Entity((("node", f"slow-{interval}"),)), scores=(), interval_ms=interval)
            for interval in self.others
        )
        return Outputs((report, *slow), events)

    def last_row_ms(self) -> int | None:
        return self.rows[-1] if self.rows else None

    def snapshot(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"last": self.last_row_ms()}, {"rows": np.array(self.rows, np.int64)}

    def restore(self, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        if "last" not in document:
            raise StateError("no rows in it")
        self.rows = arrays["rows"].tolist()


class FakeRecorder:
    """Keeps what it was given."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, Read]] = []
        self.told: list[Guidance] = []
        self.starts: list[Mapping[str, Any] | None] = []
        self.closed = False

    def record(self, now_ms: int, read: Read) -> None:
        self.kept.append((now_ms, read))

    def record_guidance(self, guidance: Guidance) -> None:
        self.told.append(guidance)

    def record_start(self, document: Mapping[str, Any] | None, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.starts.append(document)

    def close(self) -> None:
        self.closed = True


def window(end_ms: int, fused: float = 0.5, *, calibrated: bool = True) -> Score:
    return Score(HOST, end_ms, fused, {}, {Subsystem.CPU: fused}, (), calibrated, 1.0, 1.0, 0.0)


def event(phase: Phase, start_ms: int = START) -> EpisodeEvent:
    closed = phase is Phase.CLOSED
    episode = Episode(
        f"n1@{start_ms}", HOST, start_ms, start_ms, start_ms + 5 if closed else None, Subsystem.CPU, 2.0, "n1 cpu: busy"
    )
    return EpisodeEvent(phase, start_ms + 5, episode)

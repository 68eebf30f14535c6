"""A loop whose clock, source, engine and recorder are fakes."""

from __future__ import annotations

from pathlib import Path

from hwsonde_detector import telemetry
from hwsonde_detector.service.loop import Loop
from hwsonde_detector.service.parts import Parts
from hwsonde_detector.service.saving import Saver
from hwsonde_detector.telemetry import Counters
from hwsonde_detector.types import Outputs

from .fakes import FakeClock, FakeEngine, FakeRecorder, FakeSource


class Bench:
    """A loop and everything around it."""

    def __init__(self, directory: Path | None = None, **parts: object) -> None:
        self.clock = FakeClock()
        self.source, self.engine, self.recorder = FakeSource(self.clock), FakeEngine(), FakeRecorder()
        self.counters = Counters()
        self.seen: list[Outputs] = []
        saver = Saver(directory, 60.0, self.counters)
        made = Parts(self.source, self.engine, "http://p", recorder=self.recorder, **parts)  # type: ignore[arg-type]
        self.loop = Loop(made, self.clock, self.counters, saver, observers=(self.seen.append,))

    def turn(self, count: int = 1) -> None:
        for _ in range(count):
            pause = self.loop.turn()
            if pause:
                self.clock.wait(pause)

    def caught_up(self) -> None:
        while self.loop.turn() == 0.0:
            pass
        self.clock.wait(0.2)

    def count(self, family: telemetry.Family, label: str = "") -> float:
        return self.counters.value(family, label)

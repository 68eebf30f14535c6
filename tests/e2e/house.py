"""What the end-to-end tests share: a stack that is watched, and waiting for what must come."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from quickstart.layout import Options, Ports
from quickstart.pages import Event
from quickstart.readings import Health
from quickstart.stack import Stack
from quickstart.watch import Watch
from tests.e2e.noise import Noise
from tests.e2e.simulated import SimulatedHost

# Two scrapes a second and little learning: what takes minutes on a real host takes one here.
SCRAPE_MS = 500
LEARNING = {"first_rows": 30, "calibrated_rows": 150}
# So few rows say nothing of one window in a thousand, the shipped risk; `./run demo` shows a fault at shipped settings.
EPISODES = {"risk": 0.005}
NODE = "e2e-host"
# Share of scrapes that may miss their deadline of 450 ms: a starved host delays every program.
LATE_SHARE = 0.05


def free_numbers(count: int) -> list[int]:
    """So many ports that nobody holds now."""
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    numbers = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return numbers


def free_ports() -> Ports:
    """Five ports that nobody holds now."""
    return Ports(*free_numbers(5))


# The same for all tests, as a user's are from start to start: kept data tells targets apart by their ports.
PORTS = free_ports()


class House:
    """A running stack and everything that it said.

    Parameters
    ----------
    data
        Its data directory; kept models there are used.
    detector
        More of the detector's configuration.
    """

    def __init__(self, data: Path, host: SimulatedHost, detector: Mapping[str, Any] | None = None) -> None:
        self.notes: list[str] = []
        self.events: list[Event] = []
        self.noise = Noise()
        more = {"learning": LEARNING, "episodes": EPISODES, **(detector or {})}
        options = Options(data, PORTS, NODE, scrape_ms=SCRAPE_MS, detector=more, exporter=host.flags)
        self.stack = Stack(options, self.notes.append)
        self.data = data

    def __enter__(self) -> Self:
        self.stack.start()
        self.watch = Watch(self.stack)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.watch.close()
        self.stack.stop()

    def look(self) -> Health:
        """Read everything once."""
        self.events += self.watch.look()
        self.noise.add(self.watch.health.score)
        return self.watch.health

    def until(self, true: Callable[[Health], bool], seconds: float, what: str) -> Health:
        """Look until it is so; fails after ``seconds`` with what is known."""
        end = time.monotonic() + seconds
        while not true(health := self.look()):
            assert time.monotonic() < end, f"{what}: not after {seconds:.0f} s; {self.seen()}"
            time.sleep(0.25)
        return health

    def rest(self, seconds: float) -> None:
        """Look on for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look()
            time.sleep(0.25)

    def quiet(self) -> Health:
        """Wait until scores flow, are low, and the rows after a start in which nothing is raised are over."""
        self.until(lambda health: health.windows_scored >= 14 and health.calibrated, 60, "scores")
        calm = 0

        def at_rest(health: Health) -> bool:
            nonlocal calm
            calm = calm + 1 if health.score is not None and health.score < 0.7 and not health.incidents else 0
            return calm >= 8

        return self.until(at_rest, 120, "a quiet host")

    def triggers(self) -> list[Event]:
        """Pages."""
        return [event for event in self.events if event.action == "trigger"]

    def resolves(self) -> list[Event]:
        """Their ends."""
        return [event for event in self.events if event.action == "resolve"]

    def seen(self) -> str:
        """Everything that tells a failure of the programs from a machine that has no time for them."""
        return f"{self.watch.health}; errors {self.watch.errors}: {self.notes}; {self.events}; {self.noise}"

    def expect_no_errors(self) -> None:
        """Fails if anything went wrong but a few deadlines, which any program misses on a starved host."""
        late = self.watch.health.late
        assert self.watch.errors == late, self.seen()
        # Exporter and detector.
        scrapes = 2 * (time.time() - self.stack.started) * 1000 / SCRAPE_MS
        assert late <= max(3.0, LATE_SHARE * scrapes), self.seen()

    def log(self, name: str) -> str:
        """What a program wrote."""
        return (self.stack.options.logs / f"{name}.log").read_text(encoding="utf-8", errors="replace")


def copied(learned: Path, target: Path) -> Path:
    """A data directory of one's own that knows what was learned."""
    shutil.copytree(
        learned, target, ignore=shutil.ignore_patterns("lock", "config", "logs", "events.jsonl", "queries.active")
    )
    return target

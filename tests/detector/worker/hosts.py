"""A made-up host whose counters and gauges are known, as batches of samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from hwsonde_detector.plan import Plan
from hwsonde_detector.settings import DetectorSettings, EpisodeSettings, LearningSettings, Settings
from hwsonde_detector.signals.profiles.rules import Formula, Part, Profile, Reading, Rule
from hwsonde_detector.types import Entity, EpisodeEvent, Outputs, Phase, SampleBatch, Score, Series, Subsystem
from hwsonde_detector.worker import WorkerState, step

START_MS = 1_800_000_000_000
ENTITY = Entity((("cluster", "lab"), ("node", "n1")))
_TARGET = (("cluster", "lab"), ("instance", "n1:9880"), ("job", "hwsonde-exporter"), ("node", "n1"))

SUBSYSTEMS = (Subsystem.CPU, Subsystem.MEMORY, Subsystem.NETWORK, Subsystem.STORAGE)
CHANNELS = tuple(f"{subsystem}_{index}" for subsystem in SUBSYSTEMS for index in range(5))


def rule(name: str, *, subsystem: Subsystem, weight: float = 1.0) -> Rule:
    return Rule(
        name,
        Formula.PLAIN,
        (Part(f"m_{name}_total", Reading.RATE),),
        (),
        subsystem,
        floor=0.5,
        weight=weight,
        unit="bytes/s",
    )


PROFILE = Profile("made-up", tuple(rule(name, subsystem=Subsystem(name.split("_")[0])) for name in CHANNELS))
SETTINGS = Settings(
    learning=LearningSettings(first_rows=40, calibrated_rows=120, memory_rows=600),
    # Few trees: growing them is most of what these tests wait for; nor is there time to learn for minutes.
    detectors=DetectorSettings(trees=5, alone_after_ms=0),
    episodes=EpisodeSettings(settle_rows=5),
)
PLAN = Plan(SETTINGS, (PROFILE,))

Fault = Callable[[str, int, float], float]


def healthy(name: str, second: int, value: float) -> float:
    return value


def rates(
    seconds: int, seed: int = 7, fault: Fault = healthy, names: Iterable[str] = CHANNELS
) -> dict[str, np.ndarray]:
    """Rates by channel, one a second: a level of its own and noise, changed by ``fault(name, second, value)``."""
    made = {}
    for index, name in enumerate(names):
        noise = np.random.default_rng(seed * 1000 + index).normal(0, 3, seconds)
        made[name] = np.array(
            [fault(name, second, max(100 + 10 * index + noise[second], 0.0)) for second in range(seconds)]
        )
    return made


def batches(
    made: dict[str, np.ndarray], *, size: int = 1, skip: frozenset[int] = frozenset()
) -> list[tuple[SampleBatch, int]]:
    """Counters of these rates, scraped once a second, ``size`` scrapes a batch, without the seconds in ``skip``."""
    series = tuple(sorted(Series(f"m_{name}_total", _TARGET) for name in made))
    totals = np.array([np.cumsum(made[one.name[2:-6]]) for one in series])
    seconds = totals.shape[1]
    result = []
    for begin in range(0, seconds, size):
        kept = [second for second in range(begin, min(begin + size, seconds)) if second not in skip]
        times = np.tile(START_MS + 1000 * np.array(kept, np.int64), len(series))
        offsets = np.arange(len(series) + 1, dtype=np.int64) * len(kept)
        now = START_MS + 1000 * (min(begin + size, seconds) - 1) + 150
        result.append((SampleBatch(series, offsets, times, totals[:, kept].ravel()), now))
    return result


def play(
    ticks: Iterable[tuple[SampleBatch, int]], plan: Plan = PLAN, state: WorkerState | None = None
) -> tuple[WorkerState, list[Outputs]]:
    state = state if state is not None else WorkerState()
    outputs = []
    for batch, now in ticks:
        state, output = step(state, batch, now, plan)
        outputs.append(output)
    return state, outputs


def scores(outputs: Iterable[Outputs]) -> list[Score]:
    return [score for output in outputs for report in output.reports for score in report.scores]


def events(outputs: Iterable[Outputs]) -> list[EpisodeEvent]:
    return [event for output in outputs for event in output.events]


def second_of(ms: int) -> int:
    return (ms - START_MS) // 1000


def burst(names: tuple[str, ...], begin: int, end: int, factor: float = 3.0):
    return lambda name, second, value: value * factor if name in names and begin <= second < end else value


def phases(outputs):
    return [event.phase for event in events(outputs) if event.phase is not Phase.CHANGED]

"""Steps that open and close an incident on one of a few hosts, without an engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hwsonde_detector.incidents.book import Book, Mode
from hwsonde_detector.incidents.store import Store
from hwsonde_detector.types import (
    Channel,
    Entity,
    EntityReport,
    Episode,
    EpisodeEvent,
    Frame,
    Learning,
    Outputs,
    Phase,
    Score,
    SettingFinding,
    Subsystem,
)
from hwsonde_detector.web.history import History
from tests.detector.web.data import NOW, TOP, StillClock, entity

CIRCLE = (("cluster", "a"), ("hardware", "h100"))
SICK = entity("node17")
HOSTS = (SICK, entity("node18"), entity("node19"))
LEARNING = Learning(3000, 240, NOW, frozen=False, channels=9, channels_judged=8)
FINDING = SettingFinding(SICK, "cpu.governor", "", "powersave", "performance", 2, 2, "performance", NOW - 60_000)


def score(host: Entity, end_ms: int, fused: float) -> Score:
    top = TOP if fused >= 1 else ()
    parts = {Subsystem.CPU: fused * 0.8, Subsystem.STORAGE: fused * 0.2}
    return Score(host, end_ms, fused, {"zscore": fused}, parts, top, True, 1.0, 0.97, 0.1)


def episode(onset_ms: int, host: Entity = SICK, **more: object) -> Episode:
    first = ((TOP[0].channel.name, onset_ms), (TOP[2].channel.name, onset_ms + 5000))
    title = f"{host} cpu: cpu_sampled_busy_ratio 98.1 %, expected at most 29 %, since 02:14:07Z"
    made = Episode(
        f"{host}@{onset_ms}",
        host,
        onset_ms + 3000,
        onset_ms,
        None,
        Subsystem.CPU,
        2.6,
        title,
        TOP,
        first,
        uncertainty_ms=1000,
    )
    return replace(made, **more)


def rows(host: Entity, at_ms: int, onset_ms: int) -> Frame:
    """A minute of rows; the first channel jumps at the onset."""
    channels: tuple[Channel, ...] = tuple(part.channel for part in TOP)
    times = np.arange(at_ms - 59_000, at_ms + 1, 1000)
    values = np.tile([0.2, 0.5, 10.0, 1e6, 1e5], (len(times), 1))
    values[times >= onset_ms, 0] = 0.98
    return Frame(host, channels, times, values)


def step(
    at_ms: int, *, open_one: Episode | None = None, events: tuple[EpisodeEvent, ...] = (), loud: bool = False
) -> Outputs:
    reports = []
    for host in HOSTS:
        sick = host == (open_one.entity if open_one else SICK) and loud
        reports.append(
            EntityReport(
                host,
                (score(host, at_ms, 2.6 if sick else 0.4),),
                LEARNING,
                1000,
                (open_one,) if open_one is not None and host == open_one.entity else (),
                settings=(FINDING,) if sick else (),
                rows=rows(host, at_ms, open_one.onset_ms if sick and open_one else at_ms + 1),
                circle=CIRCLE,
            )
        )
    return Outputs(tuple(reports), events)


def book(folder=None, clock: StillClock | None = None, **kept: int) -> tuple[Book, History, StillClock]:
    history, clock = History(), clock or StillClock()
    made = Book(Store(folder, **kept), history, clock, Mode(version="0.1"))
    made.resume(())
    return made, history, clock


def run(made: Book, history: History, onset_ms: int, *, close: bool = True, host: Entity = SICK) -> Episode:
    """Sixty quiet seconds, then twenty of trouble."""

    def take(outputs: Outputs) -> None:
        history.take(outputs)
        made.take(outputs)

    for at_ms in range(onset_ms - 60_000, onset_ms, 1000):
        take(step(at_ms))
    one = episode(onset_ms, host)
    for second in range(20):
        at_ms = onset_ms + 1000 * second
        opened = (EpisodeEvent(Phase.OPENED, at_ms, one),) if second == 3 else ()
        take(step(at_ms, open_one=one if second >= 3 else None, events=opened, loud=True))
    if close:
        one = replace(one, end_ms=onset_ms + 20_000)
        take(step(onset_ms + 20_000, events=(EpisodeEvent(Phase.CLOSED, onset_ms + 20_000, one),)))
    return one

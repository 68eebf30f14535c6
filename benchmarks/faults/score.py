"""Scoring a recording without injecting: who found what, when, what was named, and what was false."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.faults.alarms import Alarm, Voice
from benchmarks.faults.errors import BenchError
from benchmarks.faults.followers import Follower, MeanZ, Rules, Shipped
from benchmarks.faults.labels import DATA, GRACE_MS, Injection, Session, guards, inside, intersect, length, without
from benchmarks.faults.stage import RULES
from benchmarks.faults.thinning import Thinner
from hwsonde_detector.config import load_config, load_profiles
from hwsonde_detector.errors import ArchiveError, ConfigError
from hwsonde_detector.plan import Plan
from hwsonde_detector.service.wiring import make_plan
from hwsonde_detector.sources.archive import ArchiveSource, Tick
from hwsonde_detector.types import SampleBatch

DAY_MS = 86_400_000
REVEAL = Path(__file__).resolve().parents[2] / "detector_sidecar" / "hwsonde_detector" / "presets" / "reveal.yaml"


@dataclass(slots=True)
class Outcome:
    """What a method made of one injection.

    Attributes
    ----------
    kind, repetition, effective, harm, single
        Of the injection; ``single`` says that only one subsystem is a right answer.
    judged
        Whether the method was able to say anything then.
    found, seconds, subsystem, right
        Whether an alarm began while it acted or within the grace after it; how long after its start, what was named, and whether that was right.
    masked
        Not found, while an alarm that had begun earlier went on.
    """

    kind: str
    repetition: int
    effective: bool
    harm: float | None
    single: bool
    judged: bool
    found: bool = False
    seconds: float | None = None
    subsystem: str = ""
    right: bool = False
    masked: bool = False


@dataclass(slots=True)
class Result:
    """What a method made of a recording.

    ``quiet_ms`` is the time without any fault that it judged, ``false_pages`` the alarms that began in it; ``ready_share`` the part of
    the judged recording in which it was able to say anything. ``copies``: all of it comes from so many thinnings of the same recording.
    """

    method: str
    outcomes: list[Outcome] = field(default_factory=list)
    quiet_ms: int = 0
    false_pages: int = 0
    false_alarms: list[Alarm] = field(default_factory=list)
    ready_share: float = 0.0
    copies: int = 1


def together(results: Sequence[Result]) -> Result:
    """One result of a method's results with the same recording, thinned at several phases."""
    return Result(
        results[0].method,
        [outcome for one in results for outcome in one.outcomes],
        sum(one.quiet_ms for one in results),
        sum(one.false_pages for one in results),
        [alarm for one in results for alarm in one.false_alarms],
        sum(one.ready_share for one in results) / len(results),
        len(results),
    )


def judge(method: str, sessions: Iterable[Session], voices: Mapping[str, Voice]) -> Result:
    """Compare what a method said with what was done.

    False pages are those of the hosts that were recorded for real; simulated ones are as quiet as they were written.
    """
    sessions = list(sessions)
    result = Result(method)
    holes = guards(sessions)
    observed = ready = 0
    for session in sessions:
        for one in session.injections:
            if not one.aborted and one.end_ms is not None:
                result.outcomes.append(_outcome(one, voices.get(one.node, Voice())))
        voice = voices.get(session.node, Voice())
        spans = session.observed()
        heard = intersect(spans, [(voice.ready_ms, 1 << 62)]) if voice.ready_ms is not None else []
        quiet = without(heard, holes)
        observed, ready = observed + length(spans), ready + length(heard)
        result.quiet_ms += length(quiet)
        result.false_alarms += [alarm for alarm in voice.alarms if inside(alarm.start_ms, quiet)]
    result.false_pages = len(result.false_alarms)
    result.ready_share = ready / observed if observed else 0.0
    return result


def _outcome(one: Injection, voice: Voice) -> Outcome:
    end_ms = one.end_ms if one.end_ms is not None else one.start_ms
    judged = voice.ready_ms is not None and voice.ready_ms <= one.start_ms
    outcome = Outcome(one.kind, one.repetition, one.effective, one.harm, len(one.subsystems) == 1, judged)
    if not judged:
        return outcome
    # That the data are at fault, too, is no answer to what is wrong with the host.
    mine = [alarm for alarm in voice.alarms if DATA in one.subsystems or alarm.subsystem != DATA]
    within = [alarm for alarm in [*mine, *voice.findings] if one.start_ms <= alarm.start_ms < end_ms + GRACE_MS]
    first = min(within, key=lambda alarm: alarm.start_ms, default=None)
    if first is None:
        outcome.masked = any(alarm.start_ms < one.start_ms <= alarm.end_ms for alarm in mine)
        return outcome
    outcome.found, outcome.seconds = True, (first.start_ms - one.start_ms) / 1000
    outcome.subsystem, outcome.right = first.subsystem, first.subsystem in one.subsystems
    return outcome


def follow(
    ticks: Iterable[tuple[SampleBatch, int]], followers: Mapping[str, Follower], every_ms: int, phase_ms: int = 0
) -> None:
    """Let methods follow a recording.

    Parameters
    ----------
    ticks
        Samples, and the time of the tick, ascending.
    followers
        Methods by name.
    every_ms, phase_ms
        Scrape interval that the recording is thinned to, and how much later than the first scrape the first one is.
    """
    thinner = Thinner(every_ms, phase_ms=phase_ms)
    # As many threads in the linear algebra as the service has: another number may round sums differently.
    with threadpool_limits(limits=1):
        for batch, now_ms in ticks:
            thin = thinner.thin(batch)
            for follower in followers.values():
                follower.take(thin, now_ms)


def presets(named: Mapping[str, Path | None]) -> dict[str, Plan]:
    """Plans of configuration files by name; None stands for the defaults.

    Raises
    ------
    BenchError
        A file is wrong; one line a problem.
    """
    found = {}
    for name, path in named.items():
        try:
            found[name] = make_plan(load_config(path))
        except ConfigError as error:
            raise BenchError(f"preset {name}: {error}") from None
    return found


def methods(plans: Mapping[str, Plan], sessions: Iterable[Session], every_ms: int) -> dict[str, Follower]:
    """The presets, and the plain methods beside them."""
    sessions = list(sessions)
    # Simulated hosts are looked at where something was done to them.
    nodes = {name for session in sessions for name in (session.node, *(one.node for one in session.injections))}
    learning = [
        (session.segments[0][0], session.learned_ms) for session in sessions if session.learned_ms and session.segments
    ]
    followers: dict[str, Follower] = {name: Shipped(plan, every_ms) for name, plan in plans.items()}
    followers["mean abs z"] = MeanZ(load_profiles(("hwsonde",)), learning, every_ms, nodes)
    followers["threshold rules"] = Rules(load_profiles((str(RULES),))[0], every_ms, nodes)
    return followers


def score(
    archive: Path, sessions: list[Session], plans: Mapping[str, Plan], every_ms: int = 1000, phases: int = 1
) -> tuple[dict[str, Any], list[Result]]:
    """Score a recording.

    Parameters
    ----------
    archive
        The recording.
    sessions
        Its labels.
    plans
        What `presets` gave.
    every_ms
        Scrape interval that it is thinned to.
    phases
        How many such thinnings are scored, evenly apart: when a slow scrape comes after a fault's start is chance.

    Returns
    -------
    tuple
        A document for disk, and results by method.

    Raises
    ------
    BenchError
        The archive cannot be read.
    """
    found: dict[str, list[Result]] = {}
    for number in range(phases):
        try:
            source = ArchiveSource(archive)
            followers = methods(plans, sessions, every_ms)
            ticks = ((one.read.batch, one.now_ms) for one in source.records() if isinstance(one, Tick))
            follow(ticks, followers, every_ms, number * every_ms // phases)
        except ArchiveError as error:
            raise BenchError(str(error)) from None
        if source.warning and not number:
            print(source.warning, file=sys.stderr)
        for name, follower in followers.items():
            found.setdefault(name, []).append(judge(name, sessions, follower.voices()))
    results = [together(parts) for parts in found.values()]
    return {"every_ms": every_ms, "methods": [asdict(result) for result in results]}, results

"""What was done to the host and when: the label file of a recording. Plain values; `Book` keeps them on disk.

Times are UTC, integers of milliseconds since the epoch, as everywhere in the detector.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.faults.errors import BenchError

VERSION = 1
DATA = "data"
"""Stands for a subsystem where nothing is wrong but the data: the exporter is silent."""
GRACE_MS = 10_000
"""An alarm that begins so long after a fault's end is still the fault's."""

Span: TypeAlias = tuple[int, int]


@dataclass(slots=True)
class Injection:
    """One fault.

    Attributes
    ----------
    kind, repetition
        Which, and the number of its repetition from 1.
    subsystems
        Names that are right answers, ascending; ``data`` where only the data are wrong.
    node
        The host that shows it.
    start_ms, end_ms
        When it acted; ``end_ms`` None while it does, or where the run was killed meanwhile.
    effective
        Whether it was measured to act; a fault that did nothing is a negative control.
    effect
        What was measured, in words.
    harm
        Part of the workload's progress that was lost while it acted (0..1), None where that is not known.
    aborted
        The run was killed, or ended by an error, while it acted: neither a fault nor healthy.
    """

    kind: str
    repetition: int
    subsystems: tuple[str, ...]
    node: str
    start_ms: int
    end_ms: int | None = None
    effective: bool = False
    effect: str = ""
    harm: float | None = None
    aborted: bool = False


@dataclass(slots=True)
class Benign:
    """Something that is no fault: a start or stop of a workload, a phase."""

    what: str
    start_ms: int
    end_ms: int


@dataclass(slots=True)
class Session:
    """One session of a recording.

    Attributes
    ----------
    seed, load, node
        Seed of the order, ``quiet`` or ``full``, and the host's name.
    about
        What the session ran on and with: processors, memory, training library, durations.
    plan
        Pairs of kind and repetition in the order in which they are made.
    done
        How many of the plan are over.
    stage
        ``learn``, ``before``, ``inject``, ``after`` or ``done``.
    segments
        Stretches in which was recorded; more than one where a session was killed and continued.
    learned_ms
        End of the stretch that was only learned from; None until then.
    skipped
        Why a kind cannot be made here, by kind.
    """

    seed: int
    load: str
    node: str
    about: dict[str, Any]
    plan: list[tuple[str, int]]
    done: int = 0
    stage: str = "learn"
    segments: list[list[int]] = field(default_factory=list)
    learned_ms: int | None = None
    injections: list[Injection] = field(default_factory=list)
    benign: list[Benign] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether it came to its end."""
        return self.stage == "done"

    def observed(self) -> list[Span]:
        """Stretches that are judged: recorded, and after learning."""
        if self.learned_ms is None:
            return []
        return intersect([(start, end) for start, end in self.segments], [(self.learned_ms, 1 << 62)])


def guards(sessions: Iterable[Session]) -> list[Span]:
    """Stretches that belong to a fault: from its start until `GRACE_MS` after its end, or to the end of the segment if it has none."""
    found = []
    for session in sessions:
        for one in session.injections:
            end = one.end_ms if one.end_ms is not None else _segment_end(session, one.start_ms)
            found.append((one.start_ms, end + GRACE_MS))
    return united(found)


def _segment_end(session: Session, at_ms: int) -> int:
    return max((end for start, end in session.segments if start <= at_ms), default=at_ms)


def united(spans: Iterable[Span]) -> list[Span]:
    """The same stretches in order, without overlaps."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if end <= start:
            continue
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def intersect(one: Iterable[Span], other: Iterable[Span]) -> list[Span]:
    """What lies in both."""
    others = united(other)
    return united(
        (max(start, low), min(end, high))
        for start, end in united(one)
        for low, high in others
        if low < end and start < high
    )


def without(one: Iterable[Span], holes: Iterable[Span]) -> list[Span]:
    """What lies in the first and in none of the second."""
    found: list[Span] = []
    cut = united(holes)
    for start, end in united(one):
        at = start
        for low, high in cut:
            if high <= at or low >= end:
                continue
            if low > at:
                found.append((at, low))
            at = high
        if at < end:
            found.append((at, end))
    return found


def length(spans: Iterable[Span]) -> int:
    """Milliseconds of stretches that do not overlap."""
    return sum(end - start for start, end in spans)


def inside(at_ms: int, spans: Iterable[Span]) -> bool:
    """Whether a moment lies in one of them."""
    return any(start <= at_ms < end for start, end in spans)


def encode(sessions: Iterable[Session]) -> str:
    """Text of a label file."""
    return json.dumps({"version": VERSION, "sessions": [asdict(one) for one in sessions]}, indent=1) + "\n"


def decode(text: str, name: str = "labels") -> list[Session]:
    """Sessions of a label file.

    Raises
    ------
    BenchError
        It is no label file of this version.
    """
    try:
        document = json.loads(text)
        if document["version"] != VERSION:
            raise BenchError(
                f"{name}: labels of version {document['version']}, this bench reads {VERSION}; record anew"
            )
        return [_session(part) for part in document["sessions"]]
    except (ValueError, KeyError, TypeError) as error:
        raise BenchError(f"{name}: damaged labels ({type(error).__name__}); restore the file or record anew") from None


def _session(part: dict[str, Any]) -> Session:
    known = {one.name for one in fields(Session)}
    if part.keys() - known:
        raise KeyError(min(part.keys() - known))
    session = Session(**part)
    session.plan = [(str(kind), int(repetition)) for kind, repetition in part["plan"]]
    session.segments = [[int(start), int(end)] for start, end in part["segments"]]
    session.injections = [Injection(**{**one, "subsystems": tuple(one["subsystems"])}) for one in part["injections"]]
    session.benign = [Benign(**one) for one in part["benign"]]
    return session


class Book:
    """The label file of a recording, written whole at every change, so that a killed run loses nothing.

    Parameters
    ----------
    path
        The file; made at the first change.

    Raises
    ------
    BenchError
        The file is there and damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.sessions = decode(path.read_text(encoding="utf-8"), str(path))
        except FileNotFoundError:
            self.sessions = []
        except UnicodeDecodeError:
            raise BenchError(f"{path}: damaged labels (no text); restore the file or record anew") from None
        except OSError as error:
            raise BenchError(f"{path} cannot be read ({error.strerror}): mend that, or give another folder") from None

    def save(self) -> None:
        """Replace the file in one step."""
        beside = self.path.with_name(self.path.name + ".new")
        try:
            with beside.open("w", encoding="utf-8") as file:
                file.write(encode(self.sessions))
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
        except OSError as error:
            raise BenchError(f"{self.path} cannot be written ({error.strerror}): make room, then start again") from None

    def unfinished(self) -> Session | None:
        """The last session, if it was not ended; a fault that acted when it was killed is marked."""
        if not self.sessions or self.sessions[-1].over:
            return None
        session = self.sessions[-1]
        for one in session.injections:
            if one.end_ms is None:
                one.aborted, one.effective = True, False
                one.end_ms = max(_segment_end(session, one.start_ms), one.start_ms)
                one.effect = one.effect or "the run was killed meanwhile"
        return session

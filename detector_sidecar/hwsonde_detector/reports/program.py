"""`hwsonde-detector report`: from what was asked to the two files."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import orjson
from threadpoolctl import threadpool_limits

from hwsonde_detector import __version__
from hwsonde_detector.config import Config, parse_duration
from hwsonde_detector.errors import ConfigError, StateError
from hwsonde_detector.explain.analysis import Analysis, Question, Topic, analyse, charted
from hwsonde_detector.explain.report import Before, Learned, document
from hwsonde_detector.hoststate import read_episode
from hwsonde_detector.past.instants import format_instant
from hwsonde_detector.past.reading import archive_range, open_records
from hwsonde_detector.past.run import PastRun, score_records
from hwsonde_detector.past.when import parse_range
from hwsonde_detector.reports.asking import around, find_episode, find_host, span_of
from hwsonde_detector.reports.finding import narrowed, watch_job
from hwsonde_detector.reports.html import page, shown
from hwsonde_detector.reports.jobs import Watch
from hwsonde_detector.reports.rows import LEAD_MS, collect_rows
from hwsonde_detector.service.wiring import make_plan
from hwsonde_detector.state import peek_state
from hwsonde_detector.types import SampleBatch
from hwsonde_detector.worker import Plan

_LONGEST_MS = 366 * 86_400_000
_TERMINAL_S, _LOG_S = 0.5, 30.0
_KEPT = "kept by the detector"


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of the command, as they were given."""

    out: Path
    first: str | None = None
    last: str | None = None
    entity: str | None = None
    job: str | None = None
    episode: str | None = None
    archive: Path | None = None
    learn: str | None = None
    runbooks: str = "docs/runbooks"


@dataclass(frozen=True, slots=True)
class World:
    """Clocks and streams; a test gives its own."""

    now_ms: Callable[[], int]
    monotonic: Callable[[], float]
    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)

    @staticmethod
    def real() -> World:
        """Those of this machine."""
        return World(lambda: time.time_ns() // 1_000_000, time.monotonic)


@dataclass(frozen=True, slots=True)
class _Range:
    """What is scored: the range, and how much before it is learned from."""

    start_ms: int
    end_ms: int
    learning_ms: int


def run_report(config: Config, asked: Asked, world: World) -> int:
    """Do what was asked; give the exit status.

    Raises
    ------
    ConfigError, ArchiveError, SourceError
        One line that says what to do.
    """
    folder = _usable(asked.out)
    span = _range(config, asked, world.now_ms())
    plan = make_plan(config)
    # As many threads in the linear algebra as the service has: another number may round sums differently.
    with threadpool_limits(limits=1):
        question, config, span = _job_question(config, asked, span)
        watch = Watch(config.entity_labels)
        run = _scored(config, asked, world, span, plan, watch)
        analysis = analyse(run, question or _question(asked, run), watch.spans(), plan.settings.window.step)
        wanted = charted(analysis)
        rows = collect_rows(
            _again(config, asked, [one.start_ms for one in wanted], [one.end_ms for one in wanted]), plan, wanted
        )
    found = document(
        analysis,
        __version__,
        rows=rows,
        learned=Learned(watch.first_ms),
        before=_before(config, asked, world),
        runbooks=asked.runbooks,
    )
    written = [
        _write(folder / "report.json", as_json(found)),
        _write(folder / "report.html", page(found)),
    ]
    _tell(analysis, world, written)
    return 0


def as_json(found: object) -> bytes:
    """A document as JSON; what no JSON text can hold (lone surrogates in labels) is shown as a replacement character."""
    try:
        return orjson.dumps(found, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return orjson.dumps(_clean(found), option=orjson.OPT_APPEND_NEWLINE)


def _clean(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_clean(key): _clean(inner) for key, inner in value.items()}
    return [_clean(inner) for inner in value] if isinstance(value, list | tuple) else value


def _range(config: Config, asked: Asked, now_ms: int) -> _Range:
    """The range that was asked for, or that is meant."""
    whole = archive_range(asked.archive) if asked.archive is not None else None
    first, last = asked.first, asked.last
    if first is None and last is None and asked.episode is not None:
        begin, end = around(asked.episode)
        start_ms, end_ms = begin, min(end, whole[1] if whole is not None else now_ms)
        if start_ms >= end_ms:
            raise ConfigError(f"--episode: it begins after {format_instant(end_ms)}, where what can be read ends")
    else:
        if first is None and whole is None:
            raise ConfigError("--from: it is missing; say where to begin, such as --from -6h")
        begins = first if first is not None or whole is None else f"{whole[0] // 1000}.{whole[0] % 1000:03d}"
        start_ms, end_ms = parse_range(begins or "", last or "now", whole[1] if whole is not None else now_ms)
        if whole is None and end_ms > now_ms:
            raise ConfigError(f"--to: {format_instant(end_ms)} lies in the future; give a past time, or leave --to out")
    if asked.learn is not None:
        learning_ms = _duration("--learn", asked.learn)
    else:
        learning_ms = max(start_ms - whole[0], 0) if whole is not None else config.source.history
    return _Range(start_ms, end_ms, min(learning_ms, start_ms))


def _job_question(config: Config, asked: Asked, span: _Range) -> tuple[Question | None, Config, _Range]:
    """Where and when a job ran, what to read for it, and the range that it leaves; None where no job was asked for."""
    if asked.job is None:
        return None, config, span
    watch = Watch(config.entity_labels)
    if asked.archive is None:
        watch_job(config, asked.job, span.start_ms, span.end_ms, watch)
    else:
        for batch, _ in open_records(config, span.start_ms, span.end_ms, asked.archive, 0):
            watch.take(batch)
    spans = span_of(asked.job, watch.matching(asked.job), span.start_ms, span.end_ms)
    start_ms, end_ms = min(first for first, _ in spans.values()), max(last for _, last in spans.values())
    # What the job began later than the range, is learned from instead.
    learning_ms = span.learning_ms + (start_ms - span.start_ms if asked.archive is not None else 0)
    if asked.archive is None:
        config = narrowed(config, spans, watch.by_instance)
    return Question(Topic.JOB, asked.job, spans), config, _Range(start_ms, end_ms, learning_ms)


def _scored(config: Config, asked: Asked, world: World, span: _Range, plan: Plan, watch: Watch) -> PastRun:
    records = open_records(config, span.start_ms, span.end_ms, asked.archive, span.learning_ms)
    progress = _Progress(world, span.start_ms - span.learning_ms, span.end_ms)
    try:
        return score_records(watch.through(records), plan, span.start_ms, span.end_ms, progress.show)
    finally:
        progress.close()


def _question(asked: Asked, run: PastRun) -> Question:
    everything = (run.start_ms, run.end_ms)
    if asked.episode is not None:
        episode = find_episode(asked.episode, run.episodes)
        return Question(Topic.EPISODE, episode.identity, {episode.entity: everything})
    if asked.entity is not None:
        # Where nobody was heard, that is the answer, and the name of the host no mistake.
        spans = {find_host(asked.entity, run.scores): everything} if run.scores else {}
        return Question(Topic.HOST, asked.entity, spans)
    return Question(Topic.RANGE)


def _again(config: Config, asked: Asked, starts: list[int], ends: list[int]) -> Iterator[tuple[SampleBatch, int]]:
    """Records of the stretches that are shown, once more; none where nothing is."""
    if starts:
        yield from open_records(config, min(starts), max(ends), asked.archive, min(LEAD_MS, *starts))


def _before(config: Config, asked: Asked, world: World) -> Before:
    """Closed episodes that the service keeps; those of an archive's fleet are not known here."""
    if asked.archive is not None or config.state.dir is None:
        return Before()
    try:
        kept = peek_state(config.state.dir)
        episodes = tuple(read_episode(part) for part in kept["service"]["past"]) if kept is not None else ()
    except (StateError, KeyError, TypeError, ValueError) as error:
        _say(world.err, f"hwsonde-detector: earlier episodes are not known: {error}")
        return Before()
    return Before(episodes, _KEPT if episodes else "")


def _tell(analysis: Analysis, world: World, written: list[Path]) -> None:
    answer = analysis.verdict
    for line in (answer.sentence, *(answer.limits if analysis.causes else ())):
        _say(world.out, shown(line, 600))
    _say(world.out, f"written: {', '.join(map(str, written))}")


def _usable(folder: Path) -> Path:
    """See that results can be written before minutes are spent on them."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(
            f"--out: {folder}: the report cannot be written there: {error.strerror or error}; name another folder"
        ) from None
    return folder


def _write(path: Path, content: bytes) -> Path:
    """Replace a file, so that whoever reads it sees the old one or the new one."""
    new = path.with_name(f".{path.name}.new")
    try:
        new.write_bytes(content)
        new.replace(path)
    except OSError as error:
        with suppress(OSError):
            new.unlink()
        raise ConfigError(f"--out: {path}: it cannot be written: {error.strerror or error}; make room") from None
    return path


def _duration(flag: str, text: str) -> int:
    try:
        ms = parse_duration(text)
    except ValueError:
        ms = -1
    if not 0 <= ms <= _LONGEST_MS:
        raise ConfigError(f"{flag}: {text!r} is not usable; allowed: a duration, written as 30s, 5m or 2h")
    return ms


class _Progress:
    """How far the scoring is: one line over and over on a terminal, a line now and then in a log."""

    def __init__(self, world: World, since_ms: int, end_ms: int) -> None:
        self._world = world
        self._since_ms, self._end_ms = since_ms, end_ms
        self._terminal = world.err.isatty()
        self._told = world.monotonic()
        self._width = 0

    def show(self, now_ms: int) -> None:
        at = self._world.monotonic()
        if at - self._told < (_TERMINAL_S if self._terminal else _LOG_S):
            return
        self._told = at
        part = min(max((now_ms - self._since_ms) / max(self._end_ms - self._since_ms, 1), 0.0), 1.0)
        text = f"report: {int(part * 100)} %, at {format_instant(now_ms // 1000 * 1000)}"
        self._world.err.write(f"\r{text.ljust(self._width)}" if self._terminal else f"{text}\n")
        self._world.err.flush()
        self._width = len(text) if self._terminal else 0

    def close(self) -> None:
        if self._width:
            self._world.err.write(f"\r{' ' * self._width}\r")
            self._world.err.flush()


def _say(stream: TextIO, line: str) -> None:
    stream.write(f"{line}\n")
    stream.flush()

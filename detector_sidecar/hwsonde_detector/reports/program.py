"""`hwsonde-detector report`: from what was asked to the two files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import orjson
from threadpoolctl import threadpool_limits

from hwsonde_detector import __version__
from hwsonde_detector.config import Config
from hwsonde_detector.errors import ConfigError
from hwsonde_detector.explain.analysis import Analysis, Question, Topic, analyse, charted, spans_of
from hwsonde_detector.explain.known import Known
from hwsonde_detector.explain.report import Learned, document
from hwsonde_detector.explain.silence import AFTER_MS, silences
from hwsonde_detector.explain.vanished import vanished
from hwsonde_detector.explain.verdict import Kind, Moments
from hwsonde_detector.past.instants import format_instant
from hwsonde_detector.past.kept import Track
from hwsonde_detector.past.progress import Progress
from hwsonde_detector.past.reading import archive_range, finer, open_records
from hwsonde_detector.past.run import PastRun, score_records
from hwsonde_detector.past.when import asked_range, parse_span
from hwsonde_detector.past.world import World, say, usable, write_result
from hwsonde_detector.plan import Plan
from hwsonde_detector.reports.asking import around, find_episode, find_host, may_be, span_of
from hwsonde_detector.reports.finding import narrowed, watch_job
from hwsonde_detector.reports.html import page, shown
from hwsonde_detector.reports.jobs import Watch, until
from hwsonde_detector.reports.room import Stretch, check_room
from hwsonde_detector.reports.rows import LEAD_MS, collect_rows
from hwsonde_detector.reports.told import Told, known_told, read_told
from hwsonde_detector.service.wiring import make_plan
from hwsonde_detector.types import Entity, SampleBatch

# Just behind the end of a range ticks are so long, and so long are they that.
_FINE_MS, _NEAR_MS = 5_000, 60_000


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
class _Range:
    """What is scored: the range, and how much before it is learned from; ``known_ms`` is where what can be read ends."""

    start_ms: int
    end_ms: int
    learning_ms: int
    known_ms: int

    @property
    def until_ms(self) -> int:
        """Up to when is read: what began in the range may be told, and who fell silent be missed, only behind it."""
        return max(min(self.end_ms + AFTER_MS, self.known_ms), self.end_ms)


def run_report(config: Config, asked: Asked, world: World) -> int:
    """Do what was asked; give the exit status.

    Raises
    ------
    ConfigError, ArchiveError, SourceError
        One line that says what to do.
    """
    folder = usable(asked.out)
    span = _range(config, asked, world.now_ms())
    plan = make_plan(config)
    # As many threads in the linear algebra as the service has: another number may round sums differently.
    with threadpool_limits(limits=1):
        question, config, span = _job_question(config, asked, span)
        watch = Watch(config.entity_labels)
        run = _scored(config, asked, world, span, plan, (watch, _wanted(asked, question)))
        if question is None:
            run = _with_away(run, watch, span)
            question = _question(asked, run)
        told = read_told(config, world.err) if asked.archive is None else Told()
        analysis = analyse(
            run,
            question,
            until(watch.spans(), span.end_ms),
            plan.settings.window.step,
            known=_known(run, question, watch, span, told, config.links.detector or ""),
            gathered=run.gathered,
        )
        wanted = charted(analysis)
        rows = collect_rows(
            _again(config, asked, [one.start_ms for one in wanted], [one.end_ms for one in wanted]), plan, wanted
        )
    found = document(
        analysis,
        __version__,
        rows=rows,
        learned=Learned(watch.first_ms),
        before=told.before,
        runbooks=asked.runbooks,
    )
    written = [
        write_result(folder / "report.json", as_json(found)),
        write_result(folder / "report.html", page(found)),
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
    if asked.first is None and asked.last is None and asked.episode is not None:
        begin, end = around(asked.episode)
        start_ms, end_ms = begin, min(end, whole[1] if whole is not None else now_ms)
        if start_ms >= end_ms:
            raise ConfigError(f"--episode: it begins after {format_instant(end_ms)}, where what can be read ends")
    else:
        start_ms, end_ms = asked_range(asked.first, asked.last, now_ms, whole)
    if asked.learn is not None:
        learning_ms = parse_span("--learn", asked.learn)
    else:
        learning_ms = max(start_ms - whole[0], 0) if whole is not None else config.source.history
    return _Range(start_ms, end_ms, min(learning_ms, start_ms), whole[1] if whole is not None else now_ms)


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
    return Question(Topic.JOB, asked.job, spans), config, _Range(start_ms, end_ms, learning_ms, span.known_ms)


def _wanted(asked: Asked, question: Question | None) -> Callable[[Entity], bool]:
    """Of which hosts everything must be kept: those that the question is about."""
    if question is not None and question.spans is not None:
        return question.spans.__contains__
    if asked.episode is not None:
        host = asked.episode.rpartition("@")[0]
        return lambda entity: str(entity) == host
    name = asked.entity
    return (lambda _: True) if name is None else (lambda entity: may_be(name, entity))


def _scored(
    config: Config,
    asked: Asked,
    world: World,
    span: _Range,
    plan: Plan,
    who: tuple[Watch, Callable[[Entity], bool]],
) -> PastRun:
    watch, wanted = who
    stretch = Stretch(span.start_ms, span.end_ms, span.learning_ms)
    check_room(config, asked.archive, stretch, plan, wanted, world.memory)
    progress = Progress(world.err, span.start_ms - span.learning_ms, span.until_ms, world.monotonic, "report")
    try:
        return score_records(
            watch.through(_records(config, asked, span)), plan, span.start_ms, span.end_ms, progress.show, wanted
        )
    finally:
        progress.close()


def _records(config: Config, asked: Asked, span: _Range) -> Iterator[tuple[SampleBatch, int]]:
    """What is learned from, the range, and a little behind it; no batch has samples on both sides of its end, but for those of an archive."""
    yield from open_records(config, span.start_ms, span.end_ms, asked.archive, span.learning_ms)
    if span.until_ms > span.end_ms:
        behind = open_records(config, span.end_ms, span.until_ms, asked.archive, 0)
        # What vanished is known to be gone since the last tick that had it: was that before the end?
        yield from finer(behind, span.end_ms, span.end_ms + _NEAR_MS, _FINE_MS)


def _with_away(run: PastRun, watch: Watch, span: _Range) -> PastRun:
    """The run with hosts that sent nothing at all in the range, though Prometheus asked them: nothing is known of them, and that is told."""
    away = set(watch.hearing(span.until_ms).away(span.start_ms)) - run.scores.keys()
    scores = {**run.scores, **{entity: Track(entity).windows() for entity in away}}
    return replace(run, scores={entity: scores[entity] for entity in sorted(scores)})


def _known(run: PastRun, question: Question, watch: Watch, span: _Range, told: Told, base: str) -> tuple[Known, ...]:
    """What is known of the asked hosts without any score."""
    spans, moments = spans_of(question, run), Moments(run.start_ms, run.end_ms)
    of_job = question.topic is Topic.JOB
    return (
        *silences(spans, watch.hearing(span.until_ms), run.intervals_ms, watch.spans(), moments, of_job=of_job),
        *vanished(spans, run.faults, moments),
        *known_told(spans, told, run.episodes, run.faults, moments, base),
    )


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


def _tell(analysis: Analysis, world: World, written: list[Path]) -> None:
    answer = analysis.verdict
    # Where nothing is known the sentence says the first of them itself.
    limits = answer.limits[1:] if answer.kind is Kind.UNKNOWN else answer.limits
    for line in (answer.sentence, *limits):
        say(world.out, shown(line, 600))
    say(world.out, f"written: {', '.join(map(str, written))}")

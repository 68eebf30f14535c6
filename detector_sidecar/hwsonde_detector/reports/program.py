"""`hwsonde-detector report`: from what was asked to the two files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
from threadpoolctl import threadpool_limits

from hwsonde_detector import __version__
from hwsonde_detector.config import Config
from hwsonde_detector.errors import ConfigError, StateError
from hwsonde_detector.explain.analysis import Analysis, Question, Topic, analyse, charted
from hwsonde_detector.explain.report import Before, Learned, document
from hwsonde_detector.hoststate import read_episode
from hwsonde_detector.past.instants import format_instant
from hwsonde_detector.past.progress import Progress
from hwsonde_detector.past.reading import archive_range, open_records
from hwsonde_detector.past.run import PastRun, score_records
from hwsonde_detector.past.when import asked_range, parse_span
from hwsonde_detector.past.world import World, say, usable, write_result
from hwsonde_detector.plan import Plan
from hwsonde_detector.reports.asking import around, find_episode, find_host, span_of
from hwsonde_detector.reports.finding import narrowed, watch_job
from hwsonde_detector.reports.html import page, shown
from hwsonde_detector.reports.jobs import Watch
from hwsonde_detector.reports.rows import LEAD_MS, collect_rows
from hwsonde_detector.service.wiring import make_plan
from hwsonde_detector.state import peek_state
from hwsonde_detector.types import SampleBatch

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
    folder = usable(asked.out)
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
    progress = Progress(world.err, span.start_ms - span.learning_ms, span.end_ms, world.monotonic, "report")
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
        say(world.err, f"hwsonde-detector: earlier episodes are not known: {error}")
        return Before()
    return Before(episodes, _KEPT if episodes else "")


def _tell(analysis: Analysis, world: World, written: list[Path]) -> None:
    answer = analysis.verdict
    for line in (answer.sentence, *(answer.limits if analysis.causes else ())):
        say(world.out, shown(line, 600))
    say(world.out, f"written: {', '.join(map(str, written))}")

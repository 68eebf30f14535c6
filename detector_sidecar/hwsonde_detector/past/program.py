"""`hwsonde-detector backtest`: from what was asked to the files of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from threadpoolctl import threadpool_limits

from hwsonde_detector.config import Config
from hwsonde_detector.errors import ConfigError, SourceError
from hwsonde_detector.files import read_regular
from hwsonde_detector.past.backtest import Keeper, digest, new_runs, run_through
from hwsonde_detector.past.document import About, backtest_document, summary, warnings
from hwsonde_detector.past.instants import format_instant
from hwsonde_detector.past.labels import Label, parse_labels
from hwsonde_detector.past.page import backtest_page
from hwsonde_detector.past.presets import CONFIGURED, preset_configs
from hwsonde_detector.past.progress import Progress
from hwsonde_detector.past.reading import How, Position, archive_range, open_records
from hwsonde_detector.past.unfinished import Kept, Run, Unfinished
from hwsonde_detector.past.when import asked_range, parse_span
from hwsonde_detector.past.world import World, say, usable, write_result
from hwsonde_detector.plan import Plan
from hwsonde_detector.service.wiring import make_plan, without_credentials

INTERRUPTED = 130
_LARGEST_LABELS = 1 << 26
# Samples of one answer may not be finer than this.
_FINEST_STEP_MS = 100


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of the command, as they were given."""

    first: str | None
    last: str | None
    out: Path
    archive: Path | None = None
    labels: Path | None = None
    presets: tuple[str, ...] = ()
    learn: str | None = None
    step: str | None = None
    anew: bool = False


@dataclass(frozen=True, slots=True)
class _Job:
    """What is to be done, with all texts read."""

    start_ms: int
    end_ms: int
    learning_ms: int
    step_ms: int | None
    labels: tuple[Label, ...]
    plans: Mapping[str, Plan]
    said: Mapping[str, Any]


def run_backtest(config: Config, asked: Asked, world: World) -> int:
    """Do what was asked; give the exit status.

    Parameters
    ----------
    config
        The configuration that the presets are laid over.
    asked
        The options.
    world
        Clocks, streams, signals.

    Returns
    -------
    int
        0, or `INTERRUPTED` where it was asked to stop: the same command then goes on.

    Raises
    ------
    ConfigError, ArchiveError, SourceError
        One line that says what to do. After a SourceError the same command goes on.
    """
    unfinished = Unfinished(usable(asked.out))
    job, runs, position = _begin(config, asked, world, unfinished)
    keeper = Keeper(unfinished, job.said, world.monotonic)
    with threadpool_limits(limits=1):
        reached, interrupted = _go(config, asked, world, job, (keeper, runs, position))
    if interrupted:
        kept = keeper.save(reached, runs)
        goes_on = "the same command goes on from there" if kept else "nothing was kept"
        say(world.err, f"hwsonde-detector: interrupted at {_at(reached, job)}; {goes_on}")
        return INTERRUPTED
    if not any(run.tally.hosts for run in runs):
        unfinished.remove()
        raise ConfigError(
            f"--from: no host was heard from {format_instant(job.start_ms)} to {format_instant(job.end_ms)}; "
            "check the range, and the section source"
        )
    _tell(config, asked, world, job, runs)
    unfinished.remove()
    return 0


def _begin(config: Config, asked: Asked, world: World, unfinished: Unfinished) -> tuple[_Job, list[Run], Position]:
    """Read everything that was named, and take up what was interrupted."""
    labels = _labels(asked.labels)
    configs = preset_configs(config, asked.presets or (CONFIGURED,))
    plans = {name: make_plan(one) for name, one in configs.items()}
    step_ms = parse_span("--step", asked.step, _FINEST_STEP_MS) if asked.step is not None else None
    if step_ms is not None and asked.archive is not None:
        raise ConfigError("--step: an archive is read as it was recorded; leave --step out")
    said = {
        "from": asked.first, "to": asked.last or "now", "learn": asked.learn, "step": asked.step,
        "archive": str(asked.archive.absolute()) if asked.archive is not None else None,
        "labels": asked.labels.name if asked.labels is not None else None,
        "preset": list(plans),
        "digest": digest(plans, (labels, _source(config) if asked.archive is None else None)),
    }  # fmt: skip
    kept = _interrupted(unfinished, said, asked)
    whole = archive_range(asked.archive) if asked.archive is not None else None

    def job_over(span: tuple[int, int]) -> _Job:
        return _Job(*span, _learning_ms(config, asked, whole, span[0]), step_ms, labels, plans, said)

    if kept is not None:
        job = job_over((kept.start_ms, kept.end_ms))
        runs = new_runs(plans, job.start_ms, job.end_ms, labels)
        if unfinished.restore(kept, runs):
            say(world.err, f"hwsonde-detector: going on with the interrupted run, at {_at(kept.position, job)}")
            return job, runs, kept.position
    job = job_over(asked_range(asked.first, asked.last, world.now_ms(), whole))
    return job, new_runs(plans, job.start_ms, job.end_ms, labels), Position()


def _learning_ms(config: Config, asked: Asked, whole: tuple[int, int] | None, start_ms: int) -> int:
    """How much before the range is learned from."""
    if asked.learn is not None:
        wanted = parse_span("--learn", asked.learn)
    elif whole is not None:
        wanted = max(start_ms - whole[0], 0)
    else:
        wanted = config.source.history
    return min(wanted, start_ms)


def _interrupted(unfinished: Unfinished, said: Mapping[str, Any], asked: Asked) -> Kept | None:
    """What was interrupted of the same run; another one's work is not thrown away without a word."""
    if asked.anew:
        unfinished.remove()
        return None
    kept = unfinished.load()
    if kept is None or kept.asked == said:
        return kept
    differ = [name for name in said if kept.asked.get(name) != said[name]]
    words = ["the configuration, the labels or the version" if name == "digest" else f"--{name}" for name in differ]
    raise ConfigError(
        f"--out: {asked.out} holds an interrupted run that was asked otherwise ({', '.join(words)}); "
        "give another folder, or --anew to drop that run"
    )


def _go(
    config: Config, asked: Asked, world: World, job: _Job, work: tuple[Keeper, list[Run], Position]
) -> tuple[Position, bool]:
    """Score until the end, or until it should stop; say how far that is and whether it was stopped."""
    keeper, runs, position = work
    interrupted = False
    begin_ms = position.now_ms if position.now_ms is not None else job.start_ms - job.learning_ms
    progress = Progress(world.err, begin_ms, job.end_ms, world.monotonic, "backtest")

    def told(reached: Position) -> bool:
        nonlocal position, interrupted
        position = reached
        progress.show(reached.now_ms or begin_ms)
        keeper.save_if_due(reached, runs)
        interrupted = world.stopped()
        return interrupted

    profiles = tuple(dict.fromkeys(profile for run in runs for profile in run.plan.profiles))
    how = How(job.step_ms, profiles, position, world.pause)
    keeper.start()
    try:
        records = open_records(config, job.start_ms, job.end_ms, asked.archive, job.learning_ms, how)
        run_through(records, runs, position, told)
    except SourceError as error:
        if position.batches and keeper.save(position, runs):
            raise type(error)(f"{error}; the same command goes on from {_at(position, job)}") from None
        raise
    finally:
        progress.close()
    return position, interrupted


def _tell(config: Config, asked: Asked, world: World, job: _Job, runs: Sequence[Run]) -> None:
    """Write the results and say what they are."""
    source = without_credentials(config.source.url) if asked.archive is None else asked.archive.name
    about = About(source, job.learning_ms, job.step_ms, asked.labels.name if asked.labels is not None else None)
    document = backtest_document(about, {run.name: run.tally for run in runs})
    written = [
        write_result(asked.out / "backtest.json", orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)),
        write_result(asked.out / "backtest.html", backtest_page(document).encode("utf-8", "replace")),
    ]
    for line in warnings(document):
        say(world.err, f"hwsonde-detector: {line}")
    for line in [*summary(document), f"written: {', '.join(map(str, written))}"]:
        say(world.out, line)


def _labels(path: Path | None) -> tuple[Label, ...]:
    if path is None:
        return ()
    try:
        data = read_regular(path, _LARGEST_LABELS + 1)
    except OSError as error:
        raise ConfigError(f"--labels: {path}: it cannot be read: {error.strerror or error}; check the path") from None
    if len(data) > _LARGEST_LABELS:
        raise ConfigError(f"--labels: {path}: the file is larger than {_LARGEST_LABELS} bytes; give fewer labels")
    return parse_labels(data, path.name)


def _source(config: Config) -> tuple[str, str, str]:
    return without_credentials(config.source.url), config.source.selector, config.source.backend


def _at(position: Position, job: _Job) -> str:
    return format_instant(position.now_ms if position.now_ms is not None else job.start_ms - job.learning_ms)

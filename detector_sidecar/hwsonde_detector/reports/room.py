"""Whether a stretch of the past fits into memory, said before hours are spent on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hwsonde_detector.config import Config
from hwsonde_detector.errors import ConfigError
from hwsonde_detector.past.kept import PEAK_MS, WINDOW_BYTES
from hwsonde_detector.past.reading import open_records
from hwsonde_detector.plan import Plan
from hwsonde_detector.settings import Settings
from hwsonde_detector.signals.channels import ChannelState, advance
from hwsonde_detector.signals.entities import Split, plan_split
from hwsonde_detector.types import Entity, SampleBatch

# A shorter stretch fits wherever the service itself does, and nobody is asked for it.
_LEAST_MS = 6 * 3_600_000
# So much is looked at to count hosts and scrapes.
_LOOK_MS = 120_000
# Arrays that grow are a little larger than what is in them.
_GROWTH = 1.15
# What the models of a host cost, and beside that each value of a channel that is remembered, with all that is made of it; measured over whole runs.
_HOST_BYTES, _VALUE_BYTES = 2_500_000, 32


@dataclass(frozen=True, slots=True)
class Stretch:
    """The range, and how much before it is learned from."""

    start_ms: int
    end_ms: int
    learning_ms: int


@dataclass(frozen=True, slots=True)
class Host:
    """How many channels a host has, and how often it is scraped."""

    channels: int
    interval_ms: int


def check_room(
    config: Config,
    archive: Path | None,
    stretch: Stretch,
    plan: Plan,
    wanted: Callable[[Entity], bool],
    left: Callable[[], int | None],
) -> None:
    """See that what a report keeps fits into memory.

    Parameters
    ----------
    config, archive
        What is read.
    stretch
        Which part of it.
    plan
        What it is scored with.
    wanted
        Of which hosts everything is kept.
    left
        Gives the bytes that are left; None where nobody says.

    Raises
    ------
    ConfigError
        It does not fit; the line says what to do.
    SourceError, ArchiveError
        Nothing can be read.
    """
    if stretch.end_ms - stretch.start_ms < _LEAST_MS:
        return
    have = left()
    if have is None:
        return
    # The newest part of a Prometheus is the one that is surely there; an archive is read from its beginning anyway.
    first_ms = stretch.start_ms if archive is not None else stretch.end_ms - _LOOK_MS
    batches = (batch for batch, _ in open_records(config, first_ms, first_ms + _LOOK_MS, archive, 0))
    hosts = count(batches, plan)
    need = needed(hosts, stretch, plan.settings, wanted)
    if need > have:
        kept = sum(wanted(entity) for entity in hosts)
        raise ConfigError(
            f"--from: {len(hosts)} hosts ({kept} of them asked for) over {_days(stretch)} days need about {_gigabytes(need)} of memory and "
            f"{_gigabytes(have)} are left; narrow it by --entity, --job, source.selector or a later --from"
        )


def count(batches: Iterable[SampleBatch], plan: Plan) -> dict[Entity, Host]:
    """How much there is of each host, seen in a short stretch."""
    states: dict[Entity, ChannelState] = {}
    found: dict[Entity, Host] = {}
    split: Split | None = None
    for batch in batches:
        if split is None or not split.fits(batch, plan.settings.entity_labels):
            split = plan_split(batch.series, plan.settings.entity_labels)
        for entity, part in split.apply(batch).items():
            states[entity], news = advance(states.get(entity, ChannelState(entity)), part, plan.profiles)
            if news.frame.channels:
                found[entity] = Host(len(news.frame.channels), news.interval_ms or _LOOK_MS)
    return dict(sorted(found.items()))


def needed(hosts: Mapping[Entity, Host], stretch: Stretch, settings: Settings, wanted: Callable[[Entity], bool]) -> int:
    """Bytes that a report over these hosts keeps: models and what they remember, and windows."""
    length_ms = stretch.end_ms - stretch.start_ms
    total = 0.0
    for entity, host in hosts.items():
        rows = min(settings.learning.memory_rows, (length_ms + stretch.learning_ms) / host.interval_ms)
        pace_ms = host.interval_ms * settings.window.step if wanted(entity) else PEAK_MS
        total += _HOST_BYTES + rows * host.channels * _VALUE_BYTES + length_ms / pace_ms * WINDOW_BYTES * _GROWTH
    return int(total)


def _days(stretch: Stretch) -> str:
    return f"{(stretch.end_ms - stretch.start_ms) / 86_400_000:.3g}"


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"

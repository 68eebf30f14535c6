"""Who fell silent: a host that sends nothing has no window above 1, and must not pass for healthy. Pure.

A host dies between two scrapes, and what it ran dies with it: by its own series a job ended there, and everything until then was judged. That it
sent nothing more is seen only in the minutes after that, in which others went on, or in which Prometheus asked it in vain (``up`` is 0).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hwsonde_detector.explain.coverage import LATE_MS
from hwsonde_detector.explain.known import Known, Matter
from hwsonde_detector.explain.neighbours import JobSpan
from hwsonde_detector.explain.verdict import Moments, called, listed
from hwsonde_detector.types import Entity

AFTER_MS = 300_000
"""So much is read behind the end of what is asked: what began before it shows only then."""

SILENT_MS = 60_000
"""A host is silent when nothing came for so long, and for some scrapes."""

# Of slow scrapes fewer must be missing, so that the time behind the end suffices to see it.
_ROWS, _LONGEST_MS, _LEAST_ROWS = 4, 240_000, 2
# Lost scrapes in the middle of a range count from here on, as in the running detector (`episodes.gone_after`); less lowers the coverage alone.
_AWAY_MS = 300_000
_RUNBOOK = "HwsondeExporterDown"


@dataclass(frozen=True, slots=True)
class Gap:
    """Nothing was sent after ``from_ms`` until ``to_ms`` (None: to the end of what was read); ``vain``: it was asked meanwhile."""

    from_ms: int
    to_ms: int | None
    vain: bool


@dataclass(frozen=True, slots=True)
class Heard:
    """When a host was heard.

    Attributes
    ----------
    last_ms
        Newest sample that the host sent itself; None where there is none.
    gaps
        Long stretches without such a sample, ascending.
    asked_ms, vain_ms
        Newest sample of ``up``, and newest one that says that the host did not answer; None where there is none.
    """

    last_ms: int | None
    gaps: tuple[Gap, ...] = ()
    asked_ms: int | None = None
    vain_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Hearing:
    """What was heard of all hosts that were read: by host, the newest sample of anything, and up to when was read."""

    hosts: Mapping[Entity, Heard] = field(default_factory=dict)
    newest_ms: int | None = None
    until_ms: int = 0

    def away(self, start_ms: int) -> list[Entity]:
        """Hosts that were asked in vain after ``start_ms`` and sent nothing any more."""
        return [
            entity
            for entity, heard in sorted(self.hosts.items())
            if heard.vain_ms is not None and heard.vain_ms > start_ms and (heard.last_ms or 0) <= start_ms
        ]


@dataclass(frozen=True, slots=True)
class _Silence:
    """One host's silence; ``beside`` are the other hosts of ``job``, which ran on it then, that went on running it."""

    entity: Entity
    gap: Gap
    alone: bool
    job: str = ""
    beside: tuple[Entity, ...] = ()


def silences(
    spans: Mapping[Entity, tuple[int, int]],
    hearing: Hearing,
    intervals_ms: Mapping[Entity, int],
    jobs: Sequence[JobSpan],
    moments: Moments,
    *,
    of_job: bool = False,
) -> tuple[Known, ...]:
    """Find the hosts that sent nothing while or just after they count.

    Parameters
    ----------
    spans
        The hosts that count, and of each the time that counts.
    hearing
        What was heard of these and of all others that were read.
    intervals_ms
        Scrape interval of each host.
    jobs
        Which job ran where, and when.
    moments
        How times are written.
    of_job
        Whether the time that counts is that of a job: then its end is the host's last sign of it, and less in its middle counts.

    Returns
    -------
    tuple
        A host that in its time fell silent while a job ran on it which went on elsewhere is a cause; any other silence is a limit.
    """
    found: list[_Silence] = []
    for entity, span in sorted(spans.items()):
        heard = hearing.hosts.get(entity)
        if heard is not None:
            interval = intervals_ms.get(entity, 0)
            patience = patience_ms(interval)
            found += [
                _silence(entity, gap, hearing, interval, jobs if gap.from_ms > span[0] else ())
                for gap in _relevant(span, heard, hearing, patience, of_job=of_job)
            ]
    found = [one for one in found if one.alone or one.gap.to_ms is None]
    return tuple(_known(group, moments) for group in _groups(found))


def patience_ms(interval_ms: int) -> int:
    """For how long a host that is scraped so often must send nothing to be silent."""
    return max(SILENT_MS, min(_ROWS * interval_ms, _LONGEST_MS), _LEAST_ROWS * interval_ms)


def _relevant(span: tuple[int, int], heard: Heard, hearing: Hearing, patience: int, *, of_job: bool) -> Iterator[Gap]:
    """Gaps in the time that counts, or at its end."""
    start_ms, end_ms = span
    for gap in (*heard.gaps, *_last(heard, hearing, patience)):
        to_ms = gap.to_ms if gap.to_ms is not None else hearing.until_ms
        # A host that was started for a job had been silent until then.
        if to_ms - max(gap.from_ms, start_ms) < patience or gap.from_ms > end_ms + AFTER_MS:
            continue
        if gap.from_ms > end_ms and _taken_away(gap, heard, hearing, patience):
            continue
        middle = gap.to_ms is not None and to_ms < end_ms
        if not middle or of_job or to_ms - gap.from_ms >= _AWAY_MS:
            yield gap


def _taken_away(gap: Gap, heard: Heard, hearing: Hearing, patience: int) -> bool:
    """Whether nobody asks the host any more, which is what follows when it is taken out of service; discovery may take its time."""
    if heard.asked_ms is None or hearing.newest_ms is None:
        return False
    return not gap.vain if gap.to_ms is not None else heard.asked_ms < hearing.newest_ms - patience


def _last(heard: Heard, hearing: Hearing, patience: int) -> Iterator[Gap]:
    """The silence that goes on to the end of what was read; a sample that is only late is none."""
    last_ms, newest_ms = heard.last_ms, hearing.newest_ms
    if newest_ms is None:
        return
    if last_ms is None:
        # All that is known of it is that it was asked in vain.
        if heard.vain_ms is not None:
            yield Gap(0, None, vain=True)
        return
    vain = heard.vain_ms is not None and heard.vain_ms > last_ms
    if newest_ms - last_ms >= patience or hearing.until_ms - last_ms >= max(LATE_MS, patience):
        yield Gap(last_ms, None, vain)


def _silence(entity: Entity, gap: Gap, hearing: Hearing, interval_ms: int, jobs: Sequence[JobSpan]) -> _Silence:
    """A silence with what the others did meanwhile."""
    until_ms = gap.to_ms if gap.to_ms is not None else hearing.until_ms
    alone = gap.vain or any(
        _sent(heard, gap.from_ms + interval_ms, until_ms, patience_ms(interval_ms))
        for other, heard in hearing.hosts.items()
        if other != entity
    )
    # Its last scrape, or the one before where that came at the edge of the next, still showed the job.
    own = {one.job for one in jobs if one.entity == entity and _runs(one, gap.from_ms, interval_ms)}
    went_on: dict[str, set[Entity]] = {}
    for one in jobs:
        went = one.start_ms <= gap.from_ms and one.end_ms >= gap.from_ms + max(interval_ms, 1)
        if one.job in own and one.entity != entity and went:
            went_on.setdefault(one.job, set()).add(one.entity)
    if not alone or not went_on:
        return _Silence(entity, gap, alone)
    job = min(went_on, key=lambda name: (-len(went_on[name]), name))
    return _Silence(entity, gap, alone, job, tuple(sorted(went_on[job])))


def _runs(one: JobSpan, at_ms: int, interval_ms: int) -> bool:
    return one.start_ms < at_ms and one.end_ms >= at_ms - 2 * interval_ms


def _sent(heard: Heard, from_ms: int, to_ms: int, patience: int) -> bool:
    """Whether a host sent anything in a stretch, in which another one did not."""
    if heard.last_ms is None or heard.last_ms <= from_ms:
        return False
    return not any(
        gap.from_ms <= from_ms + patience and (gap.to_ms is None or gap.to_ms >= to_ms - patience) for gap in heard.gaps
    )


def _groups(found: Sequence[_Silence]) -> Iterator[list[_Silence]]:
    """Hosts that fell silent together and have the same to tell are told of in one sentence."""
    open_ones: dict[tuple[str, bool, bool, bool, bool], list[_Silence]] = {}
    for one in sorted(found, key=lambda silence: (silence.gap.from_ms, silence.entity)):
        kind = (one.job, one.gap.to_ms is None, one.gap.vain, one.alone, bool(one.beside))
        group = open_ones.get(kind)
        if group is not None and one.gap.from_ms - group[0].gap.from_ms <= SILENT_MS:
            group.append(one)
            continue
        if group is not None:
            yield group
        open_ones[kind] = [one]
    yield from open_ones.values()


def _known(group: Sequence[_Silence], moments: Moments) -> Known:
    first = group[0]
    names = listed([called(one.entity) for one in group])
    entities = tuple(one.entity for one in group)
    ends = [one.gap.to_ms for one in group if one.gap.to_ms is not None]
    return Known(
        Matter.SILENT,
        entities,
        first.gap.from_ms,
        max(ends) if len(ends) == len(group) else None,
        f"{names} sent nothing {_when(first.gap, moments)}{_meanwhile(group)}.",
        cause=bool(first.beside),
        runbook=_RUNBOOK,
    )


def _when(gap: Gap, moments: Moments) -> str:
    if not gap.from_ms:
        return "in all this time"
    since = moments.text(gap.from_ms)
    return f"after {since}" if gap.to_ms is None else f"from {since} to {moments.text(gap.to_ms)}"


def _meanwhile(group: Sequence[_Silence]) -> str:
    first, silent = group[0], {one.entity for one in group}
    text = ""
    if first.gap.vain:
        text += ", although it was asked" if len(group) == 1 else ", although they were asked"
    elif not first.alone:
        text += ", nor did any other host that was read"
    beside = {entity for one in group for entity in one.beside} - silent
    if beside:
        many = "1 other host" if len(beside) == 1 else f"{len(beside)} other hosts"
        text += f", while {many} of {first.job} went on"
    return text

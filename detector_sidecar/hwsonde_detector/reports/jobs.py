"""Which job ran on which host, and when, as far as series with the label ``workload`` tell; and since when a host was read. Pure.

A Slurm job has one name on all its hosts (``slurm:4711``). Pods of one job differ in the end of their names only: an index, or what Kubernetes
appends by chance, five letters and digits without vowels. Services, users and machines may have the same name on every host: no job.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hwsonde_detector.explain.neighbours import JobSpan
from hwsonde_detector.explain.silence import Hearing
from hwsonde_detector.reports.listening import Listener
from hwsonde_detector.signals.entities import HOST_LABEL, Split, entity_from_instance, gather, plan_split
from hwsonde_detector.types import Entity, SampleBatch, Series

INFO = "hwsonde_workload_info"
CPU = "hwsonde_workload_cpu_seconds_total"

_NO_JOBS = frozenset({"systemd", "cgroup", "machine", "lxc", ""})
_CHANCE = "[bcdfghjklmnpqrstvwxz2456789]"
_SUFFIX = re.compile(rf"(?:-{_CHANCE}{{8,10}})?-{_CHANCE}{{5}}\Z|-\d+\Z")


@dataclass(frozen=True, slots=True)
class Job:
    """What a series says of a job: ``key`` is the same on all hosts of the job, ``names`` are what people may call it."""

    key: str
    names: frozenset[str]
    shared: bool


def job_of(series: Series, scope: str = "") -> Job | None:
    """The job of a series, None where it has none.

    Parameters
    ----------
    series
        Any series.
    scope
        What numbers of jobs are unique in, such as the cluster.

    Examples
    --------
    >>> job_of(Series("hwsonde_workload_threads", (("workload", "slurm:4711"),)), "lab").key
    'lab/slurm:4711'
    """
    labels = dict(series.labels)
    workload = labels.get("workload", "")
    manager, _, own = workload.partition(":")
    if not workload:
        return None
    names = {workload, own, *(labels.get(name, "") for name in ("job_id", "name", "pod"))}
    key = workload
    if pod := labels.get("pod", ""):
        stem = _SUFFIX.sub("", pod)
        key = "/".join(part for part in (labels.get("namespace", ""), stem) if part)
        names |= {stem, key}
    key = f"{scope}/{key}" if scope else key
    return Job(key, frozenset((names | {key}) - {""}), manager not in _NO_JOBS)


class Watch:
    """Sees records go by and remembers who was heard when.

    Parameters
    ----------
    entity_labels
        Names of the labels that name a host.

    Attributes
    ----------
    first_ms
        First sample of each host.
    by_instance
        Hosts that lack the label of the host and are named after their instance.
    """

    def __init__(self, entity_labels: Sequence[str]) -> None:
        self.first_ms: dict[Entity, int] = {}
        self._listener = Listener()
        self.by_instance: set[Entity] = set()
        self._labels = tuple(entity_labels)
        self._split: Split | None = None
        self._workloads: list[tuple[int, Entity, Job]] = []
        self._jobs: dict[tuple[Job, Entity], tuple[int, int]] = {}

    def through(self, records: Iterable[tuple[SampleBatch, int]]) -> Iterator[tuple[SampleBatch, int]]:
        """Give the records on, as they are."""
        for batch, now_ms in records:
            self.take(batch)
            yield batch, now_ms

    def take(self, batch: SampleBatch) -> None:
        """See one batch."""
        if self._split is None or not self._split.fits(batch, self._labels):
            self._split = plan_split(batch.series, self._labels)
            self._workloads = list(self._found(self._split))
            self._listener.expect(self._split)
        self._listener.take(batch)
        for entity, numbers, _ in self._split.parts:
            if entity not in self.first_ms:
                places, _lengths = gather(batch, numbers)
                if places.size:
                    self.first_ms[entity] = int(batch.times[places].min())
        for number, entity, job in self._workloads:
            times = batch.times[batch.offsets[number] : batch.offsets[number + 1]]
            if times.size:
                first, last = self._jobs.get((job, entity), (int(times[0]), int(times[-1])))
                self._jobs[job, entity] = (min(first, int(times[0])), max(last, int(times[-1])))

    @property
    def last_ms(self) -> int | None:
        """Newest sample of any host; None before the first."""
        return self._listener.newest_ms

    def hearing(self, until_ms: int) -> Hearing:
        """When each host was heard, up to a time up to which everything was read."""
        return self._listener.hearing(until_ms)

    def spans(self) -> tuple[JobSpan, ...]:
        """Jobs that may run on several hosts, with the hosts and the time."""
        return self._spans({job for job, _ in self._jobs if job.shared})

    def matching(self, name: str) -> tuple[JobSpan, ...]:
        """What people may mean by a name; services, too."""
        return self._spans({job for job, _ in self._jobs if name in job.names})

    def _spans(self, wanted: set[Job]) -> tuple[JobSpan, ...]:
        merged: dict[tuple[str, Entity], tuple[int, int]] = {}
        for (job, entity), (first, last) in self._jobs.items():
            if job in wanted:
                before = merged.get((job.key, entity), (first, last))
                merged[job.key, entity] = (min(before[0], first), max(before[1], last))
        # Later than the start, so that the first sample itself is inside.
        return tuple(JobSpan(key, entity, span[0] - 1, span[1]) for (key, entity), span in sorted(merged.items()))

    def _found(self, split: Split) -> Iterator[tuple[int, Entity, Job]]:
        for entity, numbers, own in split.parts:
            if entity_from_instance(own[0], self._labels):
                self.by_instance.add(entity)
            scope = scope_of(entity)
            for number, series in zip(numbers.tolist(), own, strict=True):
                job = job_of(series, scope)
                if job is not None:
                    yield number, entity, job


def until(spans: Iterable[JobSpan], end_ms: int) -> tuple[JobSpan, ...]:
    """The same as far as they lie before a time."""
    return tuple(replace(one, end_ms=min(one.end_ms, end_ms)) for one in spans if one.start_ms < end_ms)


def scope_of(entity: Entity) -> str:
    """What a host is part of: its labels without the one that names the host, such as the cluster."""
    names = [name for name, _ in entity.labels]
    host = HOST_LABEL if HOST_LABEL in names else names[-1] if names else ""
    return "/".join(value for name, value in entity.labels if name != host and value)

"""From series to hosts: which entity and which scrape target a series belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.types import Entity, SampleBatch, Series, Times

HOST_LABEL = "node"


def label_of(series: Series, name: str) -> str:
    """Value of a label of a series; empty where it is missing, as in Prometheus."""
    for key, value in series.labels:
        if key == name:
            return value
    return ""


def host_of(instance: str) -> str:
    """Host part of an ``instance`` label.

    ``n17:9880`` gives ``n17``, ``[fe80::1]:9880`` and ``[fe80::1]`` give ``fe80::1``; a bare IPv6 address or a name without
    a port stays as it is.
    """
    if instance.startswith("["):
        address, closed, _ = instance[1:].partition("]")
        return address if closed else instance
    host, colon, port = instance.rpartition(":")
    if not colon or ":" in host or not (not port or (port.isascii() and port.isdigit())):
        return instance
    return host


def host_label(entity_labels: Sequence[str]) -> str | None:
    """Name of the label that names the host: ``node`` where it is configured, else the last one."""
    if HOST_LABEL in entity_labels:
        return HOST_LABEL
    return entity_labels[-1] if entity_labels else None


def entity_from_instance(series: Series, entity_labels: Sequence[str]) -> bool:
    """Whether `entity_of` has to fall back on ``instance``, so that the page can say so."""
    label = host_label(entity_labels)
    return label is not None and not label_of(series, label) and bool(label_of(series, "instance"))


def entity_of(series: Series, entity_labels: Sequence[str]) -> Entity:
    """Entity that a series belongs to.

    Parameters
    ----------
    series
        Any series, as Prometheus gave it.
    entity_labels
        Names of the labels that name a host, in order. Where ``node`` is among them and missing or empty (or, if ``node`` is
        not configured, the last of them), the host part of ``instance`` serves.

    Returns
    -------
    Entity
        The labels in the configured order; a missing one is empty.
    """
    fallback = host_label(entity_labels)
    pairs = []
    for name in entity_labels:
        value = label_of(series, name)
        if not value and name == fallback:
            value = host_of(label_of(series, "instance"))
        pairs.append((name, value))
    return Entity(tuple(pairs))


def target_of(series: Series) -> tuple[str, str]:
    """Scrape target of a series: its ``job`` and ``instance``; all series of one scrape share one timestamp."""
    return label_of(series, "job"), label_of(series, "instance")


def gather(batch: SampleBatch, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], Times]:
    """Places of all samples of some series, series by series.

    Parameters
    ----------
    batch
        Samples of n series.
    indices
        k numbers of series.

    Returns
    -------
    tuple
        int64 (m) places in ``batch.times``, and int64 (k) how many each series has.
    """
    starts = batch.offsets[indices]
    lengths = batch.offsets[indices + 1] - starts
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if ends.size else 0
    places = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - lengths), lengths)
    return places, lengths


@dataclass(frozen=True, slots=True)
class Split:
    """How the series of a batch fall into entities; worth keeping, because the series of two reads are nearly always the same.

    ``series`` is what it was made for; ``parts`` holds, in order of entity, the numbers and identities of its series.
    """

    series: tuple[Series, ...]
    entity_labels: tuple[str, ...]
    parts: tuple[tuple[Entity, NDArray[np.int64], tuple[Series, ...]], ...]

    def fits(self, batch: SampleBatch, entity_labels: Sequence[str]) -> bool:
        """Whether it may be used again for another batch."""
        same = self.series is batch.series or self.series == batch.series
        return same and self.entity_labels == tuple(entity_labels)

    def apply(self, batch: SampleBatch) -> dict[Entity, SampleBatch]:
        """Batches of the entities, in order of entity."""
        if len(self.parts) == 1:
            return {self.parts[0][0]: SampleBatch(self.parts[0][2], batch.offsets, batch.times, batch.values)}
        result = {}
        for entity, indices, series in self.parts:
            places, lengths = gather(batch, indices)
            offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
            result[entity] = SampleBatch(series, offsets, batch.times[places], batch.values[places])
        return result


def plan_split(series: tuple[Series, ...], entity_labels: Sequence[str]) -> Split:
    """Find the entity of every series."""
    groups: dict[Entity, list[int]] = {}
    for number, one in enumerate(series):
        groups.setdefault(entity_of(one, entity_labels), []).append(number)
    parts = tuple(
        (entity, np.array(numbers, np.int64), tuple(series[number] for number in numbers))
        for entity, numbers in sorted(groups.items())
    )
    return Split(series, tuple(entity_labels), parts)

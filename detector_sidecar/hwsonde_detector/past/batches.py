"""Cutting and joining batches of samples by time. Pure."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.types import SampleBatch, Times


def cut(batch: SampleBatch, edges: Times) -> list[SampleBatch]:
    """Parts of a batch by time.

    Parameters
    ----------
    batch
        Samples.
    edges
        int64 (k), ascending, at least two.

    Returns
    -------
    list
        k - 1 batches: the samples later than ``edges[i]``, up to ``edges[i + 1]``. Others are left out, and so are series without a sample.
    """
    owners = _owners(batch)
    # Left: a sample that falls on an edge belongs to the part before it.
    cells = np.searchsorted(edges, batch.times, side="left") - 1
    order = np.argsort(cells, kind="stable")
    bounds = np.searchsorted(cells[order], np.arange(len(edges)), side="left")
    return [_picked(batch, owners, order[begin:end]) for begin, end in pairwise(bounds.tolist())]


def join(first: SampleBatch, second: SampleBatch) -> SampleBatch:
    """One batch of two, of which the second holds only later samples of each series."""
    if not first.series or not second.series:
        return second if not first.series else first
    if first.series == second.series:
        series = second.series
        owners = np.concatenate([_owners(first), _owners(second)])
    else:
        series = tuple(sorted({*first.series, *second.series}))
        places = {one: place for place, one in enumerate(series)}
        owners = np.concatenate(
            [np.array([places[one] for one in part.series], np.int64)[_owners(part)] for part in (first, second)]
        )
    order = np.argsort(owners, kind="stable")
    return SampleBatch(
        series,
        _offsets(np.bincount(owners, minlength=len(series))),
        np.concatenate([first.times, second.times])[order],
        np.concatenate([first.values, second.values])[order],
    )


def _owners(batch: SampleBatch) -> NDArray[np.int64]:
    """For each sample the number of its series."""
    return np.repeat(np.arange(len(batch.series), dtype=np.int64), np.diff(batch.offsets))


def _picked(batch: SampleBatch, owners: NDArray[np.int64], places: NDArray[np.int64]) -> SampleBatch:
    counts = np.bincount(owners[places], minlength=len(batch.series))
    series = batch.series
    if not counts.all():
        series = tuple(one for one, count in zip(series, counts.tolist(), strict=True) if count)
    return SampleBatch(series, _offsets(counts[counts > 0]), batch.times[places], batch.values[places])


def _offsets(counts: NDArray[np.int64]) -> Times:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))

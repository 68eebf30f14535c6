"""Small helpers that make series and batches."""

from __future__ import annotations

import numpy as np

from hwsonde_detector.types import SampleBatch, Series


def series(name, **labels):
    return Series(name, tuple(sorted(labels.items())))


def batch_of(samples):
    """A batch of a mapping from series to (time, value) pairs; series without samples are left out, as servers do."""
    known = sorted((one, pairs) for one, pairs in samples.items() if pairs)
    offsets = np.cumsum([0, *(len(pairs) for _, pairs in known)]).astype(np.int64)
    times = np.array([time for _, pairs in known for time, _ in pairs], np.int64)
    values = np.array([value for _, pairs in known for _, value in pairs], np.float64)
    return SampleBatch(tuple(one for one, _ in known), offsets, times, values)


def rows_of(frames):
    """Rows of frames: time -> channel -> value."""
    result = {}
    for frame in frames:
        for time, row in zip(frame.times.tolist(), frame.values.tolist(), strict=True):
            assert time not in result
            result[time] = dict(zip([channel.name for channel in frame.channels], row, strict=True))
    return result


def same_rows(left, right):
    """Whether two sets of rows are equal; a channel that is missing has no value."""
    assert list(left) == list(right)
    for time in left:
        for name in left[time].keys() | right[time].keys():
            one, two = left[time].get(name, np.nan), right[time].get(name, np.nan)
            np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9, err_msg=f"{name} at {time}")

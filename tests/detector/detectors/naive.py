"""Slow and obvious versions of the detectors, written from the formulas with loops; the fast ones must equal them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hwsonde_detector.types import Floats


def soften(size: float, knee: float) -> float:
    """A deviation's size, growing with the logarithm from the knee."""
    return size if size <= knee else knee * (1 + math.log(size / knee))


def mean_abs_z(training: Floats, rows: Floats, floor: float, knee: float) -> Floats:
    """Mean |z| row by row, column by column; values that are not finite count as the mean."""
    out = []
    for row in rows:
        total = 0.0
        for j, value in enumerate(row):
            column = [x for x in training[:, j] if math.isfinite(x)]
            mean = sum(column) / len(column)
            # Unknown training values stand at the mean: they add no deviation but count as rows.
            deviation = math.sqrt(sum((x - mean) ** 2 for x in column) / len(training))
            if math.isfinite(value):
                total += soften(abs(value - mean) / max(deviation, floor), knee)
        out.append(total / training.shape[1])
    return np.array(out)


def full_covariance_distance(
    training: Floats, rows: Floats, variance_kept: float, ridge: float, floor: float, knee: float
) -> Floats:
    """The distance through an explicit d x d precision matrix instead of two products."""
    n, d = training.shape
    mean = training.mean(axis=0)
    scale = np.maximum(training.std(axis=0), floor)

    def standardised(part: Floats) -> Floats:
        deviations = (part - mean) / scale
        return np.array([[math.copysign(soften(abs(x), knee), x) for x in row] for row in deviations])

    z = standardised(training)
    values, vectors = np.linalg.eigh(z.T @ z / n)
    order = np.argsort(-values)
    values, vectors = np.maximum(values[order], 0.0), vectors[:, order]
    kept = 1
    while values[:kept].sum() < variance_kept * values.sum() * (1 - 1e-12):
        kept += 1
    rest = values[kept:].sum() / max(d - kept, 1)
    spread = np.where(np.arange(d) < kept, values, rest) + ridge * (1 + d / n)
    precision = vectors @ np.diag(1 / spread) @ vectors.T
    return np.array([math.sqrt(row @ precision @ row / d) for row in standardised(rows)])


def isolation_contributions(trees: Sequence[Any], rows: Floats, used: int) -> Floats:
    """Savings per column by walking each of scikit-learn's trees node by node; not split over the score yet."""
    saved = np.zeros(rows.shape)
    for i, row in enumerate(rows.astype(np.float32)):
        for tree in trees:
            node = 0
            while tree.children_left[node] >= 0:
                column = tree.feature[node]
                side = tree.children_left if row[column] <= tree.threshold[node] else tree.children_right
                child = side[node]
                saved[i, column] += c(tree.n_node_samples[node]) - 1 - c(tree.n_node_samples[child])
                node = child
    return np.maximum(saved, 0.0)


def c(m: float) -> float:
    """Mean path of m rows, from the harmonic number's usual approximation."""
    if m < 2:
        return 0.0
    if m == 2:
        return 1.0
    return 2 * (math.log(m - 1) + 0.5772156649015329) - 2 * (m - 1) / m

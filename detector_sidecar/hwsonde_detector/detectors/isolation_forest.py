"""Isolation forest: how few random cuts it takes to part a row from the rest.

Each of T trees takes ``tree_rows`` training rows and cuts them at a random value of a random column, again and again. A row's path is the
number of cuts to its leaf, plus c(m) for the m training rows that were left together there, where
c(m) = 2 (ln(m - 1) + 0.5772) - 2 (m - 1)/m is the mean path in a random tree of m rows. Then (Liu, Ting and Zhou, "Isolation Forest", ICDM 2008)::

    score(x) = 2 ^ (-mean path(x) / c(tree_rows))        between 0 and 1; about 0.5 for an ordinary row

The trees are grown by scikit-learn and then laid out as complete binary heaps in three arrays, so that a batch of rows walks down all
trees one level at a time: as many steps as the trees are deep (8 for 256 rows), whatever the number of rows and trees.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest as _Forest

from hwsonde_detector.detectors.base import Arrays
from hwsonde_detector.detectors.columns import LIMIT, filled, learned, spread_over, training_rows
from hwsonde_detector.types import Floats

# Rows that walk together; bounds the memory of a walk to a few arrays of this many rows times trees.
_BATCH = 1024


class IsolationForest:
    """Isolation forest, grown by scikit-learn and scored from arrays.

    Another order of the columns lets the same random numbers fall on other columns: scores and contributions then differ as
    those of another seed do. Nothing else about the order matters.

    Parameters
    ----------
    trees
        Number of trees T.
    tree_rows
        Rows that a tree is grown from, where training has as many.
    seed
        Seed of all randomness.

    Attributes
    ----------
    centre_ : ndarray of float64 (d)
        Medians of the columns; stand in for values that are not finite.
    column_ : ndarray of int32 (T, 2^D - 1)
        Column that an inner place of the heap looks at; the children of place i are 2i + 1 and 2i + 2.
    threshold_ : ndarray of float32 (T, 2^D - 1)
        A value above it goes to the second child; +Inf where the tree has ended already.
    length_ : ndarray of float32 (T, 2^(D + 1) - 1)
        Expected path of a row that came to the place: cuts so far + c(training rows there). The last level holds the paths of the leaves.
    mean_length_ : ndarray of float64 (1)
        c(tree_rows), the mean path that scores are measured against.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(300, 3))
    >>> detector = IsolationForest(trees=50).fit(rows)
    >>> ordinary, odd = detector.score(np.array([[0.0, 0.0, 0.0], [0.0, 9.0, 0.0]]))
    >>> bool(odd > 1.2 * ordinary)
    True
    >>> int(detector.contributions(np.array([[0.0, 9.0, 0.0]])).argmax())
    1
    """

    name: ClassVar[str] = "isolation_forest"

    def __init__(self, trees: int = 100, tree_rows: int = 256, seed: int = 1) -> None:
        self.trees = trees
        self.tree_rows = tree_rows
        self.seed = seed

    def fit(self, rows: Floats) -> IsolationForest:
        """Grow the trees from rows (n, d); any number of rows from 1."""
        rows = training_rows(rows)
        self.centre_ = _medians(rows)
        used = min(self.tree_rows, len(rows))
        forest = _Forest(n_estimators=self.trees, max_samples=used, random_state=self.seed, n_jobs=1)
        forest.fit(filled(rows, self.centre_).astype(np.float32))
        self.column_, self.threshold_, self.length_ = _pack([grown.tree_ for grown in forest.estimators_], used)
        self.mean_length_ = mean_path(np.array([used]))
        return self

    def score(self, rows: Floats) -> Floats:
        """Scores (n) of rows (n, d), between 0 and 1; equal to scikit-learn's ``-score_samples`` but for rounding."""
        inside = filled(rows, self.centre_).astype(np.float32)
        score = np.empty(len(inside))
        for start in range(0, len(inside), _BATCH):
            batch = inside[start : start + _BATCH]
            # Only where the walk ends counts here.
            _, _, place = deque(self._walk(batch), maxlen=1)[0]
            score[start : start + len(batch)] = self._from_paths(
                self.length_.ravel().take(place).mean(axis=1, dtype=np.float64)
            )
        return score

    def contributions(self, rows: Floats) -> Floats:
        """Parts (n, d) of the score by column, from what each cut took off the expected path.

        A cut that leads from a place of m training rows to one of k saves c(m) - 1 - c(k) cuts: much where it isolates the row, less
        than nothing where it changes little. Along a path the savings add up to c(tree_rows) - path, so their mean over the trees is
        linear in the logarithm of the score. A column's weight is what its cuts saved, 0 if that is below 0, and the score is split in proportion.
        A row that no column helped to isolate gives zeros; so does a value that is not finite.
        """
        known = np.isfinite(np.asarray(rows, np.float64))
        inside = filled(rows, self.centre_).astype(np.float32)
        n, d = inside.shape
        saved = np.empty((n, d))
        lengths = self.length_.ravel()
        for start in range(0, n, _BATCH):
            batch = inside[start : start + _BATCH]
            first = np.arange(len(batch))[:, None] * d
            sums = np.zeros(batch.size)
            for column, before, after in self._walk(batch):
                saving = lengths.take(before).astype(np.float64) - lengths.take(after)
                sums += np.bincount((first + column).ravel(), weights=saving.ravel(), minlength=batch.size)
            saved[start : start + len(batch)] = sums.reshape(batch.shape)
        return spread_over(self.score(rows), np.where(known, np.maximum(saved, 0.0), 0.0))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The heaps (see the class), the columns' medians and the mean path."""
        return {
            "centre": self.centre_,
            "column": self.column_,
            "threshold": self.threshold_,
            "length": self.length_,
            "mean_length": self.mean_length_,
        }

    def restore(self, arrays: Arrays) -> IsolationForest:
        """Take back what `arrays` gave; raises ValueError if something is missing."""
        self.centre_ = learned(arrays, "centre", np.float64, 1)
        self.column_ = learned(arrays, "column", np.int32, 2)
        self.threshold_ = learned(arrays, "threshold", np.float32, 2)
        self.length_ = learned(arrays, "length", np.float32, 2)
        self.mean_length_ = learned(arrays, "mean_length", np.float64, 1)
        return self

    def _walk(
        self, rows: NDArray[np.float32]
    ) -> Iterator[tuple[NDArray[np.int32], NDArray[np.intp], NDArray[np.intp]]]:
        """Walk rows (n, d) down all trees; for each level, (n, T): the column looked at, and the places before and after in ``length_``, flat."""
        trees, inner = self.column_.shape
        columns, thresholds, values = self.column_.ravel(), self.threshold_.ravel(), np.ascontiguousarray(rows).ravel()
        first_value = np.arange(len(rows))[:, None] * rows.shape[1]
        first_inner = np.arange(trees) * inner
        first_place = np.arange(trees) * self.length_.shape[1]
        place = np.zeros((len(rows), trees), np.intp)
        for _ in range((inner + 1).bit_length() - 1):
            here = first_inner + place
            column = columns.take(here)
            child = 2 * place + 1 + (values.take(first_value + column) > thresholds.take(here))
            yield column, first_place + place, first_place + child
            place = child

    def _from_paths(self, paths: Floats) -> Floats:
        mean = float(self.mean_length_[0])
        # Trees of one row have no cuts; every row is then as ordinary as another.
        return np.asarray(np.exp2(-paths / mean) if mean > 0 else np.full(len(paths), 0.5), np.float64)


def mean_path(rows: NDArray[np.integer[Any]]) -> Floats:
    """c(m): mean number of cuts that isolate one of m rows in a random tree; 0 for one row or none."""
    m = np.maximum(np.asarray(rows, np.float64), 2.0)
    many = 2 * (np.log(np.maximum(m - 1, 1.0)) + np.euler_gamma) - 2 * (m - 1) / m
    return np.where(np.asarray(rows) < 2, 0.0, np.where(m == 2, 1.0, many))


def _medians(rows: Floats) -> Floats:
    """Median (d) of each column's finite values; 0 where a column has none."""
    known = np.isfinite(rows)
    ordered = np.sort(np.where(known, np.clip(rows, -LIMIT, LIMIT), np.inf), axis=0)
    count = known.sum(axis=0)
    middle = np.maximum(count - 1, 0) // 2
    return np.where(count > 0, np.take_along_axis(ordered, middle[None, :], axis=0)[0], 0.0)


def _pack(trees: Sequence[Any], used: int) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
    """Lay scikit-learn's trees, grown from ``used`` rows each, out as heaps: columns, thresholds and lengths (see `IsolationForest`)."""
    depth = (max(used, 2) - 1).bit_length()
    width = max(tree.node_count for tree in trees)

    def table(values: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.stack([np.pad(value, (0, width - len(value))) for value in values])

    left, right = table([tree.children_left for tree in trees]), table([tree.children_right for tree in trees])
    feature, cut = table([tree.feature for tree in trees]), _not_above(table([tree.threshold for tree in trees]))
    rest = mean_path(table([tree.n_node_samples for tree in trees]))
    node = np.zeros((len(trees), 1), np.intp)
    cuts = np.zeros((len(trees), 1))
    columns, thresholds, lengths = [], [], [cuts + np.take_along_axis(rest, node, 1)]
    for _ in range(depth):
        first = np.take_along_axis(left, node, 1)
        ended = first < 0
        columns.append(np.where(ended, 0, np.take_along_axis(feature, node, 1)))
        thresholds.append(np.where(ended, np.inf, np.take_along_axis(cut, node, 1)))
        # A tree that has ended goes on as a chain of copies of its leaf, so that all trees are equally deep.
        second = np.where(ended, node, np.take_along_axis(right, node, 1))
        first = np.where(ended, node, first)
        node = np.stack([first, second], axis=2).reshape(len(trees), -1)
        cuts = np.repeat(cuts + ~ended, 2, axis=1)
        lengths.append(cuts + np.take_along_axis(rest, node, 1))
    return (
        np.concatenate(columns, axis=1).astype(np.int32),
        np.concatenate(thresholds, axis=1).astype(np.float32),
        np.concatenate(lengths, axis=1).astype(np.float32),
    )


def _not_above(thresholds: Floats) -> NDArray[np.float32]:
    """The largest float32 that is not above each threshold: for a float32 value, x <= it exactly when x <= the threshold."""
    rounded = thresholds.astype(np.float32)
    return np.where(rounded > thresholds, np.nextafter(rounded, np.float32(-np.inf)), rounded)

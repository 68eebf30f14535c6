"""The tables themselves."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from hwsonde_exporter.registry import load_collectors
from hwsonde_exporter.self_metrics import METRICS
from tests.exporter.parity.table import FILES, rows

KNOWN = {metric.name: metric for kind in load_collectors().values() for metric in kind.metrics} | {
    metric.name: metric for metric in METRICS
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_series_of_ours_exists_with_its_labels(file: Path) -> None:
    for row in rows(file):
        if row.ours is not None:
            assert row.ours.name in KNOWN, row.theirs
            assert row.ours.labels.keys() <= set(KNOWN[row.ours.name].labels), row.theirs


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_row_without_ours_says_why(file: Path) -> None:
    assert [row.theirs.name for row in rows(file) if row.ours is None and not row.note] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_nothing_is_told_twice(file: Path) -> None:
    counted = Counter((row.theirs.name, *sorted(row.theirs.labels.items())) for row in rows(file))
    assert [key for key, count in counted.items() if count > 1] == []

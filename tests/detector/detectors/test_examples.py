"""The examples in the docstrings run."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "detectors.zscore",
        "detectors.mahalanobis",
        "detectors.isolation_forest",
        "detectors.ridge",
        "detectors.mixture",
        "decision.fusion",
    ],
)
def test_examples(module: str) -> None:
    result = doctest.testmod(import_module(f"hwsonde_detector.{module}"))
    assert result.attempted > 0
    assert result.failed == 0

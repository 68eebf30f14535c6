"""The server that history is read from, and a logger as it was before."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwsonde_detector.past.program import Asked, run_backtest
from hwsonde_detector.past.world import World
from tests.detector.past.history import config, labels_file
from tests.detector.past.runs import FAULT, FIRST, HISTORY, LAST, world
from tests.detector.sources.conftest import server

__all__ = ["server"]


@pytest.fixture(autouse=True)
def _quiet(quiet_logger):
    pass


@pytest.fixture(scope="session")
def archive(tmp_path_factory) -> Path:
    return HISTORY.archive(tmp_path_factory.mktemp("archive") / "a.archive", every_ms=5000)


@pytest.fixture(scope="session")
def whole(archive, tmp_path_factory) -> tuple[Path, World]:
    """An uninterrupted run over the archive, with a label."""
    folder = tmp_path_factory.mktemp("whole")
    one = world()
    labels = labels_file(folder, FAULT)
    asked = Asked(FIRST, LAST, folder / "out", archive=archive, labels=labels)
    assert run_backtest(config(folder), asked, one) == 0
    return folder / "out", one

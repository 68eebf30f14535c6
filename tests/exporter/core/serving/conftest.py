"""An exporter to be served, and a folder with what protects it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hwsonde_exporter.exporter import Exporter
from tests.exporter.core.asking import exporter_of
from tests.exporter.core.fakes import collector_kind, heat_of
from tests.exporter.core.serving.protected import Place


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    made = exporter_of(collector_kind("heat", heat_of(21.5)))
    yield made
    made.stop()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)

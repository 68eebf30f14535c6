"""The server that the sources' tests read from."""

from __future__ import annotations

import pytest

from tests.detector.sources import server as fake


@pytest.fixture
def server():
    with fake.serving() as one:
        yield one

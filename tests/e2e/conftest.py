"""One host is learned once; every test starts from a copy of that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.house import House
from tests.e2e.simulated import SimulatedHost


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedHost]:
    """The host that is watched; it lives on between the tests."""
    simulated = SimulatedHost(tmp_path_factory.mktemp("host") / "vm")
    simulated.start()
    yield simulated
    simulated.stop()


@pytest.fixture(scope="session")
def learned(host: SimulatedHost, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data directory of a stack that learned the host from nothing."""
    data = tmp_path_factory.mktemp("learned") / "data"
    with House(data, host) as house:
        first = house.until(lambda health: health.learning_needed > 0, 20, "the first rows")
        assert first.score is None
        assert not first.calibrated
        house.until(lambda health: health.windows_scored > 0, 40, "the first scores")
        house.until(lambda health: health.calibrated, 120, "calibration")
        house.expect_no_errors()
        assert house.events == [], house.seen()
    return data

"""One host is learned once; every test starts from a copy of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.house import LEARNING_NOISE, House
from tests.e2e.noise import wait_quiet


@pytest.fixture(scope="session")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data directory of a stack that learned this host from nothing."""
    data = tmp_path_factory.mktemp("learned") / "data"
    # Other programs' work would be learned as normal. A host that stays busy is learned all the same; a failure then tells.
    quiet = wait_quiet(100)
    with House(data) as house:
        first = house.until(lambda health: health.learning_needed > 0, 20, "the first rows")
        assert first.score is None
        assert not first.calibrated
        house.until(lambda health: health.windows_scored > 0, 40, "the first scores")
        house.until(lambda health: health.calibrated, 120, "calibration")
        house.expect_no_errors()
        assert house.events == [], house.seen()
        (data / LEARNING_NOISE).write_text(f"quiet before: {quiet}; {house.noise}", encoding="utf-8")
    return data

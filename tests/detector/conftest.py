"""Settings of the detector's tests."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from hwsonde_detector import logs

# An example's time says nothing on a machine that other work shares; the test run has a time limit of its own. Every run tries the same
# examples, so that a red run is a changed program and not a new draw; HWSONDE_RANDOM_EXAMPLES=1 draws new ones, to look for more.
settings.register_profile(
    "shared-machine", deadline=None, derandomize=os.environ.get("HWSONDE_RANDOM_EXAMPLES", "") == ""
)
settings.load_profile("shared-machine")


@pytest.fixture
def quiet_logger() -> Iterator[None]:
    """Take back what a command set up for its log, so that the next test's says what it should."""
    yield
    logger = logging.getLogger(logs.ROOT)
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
    logger.propagate = True
    logger.setLevel(logging.NOTSET)

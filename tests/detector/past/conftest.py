"""The server that history is read from, and a logger as it was before."""

from __future__ import annotations

import logging

import pytest

from hwsonde_detector import logs
from tests.detector.sources.conftest import server

__all__ = ["server"]


@pytest.fixture(autouse=True)
def _quiet_logger():
    yield
    logger = logging.getLogger(logs.ROOT)
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
    logger.propagate = True
    logger.setLevel(logging.NOTSET)

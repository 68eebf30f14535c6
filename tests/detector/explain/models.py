"""A model of channels whose healthy values are given."""

from __future__ import annotations

import numpy as np

from hwsonde_detector.decision.model import EntityModel, fit_model
from hwsonde_detector.types import Channel, Floats
from tests.detector.worker.hosts import SETTINGS

WIDTH = SETTINGS.window.rows


def model_of(channels: tuple[Channel, ...], values: Floats) -> EntityModel:
    """Fit on values (rows, c), a row a second."""
    model = fit_model(values, np.arange(len(values), dtype=np.int64) * 1000, 1000, channels, SETTINGS)
    assert model is not None
    return model

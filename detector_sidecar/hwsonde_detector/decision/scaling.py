"""Robust scales: how far a channel usually is from its centre."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hwsonde_detector.signals.windows import transform
from hwsonde_detector.types import Channel, Floats

# A normal distribution's 1st and 99th percentile are 4.653 deviations apart, its median absolute deviation is 0.6745.
_RANGE_TO_DEVIATION = 4.653
_MAD_TO_DEVIATION = 1.4826
# The smallest deviation that matters of a logarithmic channel: a change by about a third, or a third of the floor near zero.
_LOGARITHMIC_FLOOR = 0.3
# A row is outside of its band beyond this percentile of training, and never nearer than this many deviations.
_BAND_PERCENTILE = 99.5
_BAND_DEVIATIONS = 4.0


@dataclass(frozen=True, slots=True)
class Scale:
    """Centre and spread of c channels on the transformed axis (`transform`), and the half width of the expected band in spreads.

    Attributes
    ----------
    centre, spread, band
        float64 (c) each; spread and band are above 0.
    """

    centre: Floats
    spread: Floats
    band: Floats

    def standardise(self, values: Floats, channels: Sequence[Channel]) -> Floats:
        """Signed robust deviations (rows, c) of values (rows, c) in the channels' own units; NaN stays NaN."""
        return (transform(values, channels) - self.centre) / self.spread


def fit_scale(values: Floats, channels: Sequence[Channel]) -> Scale:
    """Scale of values (rows, c), in the channels' own units.

    The spread is the largest of the median absolute deviation (narrow channels), the range between the 1st and 99th percentile (channels
    that are mostly quiet with regular bursts, whose median absolute deviation is 0) and the channel's physical floor.
    A channel without any value has centre 0 and its floor as spread.
    """
    moved = transform(values, channels)
    floors = np.array(
        [_LOGARITHMIC_FLOOR if channel.logarithmic else max(channel.floor, 1e-300) for channel in channels]
    )
    with warnings.catch_warnings():
        # Columns without a single value are expected: a device that came and went.
        warnings.simplefilter("ignore", RuntimeWarning)
        centre = np.nan_to_num(np.nanmedian(moved, axis=0))
        absolute = np.abs(moved - centre)
        mad = np.nan_to_num(np.nanmedian(absolute, axis=0)) * _MAD_TO_DEVIATION
        low, high = np.nan_to_num(np.nanpercentile(moved, [1.0, 99.0], axis=0))
        spread = np.maximum.reduce([mad, (high - low) / _RANGE_TO_DEVIATION, floors])
        band = np.nan_to_num(np.nanpercentile(absolute / spread, _BAND_PERCENTILE, axis=0))
    return Scale(centre, spread, np.maximum(band, _BAND_DEVIATIONS))


def untransform(values: Floats, channel: Channel) -> Floats:
    """Inverse of `transform` for one channel: back to its own unit."""
    return np.sinh(values) * channel.floor if channel.logarithmic else values

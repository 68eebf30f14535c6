"""All detectors by name, made from the settings."""

from __future__ import annotations

from collections.abc import Callable

from hwsonde_detector.detectors.base import Detector
from hwsonde_detector.detectors.extremes import Extremes
from hwsonde_detector.detectors.isolation_forest import IsolationForest
from hwsonde_detector.detectors.mahalanobis import Mahalanobis
from hwsonde_detector.detectors.zscore import ZScore
from hwsonde_detector.errors import ConfigError
from hwsonde_detector.settings import DetectorSettings

DETECTORS: dict[str, Callable[[DetectorSettings, int], Detector]] = {
    ZScore.name: lambda settings, _: ZScore(knee=settings.knee),
    Mahalanobis.name: lambda settings, _: Mahalanobis(variance_kept=settings.variance_kept, knee=settings.knee),
    IsolationForest.name: lambda settings, _: IsolationForest(
        trees=settings.trees, tree_rows=settings.tree_rows, seed=settings.seed
    ),
    Extremes.name: lambda _, group: Extremes(group=group),
}


def make(name: str, settings: DetectorSettings, group: int = 1) -> Detector:
    """An unfitted detector for rows in which each channel has ``group`` neighbouring columns.

    Raises
    ------
    ConfigError
        If no detector has the name.
    """
    factory = DETECTORS.get(name)
    if factory is None:
        raise ConfigError(f"detectors: {name!r} is not known; allowed: {', '.join(DETECTORS)}")
    return factory(settings, group)

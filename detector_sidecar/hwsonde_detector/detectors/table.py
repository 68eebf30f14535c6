"""All detectors by name, made from the settings."""

from __future__ import annotations

from collections.abc import Callable

from hwsonde_detector.detectors.base import Detector
from hwsonde_detector.detectors.isolation_forest import IsolationForest
from hwsonde_detector.detectors.mahalanobis import Mahalanobis
from hwsonde_detector.detectors.zscore import ZScore
from hwsonde_detector.errors import ConfigError
from hwsonde_detector.settings import DetectorSettings

DETECTORS: dict[str, Callable[[DetectorSettings], Detector]] = {
    ZScore.name: lambda _: ZScore(),
    Mahalanobis.name: lambda settings: Mahalanobis(variance_kept=settings.variance_kept),
    IsolationForest.name: lambda settings: IsolationForest(
        trees=settings.trees, tree_rows=settings.tree_rows, seed=settings.seed
    ),
}


def make(name: str, settings: DetectorSettings) -> Detector:
    """An unfitted detector.

    Raises
    ------
    ConfigError
        If no detector has the name.
    """
    factory = DETECTORS.get(name)
    if factory is None:
        raise ConfigError(f"detectors: {name!r} is not known; allowed: {', '.join(DETECTORS)}")
    return factory(settings)

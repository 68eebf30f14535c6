"""Which metrics are published at all: lists of allowed and denied names."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hwsonde_exporter.metric import Metric


@dataclass(frozen=True, slots=True)
class Selection:
    """Patterns of whole names of metric families.

    A summary's or histogram's name is that of its family, without ``_sum``, ``_count`` or ``_bucket``. What is left out is
    left out on purpose, so it is not counted among what a collector lost.

    Attributes
    ----------
    allow
        Only families that match are published; None allows all.
    deny
        Families that match are not published, allowed or not; None denies none.
    """

    allow: re.Pattern[str] | None = None
    deny: re.Pattern[str] | None = None

    def hides(self, metric: Metric) -> bool:
        """Whether a metric is left out. Asked once for each metric when the shape of an answer changes, never for a sample."""
        if self.allow is not None and self.allow.fullmatch(metric.name) is None:
            return True
        return self.deny is not None and self.deny.fullmatch(metric.name) is not None


EVERYTHING = Selection()

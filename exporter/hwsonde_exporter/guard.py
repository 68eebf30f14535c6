"""What a collector may give: sound samples of the metrics in its table, and not too many of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from numbers import Real

from hwsonde_exporter.exposition import Block, Shape, compile_shape
from hwsonde_exporter.metric import Metric, Sample
from hwsonde_exporter.privacy import SHOW, Privacy
from hwsonde_exporter.selection import EVERYTHING, Selection

_PLAIN_NUMBERS = frozenset({int, float})
# How far an endless iterable is followed beyond the limit, in limits, only to count what is dropped.
_COUNTED_LIMITS = 10


class Guard:
    """Turns a collector's answer into a block and refuses what is not the collector's to give.

    The checks are made when the shape of the answer changes; an answer of the known shape costs three comparisons.

    Parameters
    ----------
    metrics
        The collector's table.
    limit
        Greatest number of series.
    selection
        Which metrics are published.
    privacy
        What becomes of personal labels.
    """

    def __init__(
        self,
        metrics: Collection[Metric],
        limit: int,
        selection: Selection = EVERYTHING,
        privacy: Privacy = SHOW,
    ) -> None:
        self.limit = limit
        self.selection = selection
        self.privacy = privacy
        self._metrics = frozenset(metrics)
        self._shape: Shape | None = None
        self._shaped_by = (limit, selection, privacy)

    def block(self, answer: Iterable[Sample]) -> tuple[Block, Mapping[str, int]]:
        """Block of what may be published, and the number of samples that may not, by reason.

        Besides the reasons of `hwsonde_exporter.exposition.Shape`, ``value`` counts values that are no numbers.
        """
        iterator = iter(answer)
        samples = list(islice(iterator, _COUNTED_LIMITS * self.limit))
        if not samples:
            return Block(compile_shape((), (), ()), ()), {}
        metrics, labels, values, suffixes = zip(*samples, strict=True)
        refused = 0
        if not _PLAIN_NUMBERS.issuperset(map(type, values)):
            samples, refused = _numbers_only(samples)
            if not samples:
                return Block(compile_shape((), (), ()), ()), {"value": refused}
            metrics, labels, values, suffixes = zip(*samples, strict=True)
        shape = self._shape
        rules = (self.limit, self.selection, self.privacy)
        if shape is None or self._shaped_by != rules or not shape.matches(metrics, labels, suffixes):
            shape = compile_shape(
                metrics,
                labels,
                suffixes,
                declared=self._metrics,
                limit=self.limit,
                selection=self.selection,
                privacy=self.privacy,
            )
            self._shape, self._shaped_by = shape, rules
        dropped = shape.dropped if not refused else Counter(shape.dropped) + Counter(value=refused)
        return Block(shape, values), dropped


def _numbers_only(samples: Iterable[Sample]) -> tuple[list[Sample], int]:
    kept, refused = [], 0
    for sample in samples:
        value: object = sample.value
        if type(value) in _PLAIN_NUMBERS:
            kept.append(sample)
        elif isinstance(value, int):
            kept.append(sample._replace(value=int(value)))
        elif isinstance(value, Real):
            kept.append(sample._replace(value=float(value)))
        else:
            refused += 1
    return kept, refused

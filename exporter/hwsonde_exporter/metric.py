"""What a metric is: the frozen description that code, text and documentation are made from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

_NAME = re.compile(r"hwsonde_[a-z0-9]+(_[a-z0-9]+)*\Z")
# Every name of ours begins so, and no other does.
OUR_PREFIX = "hwsonde_"
_FOREIGN_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z", re.ASCII)
_FOREIGN_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z", re.ASCII)
_LABEL = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*\Z")
# job, instance, cluster and node are the scraper's to set: a metric of ours with one of them would be moved to another host.
_FORBIDDEN_LABELS = frozenset({"job", "instance", "cluster", "node", "le", "quantile"})


class Kind(StrEnum):
    """The exposition format's type of a metric family."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"  # cumulative moments: _sum and _count, without quantiles
    HISTOGRAM = "histogram"  # cumulative moments and tails: _bucket with le, _sum and _count
    UNTYPED = "untyped"  # never ours: see `Foreign`


_SUFFIXES: dict[Kind, tuple[str, ...]] = {
    Kind.SUMMARY: ("_sum", "_count"),
    Kind.HISTOGRAM: ("_bucket", "_sum", "_count"),
}


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family.

    Parameters
    ----------
    name
        Full name as Prometheus shows it, with unit and, for counters, ``_total``. The name of a summary or a histogram is
        that of the family; its samples carry one of `suffixes`.
    kind
        Type of the family.
    help
        One sentence for the operator.
    labels
        Label names, in the order in which samples give the values.
    unit
        Base unit, as in the name (``seconds``, ``bytes``, ``ratio``, ``hertz``, ``celsius``, ``watts``); empty for counts.
    subsystem
        The part of the host that it speaks of: cpu, gpu, memory, network, storage, power, thermal, pcie, workload, exporter.
    source
        Where the value comes from: kernel file and field, system call or driver call.
    buckets
        Upper bounds of a histogram's buckets, inclusive, in its unit, ascending; the last one, +Inf, goes without saying.
        Empty for the other kinds.

    Raises
    ------
    ValueError
        If a name breaks the rules that promtool and this project hold metrics to.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    subsystem: str = ""
    source: str = ""
    buckets: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise ValueError(f"metric name {self.name!r}: lower case words joined by _, beginning with hwsonde_")
        if self.kind is Kind.UNTYPED:
            raise ValueError(f"metric {self.name!r}: ours have a type")
        if (self.kind is Kind.COUNTER) != self.name.endswith("_total"):
            raise ValueError(f"metric {self.name!r}: _total belongs to counters, and to all of them")
        for label in self.labels:
            if not _LABEL.match(label) or label in _FORBIDDEN_LABELS:
                raise ValueError(f"metric {self.name!r}: label name {label!r} is not allowed")
        if not self.help.endswith("."):
            raise ValueError(f"metric {self.name!r}: its help must be a sentence")
        if (self.kind is Kind.HISTOGRAM) != bool(self.buckets):
            raise ValueError(f"metric {self.name!r}: buckets belong to histograms, and to all of them")
        # Beyond 1e15 Python and Prometheus spell a number differently.
        if not all(0 < bound < 1e15 for bound in self.buckets) or any(
            low >= high for low, high in pairwise(self.buckets)
        ):
            raise ValueError(f"metric {self.name!r}: bounds of buckets are positive, finite and ascending")

    @property
    def suffixes(self) -> tuple[str, ...]:
        """What its samples append to the name, in the order of printing."""
        return _SUFFIXES.get(self.kind, ("",))

    @property
    def bounds(self) -> tuple[str, ...]:
        """Values of the label ``le`` of a histogram, ``+Inf`` at the end; empty for the other kinds."""
        return _bounds(self.buckets)

    def label_names(self, suffix: str) -> tuple[str, ...]:
        """Names of the labels of a sample with this suffix."""
        return (*self.labels, "le") if suffix == "_bucket" else self.labels


@dataclass(frozen=True, slots=True)
class Foreign(Metric):
    """Series of a metric family that somebody else named and described, which we only pass on (see the textfile collector).

    It may have any name that the text format allows except one like ours, and may be told of in no table. A family whose
    series differ in their labels is made of several of these, one for each set of label names. ``le`` and ``quantile`` are
    labels like any other, and the samples are printed as they come.
    """

    def __post_init__(self) -> None:
        if not _FOREIGN_NAME.match(self.name) or self.name.startswith(OUR_PREFIX):
            raise ValueError(f"metric name {self.name!r}: letters, digits, _ and :, not beginning with {OUR_PREFIX}")
        for label in self.labels:
            if not _FOREIGN_LABEL.match(label) or label.startswith("__"):
                raise ValueError(f"metric {self.name!r}: label name {label!r} is not allowed")
        if len(set(self.labels)) != len(self.labels):
            raise ValueError(f"metric {self.name!r}: a label comes twice")

    @property
    def suffixes(self) -> tuple[str, ...]:
        """What its samples may append to the name."""
        return "", "_bucket", "_sum", "_count"

    def label_names(self, suffix: str) -> tuple[str, ...]:  # noqa: ARG002  (the same for all)
        """Names of the labels of each sample."""
        return self.labels


@lru_cache(maxsize=64)
def _bounds(buckets: tuple[float, ...]) -> tuple[str, ...]:
    return (*(repr(float(bound)) for bound in buckets), "+Inf") if buckets else ()


class Sample(NamedTuple):
    """One value of one metric.

    ``labels`` holds the label values in the order of ``metric.labels``; ``suffix`` is one of ``metric.suffixes``. The
    ``_bucket`` samples of a histogram have one label value more, one of ``metric.bounds``, and count the observations up to
    that bound. A value that is not known is left out, never given as 0 or NaN.
    """

    metric: Metric
    labels: tuple[str, ...]
    value: float
    suffix: str = ""

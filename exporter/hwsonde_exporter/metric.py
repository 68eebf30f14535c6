"""What a metric is: the frozen description that code, text and documentation are made from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

_NAME = re.compile(r"hwsonde_[a-z0-9]+(_[a-z0-9]+)*\Z")
_LABEL = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*\Z")
# job, instance, cluster and node are the scraper's to set: a metric of ours with one of them would be moved to another host.
_FORBIDDEN_LABELS = frozenset({"job", "instance", "cluster", "node", "le", "quantile"})


class Kind(StrEnum):
    """The exposition format's type of a metric family."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"  # cumulative moments: _sum and _count, without quantiles


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family.

    Parameters
    ----------
    name
        Full name as Prometheus shows it, with unit and, for counters, ``_total``. A summary's name is that of the
        family; its samples carry the suffix ``_sum`` or ``_count``.
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

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise ValueError(f"metric name {self.name!r}: lower case words joined by _, beginning with hwsonde_")
        if (self.kind is Kind.COUNTER) != self.name.endswith("_total"):
            raise ValueError(f"metric {self.name!r}: _total belongs to counters, and to all of them")
        for label in self.labels:
            if not _LABEL.match(label) or label in _FORBIDDEN_LABELS:
                raise ValueError(f"metric {self.name!r}: label name {label!r} is not allowed")
        if not self.help.endswith("."):
            raise ValueError(f"metric {self.name!r}: its help must be a sentence")


class Sample(NamedTuple):
    """One value of one metric.

    ``labels`` holds the label values in the order of ``metric.labels``; ``suffix`` is ``_sum`` or ``_count`` for a
    summary and empty otherwise. A value that is not known is left out, never given as 0 or NaN.
    """

    metric: Metric
    labels: tuple[str, ...]
    value: float
    suffix: str = ""

"""The shape of a profile file, checked by pydantic."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from hwsonde_detector.signals.profiles.rules import TITLE_LABEL, Aggregate
from hwsonde_detector.types import Subsystem
from hwsonde_detector.types.patterns import has_odd_set


def _pattern(text: str) -> str:
    if has_odd_set(text):
        raise ValueError("a set such as [[:lower:]] is read differently elsewhere: write [a-z], and \\[ for a bracket")
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return text


def _ascending(bounds: tuple[float | None, float | None]) -> tuple[float | None, float | None]:
    low, high = bounds
    if low is not None and high is not None and low >= high:
        raise ValueError("the lower bound must lie below the upper one")
    return bounds


MetricName = Annotated[str, Field(pattern=r"^[a-zA-Z_:][a-zA-Z0-9_:]*$")]
LabelName = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$")]
Patterns = dict[LabelName, Annotated[str, AfterValidator(_pattern)]]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Bounds = Annotated[tuple[float | None, float | None], AfterValidator(_ascending)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class ScaleEntry(_Model):
    """``floor``: the smallest deviation that matters, in the channel's unit; ``logarithmic``: heavy-tailed."""

    floor: Positive
    logarithmic: bool = False


class DeviceEntry(_Model):
    """``kind``: class of the device (disk, nic); ``label``: the label that names it, one of ``by``."""

    kind: str = Field(min_length=1)
    label: LabelName


class SquaresEntry(_Model):
    """``metric``: name of the counter of squared deviations, by default with the usual ending; ``reference``: the constant they were taken from."""

    metric: MetricName | None = None
    reference: float = Field(default=0.0, allow_inf_nan=False)


class _Selection(_Model):
    aggregate: Aggregate = Aggregate.SUM
    only: Patterns = {}
    excluded: Patterns = Field(default={}, alias="except")
    range: Bounds | None = None
    rate_limit: Positive | None = None


class PlaceEntry(_Model):
    """Where devices of a class sit: ``metric``, an info series, has the device's name in ``label`` and its address in the label ``place``."""

    metric: MetricName
    kind: str = Field(min_length=1)
    label: LabelName
    place: LabelName


class _Judged(_Model):
    """``collector``: name of the exporter's collector that reads the values at a pace of its own; left out where a scrape reads them.

    ``title``: what people call the channel; a label of ``by`` in braces stands for its value.
    """

    subsystem: Subsystem
    collector: str | None = Field(default=None, min_length=1)
    by: tuple[LabelName, ...] = ()
    device: DeviceEntry | None = None
    scale: ScaleEntry
    weight: float = Field(default=1.0, ge=0, le=1)
    unit: str = ""
    title: str = Field(default="", max_length=80)

    @model_validator(mode="after")
    def _title_knows_its_labels(self) -> _Judged:
        for label in TITLE_LABEL.findall(self.title):
            if label not in self.by:
                raise ValueError(f"title: {{{label}}} must be one of by")
        return self

    @model_validator(mode="after")
    def _device_is_kept(self) -> _Judged:
        if self.device is not None and self.device.label not in self.by:
            raise ValueError(f"device.label {self.device.label!r} must be one of by")
        if len(set(self.by)) != len(self.by):
            raise ValueError("by names a label twice")
        return self


class MetricEntry(_Selection, _Judged):
    """One metric: a counter gives its rate, a gauge its value, a level its change a second, moments their mean and deviation."""

    name: MetricName
    kind: Literal["counter", "gauge", "level", "moments"]
    statistics: tuple[Literal["mean", "deviation"], ...] | None = None
    squares: SquaresEntry | None = None

    @model_validator(mode="after")
    def _moments_only(self) -> MetricEntry:
        if self.kind != "moments" and (self.squares is not None or self.statistics is not None):
            raise ValueError("squares and statistics belong to kind: moments")
        if self.kind == "moments" and self.aggregate is not Aggregate.SUM:
            raise ValueError("moments are always pooled; leave aggregate out")
        if self.kind == "gauge" and self.rate_limit is not None:
            raise ValueError("a gauge has a range, not a rate_limit")
        if self.statistics is not None and not self.statistics:
            raise ValueError("statistics must not be empty")
        if "deviation" in (self.statistics or ()) and self.squares is None:
            raise ValueError("the deviation needs squares")
        return self

    def wanted(self) -> tuple[str, ...]:
        """Statistics of moments: those named, else all that can be had."""
        return self.statistics or (("mean", "deviation") if self.squares is not None else ("mean",))


class TermEntry(_Selection):
    """Numerator or denominator: the rate of a counter, or a gauge."""

    metric: MetricName
    kind: Literal["counter", "gauge"] = "counter"


class RatioEntry(_Judged):
    """``numerator / max(denominator, minimum)``: with little going on the ratio shrinks towards 0 instead of becoming noise."""

    name: MetricName
    numerator: TermEntry
    denominator: TermEntry
    minimum: Positive


class PartEntry(_Model):
    """A metric whose series each stand for a physical part: ``kind`` is its class, ``label`` names it."""

    metric: MetricName
    kind: str = Field(min_length=1)
    label: LabelName


class HealthEntry(_Model):
    """Metrics that make no channel, and tell of data faults; the roles of `HealthRole`."""

    up: MetricName | None = None
    scrape_seconds: MetricName | None = None
    scrape_samples: MetricName | None = None
    available: MetricName | None = None
    success: MetricName | None = None
    seconds: MetricName | None = None
    clock: MetricName | None = None
    version: MetricName | None = None
    parts: tuple[PartEntry, ...] = ()


class _Filtered(_Model):
    only: Patterns = {}
    excluded: Patterns = Field(default={}, alias="except")


class SettingEntry(_Filtered):
    """Settings: ``named_by`` a label or by the metric itself, for a ``device``; their values are those of ``labels``, else the samples."""

    name: MetricName
    named_by: LabelName | None = None
    device: LabelName | None = None
    labels: tuple[LabelName, ...] = ()
    by: tuple[LabelName, ...] = ()

    @model_validator(mode="after")
    def _one_value(self) -> SettingEntry:
        if self.named_by is not None and len(self.labels) > 1:
            raise ValueError("named_by gives one name, so labels must be one")
        named = [*self.labels, *self.by, *(one for one in (self.named_by, self.device) if one is not None)]
        if len(set(named)) != len(named):
            raise ValueError("a label has two meanings")
        return self


class GroupEntry(_Filtered):
    """Which hosts are alike: those with equal values of ``labels``, told as ``word`` in ``peers.by``."""

    name: MetricName
    word: LabelName
    labels: tuple[LabelName, ...] = Field(min_length=1)
    trimmed: Annotated[str, AfterValidator(_pattern)] | None = None
    shared: bool = False


class ProfileFile(_Model):
    """A whole file.

    ``prefix`` is left out of channel names; ``restart`` names a series that changes only when the exporter restarts; ``clock`` one
    with a label ``collector`` that tells when that collector's values were read, in Unix seconds. ``marks`` and ``faults`` are names of channels
    (without labels): those that tell which workloads are here, and by subsystem those that no workload explains. ``places`` tell where devices sit,
    ``health`` what tells of data faults; ``settings`` and ``groups`` are
    read at a slow pace.
    """

    prefix: str = ""
    restart: MetricName | None = None
    clock: MetricName | None = None
    health: HealthEntry = HealthEntry()
    marks: tuple[str, ...] = ()
    faults: dict[Subsystem, tuple[str, ...]] = {}
    metrics: tuple[MetricEntry, ...] = ()
    ratios: tuple[RatioEntry, ...] = ()
    places: tuple[PlaceEntry, ...] = ()
    settings: tuple[SettingEntry, ...] = ()
    groups: tuple[GroupEntry, ...] = ()

    @model_validator(mode="after")
    def _not_empty(self) -> ProfileFile:
        if not self.metrics and not self.ratios:
            raise ValueError("a profile needs at least one entry under metrics or ratios")
        return self

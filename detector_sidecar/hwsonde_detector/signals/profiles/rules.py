"""What a profile says, ready for use: which series become which channels, and how."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum

from hwsonde_detector.types import Role, Subsystem


class Reading(IntEnum):
    """What of a series is looked at."""

    VALUE = 0  # the sample itself
    RATE = 1  # increase of a counter a second; a fall is a reset
    CHANGE = 2  # change of a gauge a second, of either sign
    MARK = 3  # a value that changes only when the process restarts


class Aggregate(StrEnum):
    """How several series become one number."""

    SUM = "sum"
    MEAN = "mean"
    MAX = "max"
    MIN = "min"


class Formula(StrEnum):
    """How the parts of a channel become its value."""

    PLAIN = "plain"  # part 0
    RATIO = "ratio"  # part 0 / max(part 1, minimum)
    MEAN = "mean"  # sum / count
    DEVIATION = "deviation"  # sqrt(squares / count - (sum / count - reference)^2), parts sum, count, squares


@dataclass(frozen=True, slots=True)
class Part:
    """One selection of series.

    Attributes
    ----------
    name
        Exact name of the series.
    reading
        Value, rate or change.
    only, excluded
        Pairs of label name and pattern; a series is taken if each pattern of ``only`` matches the whole value (a missing
        label is empty) and none of ``excluded`` does.
    aggregate
        What joins the series that share the channel's labels.
    low, high
        Valid range of the raw value; what lies outside is not believed.
    rate_limit
        Largest believable rate or change of one series a second.
    """

    name: str
    reading: Reading
    only: tuple[tuple[str, re.Pattern[str]], ...] = ()
    excluded: tuple[tuple[str, re.Pattern[str]], ...] = ()
    aggregate: Aggregate = Aggregate.SUM
    low: float = -float("inf")
    high: float = float("inf")
    rate_limit: float = float("inf")

    def takes(self, labels: dict[str, str]) -> bool:
        """Whether the filters let a series with these labels pass."""
        return passes(labels, self.only, self.excluded)


# A label in a title: its value stands there.
TITLE_LABEL = re.compile(r"\{([a-zA-Z_][a-zA-Z0-9_]*)\}")


@dataclass(frozen=True, slots=True, order=True)
class Clock:
    """What tells when values were read that are published at every scrape, but read at a pace of their own.

    ``metric`` is the name of a series whose label ``collector`` is ``collector``; its value is a Unix time in seconds.
    """

    metric: str
    collector: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A family of channels: one for each combination of the values of the labels ``by``.

    ``minimum`` is the smallest denominator of a ratio (below it the ratio shrinks towards 0 instead of becoming noise),
    ``reference`` the constant of the squared deviations, ``clock`` what tells when the values of all parts were read; None where a
    scrape reads them. ``title`` is what people call the channels, with labels in braces. The rest is as in `hwsonde_detector.types.Channel`.
    """

    name: str
    formula: Formula
    parts: tuple[Part, ...]
    by: tuple[str, ...]
    subsystem: Subsystem
    floor: float
    logarithmic: bool = False
    weight: float = 1.0
    unit: str = ""
    device_kind: str | None = None
    device_label: str | None = None
    minimum: float = 0.0
    reference: float = 0.0
    clock: Clock | None = None
    title: str = ""
    role: Role = Role.SIGNAL

    def title_of(self, labels: Mapping[str, str]) -> str:
        """Give the title of the channel with these labels; what has no value leaves nothing."""
        return TITLE_LABEL.sub(lambda found: labels.get(found[1], ""), self.title)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where devices of a class sit: the series ``metric`` has the device's name in ``label`` and its address in the label ``place``."""

    metric: str
    kind: str
    label: str
    place: str


class HealthRole(StrEnum):
    """What a series tells of the health of a scrape, an exporter or one of its collectors."""

    UP = "up"  # 1 for a scrape that succeeded, 0 for one that failed
    SCRAPE_SECONDS = "scrape_seconds"  # how long a scrape took
    SCRAPE_SAMPLES = "scrape_samples"  # how many samples it gave
    AVAILABLE = "available"  # 1 for a collector that can work, with its reason where it cannot
    SUCCESS = "success"  # 1 for a collector whose latest run succeeded
    SECONDS = "seconds"  # how long the latest run of a collector took
    CLOCK = "clock"  # the host's time, in Unix seconds, when something was read for this scrape
    VERSION = "version"  # a constant with the exporter's version in the label of that name
    PART = "part"  # a physical part that is there, whatever the value


# Roles whose series speak of one collector each, in their label of that name.
BY_COLLECTOR = frozenset({HealthRole.AVAILABLE, HealthRole.SUCCESS, HealthRole.SECONDS, HealthRole.CLOCK})


@dataclass(frozen=True, slots=True, order=True)
class PartSeries:
    """A metric whose series each stand for a physical part that no channel belongs to: its class, and the label that names it."""

    metric: str
    kind: str
    label: str


@dataclass(frozen=True, slots=True)
class Health:
    """Metrics that make no channel, and tell of data faults: pairs of role and metric, and parts."""

    names: tuple[tuple[HealthRole, str], ...] = ()
    parts: tuple[PartSeries, ...] = ()


@dataclass(frozen=True, slots=True)
class SettingRule:
    """How the series of one metric become settings.

    Attributes
    ----------
    name
        Exact name of the series.
    only, excluded
        As in `Part`.
    setting
        Name of the settings: that of the metric without the profile's prefix and ``_info``. Values of the labels ``by`` and
        the name of the label that holds the value follow it.
    named_by
        Label whose value is the whole name instead; None where there is none.
    device
        Label that names the part; None: the host.
    labels
        Labels whose values are the settings; none: the sample is.
    by
        Labels that make settings of their own.
    """

    name: str
    setting: str
    only: tuple[tuple[str, re.Pattern[str]], ...] = ()
    excluded: tuple[tuple[str, re.Pattern[str]], ...] = ()
    named_by: str | None = None
    device: str | None = None
    labels: tuple[str, ...] = ()
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupRule:
    """What of an info series tells which hosts are alike: the values of ``labels``, without what matches ``trimmed`` at their ends.

    ``word`` is how `hwsonde_detector.settings.PeerSettings.by` names it. With ``shared`` only values count that enough hosts have.
    """

    name: str
    word: str
    labels: tuple[str, ...]
    only: tuple[tuple[str, re.Pattern[str]], ...] = ()
    excluded: tuple[tuple[str, re.Pattern[str]], ...] = ()
    trimmed: re.Pattern[str] | None = None
    shared: bool = False


def passes(
    labels: Mapping[str, str],
    only: tuple[tuple[str, re.Pattern[str]], ...],
    excluded: tuple[tuple[str, re.Pattern[str]], ...],
) -> bool:
    """Whether a series with these labels passes: each of ``only`` matches the whole value (a missing label is empty), none of ``excluded``."""
    return all(pattern.fullmatch(labels.get(label, "")) for label, pattern in only) and not any(
        pattern.fullmatch(labels.get(label, "")) for label, pattern in excluded
    )


@dataclass(frozen=True, slots=True)
class Profile:
    """How the series of one kind of exporter become channels.

    Attributes
    ----------
    name
        For messages.
    rules
        In the order of the file; where two rules give a channel of the same name the first wins.
    restart
        Name of a series that changes only when the exporter restarts (its start time); None where there is none.
    places
        What tells where devices sit.
    health
        Metrics that make no channel, and tell of data faults.
    settings, groups
        What is read at a slow pace: settings, and which hosts are alike.
    """

    name: str
    rules: tuple[Rule, ...]
    restart: str | None = None
    places: tuple[Place, ...] = ()
    health: Health = field(default_factory=Health)
    settings: tuple[SettingRule, ...] = ()
    groups: tuple[GroupRule, ...] = ()

    def metric_names(self) -> tuple[str, ...]:
        """Exact names of all series that the profile needs, ascending, for the selection on the server's side."""
        names = {part.name for rule in self.rules for part in rule.parts}
        names |= {rule.clock.metric for rule in self.rules if rule.clock is not None}
        # Only of devices that any channel belongs to.
        kinds = {rule.device_kind for rule in self.rules}
        names |= {place.metric for place in self.places if place.kind in kinds}
        if self.restart is not None:
            names.add(self.restart)
        names |= {metric for _, metric in self.health.names} | {part.metric for part in self.health.parts}
        return tuple(sorted(names))

    def slow_names(self) -> tuple[str, ...]:
        """Exact names of the series that are only read at a slow pace, ascending."""
        wanted = {rule.name for rule in self.settings} | {rule.name for rule in self.groups}
        return tuple(sorted(wanted - set(self.metric_names())))

    def limited_to(self, subsystems: Collection[Subsystem]) -> Profile:
        """The same profile with the rules of some subsystems only, and the marks; all of them if none is named."""
        if not subsystems:
            return self
        kept = (rule for rule in self.rules if rule.subsystem in subsystems or rule.role is Role.MARK)
        return replace(self, rules=tuple(kept))

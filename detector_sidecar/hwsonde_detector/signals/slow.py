"""What is read at a slow pace: the settings of hosts, and what tells which hosts are alike. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hwsonde_detector.signals.entities import entity_of, gather
from hwsonde_detector.signals.profiles.rules import GroupRule, Profile, SettingRule, passes
from hwsonde_detector.types import Entity, Mask, SampleBatch

# Name of the setting, and the part that it belongs to (empty: the host).
SettingKey = tuple[str, str]

# A value longer than this tells nobody anything; what sets two of them apart is most often near their beginning.
LONGEST = 200
# Bounds what one host may make us keep.
MOST_SETTINGS = 5000


class Seen(NamedTuple):
    """Value of a setting, the first sample of the read that showed it and nothing else after it, and the newest; ms."""

    value: str
    since_ms: int
    newest_ms: int


@dataclass(frozen=True, slots=True)
class SlowReading:
    """What one read says of one host.

    Attributes
    ----------
    settings
        Values of the settings.
    facts
        Values by the words of `GroupRule`, ascending.
    newest_ms
        Time of the newest sample.
    """

    settings: Mapping[SettingKey, Seen] = field(default_factory=dict)
    facts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    newest_ms: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class SlowRules:
    """The rules of several profiles, by the name of a series; ``slow`` are the names that only a slow read brings."""

    settings: Mapping[str, tuple[SettingRule, ...]]
    groups: Mapping[str, tuple[GroupRule, ...]]
    slow: frozenset[str]

    @staticmethod
    def of(profiles: Iterable[Profile]) -> SlowRules:
        """Index the rules of profiles."""
        profiles = tuple(profiles)
        settings: dict[str, tuple[SettingRule, ...]] = {}
        groups: dict[str, tuple[GroupRule, ...]] = {}
        fast = {name for profile in profiles for name in profile.metric_names()}
        for profile in profiles:
            for rule in profile.settings:
                settings[rule.name] = (*settings.get(rule.name, ()), rule)
            for group in profile.groups:
                groups[group.name] = (*groups.get(group.name, ()), group)
        return SlowRules(settings, groups, frozenset((settings.keys() | groups.keys()) - fast))

    def shared_words(self) -> frozenset[str]:
        """Words whose values only count where enough hosts have them."""
        return frozenset(rule.word for rules in self.groups.values() for rule in rules if rule.shared)


def separate(batch: SampleBatch, rules: SlowRules) -> tuple[SampleBatch, SampleBatch | None]:
    """Split a batch into what makes channels and what a slow read brought, None where it was none.

    What is a channel and a setting as well is in both parts.
    """
    names = [one.name for one in batch.series]
    slow = np.array([name in rules.slow for name in names], np.bool_)
    if not slow.any():
        return batch, None
    wanted = np.array([name in rules.settings or name in rules.groups for name in names], np.bool_)
    return _part(batch, ~slow), _part(batch, wanted)


def _part(batch: SampleBatch, chosen: Mask) -> SampleBatch:
    indices = np.flatnonzero(chosen)
    places, lengths = gather(batch, indices)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return SampleBatch(
        tuple(batch.series[index] for index in indices.tolist()), offsets, batch.times[places], batch.values[places]
    )


def read_slow(batch: SampleBatch, rules: SlowRules, entity_labels: Sequence[str]) -> dict[Entity, SlowReading]:
    """Find settings and facts in a batch's newest samples.

    Where several series speak of one setting the newest sample counts, and of those of one time the first in order of identity: a value
    that changed between two scrapes leaves the samples of both in the batch.

    Parameters
    ----------
    batch
        Any series; those without a rule are passed over.
    rules
        What series mean.
    entity_labels
        Names of the labels that name a host.
    """
    settings: dict[Entity, dict[SettingKey, Seen]] = {}
    facts: dict[Entity, dict[str, dict[tuple[str, str], int]]] = {}
    newest: dict[Entity, int] = {}
    for index, one in enumerate(batch.series):
        last = int(batch.offsets[index + 1]) - 1
        if last < batch.offsets[index] or (one.name not in rules.settings and one.name not in rules.groups):
            continue
        entity, labels = entity_of(one, entity_labels), dict(one.labels)
        time, since = int(batch.times[last]), _since(batch, index)
        newest[entity] = max(newest.get(entity, time), time)
        for rule in rules.settings.get(one.name, ()):
            own = settings.setdefault(entity, {})
            for key, value in _values(rule, labels, float(batch.values[last])):
                if (key in own or len(own) < MOST_SETTINGS) and (key not in own or time > own[key].newest_ms):
                    own[key] = Seen(value, since, time)
        for group in rules.groups.get(one.name, ()):
            if passes(labels, group.only, group.excluded):
                words = facts.setdefault(entity, {}).setdefault(group.word, {})
                fact = one.name, _fact(group, labels)
                words[fact] = max(words.get(fact, 0), time)
    return {
        entity: SlowReading(
            settings.get(entity, {}),
            {word: _present(known) for word, known in facts.get(entity, {}).items()},
            newest[entity],
        )
        for entity in sorted(settings.keys() | facts.keys())
    }


def _since(batch: SampleBatch, index: int) -> int:
    """Time of the first sample of the run of equal ones that a series ends with."""
    begin, end = int(batch.offsets[index]), int(batch.offsets[index + 1])
    others = np.flatnonzero(batch.values[begin:end] != batch.values[end - 1])
    return (
        int(batch.times[begin + min(int(others[-1]) + 1, end - begin - 1)]) if len(others) else int(batch.times[begin])
    )


def _values(rule: SettingRule, labels: Mapping[str, str], sample: float) -> Iterable[tuple[SettingKey, str]]:
    """Names and values of the settings in one series."""
    if not passes(labels, rule.only, rule.excluded):
        return
    base = labels.get(rule.named_by, "") if rule.named_by is not None else rule.setting
    base = ".".join([base, *(labels[label] for label in rule.by if labels.get(label))])
    device = labels.get(rule.device, "") if rule.device is not None else ""
    if not base:
        return
    if not rule.labels and math.isfinite(sample):
        yield (base, device), shown(sample)
    for label in rule.labels:
        value = labels.get(label, "")
        if value:
            name = base if rule.named_by is not None else f"{base}.{label}"
            yield (name, device), value[:LONGEST]


def shown(sample: float) -> str:
    """A sample as a value: whole numbers without a point, others with up to 9 digits, so that rounding is no change.

    Examples
    --------
    >>> shown(9000.0), shown(0.1 + 0.2)
    ('9000', '0.3')
    """
    return f"{sample:.0f}" if sample == round(sample, 0) and abs(sample) < 1e15 else f"{sample:.9g}"


def _fact(rule: GroupRule, labels: Mapping[str, str]) -> str:
    parts = [labels.get(label, "") for label in rule.labels]
    if rule.trimmed is not None:
        parts[-1] = rule.trimmed.sub("", parts[-1])
    fact = "/".join(parts)
    # With the mark whoever replaces names knows that the last word may be part of one.
    return fact if len(fact) <= LONGEST else f"{fact[: LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def _present(known: Mapping[tuple[str, str], int]) -> tuple[str, ...]:
    """Facts of each metric's newest scrape: a job that ended just now still has samples in the batch."""
    newest: dict[str, int] = {}
    for (name, _), time in known.items():
        newest[name] = max(newest.get(name, time), time)
    return tuple(sorted({fact for (name, fact), time in known.items() if time == newest[name]}))

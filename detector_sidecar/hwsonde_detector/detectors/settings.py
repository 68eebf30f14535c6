"""Settings that set a host apart from its peers, and settings that were changed lately.

A misconfigured host shows itself when hosts are compared, and a change shows itself before what it causes. Both are findings, not pages:
whoever set one host otherwise may have meant it. Of hosts that are peers a setting's value is *usual* when at least three quarters of
those that have the setting agree on it; the others differ. Parts of the same name are compared (``eth0`` of one host with ``eth0`` of
the others), and GPUs of one host with each other too, because a host without peers has eight of them all the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hwsonde_detector.signals.slow import Seen, SettingKey
from hwsonde_detector.types import Entity, SettingFinding

_USUAL_SHARE = 0.75
_MOST_FINDINGS = 50
# Parts that are alike within a host; a host's network devices and disks may differ on purpose.
_ALIKE = re.compile(r"gpu\d+")
# What changes more often than this, each time within so much time of the last, is a reading and no setting: it is not told as changed.
_RESTLESS = 5
_RESTLESS_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class KeptSetting:
    """What is known of one setting: its value, what it was before, since when, and how often it changed within short time.

    ``changed_at_ms`` is None while no change was seen.
    """

    value: str
    previous: str | None = None
    changed_at_ms: int | None = None
    changes: int = 0


@dataclass(slots=True)
class HostSettings:
    """The settings of one host; ``changed`` are those seen to change, ``newest_ms`` is the time of the newest sample that was taken."""

    kept: dict[SettingKey, KeptSetting] = field(default_factory=dict)
    newest_ms: int = 0
    changed: set[SettingKey] = field(default_factory=set)

    def take(self, seen: Mapping[SettingKey, Seen]) -> bool:
        """Take what a read showed; say whether anything is new.

        A setting that is missing is no change: its file could not be read, or its device is gone. Samples older than those taken before
        say nothing, so that what is read again changes nothing.
        """
        changed = False
        newest = self.newest_ms
        for key, (value, since_ms, at_ms) in seen.items():
            newest = max(newest, at_ms)
            known = self.kept.get(key)
            if known is None:
                self.kept[key], changed = KeptSetting(value), True
            elif value != known.value and at_ms > self.newest_ms:
                self.kept[key] = _changed(known, value, max(since_ms, self.newest_ms + 1))
                self.changed.add(key)
                changed = True
        self.newest_ms = newest
        return changed


def _changed(known: KeptSetting, value: str, at_ms: int) -> KeptSetting:
    soon = known.changed_at_ms is not None and at_ms - known.changed_at_ms <= _RESTLESS_MS
    return KeptSetting(value, known.value, at_ms, known.changes + 1 if soon else 1)


def differing(hosts: Mapping[Entity, HostSettings], minimum: int) -> dict[Entity, dict[SettingKey, SettingFinding]]:
    """Settings in which hosts, or GPUs of a host, differ from their like.

    Parameters
    ----------
    hosts
        Settings of hosts that are peers of each other; one host alone is fine.
    minimum
        How many must have a setting before any of them can differ, itself among them.

    Returns
    -------
    dict
        Findings with ``usual``, ``agree`` and ``peers``; hosts without any are left out.
    """
    found: dict[Entity, dict[SettingKey, SettingFinding]] = {}
    members: dict[SettingKey, list[tuple[Entity, SettingKey, str]]] = {}
    siblings: dict[tuple[Entity, str], list[tuple[Entity, SettingKey, str]]] = {}
    for entity in sorted(hosts):
        for (setting, device), kept in sorted(hosts[entity].kept.items()):
            one = entity, (setting, device), kept.value
            members.setdefault((setting, device), []).append(one)
            if _ALIKE.fullmatch(device):
                siblings.setdefault((entity, setting), []).append(one)
    for group in (*siblings.values(), *members.values()):
        for finding in _minority(group, minimum):
            own = found.setdefault(finding.entity, {})
            if len(own) < _MOST_FINDINGS:
                own[finding.setting, finding.device] = finding
    return found


def _minority(group: Sequence[tuple[Entity, SettingKey, str]], minimum: int) -> Iterable[SettingFinding]:
    """Those of a group that do not have the value that most of it has."""
    total = len(group)
    if total < max(minimum, 2):
        return
    counts = Counter(value for _, _, value in group)
    if len(counts) == 1:
        return
    usual, agree = min(counts.items(), key=lambda item: (-item[1], item[0]))
    if agree < _USUAL_SHARE * total:
        return
    for entity, (setting, device), value in group:
        if value != usual:
            yield SettingFinding(entity, setting, device, value, usual, agree, total - 1)


def findings(
    entity: Entity,
    own: HostSettings,
    differs: Mapping[SettingKey, SettingFinding],
    now_ms: int,
    before_ms: int,
) -> tuple[SettingFinding, ...]:
    """All that there is to say of a host's settings: what changed lately first, newest first, then what differs.

    Parameters
    ----------
    entity, own
        The host.
    differs
        Its part of what `differing` found.
    now_ms, before_ms
        Changes are told that were seen within ``before_ms`` before ``now_ms``.
    """
    told: dict[SettingKey, SettingFinding] = {}
    for key in own.changed:
        kept = own.kept[key]
        at_ms = kept.changed_at_ms
        if at_ms is not None and now_ms - before_ms <= at_ms <= now_ms and kept.changes <= _RESTLESS:
            base = differs.get(key) or SettingFinding(entity, *key, kept.value)
            told[key] = replace(base, previous=kept.previous, changed_at_ms=at_ms)
    rest = {key: finding for key, finding in differs.items() if key not in told}
    ordered = sorted(told.values(), key=lambda one: (-(one.changed_at_ms or 0), one.setting, one.device))
    return (*ordered, *(rest[key] for key in sorted(rest)))[:_MOST_FINDINGS]

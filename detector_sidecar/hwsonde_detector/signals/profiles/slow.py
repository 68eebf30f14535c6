"""From a profile file's entries to what is read at a slow pace: settings, and which hosts are alike."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hwsonde_detector.signals.profiles.rules import GroupRule, SettingRule
from hwsonde_detector.signals.profiles.schema import ProfileFile


def filters(patterns: dict[str, str]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Compiled patterns by label, in order of label."""
    return tuple((label, re.compile(pattern)) for label, pattern in sorted(patterns.items()))


def setting_rules(file: ProfileFile) -> Iterator[SettingRule]:
    """Rules of the entries under ``settings``, in their order."""
    for entry in file.settings:
        yield SettingRule(
            entry.name,
            entry.name.removeprefix(file.prefix).removesuffix("_info"),
            filters(entry.only),
            filters(entry.excluded),
            entry.named_by,
            entry.device,
            entry.labels,
            entry.by,
        )


def group_rules(file: ProfileFile) -> Iterator[GroupRule]:
    """Rules of the entries under ``groups``, in their order."""
    for entry in file.groups:
        yield GroupRule(
            entry.name,
            entry.word,
            entry.labels,
            filters(entry.only),
            filters(entry.excluded),
            re.compile(f"(?:{entry.trimmed})\\Z") if entry.trimmed is not None else None,
            entry.shared,
        )

"""Which channels tell of workloads, and which no workload explains."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import replace

from hwsonde_detector.signals.profiles.rules import Rule
from hwsonde_detector.signals.profiles.schema import ProfileFile
from hwsonde_detector.types import Role


def with_roles(file: ProfileFile, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """The rules with the roles that the file gives them under ``marks`` and ``faults``; what weighs less than 1 is use, and never a fault."""
    marks = frozenset(file.marks)
    faults = {(subsystem, name) for subsystem, names in file.faults.items() for name in names}

    def role(rule: Rule) -> Role:
        if rule.name in marks:
            return Role.MARK
        return Role.FAULT if rule.weight >= 1.0 and (rule.subsystem, rule.name) in faults else Role.SIGNAL

    return tuple(replace(rule, role=role(rule)) for rule in rules)


def unknown_roles(file: ProfileFile, rules: tuple[Rule, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Places and texts of names under ``marks`` and ``faults`` that no entry gives: a slip of the pen would silently change what pages."""
    yield from _unknown(("marks",), file.marks, {rule.name for rule in rules}, "gives this channel")
    for subsystem, names in file.faults.items():
        known = {rule.name for rule in rules if rule.subsystem is subsystem and rule.weight >= 1.0}
        said = f"of subsystem {subsystem} and weight 1 gives this channel"
        yield from _unknown(("faults", str(subsystem)), names, known, said)


def _unknown(
    where: tuple[str, ...], names: tuple[str, ...], known: set[str], said: str
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for index, name in enumerate(names):
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            yield (*where, index), f"no entry {said}: {name!r}{hint}; name it without prefix, _total and labels"

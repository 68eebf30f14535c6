"""Counts, for each set of rules, its alerts, the cases in which they fire and do not, and their runbooks.

``python -m tests.rules.counts`` prints them as a table; its status is 1 where they are not equally many, with the names that differ.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from alert_rules import others
from alert_rules.generate import OTHERS
from alert_rules.rules import groups
from alert_rules.timing import FLEET, PROFILES
from alert_rules.upkeep import WATCHDOG
from alert_rules.writing import Group, Links, Rule
from tests.rules.table import ROWS
from tests.rules.table import others as others_table
from tests.rules.table.row import Row

RUNBOOKS = Path(__file__).resolve().parents[2] / "docs" / "runbooks"


class Counts(NamedTuple):
    """Names of alerts: all of a set, those with a case that fires, those with one that does not, those with a runbook."""

    alerts: tuple[str, ...]
    firing: tuple[str, ...]
    silent: tuple[str, ...]
    runbooks: tuple[str, ...]


def alerts_of(every: Iterable[Group]) -> dict[str, Rule]:
    """The alerts among the rules, by name; one that is there twice is a mistake."""
    found = [rule for group in every for rule in group["rules"] if "alert" in rule]
    names = Counter(str(rule["alert"]) for rule in found)
    assert set(names.values()) <= {1}, names.most_common(1)
    return {str(rule["alert"]): rule for rule in found}


def counts() -> dict[str, Counts]:
    """Give them by the name of the set."""
    sets = {name: alerts_of(groups(timing, Links())) for name, timing in PROFILES.items()}
    written = {path.stem for path in RUNBOOKS.glob("*.md")} - {"README"}
    found = {name: _counted(alerts, ROWS, written) for name, alerts in sets.items()}
    # The same alerts on other metrics: their runbooks are some of ours.
    theirs = alerts_of(others.groups(FLEET, Links(), sets[FLEET.name]))
    return {**found, OTHERS: _counted(theirs, others_table.ROWS, written & theirs.keys())}


def _counted(alerts: Iterable[str], rows: Iterable[Row], runbooks: Iterable[str]) -> Counts:
    # What always fires has no case in which it does not; the watchdog counts as one in each column.
    cases = [row for row in rows if row.name != WATCHDOG]
    firing = [*(row.name for row in cases if row.fires), WATCHDOG]
    silent = [*(row.name for row in cases if row.silent), WATCHDOG]
    alerts, firing, silent, runbooks = map(sorted, (alerts, firing, silent, runbooks))
    return Counts(tuple(alerts), tuple(firing), tuple(silent), tuple(runbooks))


def differences(found: Mapping[str, Counts]) -> list[str]:
    """Give a line for each name that a column has more or less often than the set has that alert."""
    lines = []
    for name, one in found.items():
        wanted = Counter(one.alerts)
        for column, names in one._asdict().items():
            there = Counter(names)
            lines += [f"{name}: {alert} is missing in: {column}" for alert in wanted - there]
            lines += [f"{name}: {alert} is too often in: {column}" for alert in there - wanted]
    return lines


def table(found: Mapping[str, Counts]) -> str:
    """Give the numbers as a table that people read."""
    lines = [f"{'set':<8}{'alerts':>8}{'firing':>8}{'silent':>8}{'runbooks':>10}"]
    for name, one in found.items():
        alerts, firing, silent, runbooks = map(len, one)
        lines.append(f"{name:<8}{alerts:>8}{firing:>8}{silent:>8}{runbooks:>10}")
    return "\n".join(lines) + "\n"


def main(found: Mapping[str, Counts] | None = None) -> int:
    """Print the table, and what differs."""
    shown = counts() if found is None else found
    wrong = differences(shown)
    sys.stdout.write(table(shown))
    sys.stdout.writelines(f"{line}\n" for line in wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())

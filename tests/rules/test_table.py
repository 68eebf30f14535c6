"""Every alert of the table fires in one case and stays silent in the other, in both profiles; no alert is left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from alert_rules.generate import to_yaml
from alert_rules.rules import groups
from alert_rules.timing import FAST, PROFILES, Timing
from alert_rules.upkeep import WATCHDOG
from alert_rules.writing import Group, Links, Rule
from tests.rules import counts
from tests.rules.promtool import run_promtool
from tests.rules.table import ROWS, alive
from tests.rules.table.row import STEP, Row, inputs, moved

EXPRESSIONS = {
    str(rule["alert"]): str(rule["expr"])
    for group in groups(FAST, Links())
    for rule in group["rules"]
    if "alert" in rule
}


Make: TypeAlias = Callable[[Group, Iterable[Row]], list[dict[str, Any]]]


def pinned(group: Group, rows: Iterable[Row]) -> list[tuple[Row, Rule]]:
    """Rows and rules of the group's alerts whose words are pinned in the table."""
    alerts: dict[str, Rule] = {str(rule["alert"]): rule for rule in group["rules"] if "alert" in rule}
    return [(row, alerts[row.name]) for row in rows if row.name in alerts and row.summary is not None]


def worded(group: Group, rows: Iterable[Row]) -> list[dict[str, Any]]:
    """One test of the words of all of them, each case in a cluster of its own."""
    found = [(row.in_cluster(f"c{number}"), rule) for number, (row, rule) in enumerate(pinned(group, rows))]
    every = {name: values for row, _ in found for name, values in row.fires.items()}
    words = [row.words(rule, Links()) for row, rule in found]
    return [{"interval": f"{STEP}s", "input_series": inputs(every), "alert_rule_test": words}] if found else []


def apart(group: Group, rows: Iterable[Row]) -> list[dict[str, Any]]:
    """A test of each of them."""
    return [
        {"interval": f"{STEP}s", "input_series": inputs(row.fires), "alert_rule_test": [row.words(rule, Links())]}
        for row, rule in pinned(group, rows)
    ]


def gathered(group: Group, rows: Iterable[Row]) -> list[dict[str, Any]]:
    """One test with both cases of all alerts of the group, each case in a cluster of its own."""
    names = {str(rule["alert"]) for rule in group["rules"] if "alert" in rule} - {WATCHDOG}
    every: dict[str, str] = {}
    expected: list[dict[str, Any]] = []
    for number, row in enumerate(row for row in rows if row.name in names):
        cases = [(1, row.fires, f"ill{number}"), (0, row.silent, f"well{number}")]
        cases += [(1, of, f"also{number}.{place}") for place, of in enumerate(row.also)]
        for firing, of, cluster in cases:
            every |= moved(of, cluster)
            expected += row.expectations(firing, cluster)
    return [{"interval": f"{STEP}s", "input_series": inputs(every), "promql_expr_test": expected}]


def check(folder: Path, every: Sequence[Group], rows: Iterable[Row], make: Make) -> None:
    """Have promtool test one file for each group, which evaluates that group alone, in one run."""
    names = []
    for group in every:
        rules, name = f"{group['name']}_rules.yml", f"{group['name']}_test.yml"
        (folder / rules).write_text(to_yaml({"groups": [group]}), encoding="utf-8")
        tests = make(group, rows)
        document = {"rule_files": [rules], "evaluation_interval": f"{STEP}s", "tests": tests}
        (folder / name).write_text(yaml.safe_dump(document, width=10_000), encoding="utf-8")
        names.append(name)
    run_promtool(folder, *names)


@pytest.mark.parametrize("timing", PROFILES.values(), ids=PROFILES)
def test_every_alert_fires_and_stays_silent_when_it_should(timing: Timing, tmp_path: Path) -> None:
    check(tmp_path, groups(timing, Links()), ROWS, gathered)


def test_pages_say_what_they_should(tmp_path: Path) -> None:
    every = groups(FAST, Links())
    assert sum(len(pinned(group, ROWS)) for group in every) == sum(row.summary is not None for row in ROWS)
    check(tmp_path, every, ROWS, worded)


@pytest.mark.slow
def test_where_no_target_has_a_cluster_the_pages_name_the_host_alone(tmp_path: Path) -> None:
    check(tmp_path, groups(FAST, Links()), [row.without_cluster() for row in ROWS], apart)


def test_alerts_firing_cases_silent_cases_and_runbooks_are_equally_many(capsys: pytest.CaptureFixture[str]) -> None:
    assert counts.main() == 0
    head, *rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert head == ["set", "alerts", "firing", "silent", "runbooks"]
    assert [row[0] for row in rows] == [*PROFILES, "others"]
    assert all(len({*row[1:]}) == 1 and int(row[1]) > 30 for row in rows)
    assert rows[0][1:] == rows[1][1:]


def test_a_missing_and_a_second_case_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert counts.main({"fast": counts.Counts(("A", "B"), ("A",), ("A", "A", "B"), ("A", "B", "C"))}) == 1
    assert capsys.readouterr().out.splitlines()[2:] == [
        "fast: B is missing in: firing",
        "fast: A is too often in: silent",
        "fast: C is too often in: runbooks",
    ]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_branch_of_a_condition_has_a_case_that_fires(row: Row) -> None:
    # What does not answer has tests of its own, in test_alerts.
    if row not in alive.ROWS:
        branches = re.findall(r"^or$", EXPRESSIONS[row.name], re.MULTILINE)
        assert len(row.also) == len(branches)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_silent_case_tries_what_the_firing_one_tries(row: Row) -> None:
    assert row.metrics(row.fires) <= row.metrics(row.silent)
    assert row.fires != row.silent or row.name == WATCHDOG

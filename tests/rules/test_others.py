"""The rules on the names of other exporters: the same alerts as ours, on metrics that those exporters have."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
import yaml

from alert_rules import others
from alert_rules.generate import main, others_file
from alert_rules.rules import groups
from alert_rules.timing import FLEET
from alert_rules.upkeep import WATCHDOG
from alert_rules.writing import Group, Links, Rule
from hwsonde_exporter.nvml.xid import TABLE, Severity
from tests.rules.promtool import run_promtool
from tests.rules.table.others import ROWS
from tests.rules.table.row import Row
from tests.rules.test_table import check, gathered

PARITY = Path(__file__).resolve().parents[2] / "docs" / "parity"
OURS: dict[str, Rule] = {
    str(rule["alert"]): rule for group in groups(FLEET, Links()) for rule in group["rules"] if "alert" in rule
}
THEIRS: list[Group] = others.groups(FLEET, Links(), OURS)
ALERTS: list[Rule] = [rule for group in THEIRS for rule in group["rules"] if "alert" in rule]


def test_every_alert_fires_and_stays_silent_when_it_should(tmp_path: Path) -> None:
    check(tmp_path, THEIRS, ROWS, gathered)


def test_every_alert_has_its_cases_and_is_one_of_ours() -> None:
    names = [str(rule["alert"]) for rule in ALERTS]
    assert sorted(names) == sorted([*(row.name for row in ROWS), WATCHDOG])
    assert set(names) <= OURS.keys()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_branch_of_a_condition_has_a_case_that_fires(row: Row) -> None:
    (expr,) = (str(rule["expr"]) for rule in ALERTS if rule["alert"] == row.name)
    branches = re.findall(r"^or$", expr, re.MULTILINE)
    # One for each number, and one for an error that is new by being there at all.
    assert len(row.also) == len(branches) or row.name == "HwsondeGpuXid"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_silent_case_tries_what_the_firing_one_tries(row: Row) -> None:
    assert row.metrics(row.fires) <= row.metrics(row.silent)
    assert row.fires != row.silent


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: str(rule["alert"]))
def test_it_is_as_severe_as_ours_and_leads_to_the_same_runbook(rule: Rule) -> None:
    own = OURS[str(rule["alert"])]
    assert rule["labels"] == own["labels"]
    ours, theirs = own["annotations"], rule["annotations"]
    assert isinstance(ours, dict)
    assert isinstance(theirs, dict)
    assert theirs["runbook_url"] == ours["runbook_url"]
    assert theirs.keys() >= {"summary", "description", "dashboard_url", "incidents_url"}
    assert theirs["summary"].endswith(".")


def test_their_exporters_have_every_metric_that_is_asked_for() -> None:
    known = set()
    for file in PARITY.glob("*.csv"):
        with file.open(encoding="utf-8", newline="") as lines:
            known |= {re.split(r"[*{]", row["theirs"])[0] for row in csv.DictReader(lines)}
    named: set[str] = set()
    for group in THEIRS:
        for rule in group["rules"]:
            named |= set(re.findall(r"(?<![\w:])(?:DCGM_FI|nvidia_smi|node)_\w+(?!\w*:)", str(rule["expr"])))
    assert len(named) > 50
    assert named <= known, named - known


def test_the_errors_that_page_are_those_that_page_with_ours() -> None:
    assert tuple(sorted(code for code, row in TABLE.items() if row.severity is Severity.CRITICAL)) == others.XIDS


def test_a_gpu_whose_exporter_runs_on_kubernetes_is_named_by_its_host(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(others_file(FLEET, Links()), encoding="utf-8")
    row = next(row for row in ROWS if row.name == "HwsondeGpuXid")
    labels = {"job": "dcgm-exporter", "instance": "10.0.0.1:9400", "cluster": "a", "Hostname": "n1"}
    alert = {
        "exp_labels": {**labels, "gpu": "3", "UUID": "GPU-3", "severity": "critical", "team": "hardware"},
        "exp_annotations": {
            "summary": "a/n1: GPU 3: XID 79. docs/xid.md says what it means and what to do.",
            "description": "The runbook says what it means and what to check.",
            "subsystem": "gpu",
            "dashboard_url": "http://localhost:9881/",
            "incidents_url": "http://localhost:9881/incidents?state=open",
            "runbook_url": "docs/runbooks/HwsondeGpuXid.md",
        },
    }
    test = {
        "interval": "30s",
        "input_series": [{"series": name, "values": values} for name, values in row.fires.items()],
        "alert_rule_test": [{"eval_time": "1h", "alertname": row.name, "exp_alerts": [alert]}],
    }
    document = {"rule_files": ["rules.yml"], "evaluation_interval": "30s", "tests": [test]}
    (tmp_path / "test.yml").write_text(yaml.safe_dump(document), encoding="utf-8")
    run_promtool(tmp_path, "test.yml")


def test_a_site_makes_them_with_the_times_of_a_fleet(tmp_path: Path) -> None:
    assert main(["--profile", "others", "--output", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.rglob("*.yml")) == ["fleet.yml", "others.yml"]

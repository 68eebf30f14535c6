"""The committed rule files: current, accepted by promtool, complete in labels, links and runbooks."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from alert_rules.generate import NAMES, files, main
from alert_rules.receivers import Receivers
from alert_rules.rules import groups
from alert_rules.timing import FAST, FLEET, PROFILES, duration
from alert_rules.writing import Links, Rule
from hwsonde_detector.incidents.entry import State
from hwsonde_detector.incidents.pages import read_query
from hwsonde_detector.telemetry import COUNTED
from tests.grafana.known import series
from tests.rules.promtool import check_words
from tests.rules.table import ROWS

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "alert_rules"
RUNBOOKS = ROOT / "docs" / "runbooks"
PINNED = ("annotations_test.yml", "gpu_annotations_test.yml", "data_annotations_test.yml")
HEADINGS = ["Meaning", "Impact", "Check", "Fix", "When it lies"]


def promtool(*arguments: str) -> str:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rules() -> list[Rule]:
    return [rule for timing in PROFILES.values() for group in groups(timing, Links()) for rule in group["rules"]]


def alerts() -> list[Rule]:
    return [rule for rule in rules() if "alert" in rule]


def names() -> list[str]:
    return sorted({str(rule["alert"]) for rule in alerts()})


def middle(rule: Rule) -> str:
    """Name of the metric in the name of a recording rule."""
    return str(rule["record"]).split(":")[1]


@pytest.mark.parametrize(("name", "text"), files(NAMES, Links(), Receivers()).items())
def test_committed_files_are_current(name: str, text: str) -> None:
    assert (RULES / name).read_text(encoding="utf-8") == text, "run: python -m alert_rules.generate"


@pytest.mark.parametrize("profile", PROFILES)
def test_promtool_finds_nothing_to_say(profile: str) -> None:
    assert f"SUCCESS: {len(rules()) // len(PROFILES)} rules found" in promtool(
        "check", "rules", "--lint=all", "--lint-fatal", f"alert_rules/{profile}.yml"
    )


@pytest.mark.parametrize("name", PINNED)
def test_pages_say_what_they_should(name: str, tmp_path: Path) -> None:
    check_words(ROOT / "tests" / "rules" / name, tmp_path)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule.get("alert") or rule.get("record")))
def test_series_and_labels_of_a_rule_exist(rule: Rule) -> None:
    known, expr = series(), str(rule["expr"])
    recorded = {str(other["record"]) for other in rules() if "record" in other}
    names = re.findall(r"[a-z_]+:\w+:\w+|\bhwsonde_\w+", re.sub(r'"[^"]*"', '""', expr))
    # The label "node" of a target and "cluster" come from the scrape configuration, the others from the programs.
    labels = {"cluster", "node", "job", "instance", "replica", "pod"}
    if "ALERTS{" in expr:
        labels |= {"alertname", "alertstate"}
        others = {str(other["alert"]) for other in rules() if "alert" in other}
        assert set(re.findall(r'alertname="(\w+)"', expr)) <= others
    for name in names:
        assert name in known or name in recorded, f"{name} is given by neither program"
        labels |= known.get(name.split(":")[1] if ":" in name else name, set())
    used = set(re.findall(r'[{,](\w+)="', expr))
    used |= {label for group in re.findall(r"\b(?:by|on|without) \(([^)]*)\)", expr) for label in group.split(", ")}
    assert used <= labels, f"no series has the label {used - labels}"


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: str(rule["alert"]))
def test_an_alert_has_the_labels_and_links_that_routing_and_people_need(rule: Rule) -> None:
    labels, annotations = rule["labels"], rule["annotations"]
    assert isinstance(labels, dict)
    assert isinstance(annotations, dict)
    assert labels == {"severity": labels["severity"], "team": "hardware"}, (
        "a value in a label makes a new alert of each value"
    )
    assert labels["severity"] in {"critical", "warning", "info"}
    assert annotations["runbook_url"].endswith(f"/{rule['alert']}.md")
    assert annotations["dashboard_url"].startswith("http")
    assert annotations["incidents_url"].startswith("http")
    assert annotations["summary"].endswith(".")
    assert annotations["description"]


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("http://localhost:9881/incidents?node=a+b%2Fn1&state=open", "a b/n1"),
        ("http://localhost:9881/incidents?node=n%221%5C&state=open", 'n"1\\'),
        ("http://localhost:9881/incidents?state=open", ""),
    ],
)
def test_the_detectors_list_of_incidents_takes_the_address_of_an_alert(address: str, host: str) -> None:
    # As promtool finds it in an alert.
    assert f"incidents_url: {address}\n" in (ROOT / "tests" / "rules" / "annotations_test.yml").read_text(
        encoding="utf-8"
    )
    asked = read_query(address.partition("?")[2])
    assert (asked.node, asked.state) == (host, State.OPEN)


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: str(rule["alert"]))
def test_only_the_anomaly_and_single_events_fire_without_waiting(rule: Rule) -> None:
    lasting = {"HwsondeHostAnomaly", "HwsondeDataFault", "HwsondeDataFaultWarning", "HwsondeWatchdog"}
    # What was counted within a range of time, and what happened less than so many seconds ago, is over already.
    event = re.search(r"\bincrease|time\(\) - \w+", str(rule["expr"])) is not None
    waits = "for" in rule
    assert waits or event or rule["alert"] in lasting
    assert not (waits and rule["alert"] in lasting)


def test_both_profiles_hold_the_same_alerts() -> None:
    assert len(alerts()) == 2 * len(names())


@pytest.mark.parametrize("name", names())
def test_every_alert_has_a_runbook(name: str) -> None:
    text = (RUNBOOKS / f"{name}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {name}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
    assert all(len(part.split()) >= 8 for part in re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]), (
        "a heading without content"
    )


def test_every_runbook_has_an_alert() -> None:
    assert sorted(path.stem for path in RUNBOOKS.glob("*.md") if path.stem != "README") == names()


@pytest.mark.parametrize("name", names())
def test_a_runbook_names_series_and_reasons_that_exist(name: str) -> None:
    text = (RUNBOOKS / f"{name}.md").read_text(encoding="utf-8")
    known = {re.sub("_(?:sum|count|bucket)$", "", one) for one in series()} | {*series()}
    unknown = set(re.findall(r"\bhwsonde_\w+", text)) - known - {middle(rule) for rule in rules() if "record" in rule}
    assert not unknown, f"neither program gives {unknown}"
    assert set(re.findall(r"\bHwsonde[A-Z]\w+", text)) <= set(names())
    reasons = {family.name: set(family.known) for family in COUNTED if family.labels == ("reason",)}
    for line in text.splitlines():
        named = set(re.findall(r"\bhwsonde_(?:detector|exporter)_\w+|\bhwsonde_anomaly\w+", line))
        if "`reason`" in line:
            known = set().union(*(reasons.get(one, set()) for one in named))
            words = set(re.findall(r"`([a-z_]+)`", line)) - named - {"reason"}
            assert words <= known, f"no such reason: {words - known}"


def test_every_alert_has_a_case_that_pins_its_words() -> None:
    pinned = {row.name for row in ROWS if row.summary is not None}
    documents = [yaml.safe_load((ROOT / "tests" / "rules" / name).read_text(encoding="utf-8")) for name in PINNED]
    tests = [test for document in documents for test in document["tests"]]
    by_hand = {case["alertname"] for test in tests for case in test["alert_rule_test"]}
    assert not pinned & by_hand, "once is enough"
    assert sorted(pinned | by_hand) == names()


def test_times_hold_together() -> None:
    for timing in (FAST, FLEET):
        assert timing.down > 30, "a restart takes up to 20 s"
        assert timing.keep_firing >= 30
        assert timing.fresh > 2 * timing.evaluation, "one missed scrape must not end an incident"
        assert timing.reads > timing.reads_over + 20
        assert timing.unscored > 300 * timing.evaluation, "learning takes some hundred rows"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (1, "1s"), (59, "59s"), (90, "90s"), (120, "2m"), (14400, "4h"), (5400, "90m")]
)
def test_duration(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_a_site_makes_its_own_set(tmp_path: Path) -> None:
    arguments = [
        "--profile",
        "fleet",
        "--detector-url",
        "https://h.example/x/",
        "--runbooks-url",
        "https://wiki.example/r/",
    ]
    assert main([*arguments, "--output", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.rglob("*.yml")) == ["fleet.yml", "fleet.yml"]
    text = (tmp_path / "fleet.yml").read_text(encoding="utf-8")
    assert "runbook_url: https://wiki.example/r/HwsondeHostAnomaly.md" in text
    assert "dashboard_url: https://h.example/x/{{" in text
    assert "incidents_url: https://h.example/x/incidents?{{" in text
    promtool("check", "rules", str(tmp_path / "fleet.yml"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--detector-url", "detector:9881"],
        ["--detector-url", "http://"],
        ["--detector-url", "http://x/{{ $value }}"],
        ["--runbooks-url", ""],
        ["--runbooks-url", "a\nb"],
        ["--runbooks-url", "a{{b"],
        ["--pagerduty-url", "events.pagerduty.com"],
        ["--routing-key-file", ""],
        ["--page-to", "webhook"],
        ["--page-to", "webhook", "--webhook-url", "http://a/", "--webhook-url-file", "/b"],
        ["--tickets-to", "webhook", "--webhook-url", "a.example"],
        ["--page-to", "slack", "--slack-url-file", ""],
        ["--webhook-url", "http://a.example/"],
        ["--watchdog-url", "a.example"],
        ["--output", "/dev/null/x"],
    ],
)
def test_a_wrong_argument_is_one_line(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--output", str(tmp_path), *arguments]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())

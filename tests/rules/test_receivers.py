"""Who hears of what: every receiver, its routes, what silences what, and a summary that is never empty."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from alert_rules.generate import alertmanager_file, main
from alert_rules.paging import CAUSES
from alert_rules.receivers import SUMMARY, Receivers, Slack, Webhook
from alert_rules.rules import groups
from alert_rules.timing import FAST, PROFILES
from alert_rules.writing import Links
from tests.fakes.events import EventsServer
from tests.rules.running import KEY, Alertmanager, running_alertmanager, until

SITE = ("--page-to", "pagerduty", "--page-to", "slack", "--page-to", "webhook", "--tickets-to", "slack")
ADDRESSES = ("--slack-channel", "#ops", "--webhook-url", "https://w.example/a", "--webhook-token-file", "/etc/token")
WATCHED = ("--watchdog-url", "https://alive.example/b")
ALERTS = {
    str(rule["alert"]): rule["labels"] for group in groups(FAST, Links()) for rule in group["rules"] if "alert" in rule
}


def site(folder: Path, *arguments: str) -> Path:
    """Folder of the Alertmanager configurations of a site."""
    assert main([*arguments, "--output", str(folder)]) == 0
    return folder / "alertmanager"


def amtool(*arguments: str) -> str:
    done = subprocess.run(["amtool", *arguments], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("profile", PROFILES)
def test_amtool_accepts_every_receiver_and_routes_by_severity_and_team(profile: str, tmp_path: Path) -> None:
    file = site(tmp_path, *SITE, *ADDRESSES, *WATCHED) / f"{profile}.yml"
    assert "4 receivers" in amtool("check-config", str(file))
    expected = {"critical": "pages", "warning": "tickets", "info": "shown-only"}
    seen = set()
    for name, labels in ALERTS.items():
        assert isinstance(labels, dict)
        severity = labels["severity"]
        kind = (severity, name.startswith("HwsondeDetector"), name == "HwsondeWatchdog")
        if kind in seen:
            continue
        seen.add(kind)
        pairs = [f"alertname={name}", *(f"{label}={value}" for label, value in labels.items())]
        who = "watchdog" if name == "HwsondeWatchdog" else expected[severity]
        amtool("config", "routes", "test", f"--config.file={file}", f"--verify.receivers={who}", *pairs)
    assert len(seen) >= 5
    other = ("alertname=HwsondeHostAnomaly", "severity=critical", "team=database")
    amtool("config", "routes", "test", f"--config.file={file}", "--verify.receivers=shown-only", *other)


def test_an_address_in_a_file_is_given_by_its_file_alone(tmp_path: Path) -> None:
    arguments = ("--page-to", "webhook", "--webhook-url-file", "/etc/w", "--watchdog-url-file", "/etc/alive")
    text = (site(tmp_path, *arguments) / "fast.yml").read_text(encoding="utf-8")
    receivers = {one["name"]: one for one in yaml.safe_load(text)["receivers"]}
    assert receivers["pages"] == {"name": "pages", "webhook_configs": [{"url_file": "/etc/w", "send_resolved": True}]}
    assert receivers["watchdog"]["webhook_configs"] == [{"url_file": "/etc/alive", "send_resolved": False}]
    assert "pagerduty" not in text
    found = re.search(r"version (\d+)\.(\d+)", amtool("--version"))
    assert found is not None
    if (int(found[1]), int(found[2])) < (0, 26):
        text = re.sub(r"url_file: (\S+)", r"url: http://a.example\1", text)
    (tmp_path / "checked.yml").write_text(text, encoding="utf-8")
    amtool("check-config", str(tmp_path / "checked.yml"))


@pytest.mark.parametrize(
    "alert",
    [
        {},
        {"commonAnnotations": {"summary": ""}},
        {"commonAnnotations": {"summary": "  \n"}},
        {"commonLabels": {"alertname": "A"}, "alerts": [{"status": "firing", "annotations": {"summary": "x"}}]},
        {"commonLabels": {"cluster": "c"}, "alerts": [{"status": "resolved", "annotations": {}}]},
    ],
)
def test_the_summary_is_never_empty(alert: dict[str, Any], tmp_path: Path) -> None:
    data = {"receiver": "r", "status": "firing", "alerts": [], "commonLabels": {}, "commonAnnotations": {}, **alert}
    (tmp_path / "data.json").write_text(json.dumps(data))
    (tmp_path / "none.tmpl").write_text("")
    where = (f"--template.glob={tmp_path}/*.tmpl", f"--template.data={tmp_path}/data.json")
    said = amtool("template", "render", *where, f"--template.text={SUMMARY}")
    assert re.search(r"\w+ on \w+", said), said


class Sink(ThreadingHTTPServer):
    """Keeps what is posted to it: pairs of path and decoded body."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.taken: list[tuple[str, Any]] = []


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.taken.append((self.path, body))  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
        pass


@pytest.fixture(scope="module")
def sink() -> Iterator[Sink]:
    running = Sink()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory, sink: Sink) -> Iterator[Alertmanager]:
    folder, base = tmp_path_factory.mktemp("receivers"), f"http://127.0.0.1:{sink.server_port}"
    (folder / "slack").write_text(f"{base}/slack")
    others = Receivers(
        pages=(Slack(str(folder / "slack"), "#ops"), Webhook(f"{base}/page")),
        tickets=(Webhook(f"{base}/ticket"),),
        watchdog=(Webhook(f"{base}/alive", resolved=False),),
    )
    with EventsServer() as receiver, running_alertmanager(folder, receiver, KEY, others) as running:
        yield running


def test_a_page_reaches_all_who_are_named_and_a_ticket_those_of_tickets(alertmanager: Alertmanager, sink: Sink) -> None:
    labels = {"cluster": "z", "node": "n1", "team": "hardware"}
    address = {
        "dashboard_url": "http://d:9881/#host=z%2Fn1",
        "incidents_url": "http://d:9881/incidents?node=z%2Fn1&state=open",
        "runbook_url": "https://wiki/x.md",
    }
    alertmanager.send_all(
        [
            (
                {**labels, "alertname": "HwsondeGpuLost", "severity": "critical"},
                {"summary": "GPU 3 is lost.", **address},
            ),
            ({**labels, "alertname": "HwsondeClockOffset", "severity": "warning"}, {"summary": "It is late."}),
            ({"alertname": "HwsondeWatchdog", "severity": "info", "team": "hardware"}, {"summary": "All is well."}),
            ({**labels, "alertname": "HwsondeSettingChanged", "severity": "info"}, {"summary": "Changed."}),
        ]
    )
    until(lambda: len(sink.taken) >= 4 and len(alertmanager.pages("z/n1")) == 1)
    taken = dict(sink.taken)
    assert sorted(taken) == ["/alive", "/page", "/slack", "/ticket"]
    assert taken["/slack"]["channel"] == "#ops"
    (message,) = taken["/slack"]["attachments"]
    assert (message["title"], message["fallback"], message["color"]) == ("GPU 3 is lost.", "GPU 3 is lost.", "danger")
    assert message["title_link"] == address["dashboard_url"]
    assert "<http://d:9881/incidents?node=z%2Fn1&state=open|Incidents>" in message["text"]
    assert "<https://wiki/x.md|Runbook>" in message["text"]
    names = {path: [one["labels"]["alertname"] for one in taken[path]["alerts"]] for path in taken if path != "/slack"}
    assert names == {
        "/alive": ["HwsondeWatchdog"],
        "/page": ["HwsondeGpuLost"],
        "/ticket": ["HwsondeClockOffset"],
    }


def matched(matchers: str) -> list[dict[str, str]]:
    """Labels of every alert that the matchers could mean."""
    given = dict(re.findall(r'(\w+)=~?"([^"]*)"', matchers))
    return [{**given, "alertname": name} for name in ALERTS if re.fullmatch(given["alertname"], name)]


@pytest.mark.parametrize(("cause", "symptoms", "equal"), CAUSES)
def test_what_silences_and_what_is_silenced_exists(cause: str, symptoms: str, equal: list[str]) -> None:
    assert matched(cause)
    assert matched(symptoms)
    assert not [one for one in matched(cause) if one in matched(symptoms)], "nothing may silence itself"
    for text in (cause, symptoms):
        name = dict(re.findall(r'(\w+)=~?"([^"]*)"', text))["alertname"]
        # Every branch of a pattern means an alert.
        inner = re.search(r"\(([^)]*)\)", name)
        branches = [name.replace(inner[0], one) for one in inner[1].split("|")] if inner else name.split("|")
        for branch in branches:
            assert any(re.fullmatch(branch, alert) for alert in ALERTS), branch


def test_a_cause_silences_its_symptoms_on_the_same_host_and_nowhere_else(alertmanager: Alertmanager) -> None:
    alerts: list[tuple[dict[str, str], dict[str, str]]] = []
    silenced = set()
    for number, (cause, symptoms, equal) in enumerate(CAUSES):
        here = {"team": "hardware", "severity": "critical", "cluster": f"c{number}", "node": "n1", "gpu": "3"}
        there = {**here, "cluster": "elsewhere"} if equal == ["cluster"] else {**here, "node": "n2"}
        alerts.append(({**here, **matched(cause)[0]}, {}))
        for symptom in matched(symptoms):
            alerts += [({**place, **symptom, "of": str(number)}, {}) for place in (here, there)]
            silenced.add((here["cluster"], symptom["alertname"], str(number)))
    alertmanager.send_all(alerts)
    # It learns of causes beside what it answers.
    ending = time.monotonic() + 30
    while True:
        with urllib.request.urlopen(f"{alertmanager.base}/api/v2/alerts", timeout=5) as answer:
            found = json.load(answer)
        ours = [one for one in found if "of" in one["labels"]]
        muted = {
            (one["labels"]["cluster"], one["labels"]["alertname"], one["labels"]["of"])
            for one in ours
            if one["status"]["inhibitedBy"]
        }
        if muted == silenced or time.monotonic() > ending:
            break
        time.sleep(0.2)
    assert len(ours) == 2 * len(silenced)
    assert muted == silenced
    assert {one["labels"]["node"] for one in ours if one["status"]["inhibitedBy"]} == {"n1"}


def test_the_generated_configuration_is_the_one_of_the_arguments(tmp_path: Path) -> None:
    text = (site(tmp_path, "--profile", "fast") / "fast.yml").read_text(encoding="utf-8")
    assert text == alertmanager_file(FAST, Receivers())

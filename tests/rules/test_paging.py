"""The Alertmanager configuration: routes by amtool, and pages through the real Alertmanager to a stand-in for PagerDuty."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from alert_rules.generate import alertmanager_file
from alert_rules.receivers import PagerDuty, Receivers
from alert_rules.timing import FAST, PROFILES
from tests.fakes.events import EventsServer
from tests.rules.running import KEY, Alertmanager, running_alertmanager, until

ROOT = Path(__file__).resolve().parents[2]
LABELS = {"cluster": "a", "node": "n1", "severity": "critical", "team": "hardware"}


@pytest.mark.parametrize("profile", PROFILES)
def test_amtool_accepts_the_configuration(profile: str) -> None:
    file = ROOT / "alert_rules" / "alertmanager" / f"{profile}.yml"
    done = subprocess.run(
        ["amtool", "check-config", str(file)], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        ({"alertname": "HwsondeHostAnomaly", "severity": "critical", "team": "hardware"}, "pages"),
        ({"alertname": "HwsondeDetectorDown", "severity": "critical", "team": "hardware"}, "pages"),
        ({"alertname": "HwsondeDetectorReplicaDown", "severity": "warning", "team": "hardware"}, "shown-only"),
        ({"alertname": "HwsondeDetectorReadErrors", "severity": "warning", "team": "hardware"}, "shown-only"),
        ({"alertname": "Other", "severity": "critical", "team": "database"}, "shown-only"),
        ({"alertname": "Bare"}, "shown-only"),
        ({"alertname": "HwsondeWatchdog", "severity": "info", "team": "hardware"}, "shown-only"),
    ],
)
def test_routes(profile: str, labels: dict[str, str], receiver: str) -> None:
    file = ROOT / "alert_rules" / "alertmanager" / f"{profile}.yml"
    pairs = [f"{name}={value}" for name, value in labels.items()]
    command = ["amtool", "config", "routes", "test", f"--config.file={file}", f"--verify.receivers={receiver}", *pairs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_key_is_in_no_configuration() -> None:
    document = yaml.safe_load(alertmanager_file(FAST, Receivers((PagerDuty("http://127.0.0.1:1/v2/enqueue", "/k"),))))
    (receiver,) = document["receivers"][1]["pagerduty_configs"]
    assert receiver["routing_key_file"] == "/k"
    assert "routing_key" not in receiver


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alertmanager]:
    with (
        EventsServer() as receiver,
        running_alertmanager(tmp_path_factory.mktemp("alertmanager"), receiver, KEY) as running,
    ):
        yield running


def test_one_incident_is_one_page_and_one_resolve_with_the_same_key(alertmanager: Alertmanager) -> None:
    labels = {**LABELS, "alertname": "HwsondeHostAnomaly", "subsystem": "cpu"}
    annotations = {
        "summary": "a/n1: cpu deviates.",
        "description": "Look for it.",
        "subsystem": "cpu",
        "score": "3.5",
        "top_channels": "x (50%)",
        "dashboard_url": "http://detector:9881/#host=a%2Fn1",
        "incidents_url": "http://detector:9881/incidents?node=a%2Fn1&state=open",
        "runbook_url": "docs/runbooks/HwsondeHostAnomaly.md",
    }
    alertmanager.send(labels, annotations)
    until(lambda: len(alertmanager.pages("a/n1")) == 1)
    alertmanager.send(labels, {**annotations, "score": "9.9", "summary": "a/n1: cpu deviates even more."})
    alertmanager.send(labels, annotations, over=True)
    until(lambda: len(alertmanager.pages("a/n1")) == 2)
    page, resolve = alertmanager.pages("a/n1")
    assert (page["event_action"], resolve["event_action"]) == ("trigger", "resolve")
    assert page["dedup_key"] == resolve["dedup_key"]
    assert page["client_url"] == annotations["dashboard_url"]
    payload = page["payload"]
    assert payload["summary"] == annotations["summary"]
    assert payload["severity"] == "critical"
    assert payload["source"] == "a/n1"
    assert (payload["class"], payload["component"], payload["group"]) == ("HwsondeHostAnomaly", "cpu", "a/n1")
    details = payload["custom_details"]
    assert (details["score"], details["subsystem"], details["top_channels"]) == ("3.5", "cpu", "x (50%)")
    assert details["runbook"] == annotations["runbook_url"]
    links = [annotations["dashboard_url"], annotations["incidents_url"]]
    assert [link["href"] for link in page["links"]] == links, "a path is no link for a browser"
    assert details["incidents"] == annotations["incidents_url"]
    assert page["routing_key"] == f"****{KEY[-4:]}", "the file's content, without its line end"


def test_two_parts_of_one_host_are_one_page_that_names_both(alertmanager: Alertmanager) -> None:
    labels = {**LABELS, "node": "n2", "alertname": "HwsondeHostAnomaly"}
    parts = [
        (
            {**labels, "subsystem": part},
            {"summary": f"{part} deviates.", "subsystem": part, "runbook_url": "https://wiki/x.md"},
        )
        for part in ("cpu", "memory")
    ]
    alertmanager.send_all(parts)
    until(lambda: len(alertmanager.pages("n2")) > 0)
    (page,) = alertmanager.pages("n2")
    assert page["payload"]["summary"] == "HwsondeHostAnomaly on a/n2 | cpu deviates. | memory deviates."
    assert page["payload"]["custom_details"]["subsystem"] == "cpu\nmemory"
    assert [link["href"] for link in page["links"]] == ["https://wiki/x.md"]


def test_all_that_follows_from_one_broken_part_is_one_page(alertmanager: Alertmanager) -> None:
    """A score deviates within seconds, then the part is missed, and then its own alert has waited long enough."""
    labels = {**LABELS, "node": "n20"}
    deviates = (
        {**labels, "alertname": "HwsondeHostAnomaly", "subsystem": "gpu", "scope": "device"},
        {"summary": "a/n20: gpu deviates."},
    )
    missed = {**labels, "alertname": "HwsondeDataFault", "kind": "missing"}, {"summary": "a/n20: gpu 3 is missed."}
    lost = {**labels, "alertname": "HwsondeGpuLost", "gpu": "3"}, {"summary": "a/n20: GPU 3 is lost."}
    alertmanager.send(*deviates)
    until(lambda: len(alertmanager.pages("n20")) == 1)
    alertmanager.send_all([deviates, missed, lost])
    until(lambda: len(alertmanager.pages("n20")) == 2)
    alertmanager.send_all([lost, missed, deviates], over=True)
    until(lambda: len(alertmanager.pages("n20")) == 3)
    found = alertmanager.pages("n20")
    assert [page["event_action"] for page in found] == ["trigger", "trigger", "resolve"]
    assert len({page["dedup_key"] for page in found}) == 1
    assert [page["payload"]["summary"] for page in found[:2]] == ["a/n20: gpu deviates.", "a/n20: GPU 3 is lost."]


def test_what_many_hosts_do_is_not_hidden_behind_a_page_of_the_one_that_tells_it(alertmanager: Alertmanager) -> None:
    labels = {**LABELS, "node": "n21"}
    alertmanager.send({**labels, "alertname": "HwsondeGpuMemoryFailed", "gpu": "3"}, {"summary": "for days"})
    until(lambda: len(alertmanager.pages("n21")) == 1)
    wide = {**labels, "alertname": "HwsondeHostAnomaly", "subsystem": "network", "scope": "fabric"}
    alertmanager.send(wide, {"summary": "and hosts of other jobs"})
    until(lambda: len(alertmanager.pages("n21")) == 2)
    assert len({page["dedup_key"] for page in alertmanager.pages("n21")}) == 2


def test_an_exporter_that_dies_rings_though_a_page_of_its_host_is_open(alertmanager: Alertmanager) -> None:
    labels = {**LABELS, "node": "n22"}
    alertmanager.send({**labels, "alertname": "HwsondeGpuMemoryFailed", "gpu": "3"}, {"summary": "for days"})
    until(lambda: len(alertmanager.pages("n22")) == 1)
    alertmanager.send({**labels, "alertname": "HwsondeExporterDown", "instance": "n22:9880"}, {"summary": "down."})
    until(lambda: len(alertmanager.pages("n22")) == 2)
    assert len({page["dedup_key"] for page in alertmanager.pages("n22")}) == 2


def test_an_alert_without_any_annotation_still_pages(alertmanager: Alertmanager) -> None:
    alertmanager.send({**LABELS, "node": "n3", "alertname": "SomebodyElse"}, {})
    until(lambda: len(alertmanager.pages("n3")) > 0)
    assert alertmanager.pages("n3")[0]["payload"]["summary"] == "SomebodyElse on a/n3"


def test_a_page_is_resolved_also_if_its_host_has_died_meanwhile(alertmanager: Alertmanager) -> None:
    """Alertmanager says nothing of an alert that ends while it is silenced: PagerDuty would keep the incident for ever."""
    deviates = {**LABELS, "node": "n4", "alertname": "HwsondeHostAnomaly", "subsystem": "cpu", "scope": "host"}
    alertmanager.send(deviates, {"summary": "deviates."})
    until(lambda: len(alertmanager.pages("n4")) == 1)
    down = {**LABELS, "node": "n4", "alertname": "HwsondeExporterDown", "instance": "n4:9880"}
    alertmanager.send(down, {"summary": "down."})
    until(lambda: len(alertmanager.pages("n4")) == 2)
    alertmanager.send(deviates, {"summary": "deviates."}, over=True)
    until(lambda: len(alertmanager.pages("n4")) == 3)
    first, second, third = alertmanager.pages("n4")
    assert [page["event_action"] for page in (first, second, third)] == ["trigger", "trigger", "resolve"]
    assert third["dedup_key"] == first["dedup_key"] != second["dedup_key"]
    assert third["payload"]["summary"] == "Over: deviates."


def test_all_exporters_of_a_host_that_died_are_one_page(alertmanager: Alertmanager) -> None:
    down = {**LABELS, "node": "n23", "alertname": "HwsondeExporterDown"}
    alertmanager.send_all([({**down, "instance": f"n23:{port}"}, {"summary": "down."}) for port in (9100, 9400, 9835)])
    until(lambda: len(alertmanager.pages("n23")) > 0)
    alertmanager.send({**LABELS, "node": "n24", "alertname": "HwsondeHostAnomaly"}, {"summary": "later."})
    until(lambda: len(alertmanager.pages("n24")) > 0)
    assert len({page["dedup_key"] for page in alertmanager.pages("n23")}) == 1


def test_a_page_that_pagerduty_cannot_take_now_is_sent_again(alertmanager: Alertmanager) -> None:
    alertmanager.receiver.inbox.refuse(429, 1)
    alertmanager.send({**LABELS, "node": "n6", "alertname": "HwsondeHostAnomaly"}, {"summary": "deviates."})
    until(lambda: len(alertmanager.pages("n6")) > 0)
    answers = [
        event["status"] for event in alertmanager.receiver.events() if event["body"]["payload"]["group"] == "a/n6"
    ]
    assert answers == [429, 202]


def test_a_stalled_detector_is_one_page_however_many_hosts_it_judges(alertmanager: Alertmanager) -> None:
    labels = {**LABELS, "cluster": "b", "alertname": "HwsondeDetectorStalled"}
    alertmanager.send_all([({**labels, "node": node}, {"summary": f"{node} is late."}) for node in ("n7", "n8")])

    def found() -> list[dict[str, Any]]:
        bodies = [event["body"] for event in alertmanager.receiver.events()]
        return [body for body in bodies if body["payload"].get("class") == "HwsondeDetectorStalled"]

    until(lambda: len(found()) > 0)
    (page,) = found()
    assert "n7 is late." in page["payload"]["summary"]
    assert "n8 is late." in page["payload"]["summary"]


def test_a_cluster_without_a_detector_is_one_page_named_after_it(alertmanager: Alertmanager) -> None:
    labels = {"severity": "critical", "team": "hardware", "cluster": "c", "alertname": "HwsondeDetectorDown"}
    alertmanager.send(labels, {"summary": "No detector of c answers."})
    until(lambda: len(alertmanager.pages("c")) > 0)
    assert [page["payload"]["source"] for page in alertmanager.pages("c")] == ["c"]


def test_the_death_of_one_of_a_pair_pages_nobody_and_silences_nothing(alertmanager: Alertmanager) -> None:
    labels = {**LABELS, "cluster": "e", "severity": "warning", "alertname": "HwsondeDetectorReplicaDown"}
    alertmanager.send({**labels, "node": "d1"}, {"summary": "d1 is away."})
    alertmanager.send(
        {**LABELS, "cluster": "e", "node": "n11", "alertname": "HwsondeDetectorStalled"}, {"summary": "late."}
    )
    until(lambda: len(alertmanager.pages("e/n11")) > 0)
    assert alertmanager.pages("e/d1") == []

"""Where no target has the label ``cluster``, every alert still fires, names its host, groups and silences as it does elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from alert_rules.rules import groups
from alert_rules.timing import FAST, FLEET, Timing
from alert_rules.writing import Links
from tests.fakes.events import EventsServer
from tests.rules.promtool import DETECTOR_UP, EXPORTER_UP, WINDOW_END, Case, check_words
from tests.rules.running import KEY, Alertmanager, running_alertmanager, until
from tests.rules.table import ROWS

HERE = Path(__file__).resolve().parent
WORDS = "no_cluster_test.yml"
LABELS = {"severity": "critical", "team": "hardware"}


def bare(series: str) -> str:
    """The series without its cluster."""
    return series.replace('cluster="a",', "")


# The fast profile looks every second at what takes half an hour; that each alert of it fires, and does not, is in test_table.
PROFILES_HERE = [pytest.param(FAST, id="fast", marks=pytest.mark.slow), pytest.param(FLEET, id="fleet")]


@pytest.fixture(params=PROFILES_HERE)
def case(request: pytest.FixtureRequest) -> Case:
    timing: Timing = request.param
    return Case(timing)


@pytest.mark.slow
def test_pages_say_and_link_what_they_should(tmp_path: Path) -> None:
    check_words(HERE / WORDS, tmp_path)


def test_every_alert_is_among_them() -> None:
    document = yaml.safe_load((HERE / WORDS).read_text(encoding="utf-8"))
    fired = {one["alertname"] for test in document["tests"] for one in test["alert_rule_test"] if one["exp_alerts"]}
    elsewhere = {row.name for row in ROWS if row.summary is not None}
    assert fired | elsewhere == {
        str(rule["alert"]) for group in groups(FAST, Links()) for rule in group["rules"] if "alert" in rule
    }


def test_one_of_two_detectors_is_a_warning_and_both_are_one_page(case: Case, tmp_path: Path) -> None:
    limit = 2 * (case.timing.down + 60)
    case.series[bare(DETECTOR_UP)] = case.samples(("0", 4000))
    case.series[bare(DETECTOR_UP).replace("d1", "d2")] = case.samples(("1", limit), ("0", 4000))
    case.firing("HwsondeDetectorReplicaDown", limit - case.timing.evaluation, 1)
    case.firing("HwsondeDetectorDown", limit - case.timing.evaluation, 0)
    case.firing("HwsondeDetectorReplicaDown", 2 * limit, 0)
    case.firing("HwsondeDetectorDown", 2 * limit, 1)
    case.check(tmp_path)


def test_the_only_detector_that_vanishes_is_one_page_without_end(case: Case, tmp_path: Path) -> None:
    """What is missed as vanished and then as never seen is the same alert, so nothing resolves and pages again."""
    beat = case.timing.evaluation
    case.series[bare(DETECTOR_UP)] = case.samples(("1", 120), ("stale", 0))
    for second in range(120 + case.timing.down + 60, case.timing.vanished + 600, 20 * beat):
        case.firing("HwsondeDetectorDown", second - second % beat, 1)
    handover = 120 + case.timing.vanished
    for second in range(handover - 3 * beat, handover + 3 * beat, beat):
        case.firing("HwsondeDetectorDown", second, 1)
    case.check(tmp_path)


def test_hosts_are_told_apart_by_their_node(case: Case, tmp_path: Path) -> None:
    """One host is late and one is away: each alert is about its own host only, though others are well."""
    end = 3 * (case.timing.stalled + case.timing.scores_age + case.timing.down)
    end -= end % case.timing.evaluation
    for node, answers, judged in (("n1", "1", "0+0"), ("n2", "0", "0+0"), ("n3", "1", f"0+{case.timing.evaluation}")):
        case.series[bare(EXPORTER_UP).replace("n1", node)] = case.samples((answers, 4000))
        case.series[bare(WINDOW_END).replace("n1", node)] = f"{judged}x4000"
    case.series[bare(DETECTOR_UP)] = case.samples(("1", 4000))
    for name, node in (("HwsondeDetectorStalled", "n1"), ("HwsondeExporterDown", "n2")):
        case.firing(name, end, 1)
        case.value(f'count(ALERTS{{alertname="{name}",alertstate="firing",node="{node}",cluster=""}})', end, 1)
    case.check(tmp_path)


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[Alertmanager]:
    with EventsServer() as receiver, running_alertmanager(tmp_path, receiver, KEY) as running:
        yield running


def send(alertmanager: Alertmanager, name: str, *nodes: str) -> None:
    """Post an alert of each node, all at once; without a node one that has none."""
    labels = {**LABELS, "alertname": name}
    alertmanager.send_all(
        [({**labels, "node": node} if node else labels, {"summary": f"{name} {node}."}) for node in nodes or ("",)]
    )


def pages(alertmanager: Alertmanager, name: str) -> list[dict[str, Any]]:
    """Events about an alert that the stand-in took; it refuses those without a source."""
    taken = [event["body"] for event in alertmanager.receiver.events() if event["ok"]]
    return [body for body in taken if body["payload"]["class"] == name]


def test_each_host_has_its_own_page(alertmanager: Alertmanager) -> None:
    send(alertmanager, "HwsondeHostAnomaly", "n1", "n2")
    until(lambda: len(pages(alertmanager, "HwsondeHostAnomaly")) == 2)
    found = pages(alertmanager, "HwsondeHostAnomaly")
    assert sorted(page["payload"]["source"] for page in found) == ["n1", "n2"]
    assert len({page["dedup_key"] for page in found}) == 2


def test_a_stalled_detector_is_one_page(alertmanager: Alertmanager) -> None:
    send(alertmanager, "HwsondeDetectorStalled", "n1", "n2")
    until(lambda: len(pages(alertmanager, "HwsondeDetectorStalled")) > 0)
    (page,) = pages(alertmanager, "HwsondeDetectorStalled")
    assert page["payload"]["source"] == "several hosts"
    assert page["payload"]["summary"].startswith("HwsondeDetectorStalled on several hosts | ")


@pytest.mark.parametrize("name", ["HwsondeDetectorDown", "HwsondeExporterDown"])
def test_a_job_without_any_target_pages_although_it_names_no_host(alertmanager: Alertmanager, name: str) -> None:
    send(alertmanager, name)
    until(lambda: len(pages(alertmanager, name)) > 0)
    assert pages(alertmanager, name)[0]["payload"]["source"] == "several hosts"


def test_a_cause_silences_its_symptoms_only(alertmanager: Alertmanager) -> None:
    send(alertmanager, "HwsondeGpuDriverHung", "n1")
    until(lambda: len(pages(alertmanager, "HwsondeGpuDriverHung")) > 0)
    send(alertmanager, "HwsondeGpuLost", "n1", "n2")
    until(lambda: len(pages(alertmanager, "HwsondeGpuLost")) > 0)
    assert [page["payload"]["source"] for page in pages(alertmanager, "HwsondeGpuLost")] == ["n2"]


def test_a_host_that_nothing_names_silences_no_other(alertmanager: Alertmanager) -> None:
    for name, instance in (("HwsondeGpuDriverHung", "a:9400"), ("HwsondeGpuLost", "b:9400")):
        alertmanager.send({**LABELS, "alertname": name, "instance": instance}, {"summary": f"{name} {instance}."})
        until(lambda name=name: len(pages(alertmanager, name)) > 0)

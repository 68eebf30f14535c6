"""What the JSON interface says of the data of a host."""

from __future__ import annotations

import dataclasses
import json

from hwsonde_detector.published import Noticeboard
from hwsonde_detector.types import DataFault, DataFaultEpisode, DataQuality, Device, FaultEvidence, FaultKind
from hwsonde_detector.web.quality import quality

from .data import NOW, fleet
from .test_app import answer, app

GPU = FaultEvidence(Device("gpu", "3 (GPU-5)"), 1.5, NOW - 40_000, 50, value=7.0, usual=8.0)
TITLE = "a/node18 gpu 3 (GPU-5) has sent nothing for 40 s; 7 of 8 GPUs still report"


def board(name: str) -> Noticeboard:
    """The usual hosts, of which one has a GPU that sends nothing."""
    known, _ = fleet()
    published = known.get()
    hosts = []
    for host in published.hosts:
        one = DataFaultEpisode("data x", host.entity, FaultKind.MISSING, NOW, NOW - 40_000, None, 1.5, TITLE, (GPU,))
        found = DataQuality(NOW, (DataFault(FaultKind.MISSING, 1.5, (GPU,), 1),), 0.9, one)
        named = dict(host.entity.labels)["node"] == name
        hosts.append(dataclasses.replace(host, quality=found if named else None, quality_arrived=99.5))
    return Noticeboard(dataclasses.replace(published, hosts=tuple(hosts)))


def test_a_host_tells_its_data_faults_with_their_evidence() -> None:
    document = answer(app(board("node18")), "/api/v1/hosts/a/node18")
    assert document["data_fault"] == TITLE
    data = document["data"]
    assert (data["coverage"], data["episode"]["title"], data["episode"]["kind"]) == (0.9, TITLE, "missing")
    (fault,) = data["faults"]
    assert (fault["kind"], fault["score"], fault["affected"]) == ("missing", 1.5, 1)
    assert fault["evidence"][0]["device"] == {"class": "gpu", "name": "3 (GPU-5)"}
    assert fault["evidence"][0]["since_ms"] == NOW - 40_000


def test_a_host_without_any_says_so() -> None:
    document = answer(app(board("node18")), "/api/v1/hosts/a/node17")
    assert (document["data_fault"], document["data"]) == ("", None)
    assert quality(None) is None


def test_an_anomaly_comes_first_in_the_summary_and_a_data_fault_before_all_is_well() -> None:
    published = board("node18").get()
    assert answer(app(Noticeboard(published)), "/api/v1/hosts")["summary"].startswith("a/node17 cpu")
    calm = tuple(dataclasses.replace(host, open_episodes=()) for host in published.hosts)
    summary = answer(app(Noticeboard(dataclasses.replace(published, hosts=calm))), "/api/v1/hosts")["summary"]
    assert summary == f"No anomaly, but a data fault: {TITLE}"


def test_it_is_plain_json() -> None:
    found = board("node18").get().hosts
    assert all(json.dumps(quality(host.quality)) for host in found)

"""Hosts that die and parts that vanish: "not the hardware" is never said of what nobody saw."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from hwsonde_detector.cli import main
from tests.detector.reports.fleet import LEARN_S, START_MS, Gone, configured, record, series
from tests.detector.reports.test_program import Page, at

JOB = ("slurm:7", "slurm:7")


pytestmark = pytest.mark.usefixtures("quiet_logger")


class Fleet:
    """Two hosts of a job and one beside them, of which some things are gone for a while."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        configured(folder)

    def report(
        self,
        *arguments: str,
        gone: Sequence[Gone] = (),
        ends: tuple[int, int] = (330, 330),
        asked: dict[str, int] | None = None,
        seconds: int = 420,
    ) -> dict:
        """Record it and ask; the job runs on n1 and n2 until ``ends``."""
        jobs = [("slurm:7", node, 0, end) for node, end in zip(("n1", "n2"), ends, strict=True)]
        archive = self.folder / "archive"
        archive.unlink(missing_ok=True)
        record(archive, series(jobs=jobs, gone=gone, asked=asked, seconds=seconds))
        given = ["--archive", str(archive), "--config.file", str(self.folder / "config.yaml")]
        out = self.folder / "out"
        assert main(["report", *given, "--out", str(out), "--from", at(LEARN_S), *arguments]) == 0
        return json.loads((out / "report.json").read_bytes())

    def page(self) -> Page:
        return Page((self.folder / "out" / "report.html").read_text())


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def died(second: int, until: int = 9999) -> list[Gone]:
    return [("n1", "", second, until)]


def verdict(found: dict) -> tuple[str, str]:
    return found["verdict"]["kind"], found["verdict"]["sentence"]


def test_a_healthy_job_is_still_one(fleet: Fleet) -> None:
    found = fleet.report("--job", "7")
    assert found["verdict"]["kind"] == "clean"
    assert found["known"] == []
    assert found["asked"]["end_ms"] == START_MS + 330_000


@pytest.mark.parametrize("asked", [None, {}], ids=["without up", "with up"])
def test_a_host_that_dies_under_a_job_that_goes_on_is_the_cause(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], asked: dict[str, int] | None
) -> None:
    found = fleet.report("--job", "7", gone=died(301), asked=asked)
    vain = "" if asked is None else ", although it was asked"
    said = f"lab/n1 sent nothing after 08:05:00Z{vain}, while 1 other host of lab/slurm:7 went on"
    assert verdict(found) == ("fault", said)
    # By its own series all of the job was judged on both hosts.
    assert [host["windows"] for host in found["coverage"]["by_host"]] == [1.0, 1.0]
    (known,) = found["known"]
    assert known == {
        "matter": "silent", "cause": True, "hosts": ["lab/n1"], "start_ms": START_MS + 300_000, "end_ms": None,
        "sentence": f"{said}.", "device": None, "runbook": "docs/runbooks/HwsondeExporterDown.md", "page": None,
    }  # fmt: skip
    assert capsys.readouterr().out.startswith(f"{said}\n")
    text = fleet.page().text
    assert "Known without a score" in text
    assert f"{said}." in text
    assert "docs/runbooks/HwsondeExporterDown.md" in text


def test_where_the_job_ends_with_the_host_nobody_knows_which_was_first(fleet: Fleet) -> None:
    """Slurm ends a job whose host died; the epilog of a job may restart its host."""
    found = fleet.report("--job", "7", gone=died(331))
    kind, sentence = verdict(found)
    assert kind == "unknown"
    assert sentence.startswith("Not known: lab/n1 sent nothing after 08:05:30Z. The others: 1 host, 100 % of channels ")
    assert found["verdict"]["limits"] == ["lab/n1 sent nothing after 08:05:30Z."]


def test_a_host_that_comes_back_was_away_all_the_same(fleet: Fleet) -> None:
    kind, sentence = verdict(fleet.report("--job", "7", gone=died(331, 400)))
    assert kind == "unknown"
    assert "lab/n1 sent nothing from 08:05:30Z to 08:06:40Z." in sentence
    kind, sentence = verdict(fleet.report("--job", "7", gone=died(331, 370)))
    assert kind == "clean", "a restart of the exporter"


@pytest.mark.parametrize(
    ("second", "asked", "kind"),
    [
        (350, None, "unknown"),
        (350, {}, "unknown"),
        (350, {"n1": 352}, "clean"),
        (700, None, "clean"),
    ],
    ids=["just after", "just after and asked in vain", "taken away", "long after"],
)
def test_what_happens_to_a_host_after_its_job(
    fleet: Fleet, second: int, asked: dict[str, int] | None, kind: str
) -> None:
    found = fleet.report("--job", "7", gone=died(second), asked=asked, seconds=second + 80)
    assert found["verdict"]["kind"] == kind


@pytest.mark.slow
def test_the_newest_scrape_may_be_late(fleet: Fleet) -> None:
    assert fleet.report("--job", "7", seconds=345)["verdict"]["kind"] == "clean"
    assert fleet.report("--to", at(445), "--entity", "n3")["verdict"]["kind"] == "unknown", "25 s of 295 are missing"
    assert fleet.report("--to", at(430), "--entity", "n3")["verdict"]["kind"] == "clean"


def test_when_nobody_is_heard_any_more_it_need_not_be_a_host(fleet: Fleet) -> None:
    found = fleet.report("--job", "7", gone=[(node, "", 331, 9999) for node in ("n1", "n2", "n3")], seconds=460)
    assert verdict(found)[0] == "unknown"
    assert found["verdict"]["limits"] == [
        "lab/n1 and lab/n2 sent nothing after 08:05:30Z, nor did any other host that was read."
    ]
    more = [(node, "", 331, 470) for node in ("n1", "n2", "n3")]
    found = fleet.report("--job", "7", gone=more, asked={}, seconds=480)
    assert verdict(found)[0] == "unknown"
    assert found["verdict"]["limits"] == [
        "lab/n1 and lab/n2 sent nothing from 08:05:30Z to 08:07:50Z, although they were asked."
    ]


@pytest.mark.slow
def test_a_host_that_is_down_at_the_end_of_a_long_range(fleet: Fleet) -> None:
    """97 % of its windows were judged, all of them before it died."""
    found = fleet.report("--entity", "n1", gone=died(2101), ends=(0, 0), seconds=2170)
    (host,) = found["coverage"]["by_host"]
    assert host["enough"]
    assert verdict(found) == ("unknown", "Not known: lab/n1 sent nothing after 08:35:00Z.")
    other = fleet.report("--entity", "n2", gone=died(2101), ends=(0, 0), seconds=2170)
    assert other["verdict"]["kind"] == "clean"


def test_a_host_that_was_down_all_the_time_and_is_asked_for(fleet: Fleet) -> None:
    found = fleet.report("--entity", "n1", gone=died(10), asked={}, seconds=330)
    assert verdict(found)[0] == "unknown"
    assert found["verdict"]["limits"] == [
        "lab/n1 sent nothing after 08:00:09Z, although it was asked.",
        "The host had no window that could be judged (lab/n1).",
    ]
    everybody = fleet.report(gone=died(0), asked={}, seconds=330)
    assert everybody["coverage"]["hosts"] == 3
    assert everybody["verdict"]["limits"] == [
        "lab/n1 sent nothing in all this time, although it was asked.",
        "1 of 3 hosts had no window that could be judged (lab/n1).",
    ]


def test_a_disk_that_falls_off_the_bus_is_the_cause(fleet: Fleet) -> None:
    found = fleet.report("--job", "7", gone=[("n1", "/nvme1n1", 301, 9999)])
    kind, sentence = verdict(found)
    assert kind == "fault"
    assert sentence.startswith("lab/n1 disk nvme1n1 has sent nothing for ")
    assert sentence.endswith("; 1 of 2 disks still report (since 08:04:59Z)")
    # Its channels were merely not there, and nothing else was unusual.
    assert found["causes"] == []
    assert found["coverage"]["hosts_judged_enough"] == 2
    (known,) = found["known"]
    assert (known["matter"], known["cause"], known["device"]) == (
        "data_fault", True, {"class": "disk", "name": "nvme1n1"},
    )  # fmt: skip
    assert known["runbook"].endswith("/HwsondeDataFault.md")
    assert "disk nvme1n1 has sent nothing" in fleet.page().text


def test_what_vanishes_with_the_job_is_told_only_after_it(fleet: Fleet) -> None:
    kind, sentence = verdict(fleet.report("--job", "7", gone=[("n1", "/nvme1n1", 328, 9999)]))
    assert kind == "fault"
    assert sentence.startswith("lab/n1 disk nvme1n1 has sent nothing for ")
    late = fleet.report("--job", "7", gone=[("n1", "/nvme1n1", 340, 9999)])
    assert late["verdict"]["kind"] == "clean", "the job had ended"
    other = fleet.report("--job", "7", gone=[("n3", "/nvme1n1", 301, 9999)])
    assert other["verdict"]["kind"] == "clean", "it ran on other hosts"

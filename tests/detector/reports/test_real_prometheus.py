"""The command on a real Prometheus that holds the past of a made-up fleet."""

from __future__ import annotations

import io
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import requests

from hwsonde_detector.config import load_config
from hwsonde_detector.engines.local import LocalEngine
from hwsonde_detector.incidents.entry import Entry, entry_of
from hwsonde_detector.incidents.store import FOLDER, Store
from hwsonde_detector.past.world import World
from hwsonde_detector.reports.finding import watch_job
from hwsonde_detector.reports.jobs import Watch
from hwsonde_detector.reports.program import Asked, run_report
from hwsonde_detector.service.wiring import make_plan
from hwsonde_detector.state import save_state
from hwsonde_detector.types import Entity, Series
from tests.detector.reports.fleet import END_S, LEARN_S, START_MS, batches, configured, disk_of, series

BEGIN = 200
LONG_S = 500
Made = Sequence[tuple[Series, np.ndarray]]
START_S = START_MS // 1000
JOBS = [("slurm:7", node, 0, END_S) for node in ("n1", "n2")] + [("slurm:8", "n3", 160, 230)]


def open_metrics(made: Made) -> str:
    """Text of all samples, family by family."""
    lines = []
    for one, values in made:
        labels = ",".join(f'{name}="{value}"' for name, value in one.labels)
        lines += [
            f"{one.name}{{{labels}}} {value!r} {START_S + second}"
            for second, value in enumerate(values.tolist())
            if value == value  # noqa: PLR0124  NaN
        ]
    return "\n".join([*lines, "# EOF", ""])


@contextmanager
def served(folder: Path, text: str) -> Iterator[str]:
    """Address of a server that was filled with samples."""
    binary, tool = shutil.which("prometheus"), shutil.which("promtool")
    assert binary, "install prometheus: the tests need the real server"
    assert tool, "install prometheus: the tests need promtool"
    (folder / "past.om").write_text(text)
    (folder / "p.yml").write_text("global: {}\n")
    subprocess.run(
        [tool, "tsdb", "create-blocks-from", "openmetrics", folder / "past.om", folder / "data"],
        check=True,
        capture_output=True,
    )
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    with (folder / "log").open("wb") as log:
        command = [
            binary,
            f"--config.file={folder}/p.yml",
            f"--storage.tsdb.path={folder}/data",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        ends = time.monotonic() + 60
        while True:
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < ends, (folder / "log").read_text()
            try:
                if requests.get(f"{url}/-/ready", timeout=2).ok:
                    break
            except requests.RequestException:
                pass
            time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("prometheus"), open_metrics(series(disk_of("n1", BEGIN), jobs=JOBS))) as url:
        yield url


@pytest.fixture(scope="module")
def long() -> Made:
    """A disk of n1 is sick from second 200 on; n4 dies under a job that goes on for ten seconds on n5; n6 loses a disk after its job."""
    return series(
        disk_of("n1", BEGIN),
        hosts=("n1", "n2", "n4", "n5", "n6"),
        seconds=LONG_S,
        jobs=[("slurm:9", "n4", 0, 390), ("slurm:9", "n5", 0, 400), ("slurm:5", "n6", 0, 400)],
        gone=[("n4", "", 391, LONG_S), ("n6", "/nvme1n1", 413, LONG_S)],
        asked={},
    )


@pytest.fixture(scope="module")
def sick(long, tmp_path_factory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("sick"), open_metrics(long)) as url:
        yield url


def report(url: str, folder, now_s: int = END_S, **asked) -> tuple[dict, str]:
    config = load_config(configured(folder, url), {})
    if (folder / "state").is_dir():
        state = config.state.model_copy(update={"dir": folder / "state"})
        config = config.model_copy(update={"state": state})
    out, err = io.StringIO(), io.StringIO()
    world = World(lambda: START_MS + 1000 * now_s, time.monotonic, out=out, err=err)
    given = {"first": str(START_S + LEARN_S), "last": str(START_S + END_S - 1), **asked}
    assert run_report(config, Asked(folder / "out", **given), world) == 0
    assert err.getvalue() == ""
    return json.loads((folder / "out" / "report.json").read_bytes()), out.getvalue()


def test_a_range(prometheus, tmp_path):
    found, said = report(prometheus, tmp_path)
    assert found["verdict"]["sentence"].startswith("lab/n1: storage nvme1n1: ")
    assert said.startswith(found["verdict"]["sentence"])
    assert found["causes"][0]["others"]["job"] == "lab/slurm:7"
    assert found["causes"][0]["channels"][0]["chart"]["times"]
    assert found["learning"]["from_ms"] <= START_MS + 1000
    assert found["coverage"]["windows"] == 1.0


def test_a_job_reads_only_its_hosts_for_its_time(prometheus, tmp_path):
    found, _ = report(prometheus, tmp_path, job="slurm:8")
    assert found["verdict"]["kind"] == "clean"
    assert (found["asked"]["start_ms"], found["asked"]["end_ms"]) == (START_MS + 159_999, START_MS + 230_000)
    assert [line["host"] for line in found["timelines"]] == ["lab/n3"]
    # Nothing else was read: there is nobody to compare with.
    both, _ = report(prometheus, tmp_path, job="7")
    assert [host["host"] for host in both["causes"][0]["others"]["hosts"]] == ["lab/n2"]


def test_names_that_mean_harm_find_nothing(prometheus, tmp_path):
    config = load_config(configured(tmp_path, prometheus), {})
    for name in ('x"} or vector(1) #', "a\nb", ".*", "[", "\\", "slurm:8/../7", "\u00e9"):
        watch = Watch(config.entity_labels)
        watch_job(config, name, START_MS, START_MS + 260_000, watch)
        assert watch.matching(name) == ()
    watch = Watch(config.entity_labels)
    watch_job(config, "lab/slurm:8", START_MS, START_MS + 260_000, watch)
    assert [span.entity for span in watch.matching("lab/slurm:8")] == [Entity((("cluster", "lab"), ("node", "n3")))]


def test_a_range_without_anything(prometheus, tmp_path):
    found, said = report(prometheus, tmp_path, first=str(START_S - 90_000), last=str(START_S - 89_000), entity="n1")
    assert found["verdict"] == {
        "kind": "unknown",
        "sentence": "Not known: no host was heard in this time.",
        "limits": [],
    }
    assert said.startswith("Not known")


def test_a_host_that_died_under_a_job_is_seen_in_the_minutes_after_it(sick, tmp_path):
    found, said = report(sick, tmp_path, LONG_S, job="slurm:9", last=str(START_S + LONG_S))
    assert said.startswith(
        "lab/n4 sent nothing after 08:06:30Z, although it was asked, while 1 other host of lab/slurm:9 went on\n"
    )
    assert found["verdict"]["kind"] == "fault"
    assert found["asked"]["end_ms"] == START_MS + 400_000
    assert [host["windows"] for host in found["coverage"]["by_host"]] == [1.0, 1.0]
    # Only just after the job's end nobody can know it yet.
    early, _ = report(sick, tmp_path, 410, job="slurm:9", last=str(START_S + 410))
    assert early["verdict"]["kind"] == "clean"


def test_a_disk_that_vanishes_soon_after_a_job_is_none_of_its_business(sick, tmp_path):
    """What is read minute by minute is looked at more often just behind the end."""
    found, _ = report(sick, tmp_path, LONG_S, job="slurm:5", last=str(START_S + LONG_S))
    assert (found["verdict"]["kind"], found["known"]) == ("clean", [])
    with_it, _ = report(sick, tmp_path, LONG_S, entity="n6", last=str(START_S + 420))
    assert with_it["verdict"]["kind"] == "fault"
    assert with_it["known"][0]["device"] == {"class": "disk", "name": "nvme1n1"}


INSIDE = {"first": str(START_S + 380), "last": str(START_S + 480), "entity": "n1", "learn": "170s"}


def running(folder: Path, made: Made, until_s: int = LONG_S) -> Entry:
    """What the service would have kept at that second; gives the incident of n1."""
    engine = LocalEngine(make_plan(load_config(configured(folder), {})))
    told = []
    for batch, now_ms in batches(made):
        if now_ms <= START_MS + 1000 * until_s + 200:
            told += [event.episode for event in engine.step(batch, now_ms).events]
    save_state(folder / "state", {"engine": engine.snapshot()[0], "service": {"past": []}}, {})
    return entry_of(next(one for one in told if dict(one.entity.labels)["node"] == "n1"), 0)


def test_from_inside_an_incident_everything_looks_usual(sick, long, tmp_path):
    """What is learned from is all fault; only the detector that runs has seen it begin."""
    found, _ = report(sick, tmp_path, 490, **INSIDE)
    assert found["verdict"]["kind"] == "clean"
    entry = running(tmp_path, long)
    found, said = report(sick, tmp_path, 490, **INSIDE)
    assert found["causes"] == []
    assert found["verdict"]["kind"] == "unknown"
    assert said.startswith("Not known: the detector told of an incident that has been open since 08:03:2")
    assert f"Z: {entry.title} (incidents/{entry.id}).\n" in said
    (known,) = found["known"]
    assert (known["matter"], known["cause"], known["page"]) == ("incident", False, f"incidents/{entry.id}")
    # Of other hosts it says nothing, nor of this one before.
    other, _ = report(sick, tmp_path, 490, **{**INSIDE, "entity": "n2"})
    assert other["verdict"]["kind"] == "clean"
    before, _ = report(sick, tmp_path, 490, first=str(START_S + LEARN_S), last=str(START_S + 190), entity="n1")
    assert before["known"] == []


@pytest.mark.slow
def test_an_incident_that_is_found_again_is_told_once(sick, long, tmp_path):
    running(tmp_path, long)
    found, _ = report(sick, tmp_path, 490, last=str(START_S + 480), entity="n1")
    assert found["verdict"]["kind"] == "fault"
    assert found["causes"][0]["subsystem"] == "storage"
    assert found["known"] == []


@pytest.mark.slow
def test_a_closed_incident_counts_as_long_as_it_lasted(sick, long, tmp_path):
    entry = running(tmp_path, long, BEGIN - 10 + 60)
    engine = {"engine": {"hosts": []}, "service": {"past": []}}
    save_state(tmp_path / "state", engine, {})
    store = Store(tmp_path / "state" / FOLDER)
    store.open(START_MS)
    for end_s, kinds in ((400, "unknown"), (300, "clean")):
        closed = replace(entry, end_ms=START_MS + 1000 * end_s)
        store.add(closed, {}, START_MS)
        found, said = report(sick, tmp_path, 490, **INSIDE)
        assert found["verdict"]["kind"] == kinds
        assert ("was open from 08:03:2" in said) is (kinds == "unknown")

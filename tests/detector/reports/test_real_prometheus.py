"""The command on a real Prometheus that holds the past of a made-up fleet."""

from __future__ import annotations

import io
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from hwsonde_detector.config import load_config
from hwsonde_detector.past.world import World
from hwsonde_detector.reports.finding import watch_job
from hwsonde_detector.reports.jobs import Watch
from hwsonde_detector.reports.program import Asked, run_report
from hwsonde_detector.types import Entity
from tests.detector.reports.fleet import END_S, LEARN_S, START_MS, configured, disk_of, series

BEGIN = 200
START_S = START_MS // 1000
JOBS = [("slurm:7", node, 0, END_S) for node in ("n1", "n2")] + [("slurm:8", "n3", 160, 230)]


def open_metrics() -> str:
    """Text of all samples, family by family."""
    lines = []
    for one, values in series(disk_of("n1", BEGIN), jobs=JOBS):
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
    with served(tmp_path_factory.mktemp("prometheus"), open_metrics()) as url:
        yield url


def report(url: str, folder, **asked) -> tuple[dict, str]:
    config = load_config(configured(folder, url), {})
    out, err = io.StringIO(), io.StringIO()
    world = World(lambda: START_MS + 1000 * END_S, time.monotonic, out=out, err=err)
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

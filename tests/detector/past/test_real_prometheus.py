"""The command over a real Prometheus that holds a planted fault, put there by promtool."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest
import requests

from hwsonde_detector.cli import main
from hwsonde_detector.past.reading import How, open_records
from hwsonde_detector.past.run import score_records
from hwsonde_detector.service.wiring import make_plan
from tests.detector.past.history import (
    FAULT_FROM,
    FAULT_TO,
    START_MS,
    History,
    at,
    config,
    labels_file,
    results,
)

# So few samples may be loaded for one answer that the range must be read in many parts.
MAX_SAMPLES = 2500
HISTORY = History()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory) -> Iterator[str]:
    """Address of a server that holds the history."""
    binary, tool = shutil.which("prometheus"), shutil.which("promtool")
    assert binary, "install prometheus: the tests need the real server"
    assert tool, "install prometheus: the tests need promtool"
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "history.om").write_text(HISTORY.openmetrics())
    subprocess.run(
        [tool, "tsdb", "create-blocks-from", "openmetrics", folder / "history.om", folder / "data"],
        check=True,
        capture_output=True,
        timeout=60,
    )
    (folder / "p.yml").write_text("global: {scrape_interval: 1h}\n")
    port = free_port()
    command = [
        binary,
        f"--config.file={folder}/p.yml",
        f"--storage.tsdb.path={folder}/data",
        "--storage.tsdb.retention.time=3650d",
        f"--web.listen-address=127.0.0.1:{port}",
        f"--query.max-samples={MAX_SAMPLES}",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        ends = time.monotonic() + 60
        while not ready(url):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < ends, (folder / "log").read_text()
            time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait(20)


def ready(url: str) -> bool:
    try:
        return requests.get(f"{url}/-/ready", timeout=5).status_code == 200
    except requests.ConnectionError:
        return False


def test_the_planted_fault_is_found_in_a_real_server(prometheus, tmp_path, capsys):
    config(tmp_path, prometheus)
    labels = labels_file(tmp_path, ("n1", FAULT_FROM, FAULT_TO, "slow disk", "storage|memory"))
    arguments = [
        "backtest",
        "--from",
        at(300),
        "--to",
        at(680),
        "--labels",
        str(labels),
        "--out",
        str(tmp_path / "out"),
    ]
    status = main([*arguments, "--config.file", str(tmp_path / "detector.yml")])
    caught = capsys.readouterr()
    assert status == 0, caught.err
    (preset,) = results(tmp_path / "out")["presets"]
    assert preset["windows"] == preset["calibrated_windows"] == 2 * 380
    assert preset["faults"]["found"]["count"] == 1
    assert preset["faults"]["kinds"]["slow disk"]["first_subsystem_right"]["count"] == 1
    assert 2 <= preset["faults"]["seconds_to_detect"]["median"] <= 8
    assert "faults found: 1 of 1" in caught.out


def test_it_scores_what_the_service_would_have_scored(prometheus, tmp_path):
    settings = config(tmp_path, prometheus)
    plan, (first, last) = make_plan(settings), (START_MS + 300_000, START_MS + 680_000)
    read = score_records(open_records(settings, first, last, None, 300_000, How()), plan, first, last)
    begin = first - 300_000
    live = score_records([pair for pair in HISTORY.ticks() if pair[1] > begin + 1000], plan, first, last)
    assert read.intervals_ms == live.intervals_ms
    assert [(one.identity, one.start_ms, one.end_ms, one.title) for one in read.episodes] == [
        (one.identity, one.start_ms, one.end_ms, one.title) for one in live.episodes
    ]
    for entity, scores in live.scores.items():
        assert [one.end_ms for one in read.scores[entity]] == [one.end_ms for one in scores]
        assert [one.fused for one in read.scores[entity]] == pytest.approx([one.fused for one in scores], rel=1e-6)


def test_more_points_than_one_answer_may_hold(prometheus, tmp_path):
    """The server refuses 11,000 points of a series, and here already far fewer samples: it is asked again for less."""
    refused = requests.post(
        f"{prometheus}/api/v1/query_range",
        {"query": "m_cpu_0_total", "start": START_MS / 1000 - 20_000, "end": START_MS / 1000, "step": 1},
        timeout=10,
    )
    assert "exceeded maximum resolution" in refused.text
    settings = config(tmp_path, prometheus)
    last = START_MS + 600_000
    # Before the history there is nothing: five and a half hours of one value a second.
    records = open_records(settings, START_MS, last, None, 20_000_000, How(step_ms=1000))
    times = sorted({ms for batch, _ in records for ms in batch.times.tolist()})
    assert times == list(range(START_MS, last + 1, 1000))


def test_a_range_in_which_there_is_nothing(prometheus, tmp_path, capsys):
    config(tmp_path, prometheus)
    arguments = [
        "backtest",
        "--from",
        "2026-10-01T00:00:00Z",
        "--to",
        "2026-10-02T00:00:00Z",
        "--out",
        str(tmp_path / "out"),
    ]
    assert main([*arguments, "--config.file", str(tmp_path / "detector.yml")]) == 2
    assert "no host was heard from 2026-10-01T00:00:00Z to 2026-10-02T00:00:00Z" in capsys.readouterr().err

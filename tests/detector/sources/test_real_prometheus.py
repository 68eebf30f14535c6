"""The source against the real server, which scrapes a small target of ours."""

from __future__ import annotations

import math
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import pytest
import requests

from hwsonde_detector.errors import SourceUnreachable
from hwsonde_detector.sources.options import SourceOptions
from hwsonde_detector.sources.prometheus import PrometheusSource

# So few samples may be in one answer that a few seconds of history are already too much.
MAX_SAMPLES = 60
NAMES = ("hwsonde_a_total", "hwsonde_brief", "hwsonde_infinite", "hwsonde_undefined")
CONFIG = """
global: {{scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 1h}}
scrape_configs:
- job_name: hwsonde-exporter
  static_configs: [{{targets: ["127.0.0.1:{target}"], labels: {{cluster: lab, node: n1}}}}]
- job_name: other
  static_configs: [{{targets: ["127.0.0.1:{target}"], labels: {{cluster: lab, node: n1}}}}]
"""


class Target(BaseHTTPRequestHandler):
    """Counts its scrapes; one series is there for three scrapes only."""

    protocol_version = "HTTP/1.1"
    scrapes = 0

    def do_GET(self) -> None:
        type(self).scrapes += 1
        count = type(self).scrapes
        lines = [
            f"hwsonde_a_total {count}",
            "hwsonde_infinite +Inf",
            "hwsonde_undefined NaN",
            "hwsonde_anomaly_score 9",
        ]
        lines += [f"hwsonde_brief {count}"] if count <= 6 else []
        body = "\n".join([*lines, ""]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        pass


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory) -> Iterator[str]:
    """Address of a server that has scraped for about six seconds."""
    binary = shutil.which("prometheus")
    assert binary, "install prometheus: the tests need the real server"
    folder = tmp_path_factory.mktemp("prometheus")
    Target.scrapes = 0
    target = ThreadingHTTPServer(("127.0.0.1", 0), Target)
    thread = threading.Thread(target=target.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    (folder / "p.yml").write_text(CONFIG.format(target=target.server_port))
    port = free_port()
    with (folder / "log").open("wb") as log:
        command = [
            binary,
            f"--config.file={folder}/p.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}",
            f"--query.max-samples={MAX_SAMPLES}",
        ]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        ends = time.monotonic() + 60
        while Target.scrapes < 60:
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < ends, (folder / "log").read_text()
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)
        target.shutdown()
        target.server_close()
        thread.join(5)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def open_source(
    url: str, selector: str = 'job="hwsonde-exporter"', names: tuple[str, ...] = NAMES, **options
) -> PrometheusSource:
    return PrometheusSource(SourceOptions(url, selector=selector, **options), names)


def samples(reads) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for read in reads:
        batch = read.batch
        for index, one in enumerate(batch.series):
            assert dict(one.labels)["job"] == "hwsonde-exporter"
            part = slice(batch.offsets[index], batch.offsets[index + 1])
            found.setdefault(one.name, []).extend(
                zip(batch.times[part].tolist(), batch.values[part].tolist(), strict=True)
            )
    return found


def test_a_read_gives_what_was_scraped(prometheus):
    source = open_source(prometheus)
    end = now_ms()
    read = source.read(end - 1500, end)
    found = samples([read])
    assert set(found) == {"hwsonde_a_total", "hwsonde_infinite", "hwsonde_undefined"}
    times = [ms for ms, _ in found["hwsonde_a_total"]]
    assert all(end - 1500 < ms <= end for ms in times)
    assert 5 <= len(times) <= 9
    assert all(100 <= later - earlier <= 400 for earlier, later in pairwise(times))
    counts = [value for _, value in found["hwsonde_a_total"]]
    assert counts == sorted(set(counts))
    assert all(math.isnan(value) for _, value in found["hwsonde_undefined"])
    assert all(value == math.inf for _, value in found["hwsonde_infinite"])
    assert read.warnings == ()
    source.close()


def test_reads_one_after_another_give_each_sample_once(prometheus):
    source = open_source(prometheus, names=("hwsonde_a_total",))
    end = now_ms() - 500
    whole = samples([source.read(end - 3000, end)])
    parts = samples(source.read(end - 3000 + 430 * step, min(end - 3000 + 430 * (step + 1), end)) for step in range(7))
    assert parts == whole
    assert len(whole["hwsonde_a_total"]) >= 12
    source.close()


def test_raw_history_equals_the_reads_although_the_server_refuses_long_ones(prometheus):
    source = open_source(prometheus)
    end = now_ms() - 500
    begin = end - 15_000
    reads = list(source.history(begin, end))
    assert len(reads) >= 3
    found = samples(reads)
    for samples_of_one in found.values():
        times = [ms for ms, _ in samples_of_one]
        assert times == sorted(set(times))
    # The series that went away ends with its last true sample: stale markers are no samples.
    assert 1 <= len(found["hwsonde_brief"]) <= 3
    assert all(value <= 6 for _, value in found["hwsonde_brief"])
    counts = [value for _, value in found["hwsonde_a_total"]]
    assert len(counts) >= 20
    assert counts == sorted(set(counts))
    short = open_source(prometheus, names=("hwsonde_a_total",), max_samples=7)
    assert samples(short.history(begin, end))["hwsonde_a_total"] == found["hwsonde_a_total"]
    source.close()
    short.close()


def test_history_on_a_grid(prometheus):
    source = open_source(prometheus, max_samples=9)
    end = now_ms()
    reads = list(source.history(end - 5000, end, 500))
    times = sorted({ms for read in reads for ms in read.batch.times.tolist()})
    assert all(ms % 500 == 0 and end - 5000 < ms <= end for ms in times)
    assert len(times) >= 6
    assert len(reads) >= 2
    source.close()


def test_asking_for_too_many_points_in_words_of_the_server(prometheus):
    answer = requests.post(
        f"{prometheus}/api/v1/query_range", {"query": "up", "start": 0, "end": 11_001, "step": 1}, timeout=10
    )
    assert answer.status_code == 400
    assert "exceeded maximum resolution" in answer.text
    source = open_source(prometheus, names=("hwsonde_a_total",))
    end = now_ms()
    # 20,000 points are more than one answer may hold.
    assert sum(read.batch.times.size for read in source.history(end - 20_000_000, end, 1000)) >= 3
    source.close()


def test_it_goes_away_in_one_line(prometheus):
    port = free_port()
    with pytest.raises(SourceUnreachable, match=rf"127\.0\.0\.1:{port}: connection refused"):
        open_source(f"http://127.0.0.1:{port}").read(0, 1000)

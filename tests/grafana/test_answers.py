"""Every panel of every board, asked of a real Prometheus that has every series: no query fails, and none comes back empty without a reason."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import yaml

from alert_rules.generate import rule_file
from alert_rules.timing import FAST
from alert_rules.writing import Links
from grafana.check_panels import Ask, asker, check, chosen, panels, substitute
from grafana.generate import BOARDS, DETECTOR_URL, document
from hwsonde_detector.writers.exposition import FAMILIES
from tests.grafana.known import series
from tests.rules.running import answers, free_port, program, until

MADE = {board.name: document(board, DETECTOR_URL) for board in BOARDS}
HOST = {"cluster": "a", "node": "n1"}
# Panels that are rightly empty where every series is there once and twice and nothing changes.
EMPTY = {
    ("host", "Silent collectors"),
    ("settings", "What changed on the chosen host"),
}


def selections() -> dict[str, list[dict[str, str]]]:
    """Labels with values that the queries choose by, for each series."""
    found: dict[str, list[dict[str, str]]] = {}
    for board in MADE.values():
        for panel in panels(board):
            for target in panel["targets"]:
                for name, inside in re.findall(r"(hwsonde_\w+)\{([^}]*)\}", target["expr"]):
                    wanted = dict(re.findall(r'(\w+)="([^"$]+)"', inside))
                    if wanted and wanted not in found.setdefault(name, []):
                        found[name].append(wanted)
    return found


def exposition(of_detector: bool, now: float) -> str:
    """What one of the programs sends: two of everything (two GPUs, two devices), with the labels that queries choose by and with others.

    What can grow grows.
    """
    chosen_by, lines = selections(), []
    own = {family.name + suffix for family in FAMILIES for suffix in ("", "_sum", "_count")}
    for name, labels in sorted(series().items()):
        if (name in own) != of_detector:
            continue
        rows: dict[str, float] = {}
        for wanted in [{}, *chosen_by.get(name, [])]:
            for number in (0, 1):
                values = {label: wanted.get(label, f"{label}{number}") for label in sorted(labels - {"le"})}
                inside = ",".join(f'{label}="{value}"' for label, value in values.items())
                rows[inside] = _value(name, number, now)
        lines += [f"{name}{{{inside}}} {value}" for inside, value in rows.items()]
    return "\n".join(lines) + "\n"


def _value(name: str, number: int, now: float) -> float:
    if "timestamp" in name or "start_time" in name:
        return now - 100 - number
    if name.endswith(("_total", "_sum", "_count")):
        return (now % 100_000) * (number + 1)
    return 3 if name == "hwsonde_gpu_fabric_state" else 1 + number


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = exposition(self.path == "/detector", time.time()).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
        pass


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    folder, port = tmp_path_factory.mktemp("prometheus"), free_port()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    static = [{"targets": [f"127.0.0.1:{server.server_port}"], "labels": HOST}]
    jobs = [
        {"job_name": f"hwsonde-{name}", "metrics_path": f"/{name}", "static_configs": static}
        for name in ("exporter", "detector")
    ]
    every = {"scrape_interval": "1s", "scrape_timeout": "900ms", "evaluation_interval": "1s"}
    (folder / "rules.yml").write_text(rule_file(FAST, Links()))
    (folder / "prometheus.yml").write_text(
        yaml.safe_dump({"global": every, "rule_files": ["rules.yml"], "scrape_configs": jobs})
    )
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    base = f"http://127.0.0.1:{port}"
    command.append(f"--web.listen-address=127.0.0.1:{port}")
    with program(command, folder / "log", lambda: answers(f"{base}/-/ready")):
        given = asker(base)
        both = "rate(hwsonde_detector_reads_total[5s]) and on () rate(hwsonde_cpu_forks_total[5s]) and on () ALERTS"
        until(lambda: len(given(both)) > 0)
        yield given
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", MADE)
def test_every_panel_has_an_answer(name: str, ask: Ask) -> None:
    board: dict[str, Any] = MADE[name]
    results = check(board, chosen(board, HOST, ask), ask)
    empty = {(name, result.title) for result in results if result.series == 0}
    assert empty == {one for one in EMPTY if one[0] == name}


def legend(form: str, labels: dict[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), form)


@pytest.mark.parametrize("name", MADE)
def test_a_legend_tells_the_lines_of_a_panel_apart(name: str, ask: Ask) -> None:
    board: dict[str, Any] = MADE[name]
    values = chosen(board, HOST, ask)
    for panel in panels(board):
        if panel["type"] != "timeseries":
            continue
        shown = [
            legend(target["legendFormat"], row["metric"])
            for target in panel["targets"]
            for row in ask(substitute(target["expr"], values))
        ]
        assert len(set(shown)) == len(shown), f"{panel['title']}: {shown}"

"""The check of a dashboard against a running Prometheus."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from grafana.check_panels import CheckError, Result, asker, check, chosen, host_values, main, substitute

ROOT = Path(__file__).resolve().parents[2]


def panel(title: str, *exprs: str, quiet: str | None = None) -> dict[str, Any]:
    defaults = {} if quiet is None else {"noValue": quiet}
    targets = [{"refId": name, "expr": expr} for name, expr in zip("AB", exprs, strict=False)]
    return {"type": "timeseries", "title": title, "targets": targets, "fieldConfig": {"defaults": defaults}}


BOARD = {
    "panels": [
        {"type": "row", "title": "row", "panels": []},
        panel("two queries", 'up{node="$node"}', "nothing"),
        {"type": "row", "title": "collapsed", "panels": [panel("hidden", "up")]},
        panel("may be empty", "nothing", quiet="no open episode"),
    ]
}


def answer(expr: str) -> list[Any]:
    if "build_info" in expr:
        return [{"metric": {"cluster": "b", "node": "n2"}}, {"metric": {"cluster": "a", "node": "n9"}}, {"metric": {}}]
    return [{"metric": {}, "value": [0, "1"]}] if expr.startswith("up") else []


def test_variables_are_replaced_as_grafana_does() -> None:
    values = {"node": "n1", "cluster": "a"}
    assert (
        substitute('x{a="$cluster",b="${node}",c="${node:raw}"}[$__rate_interval]', values, "9s")
        == 'x{a="a",b="n1",c="n1"}[9s]'
    )
    with pytest.raises(KeyError, match="rack"):
        substitute("$rack", values)


def test_counts_series_by_panel() -> None:
    assert check(BOARD, {"node": "n1"}, answer) == [
        Result("two queries", 1, ("B",), None),
        Result("hidden", 1, (), None),
        Result("may be empty", 0, ("A",), "no open episode"),
    ]


def test_further_variables_take_all_or_the_first_that_there_is() -> None:
    query = 'label_values(hwsonde_exporter_build_info{node="$node"}, node)'
    variables = [
        {"type": "datasource", "name": "datasource", "query": "prometheus"},
        {"type": "query", "name": "node", "query": query},
        {"type": "query", "name": "gpu", "query": "label_values(up, gpu)", "includeAll": True, "allValue": ".*"},
        {"type": "query", "name": "other", "query": query},
        {"type": "query", "name": "none", "query": "label_values(nothing, x)"},
    ]
    board = {**BOARD, "templating": {"list": variables}}
    found = chosen(board, {"node": "n1"}, answer)
    assert found == {"node": "n1", "gpu": ".*", "other": "", "none": ""}


def test_takes_the_first_host_or_the_one_that_was_named() -> None:
    assert host_values(answer, None, None) == {"cluster": "", "node": ""}
    assert host_values(answer, "b", None) == {"cluster": "b", "node": "n2"}
    assert host_values(answer, None, "n9") == {"cluster": "a", "node": "n9"}
    with pytest.raises(CheckError, match="no exporter"):
        host_values(answer, "a", "n2")


class Prometheus(BaseHTTPRequestHandler):
    """Answers as the ``mode`` of the server says."""

    def do_POST(self) -> None:
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        mode = self.server.mode  # type: ignore[attr-defined]
        if mode == "refuse":
            self.reply(422, json.dumps({"status": "error", "error": "too dear"}))
        elif mode == "proxy":
            self.reply(200, "<html>sign in</html>")
        elif mode == "error page":
            self.reply(502, "<html>bad gateway</html>")
        else:
            self.reply(200, json.dumps({"status": "success", "data": {"result": answer(form["query"][0])}}))

    def reply(self, status: int, body: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
        pass


@pytest.fixture
def server() -> Iterator[Any]:
    running = ThreadingHTTPServer(("127.0.0.1", 0), Prometheus)
    running.mode = "well"  # type: ignore[attr-defined]
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


def run(server: Any, tmp_path: Path, *more: str, board: object = BOARD) -> int:
    (tmp_path / "board.json").write_text(json.dumps(board))
    return main(
        ["--prometheus", f"http://127.0.0.1:{server.server_port}", "--board", str(tmp_path / "board.json"), *more]
    )


def test_says_how_many_series_each_panel_has(server: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(server, tmp_path) == 0
    assert capsys.readouterr().out.splitlines() == [
        "   1  two queries  (nothing from B)",
        "   1  hidden",
        "   0  may be empty  EMPTY (no open episode)",
        "3 panels, 0 empty that must not be",
    ]
    assert run(server, tmp_path, "--strict") == 1
    assert run(server, tmp_path, "--refuse", "no score yet") == 0
    assert run(server, tmp_path, "--refuse", "no open episode") == 1


def test_an_empty_panel_is_status_1(server: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(server, tmp_path, board={"panels": [panel("bare", "nothing")]}) == 1
    assert "   0  bare  EMPTY\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("mode", "words"), [("refuse", "too dear"), ("proxy", "does not answer"), ("error page", "status 502")]
)
def test_a_wrong_answer_is_one_line(
    server: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: str, words: str
) -> None:
    server.mode = mode
    assert run(server, tmp_path) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


@pytest.mark.parametrize("board", [[], {}, {"panels": [{}]}, {"panels": [panel("x", "$rack")]}, "text"])
def test_a_wrong_board_is_one_line(
    server: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], board: object
) -> None:
    assert run(server, tmp_path, board=board) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_nobody_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CheckError, match="does not answer"):
        asker("http://127.0.0.1:1")("up")
    command = [sys.executable, str(ROOT / "grafana" / "check_panels.py"), "--prometheus", "http://127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1

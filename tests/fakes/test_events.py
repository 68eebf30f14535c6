"""The stand-in for PagerDuty refuses what PagerDuty refuses, keeps no secret, and survives bad clients."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.events import EventsServer, Inbox, main, masked, problems

ROOT = Path(__file__).resolve().parents[2]
KEY = "0123456789abcdef0123456789abcdef"
PAYLOAD = {"summary": "n1: cpu", "source": "n1", "severity": "critical"}
TRIGGER = {"routing_key": KEY, "event_action": "trigger", "payload": PAYLOAD}
RESOLVE = {"routing_key": KEY, "event_action": "resolve", "dedup_key": "k"}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    "event", [TRIGGER, RESOLVE, {**TRIGGER, "dedup_key": "k", "links": [{"href": "https://x/y", "text": "t"}]}]
)
def test_takes_a_right_event(event: dict[str, Any]) -> None:
    assert problems(event) == []


@pytest.mark.parametrize(
    ("event", "word"),
    [
        ([], "JSON object"),
        ({**TRIGGER, "routing_key": ""}, "routing_key"),
        ({**TRIGGER, "routing_key": KEY + "\n"}, "routing_key"),
        ({**TRIGGER, "event_action": "fire"}, "event_action"),
        ({**TRIGGER, "dedup_key": "k" * 256}, "dedup_key"),
        ({**RESOLVE, "dedup_key": ""}, "dedup_key"),
        ({"routing_key": KEY, "event_action": "trigger"}, "payload"),
        ({**TRIGGER, "payload": {**PAYLOAD, "summary": " "}}, "summary"),
        ({**TRIGGER, "payload": {**PAYLOAD, "summary": "x" * 1025}}, "summary"),
        ({**TRIGGER, "payload": {**PAYLOAD, "source": ""}}, "source"),
        ({**TRIGGER, "payload": {**PAYLOAD, "severity": "page"}}, "severity"),
        ({**TRIGGER, "links": [{"href": "docs/x.md", "text": "t"}]}, "links"),
        ({**TRIGGER, "links": "x"}, "links"),
    ],
)
def test_refuses_a_wrong_event(event: object, word: str) -> None:
    (problem,) = problems(event)
    assert word in problem


@given(
    event=json_values | st.fixed_dictionaries({}, optional=dict.fromkeys((*TRIGGER, "links", "dedup_key"), json_values))
)
def test_judges_anything(event: object) -> None:
    status, answer = Inbox().take(json.dumps(event).encode())
    assert (status == 202) == (answer["status"] == "success") == (not problems(event))


@given(data=st.binary())
def test_judges_any_bytes(data: bytes) -> None:
    assert Inbox().take(data)[0] == 400


def test_the_key_is_masked_whatever_it_is() -> None:
    for key in (KEY, "short", "", 7, None, ["x"]):
        hidden = masked({"routing_key": key, "a": 1})
        assert isinstance(hidden, dict)
        assert re.fullmatch(r"\*{4}(cdef)?", hidden["routing_key"])
        assert hidden["a"] == 1


def test_log_is_json_lines_without_the_key(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path / "log", clock=lambda: 12.5)
    inbox.take(json.dumps(TRIGGER).encode())
    inbox.take(b"{")
    text = (tmp_path / "log").read_text()
    assert KEY not in text
    first, second = (json.loads(line) for line in text.splitlines())
    assert (first["received"], first["ok"], first["status"], first["body"]["event_action"]) == (
        12.5,
        True,
        202,
        "trigger",
    )
    assert (second["ok"], second["status"], second["errors"], second["body"]) == (
        False,
        400,
        ["the body is not JSON"],
        None,
    )
    assert [first, second] == inbox.events()


def test_a_dedup_key_is_kept_or_made() -> None:
    inbox = Inbox()
    assert inbox.take(json.dumps({**TRIGGER, "dedup_key": "mine"}).encode())[1]["dedup_key"] == "mine"
    assert inbox.take(json.dumps(TRIGGER).encode())[1]["dedup_key"]


def test_refuses_for_a_while() -> None:
    inbox = Inbox()
    inbox.refuse(429, 2)
    event = json.dumps(TRIGGER).encode()
    assert [inbox.take(event)[0] for _ in range(3)] == [429, 429, 202]
    with pytest.raises(ValueError, match="429"):
        inbox.refuse(200, 1)
    with pytest.raises(ValueError, match="times"):
        inbox.refuse(500, -1)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EventsServer]:
    with EventsServer(log=tmp_path / "log") as running:
        yield running


def ask(server: EventsServer, path: str, body: bytes | None = None) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", body, timeout=5) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_over_http(server: EventsServer) -> None:
    assert ask(server, "/-/healthy") == (200, {"status": "ok"})
    status, answer = ask(server, "/v2/enqueue", json.dumps({**TRIGGER, "dedup_key": "k"}).encode())
    assert (status, answer["dedup_key"]) == (202, "k")
    assert ask(server, "/v2/enqueue", b"[]")[0] == 400
    assert ask(server, "/refuse", b'{"status": 503, "times": 1}')[0] == 200
    assert ask(server, "/v2/enqueue", json.dumps(RESOLVE).encode())[0] == 503
    for wrong in (b"", b"[]", b'{"status": 200, "times": 1}', b'{"status": "x", "times": 1}', b'{"status": 500}'):
        assert ask(server, "/refuse", wrong)[0] == 400
    assert ask(server, "/nothing")[0] == 404
    assert ask(server, "/nothing", b"{}")[0] == 404
    assert ask(server, "/") == ask(server, "/events")
    status, events = ask(server, "/events")
    assert [event["status"] for event in events] == [202, 400, 503]
    assert events == server.events()


@pytest.mark.parametrize(
    "head", [b"Content-Length: x\r\n", b"Content-Length: -1\r\n", b"Content-Length: 99999999\r\n", b""]
)
def test_a_body_of_unknown_or_absurd_length_is_refused(server: EventsServer, head: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as client:
        client.sendall(b"POST /v2/enqueue HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n")
        assert re.match(rb"HTTP/1.1 41[13] ", client.makefile("rb").readline())
    assert server.events() == []


def test_a_client_that_goes_away_harms_nobody(server: EventsServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as client:
        client.sendall(b"POST /v2/enqueue HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")
    assert ask(server, "/-/healthy")[0] == 200


def test_alone_it_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.fakes.events", "--port", "0", "--log", str(tmp_path / "log")]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"(http://\S+/v2/enqueue)", process.stdout.readline())
        assert found is not None
        with urllib.request.urlopen(found[1], json.dumps(TRIGGER).encode(), timeout=5) as answer:
            assert answer.status == 202
    finally:
        process.send_signal(signal.SIGTERM)
        status = process.wait(timeout=10)
    assert status == 0
    assert json.loads((tmp_path / "log").read_text())["ok"] is True


def test_a_taken_port_or_a_bad_log_is_one_line(server: EventsServer, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--port", str(server.port)], ["--port", "99999"], ["--port", "0", "--log", "/dev/null/x"]):
        assert main(arguments) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1

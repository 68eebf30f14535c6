"""From an incident's series to a page, through the real Prometheus and the real Alertmanager."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.events import EventsServer
from tests.rules.running import KEY, running_alertmanager, running_prometheus, until

INCIDENT = """\
hwsonde_incident_active{cluster="a",node="n1",subsystem="cpu",scope="host"} 1
hwsonde_anomaly_score{cluster="a",node="n1",detector="fused"} 3.25
hwsonde_anomaly_channel_share{cluster="a",node="n1",channel="cpu_busy{mode=user}",subsystem="cpu"} 0.6
"""


class Detector(BaseHTTPRequestHandler):
    """Shows what the server's ``text`` says."""

    def do_GET(self) -> None:
        body = self.server.text.encode()  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
        pass


@pytest.fixture
def detector() -> Iterator[Any]:
    running = ThreadingHTTPServer(("127.0.0.1", 0), Detector)
    running.text = ""  # type: ignore[attr-defined]
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


def test_an_incident_becomes_one_page_that_names_it(detector: Any, tmp_path: Path) -> None:
    with EventsServer() as receiver, running_alertmanager(tmp_path, receiver, KEY) as alertmanager:
        with running_prometheus(tmp_path, alertmanager, {"hwsonde-detector": detector.server_port}):
            detector.text = INCIDENT
            until(lambda: len(receiver.events()) > 0)
        (event,) = receiver.events()
    assert event["ok"], event["errors"]
    body = event["body"]
    assert body["payload"]["summary"] == (
        "a/n1: cpu deviates from what this host has learned as normal (score 3.2, 1 is the threshold), "
        "most of all cpu_busy{mode=user}. Open the host's page and check this part."
    )
    assert body["payload"]["custom_details"]["top_channels"] == "cpu_busy{mode=user} (60%)"
    assert body["payload"]["source"] == "a/n1"
    assert [link["href"] for link in body["links"]] == [
        "http://detector:9881/#host=a%2Fn1",
        "http://detector:9881/incidents?node=a%2Fn1&state=open",
    ]

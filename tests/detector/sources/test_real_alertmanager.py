"""A real Alertmanager: its silences and alerts are read as it gives them."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import requests

from hwsonde_detector.config.incidents import parse_matchers
from hwsonde_detector.sources.alertmanager import Alertmanager, AlertmanagerOptions
from hwsonde_detector.types import Entity

MARKER = parse_matchers('hwsonde_normal="true"')
N17 = Entity((("cluster", "a"), ("node", "n17")))


def port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> Iterator[str]:
    binary = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    assert binary, "install prometheus-alertmanager: the tests need the real server"
    folder: Path = tmp_path_factory.mktemp("alertmanager")
    (folder / "a.yml").write_text("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n")
    address = f"127.0.0.1:{port()}"
    with (folder / "log").open("wb") as log:
        command = [
            binary, f"--config.file={folder}/a.yml", f"--storage.path={folder}/data", f"--web.listen-address={address}", "--cluster.listen-address=",
        ]  # fmt: skip
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        ends = time.monotonic() + 60
        while True:
            try:
                if requests.get(f"http://{address}/-/ready", timeout=5).ok:
                    break
            except requests.ConnectionError:
                assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < ends, "it did not start"
            time.sleep(0.1)
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(20)


def matcher(name: str, value: str, *, regex: bool = False) -> dict:
    return {"name": name, "value": value, "isRegex": regex, "isEqual": True}


def silence(url: str, *matchers: dict) -> str:
    now = datetime.now(UTC)
    body = {
        "matchers": list(matchers),
        "startsAt": now.isoformat(),
        "endsAt": (now + timedelta(hours=1)).isoformat(),
        "createdBy": "ann",
        "comment": "burn-in",
    }
    answer = requests.post(f"{url}/api/v2/silences", json=body, timeout=10)
    assert answer.ok, answer.text
    return answer.json()["silenceID"]


def test_a_silence_says_what_is_normal_until_it_is_expired(url: str) -> None:
    asked = Alertmanager(AlertmanagerOptions(url))
    assert asked.silences(MARKER, ("cluster", "node")) == ()
    silence(url, matcher("node", "n17"))
    name = silence(url, matcher("hwsonde_normal", "true"), matcher("node", "n1[0-9]", regex=True))
    (one,) = asked.silences(MARKER, ("cluster", "node"))
    now_ms = time.time_ns() // 1_000_000
    # It begins when Alertmanager takes it, a moment after it was asked for.
    assert one.holds(N17, now_ms + 60_000)
    assert not one.holds(Entity((("cluster", "a"), ("node", "n2"))), now_ms + 60_000)
    assert one.reason == f"silence {name[:8]} (burn-in)"
    requests.delete(f"{url}/api/v2/silence/{name}", timeout=10)
    assert asked.silences(MARKER, ("cluster", "node")) == ()


def test_alerts_are_read_with_their_state(url: str) -> None:
    labels = {"alertname": "HwsondeHostAnomaly", "cluster": "a", "node": "n17"}
    sent = [{"labels": labels, "annotations": {"summary": "n17: busy"}, "startsAt": datetime.now(UTC).isoformat()}]
    assert requests.post(f"{url}/api/v2/alerts", json=sent, timeout=10).ok
    asked = Alertmanager(AlertmanagerOptions(url))
    ends = time.monotonic() + 20
    while not (found := asked.alerts()) and time.monotonic() < ends:
        time.sleep(0.1)
    (alert,) = found
    assert (alert.name, alert.summary) == ("HwsondeHostAnomaly", "n17: busy")
    assert dict(alert.labels)["node"] == "n17"

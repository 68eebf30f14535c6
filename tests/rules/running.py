"""The real Prometheus and Alertmanager on loopback, for the tests of rules and pages."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from alert_rules.generate import alertmanager_file, rule_file
from alert_rules.receivers import PagerDuty, Receivers
from alert_rules.timing import FAST
from alert_rules.writing import Links
from tests.fakes.events import EventsServer

KEY = "0123456789abcdef0123456789ABCDEF"


class Alertmanager:
    """The real one on loopback, and the stand-in that its pages go to."""

    def __init__(self, port: int, receiver: EventsServer) -> None:
        self.base = f"http://127.0.0.1:{port}"
        self.receiver = receiver

    def send(self, labels: dict[str, str], annotations: dict[str, str], *, over: bool = False) -> None:
        self.send_all([(labels, annotations)], over=over)

    def send_all(self, alerts: Sequence[tuple[dict[str, str], dict[str, str]]], *, over: bool = False) -> None:
        """Post them together, as Prometheus does with all alerts of one round."""
        now = datetime.now(UTC)
        # As they begin to fire: one that began before the group's wait would be sent at once, without those that come with it.
        times = {"startsAt": now - timedelta(milliseconds=1), "endsAt": now if over else now + timedelta(minutes=5)}
        texts = {name: at.isoformat() for name, at in times.items()}
        body = [{"labels": labels, "annotations": annotations, **texts} for labels, annotations in alerts]
        request = urllib.request.Request(
            f"{self.base}/api/v2/alerts", json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=5) as answer:
            assert answer.status == 200

    def pages(self, node: str) -> list[dict[str, Any]]:
        """Bodies of the events about a host that the stand-in took."""
        taken = [event["body"] for event in self.receiver.events() if event["ok"]]
        return [body for body in taken if body["payload"]["group"].endswith(node)]


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def program(command: list[str], log: Path, ready: Callable[[], bool]) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            until(ready)
            yield
        finally:
            process.terminate()
            process.wait(timeout=20)


def answers(url: str) -> bool:
    """Whether a program says that it is ready."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def running_alertmanager(
    folder: Path, receiver: EventsServer, key: str, others: Receivers | None = None
) -> Iterator[Alertmanager]:
    """Alertmanager with the fast profile; its pages go to the stand-in, and to the ``others`` that are given."""
    port = free_port()
    (folder / "key").write_text(key + "\n")
    who = others or Receivers(())
    who = replace(who, pages=(PagerDuty(receiver.url, str(folder / "key")), *who.pages))
    (folder / "alertmanager.yml").write_text(alertmanager_file(FAST, who))
    command = [
        "prometheus-alertmanager",
        f"--config.file={folder}/alertmanager.yml",
        f"--storage.path={folder}/alertmanager",
    ]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="]
    running = Alertmanager(port, receiver)
    with program(command, folder / "alertmanager.log", lambda: answers(f"{running.base}/-/ready")):
        yield running


@contextmanager
def running_prometheus(folder: Path, alertmanager: Alertmanager, targets: dict[str, int]) -> Iterator[str]:
    """Prometheus with the fast rules, scraping each job's port on loopback as host n1 of cluster a; gives its address."""
    port = free_port()

    def job(name: str, target: int) -> dict[str, Any]:
        static = [{"targets": [f"127.0.0.1:{target}"], "labels": {"cluster": "a", "node": "n1"}}]
        return {"job_name": name, "honor_labels": name.endswith("detector"), "static_configs": static}

    document = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "900ms", "evaluation_interval": "1s"},
        "rule_files": ["rules.yml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager.base.removeprefix("http://")]}]}]},
        "scrape_configs": [job(name, target) for name, target in targets.items()],
    }
    (folder / "rules.yml").write_text(rule_file(FAST, Links("http://detector:9881")))
    (folder / "prometheus.yml").write_text(yaml.safe_dump(document))
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/prometheus"]
    base = f"http://127.0.0.1:{port}"
    command += [f"--web.listen-address=127.0.0.1:{port}"]
    with program(command, folder / "prometheus.log", lambda: answers(f"{base}/-/ready")):
        yield base

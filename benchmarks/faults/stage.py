"""What watches the host: the exporter, a real Prometheus, simulated hosts beside it, and the recorder."""

from __future__ import annotations

import json
import shutil
import socket
import sys
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from benchmarks.faults.children import Child
from benchmarks.faults.errors import BenchError

JOB = "hwsonde-exporter"
CLUSTER = "bench"
SELECTOR = f'job="{JOB}"'
LOOPBACK = "127.0.0.1"
RULES = Path(__file__).with_name("rules.yaml")
_INTERVAL_MS = 1000
_TIMEOUT_MS = 900
_CAPTURE_MS = 5000
_READY_SECONDS = 60.0
_PATHS = {"procfs": "proc", "sysfs": "sys", "rootfs": "root"}
# Their files stand still but for a tick every half second: what is fast about them says nothing.
_PEER_FLAGS = ("--sampler.hertz=0", "--no-collector.perf", "--no-collector.network_latency")

Spawn = Callable[[str, str, dict[str, Any]], Child]


def free_ports(number: int) -> list[int]:
    """Ports on loopback that nobody holds now."""
    probes = [socket.socket() for _ in range(number)]
    for probe in probes:
        probe.bind((LOOPBACK, 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def answers(port: int, path: str, seconds: float = 1.0) -> bool:
    """Whether a GET on loopback is answered with 200 in time."""
    connection = HTTPConnection(LOOPBACK, port, timeout=seconds)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
    return response.status == 200


def scrape_configuration(targets: dict[str, int]) -> dict[str, Any]:
    """Configuration of Prometheus (which takes JSON as YAML): a target for each node, its name as label; ports may change from run to run."""
    return {
        "global": {"scrape_interval": f"{_INTERVAL_MS}ms", "scrape_timeout": f"{_TIMEOUT_MS}ms"},
        "scrape_configs": [
            {
                "job_name": JOB,
                "static_configs": [
                    {
                        "targets": [f"{LOOPBACK}:{port}"],
                        "labels": {"cluster": CLUSTER, "node": node, "instance": f"{node}:1"},
                    }
                    for node, port in targets.items()
                ],
            }
        ],
    }


class Stage:
    """Programs that watch.

    Parameters
    ----------
    scratch
        Folder for what is thrown away at the end.
    archive
        File that is recorded to.
    node
        Name of this host.
    peers
        How many simulated hosts run beside it.
    spawn
        Starts a process: its name, worker and arguments.
    """

    def __init__(self, scratch: Path, archive: Path, node: str, peers: int, spawn: Spawn) -> None:
        self._scratch, self._archive, self._spawn = scratch, archive, spawn
        self.node = node
        self.peers = [(f"bench-peer-{number}", scratch / f"peer-{number}") for number in range(peers)]
        self.children: dict[str, Child] = {}
        self._ports: dict[str, int] = {}
        self._commands: dict[str, list[str]] = {}

    @staticmethod
    def missing() -> str | None:
        """Why nothing can be recorded here, None where it can."""
        return None if shutil.which("prometheus") else "prometheus is not installed: install the package prometheus"

    def start(self) -> None:
        """Start everything and wait until it works.

        Raises
        ------
        BenchError
            A program did not come up.
        """
        if why := self.missing():
            raise BenchError(why)
        nodes = [self.node, *(name for name, _ in self.peers)]
        ports = free_ports(len(nodes) + 1)
        self._ports = dict(zip([*nodes, "prometheus"], ports, strict=True))
        if self.peers:
            self._worker("peers", {"folders": [str(folder) for _, folder in self.peers]})
        folders = dict(self.peers)
        for node in nodes:
            flags = (
                [f"--path.{kind}={folders[node] / name}" for kind, name in _PATHS.items()] if node in folders else []
            )
            more = [*flags, *_PEER_FLAGS] if node in folders else []
            self._commands[node] = [
                sys.executable, "-P", "-m", "hwsonde_exporter", f"--web.listen-address={LOOPBACK}:{self._ports[node]}", *more,
            ]  # fmt: skip
        config = self._scratch / "prometheus.yml"
        targets = {node: self._ports[node] for node in nodes}
        config.write_text(json.dumps(scrape_configuration(targets)), encoding="utf-8")
        self._commands["prometheus"] = [
            str(shutil.which("prometheus")),
            f"--config.file={config}",
            f"--storage.tsdb.path={self._scratch / 'prometheus'}",
            "--storage.tsdb.retention.time=1h",
            f"--web.listen-address={LOOPBACK}:{self._ports['prometheus']}",
            "--log.level=warn",
        ]
        for name in self._commands:
            self._program(name)
        self._wait_ready()
        url = f"http://{LOOPBACK}:{self._ports['prometheus']}"
        arguments = {"url": url, "selector": SELECTOR, "archive": str(self._archive), "every_ms": _CAPTURE_MS}
        self._worker("capture", {**arguments, "profiles": ["hwsonde", str(RULES)]})

    def _program(self, name: str) -> None:
        self.children[name] = self._spawn(name, "exec", {"command": self._commands[name]})

    def _worker(self, name: str, arguments: dict[str, Any]) -> None:
        self.children[name] = child = self._spawn(name, name, arguments)
        child.go()

    def _wait_ready(self) -> None:
        end = time.monotonic() + _READY_SECONDS
        for name in self._commands:
            while not answers(self._ports[name], "/-/ready"):
                if not self.children[name].alive() or time.monotonic() > end:
                    raise BenchError(f"{name} did not come up: see its log in the recording's folder logs")
                time.sleep(0.1)

    def exporter_pid(self) -> int:
        """Process of this host's exporter; 0 where it does not run."""
        child = self.children.get(self.node)
        return child.pid if child is not None and child.alive() else 0

    def exporter_answers(self) -> bool:
        """Whether it answers within a second."""
        return answers(self._ports[self.node], "/metrics")

    def tend(self) -> list[str]:
        """Start a program again that has ended; give their names.

        Raises
        ------
        BenchError
            The recorder or the simulated hosts ended: what is recorded would have a hole.
        """
        gone = [name for name, child in self.children.items() if not child.alive()]
        for name in gone:
            if name not in self._commands:
                raise BenchError(f"the worker {name} ended: see its log in the recording's folder logs")
            self._program(name)
        return gone

    def stop(self) -> None:
        """End everything, the recorder first."""
        for name in reversed(list(self.children)):
            self.children.pop(name).stop()

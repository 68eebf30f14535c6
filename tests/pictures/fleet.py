"""A small cluster on loopback: a training host, five virtual machines alike, and the stack that watches them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from quickstart import configs
from quickstart.child import Child, Program
from quickstart.layout import LOOPBACK, ROOT, Options
from quickstart.stack import STOP_SECONDS, Stack
from tests.e2e.house import free_ports
from tests.e2e.simulated import SimulatedHost
from tests.pictures.training_host import TrainingHost
from tests.rules.running import free_port

CLUSTER = "lab"
# Eleven programs on one machine: once a second would be too much for a small one.
SCRAPE_MS = 2000
TRAINING = "gpu-01"
MACHINES = tuple(f"node-0{number}" for number in range(1, 6))
# The one whose settings differ from the start, the one whose settings are changed, the one that gets busy.
DIFFERENT, CHANGED, BUSY = "node-02", "node-04", "node-03"
# What takes eight minutes with the shipped figures takes about three here; so few rows say nothing of one window in a thousand.
DETECTOR: dict[str, Any] = {
    "learning": {"first_rows": 30, "calibrated_rows": 100},
    "episodes": {"risk": 0.005},
    "peers": {"settings_every": "10s"},
}
_PYTHON = {
    "PYTHONPATH": f"{ROOT}:{ROOT / 'exporter'}:{ROOT / 'detector_sidecar'}:{ROOT / 'deploy'}",
    "PYTHONUNBUFFERED": "1",
}


class Fleet(Stack):
    """The quick start's stack with more exporters than one; the first machine's is in the place of the stack's own.

    Parameters
    ----------
    options
        Of the stack.
    notify
        Gets one line for every event.
    exporters
        Programs of all hosts, the stack's own first; each is named after its host.
    """

    def __init__(self, options: Options, notify: Callable[[str], None], exporters: Sequence[Program]) -> None:
        super().__init__(options, notify)
        self._exporters = exporters
        self._others: list[Child] = []

    def _prepare(self) -> None:
        super()._prepare()
        path = self.options.config / "prometheus.yml"
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        for job in document["scrape_configs"]:
            if job["job_name"] == configs.EXPORTER_JOB:
                job["static_configs"] = [
                    {"targets": [f"{LOOPBACK}:{program.port}"], "labels": {"cluster": CLUSTER, "node": program.name}}
                    for program in self._exporters
                ]
        path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")

    def run(self, name: str) -> None:
        """Start one program, and with the stack's own exporter those of the other hosts."""
        if name == "exporter" and not self._others:
            made = [Child(program, self.options.logs / f"{program.name}.log", ROOT) for program in self._exporters]
            self.children["exporter"] = made[0]
            self._others = made[1:]
            for child in self._others:
                child.start()
        super().run(name)

    def stop(self) -> None:
        """End everything."""
        super().stop()
        for child in self._others:
            child.stop(STOP_SECONDS)


class Cluster:
    """Hosts and their fleet, alive while it is entered.

    Parameters
    ----------
    data
        Directory for everything that is written.
    say
        Gets one line for every event.
    """

    def __init__(self, data: Path, say: Callable[[str], None]) -> None:
        hosts = data / "hosts"
        hosts.mkdir(parents=True)
        self.training = TrainingHost(hosts / TRAINING)
        self.machines = {name: SimulatedHost(hosts / name / "vm", seed) for seed, name in enumerate(MACHINES, 7)}
        self._differ()
        ports = free_ports()
        options = Options(data, ports, MACHINES[0], CLUSTER, scrape_ms=SCRAPE_MS, detector=DETECTOR)
        self.fleet = Fleet(options, say, self._programs(ports.exporter))
        self._living = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as living:
            for host in (self.training, *self.machines.values()):
                host.start()
                living.callback(host.stop)
            living.enter_context(self.fleet)
            self._living = living.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._living.close()

    def _differ(self) -> None:
        huge = self.machines[DIFFERENT].folder / "sys/kernel/mm/transparent_hugepage/enabled"
        huge.write_text("always madvise [never]\n", encoding="ascii")

    def change_setting(self) -> None:
        """Let somebody change a setting of one host."""
        (self.machines[CHANGED].folder / "proc/sys/vm/swappiness").write_text("10\n", encoding="ascii")

    def _programs(self, first: int) -> list[Program]:
        """The exporters; the training host probes the others."""
        probed = {name: free_port() for name in MACHINES}
        found = []
        for place, (name, host) in enumerate(self.machines.items()):
            listen = f"--collector.network_probe.listen-address={LOOPBACK}:{probed[name]}"
            # Few looks between the scrapes: five samplers on one machine would starve it.
            flags = (*host.flags, listen, *_peers((), probed), "--sampler.hertz=2")
            found.append(_program(name, first if place == 0 else free_port(), flags))
        # Counting events of 192 processors that are made up tells nothing, and costs much.
        training = (*self.training.flags, *_peers(MACHINES, probed), "--no-collector.perf")
        return [*found, _program(TRAINING, free_port(), training)]


def _peers(names: Sequence[str], ports: dict[str, int]) -> tuple[str, ...]:
    probes = (f"--collector.network_probe.peers={name}={LOOPBACK}:{ports[name]}" for name in names)
    return ("--collector.network_probe", *probes)


def _program(name: str, port: int, flags: Sequence[str]) -> Program:
    command = (sys.executable, "-P", "-m", "tests.pictures.exporter", f"--web.listen-address={LOOPBACK}:{port}", *flags)
    return Program(name, command, port, "/-/ready", _PYTHON)

"""Several hosts and one detector with the fleet profile, in quick motion: all of its times are divided by one factor.

A scrape every 15 s and an hour of learning would make one test last for hours. With `FACTOR` a scrape, and all that follows from it
(evaluation, what an alert waits for and how long it stays, Alertmanager's waits), is as many times as short.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from alert_rules.generate import rule_file
from alert_rules.timing import FLEET
from alert_rules.writing import Links
from quickstart import configs, fetch
from quickstart.child import Child, Program
from quickstart.layout import LOOPBACK, ROOT, Options, url
from quickstart.pages import Event, EventLog
from quickstart.stack import programs
from tests.e2e.house import EPISODES, free_numbers, free_ports
from tests.e2e.noise import Noise
from tests.e2e.shipped import quick, shipped
from tests.e2e.simulated import SimulatedHost

FACTOR = 15
CLUSTER = "fleet"
LEARNING = {"first_rows": 30, "calibrated_rows": 120}
SCORE = 'hwsonde_anomaly_score{detector="fused"}'


class Fleet:
    """Running programs that watch some hosts, and every page of them.

    Parameters
    ----------
    data
        Data directory.
    hosts
        By name.
    """

    def __init__(self, data: Path, hosts: Mapping[str, SimulatedHost]) -> None:
        self.hosts = hosts
        self.events: list[Event] = []
        self.noise = Noise()
        self.options = Options(
            data,
            free_ports(),
            "monitor",
            CLUSTER,
            scrape_ms=1000 * FLEET.evaluation // FACTOR,
            detector={"learning": LEARNING, "episodes": EPISODES},
        )
        self._ports = dict(zip(hosts, free_numbers(len(hosts)), strict=True))
        self._log = EventLog(self.options.events_log)
        self._children: dict[str, Child] = {}

    def __enter__(self) -> Self:
        self._write()
        try:
            # Prometheus last: in quick motion, a detector that takes ten seconds to start counts as down.
            every = (*self._exporters(), *programs(self.options)[1:])
            for program in sorted(every, key=lambda one: one.name == "prometheus"):
                child = self._children[program.name] = Child(program, self.options.logs / f"{program.name}.log", ROOT)
                if program.name == "prometheus":
                    self._wait_ready()
                child.start()
            self._wait_ready()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        for child in reversed(self._children.values()):
            child.stop()

    def _exporters(self) -> list[Program]:
        made = []
        for name, host in self.hosts.items():
            ports = replace(self.options.ports, exporter=self._ports[name])
            program = programs(replace(self.options, ports=ports, exporter=host.flags))[0]
            made.append(replace(program, name=f"exporter-{name}"))
        return made

    def _write(self) -> None:
        options = self.options
        options.config.mkdir(parents=True)
        options.logs.mkdir()
        prometheus = configs.prometheus(options)
        prometheus["scrape_configs"][0]["static_configs"] = [
            {"targets": [f"{LOOPBACK}:{port}"], "labels": {"cluster": CLUSTER, "node": name}}
            for name, port in self._ports.items()
        ]
        key = options.config / "stand-in.key"
        alertmanager = shipped("fleet", url(options.ports.events, "/v2/enqueue"), key, FACTOR)
        links = Links(url(options.ports.detector), str(ROOT / "docs" / "runbooks"))
        texts = {
            "prometheus.yml": yaml.safe_dump(prometheus),
            "detector.yml": yaml.safe_dump(configs.detector(options)),
            "rules.yml": rule_file(quick(FLEET, FACTOR), links),
            "alertmanager.yml": yaml.safe_dump(alertmanager),
            key.name: configs.STAND_IN_KEY,
        }
        for name, text in texts.items():
            (options.config / name).write_text(text, encoding="utf-8")

    def _wait_ready(self, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        for child in self._children.values():
            while child.pid is not None and not fetch.answers(child.program.port, child.program.ready):
                assert child.status() is None, f"{child.program.name} ended: {child.last_words()}"
                assert time.monotonic() < end, f"{child.program.name} is not ready: {child.last_words()}"
                time.sleep(0.1)

    def ask(self, expression: str) -> list[float]:
        """Values that Prometheus answers with; none while it does not answer."""
        found: list[dict[str, Any]] = []
        with suppress(fetch.FetchError):
            found = fetch.query(self.options.ports.prometheus, expression)
        return [float(one["value"][1]) for one in found]

    def until(self, true: Callable[[], bool], seconds: float, what: str) -> None:
        """Look until it is so; fails after ``seconds`` with what is known."""
        end = time.monotonic() + seconds
        while not true():
            self._look()
            assert time.monotonic() < end, f"{what}: not after {seconds:.0f} s; {self.seen()}"
            time.sleep(0.5)
        self._look()

    def rest(self, seconds: float) -> None:
        """Look on for a while."""
        end = time.monotonic() + seconds
        self.until(lambda: time.monotonic() >= end, seconds + 60, "a rest")

    def _look(self) -> None:
        self.events += self._log.new()
        self.noise.add(max(self.ask(SCORE), default=None))
        gone = [name for name, child in self._children.items() if child.status() is not None]
        assert not gone, f"{gone} ended; {self.seen()}"

    def quiet(self) -> None:
        """Wait until every host is calibrated and at rest."""
        self.until(lambda: self.ask("sum(hwsonde_anomaly_calibrated)") == [len(self.hosts)], 300, "calibration")
        calm = 0

        def at_rest() -> bool:
            nonlocal calm
            scores = self.ask(SCORE)
            low = len(scores) == len(self.hosts) and max(scores) < 0.7 and not self.ask("hwsonde_incident_active")
            calm = calm + 1 if low else 0
            return calm >= 16

        self.until(at_rest, 120, "quiet hosts")

    def seen(self) -> str:
        """Everything that tells a failure of the programs from a machine that has no time for them."""
        words = {name: child.last_words() for name, child in self._children.items()}
        return f"scores {self.ask(SCORE)}; {self.events}; {words}; {self.noise}"

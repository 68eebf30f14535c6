"""Made-up hosts of one synchronous job: what all do together, what each does by itself, and what goes wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.plan import Plan
from hwsonde_detector.settings import DetectorSettings, EpisodeSettings, LearningSettings, Settings
from hwsonde_detector.signals.profiles.rules import Formula, GroupRule, Part, Profile, Reading, Rule, SettingRule
from hwsonde_detector.types import Entity, EntityReport, EpisodeEvent, Outputs, Phase, SampleBatch, Series, Subsystem
from hwsonde_detector.worker import WorkerState, step

START_MS = 1_800_000_000_000
LEARNED = 150
SUBSYSTEMS = (Subsystem.CPU, Subsystem.MEMORY, Subsystem.NETWORK, Subsystem.STORAGE)
CAUSES = tuple(f"{subsystem}_{index}" for subsystem in SUBSYSTEMS for index in range(3))
USE = tuple(f"{subsystem}_use" for subsystem in SUBSYSTEMS)
CHANNELS = tuple(sorted((*CAUSES, *USE)))
GPUS = tuple(str(number) for number in range(8))
PARTS = ("clock", "heat")


def _rule(name: str, weight: float = 1.0) -> Rule:
    part = (Part(f"m_{name}", Reading.VALUE),)
    return Rule(
        name, Formula.PLAIN, part, (), Subsystem(name.partition("_")[0]), floor=0.5, weight=weight, unit="units"
    )


def _part_rule(name: str) -> Rule:
    part = (Part(f"m_{name}", Reading.VALUE),)
    return Rule(
        name,
        Formula.PLAIN,
        part,
        ("gpu",),
        Subsystem.GPU,
        floor=0.5,
        unit="units",
        device_kind="gpu",
        device_label="gpu",
    )


PROFILE = Profile(
    "made-up",
    tuple(_rule(name, 0.3 if name in USE else 1.0) for name in CHANNELS) + tuple(_part_rule(name) for name in PARTS),
    settings=(SettingRule("m_setting_info", "setting", named_by="setting", device="device", labels=("value",)),),
    groups=(GroupRule("m_job_info", "workload", ("number",), shared=True),),
)
SETTINGS = Settings(
    learning=LearningSettings(first_rows=30, calibrated_rows=90, memory_rows=600),
    detectors=DetectorSettings(members=("zscore", "mahalanobis", "extremes")),
    episodes=EpisodeSettings(settle_rows=5),
)
PLAN = Plan(SETTINGS, (PROFILE,))

Values = NDArray[np.float64]
# Host (1 to n), name of the channel with its GPU behind a slash -> values over time, changed in place.
Fault = Callable[[Mapping[tuple[int, str], Values]], None]


def entity(number: int) -> Entity:
    return Entity((("cluster", "lab"), ("node", f"n{number}")))


def number_of(host: Entity) -> int:
    return int(dict(host.labels)["node"][1:])


@dataclass(frozen=True, slots=True)
class Fleet:
    """Which hosts there are, and what is known of them.

    ``jobs`` gives the number of each host's job, ``roles`` a label; ``infos`` gives setting rows of a host at a second, as
    (setting, device, value); ``leaves`` is the second from which a host is silent; ``gpus`` says whether hosts have eight GPUs.
    ``interval_ms`` is what is called a second here, and ``phases`` when within it a host is scraped, ms.
    """

    hosts: int = 8
    seconds: int = 220
    seed: int = 3
    gpus: int = 0
    jobs: Mapping[int, str] = field(default_factory=dict)
    roles: Mapping[int, str] = field(default_factory=dict)
    infos: Callable[[int, int], Iterable[tuple[str, str, str]]] = lambda host, second: ()
    leaves: Mapping[int, int] = field(default_factory=dict)
    begins: Mapping[int, int] = field(default_factory=dict)
    interval_ms: int = 1000
    phases: Mapping[int, int] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        return (*CHANNELS, *(f"{part}/{gpu}" for part in PARTS for gpu in GPUS[: self.gpus]))

    def values(self, fault: Fault) -> dict[tuple[int, str], Values]:
        """Values of every channel of every host: a level, the phases of the job, something of its own, and noise."""
        made: dict[tuple[int, str], Values] = {}
        seconds = np.arange(self.seconds)
        for place, name in enumerate(self.names()):
            # The parts of a host do the same as each other.
            kind = self.names().index(name.partition("/")[0] + "/0") if "/" in name else place
            together = 10.0 * np.sin(2 * np.pi * (seconds + 5 * kind) / 37.0)
            for host in range(1, self.hosts + 1):
                random = np.random.default_rng((self.seed, place, host))
                own = random.normal(0.0, 4.0)
                made[host, name] = 100.0 + 10.0 * kind + together + own + random.normal(0.0, 2.0, self.seconds)
        fault(made)
        return made

    def labels(self, host: int, **more: str) -> tuple[tuple[str, str], ...]:
        found = {"cluster": "lab", "instance": f"n{host}:9880", "job": "hwsonde-exporter", "node": f"n{host}", **more}
        if host in self.roles:
            found["role"] = self.roles[host]
        return tuple(sorted(found.items()))

    def ticks(self, fault: Fault = lambda values: None, since: int = 0) -> list[tuple[SampleBatch, int]]:
        """One batch a second; hosts are scraped at different times within it."""
        values = self.values(fault)
        made = []
        for second in range(since, self.seconds):
            rows: list[tuple[Series, int, float]] = []
            for (host, name), series in values.items():
                if self.begins.get(host, 0) <= second < self.leaves.get(host, self.seconds):
                    channel, _, gpu = name.partition("/")
                    labels = self.labels(host, gpu=gpu) if gpu else self.labels(host)
                    rows.append((Series(f"m_{channel}", labels), self._time(host, second), float(series[second])))
            if second % 30 == 0:
                rows += self._slow(second)
            rows.sort(key=lambda row: row[0])
            batch = SampleBatch(
                tuple(row[0] for row in rows),
                np.arange(len(rows) + 1, dtype=np.int64),
                np.array([row[1] for row in rows], np.int64),
                np.array([row[2] for row in rows]),
            )
            made.append((batch, START_MS + self.interval_ms * (second + 1) - 10))
        return made

    def _time(self, host: int, second: int) -> int:
        return START_MS + self.interval_ms * second + self.phases.get(host, 100 * host)

    def _slow(self, second: int) -> list[tuple[Series, int, float]]:
        rows = []
        for host in range(1, self.hosts + 1):
            if not self.begins.get(host, 0) <= second < self.leaves.get(host, self.seconds):
                continue
            for setting, device, value in self.infos(host, second):
                labels = self.labels(host, setting=setting, device=device, value=value)
                rows.append((Series("m_setting_info", labels), self._time(host, second), 1.0))
            if host in self.jobs:
                labels = self.labels(host, number=self.jobs[host])
                rows.append((Series("m_job_info", labels), self._time(host, second), 1.0))
        return rows


def play(
    ticks: Iterable[tuple[SampleBatch, int]], state: WorkerState | None = None, plan: Plan = PLAN
) -> tuple[WorkerState, list[Outputs]]:
    state = copy.deepcopy(state) if state is not None else WorkerState()
    outputs = []
    for batch, now in ticks:
        state, output = step(state, batch, now, plan)
        outputs.append(output)
    return state, outputs


def told(outputs: Iterable[Outputs], phase: Phase = Phase.OPENED) -> list[EpisodeEvent]:
    return [event for output in outputs for event in output.events if event.phase is phase]


def opened(outputs: Iterable[Outputs]) -> list[int]:
    """Numbers of the hosts whose episodes were told, in order."""
    return [number_of(event.episode.entity) for event in told(outputs)]


def reports(outputs: Iterable[Outputs], host: int) -> list[EntityReport]:
    return [report for output in outputs for report in output.reports if report.entity == entity(host)]


def raised(
    hosts: Iterable[int], names: Iterable[str], begin: int, end: int, by: float
) -> Callable[[Mapping[tuple[int, str], Values]], None]:
    """Fault that adds ``by`` to some channels of some hosts for a while."""
    hosts, names = tuple(hosts), tuple(names)

    def fault(values: Mapping[tuple[int, str], Values]) -> None:
        for host in hosts:
            for name in names:
                values[host, name][begin:end] += by

    return fault


def both(*faults: Fault) -> Fault:
    def fault(values: Mapping[tuple[int, str], Values]) -> None:
        for one in faults:
            one(values)

    return fault


def patient(plan: Plan, **changes: object) -> Plan:
    return replace(plan, settings=replace(plan.settings, peers=replace(plan.settings.peers, **changes)))  # type: ignore[arg-type]

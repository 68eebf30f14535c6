"""A small fleet with a fault in the middle, made without a clock: what the page is tested and drawn with."""

from __future__ import annotations

import numpy as np

from hwsonde_detector.published import Held, Noticeboard, Published, PublishedHost, SourceState
from hwsonde_detector.telemetry import Counters
from hwsonde_detector.types import (
    Channel,
    Contribution,
    Device,
    Entity,
    EntityReport,
    Episode,
    Learning,
    Outputs,
    Score,
    Subsystem,
)
from hwsonde_detector.web.history import History

NOW = 1_796_000_000_000
HOSTILE = '<script>alert("x")</script>'


class StillClock:
    """A clock that stands."""

    def __init__(self, now_ms: int = NOW, monotonic: float = 100.0) -> None:
        self.now, self.elapsed = now_ms, monotonic

    def now_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.elapsed

    def wait(self, seconds: float) -> None:
        self.elapsed += seconds

    def wake(self) -> None:
        pass


def entity(node: str) -> Entity:
    return Entity((("cluster", "a"), ("node", node)))


def contribution(
    name: str, subsystem: Subsystem, share: float, value: float, device: Device | None = None, unit: str = "ratio"
) -> Contribution:
    channel = Channel(name, subsystem, device, unit=unit)
    return Contribution(channel, share, 9.0 * share + 2, value, value * 0.1, value * 0.3)


TOP = (
    contribution("cpu_sampled_busy_ratio", Subsystem.CPU, 0.46, 0.981),
    contribution("pressure_stall{resource=cpu}", Subsystem.CPU, 0.21, 0.63),
    contribution("run_queue_tasks", Subsystem.CPU, 0.12, 17.0, unit="tasks"),
    contribution("disk_written{device=nvme0n1}", Subsystem.STORAGE, 0.09, 212e6, Device("disk", "nvme0n1"), "bytes/s"),
    contribution("network_received{device=eth0}", Subsystem.NETWORK, 0.05, 4.1e6, Device("nic", "eth0"), "bytes/s"),
)


def score(
    host: Entity, end_ms: int, fused: float, *, calibrated: bool = True, cpu: float = 0.7, top: bool = False
) -> Score:
    rest = fused * (1 - cpu)
    parts = {
        Subsystem.CPU: fused * cpu,
        Subsystem.MEMORY: rest * 0.3,
        Subsystem.NETWORK: rest * 0.2,
        Subsystem.STORAGE: rest * 0.4,
        Subsystem.POWER: rest * 0.1,
    }
    members = {"zscore": fused * 1.2, "mahalanobis": fused, "isolation_forest": fused * 0.6}
    return Score(host, end_ms, fused, members, parts, TOP if top else (), calibrated, 1.0, 0.97, 0.02 + 0.1 * top)


def episode(host: Entity, start_ms: int, end_ms: int | None, title: str = "") -> Episode:
    words = title or f"{host} cpu: cpu_sampled_busy_ratio 98.1 %, expected at most 29 %, since 02:14:07Z"
    first = (("cpu_sampled_busy_ratio", start_ms - 1000), ("run_queue_tasks", start_ms))
    return Episode(f"{host}@{start_ms}", host, start_ms, start_ms - 1000, end_ms, Subsystem.CPU, 2.6, words, TOP, first)


def fleet(hostile: str = "node23") -> tuple[Noticeboard, History]:
    """Three hosts: one in an episode, one quiet, one learning (whose name comes from its instance and may be hostile)."""
    history, random = History(), np.random.default_rng(7)
    bad, quiet, new = entity("node17"), entity("node18"), entity(hostile)
    reports, hosts = [], []
    for host, rows in ((bad, 3000), (quiet, 3000), (new, 80)):
        scores = []
        for index in range(1800 if host is not new else 40):
            end = NOW - 1000 * ((1800 if host is not new else 40) - index) + 437
            fault = host is bad and (index > 1760 or 700 < index < 740)
            fused = float(0.3 + 0.12 * random.standard_normal() ** 2 + (2.1 + 0.2 * random.standard_normal()) * fault)
            scores.append(
                score(
                    host,
                    end,
                    fused,
                    calibrated=host is not new,
                    cpu=0.82 if fault else 0.35,
                    top=fault and index > 1700,
                )
            )
        learning = Learning(rows, 240, NOW - 90_000 if host is not new else None, host is bad, 96, 71)
        reports.append(EntityReport(host, tuple(scores), learning, 1000))
        opened = (episode(host, NOW - 38_000, None),) if host is bad else ()
        held = (Held(99.5, scores[-1]),)
        hosts.append(PublishedHost(host, learning, 1000, opened, held, 2.0, named_by_instance=host is new))
    history.take(Outputs(tuple(reports)))
    past = (
        episode(
            bad,
            NOW - 1_100_000,
            NOW - 1_050_000,
            "a/node17 cpu: cpu_sampled_busy_ratio 97 %, expected at most 29 %, since 01:56:40Z",
        ),
    )
    published = Published(
        taken=99.9,
        now_ms=NOW,
        started_ms=NOW - 7_200_000,
        source=SourceState("http://127.0.0.1:9090", answered=True),
        hosts=tuple(hosts),
        past=past,
        own=Counters().samples(),
        last_sample_ms=NOW - 563,
        links=(("prometheus", "http://127.0.0.1:9090"), ("grafana", "javascript:alert(1)")),
    )
    return Noticeboard(published), history

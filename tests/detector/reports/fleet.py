"""A made-up fleet that is recorded into an archive: hosts, jobs and faults are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from hwsonde_detector.sources.archive import ArchiveRecorder
from hwsonde_detector.sources.base import Read
from hwsonde_detector.types import SampleBatch, Series
from tests.detector.sources.answers import answer

# On a full minute, so that ticks of minutes begin with it.
START_MS = 1_800_000_000_000
LEARN_S, END_S = 150, 260
HOSTS = ("n1", "n2", "n3")
DISKS = ("nvme0n1", "nvme1n1")
PROFILE = (
    """
prefix: m_
health: {up: up}
metrics:
"""
    + "".join(
        f"- {{name: m_{subsystem}_{number}_total, kind: counter, subsystem: {subsystem}, scale: {{floor: 0.5}}, unit: bytes/s}}\n"
        for subsystem in ("cpu", "memory", "network")
        for number in range(4)
    )
    + (
        "- {name: m_disk_total, kind: counter, subsystem: storage, by: [device], device: {kind: disk, label: device}, "
        "scale: {floor: 0.5}, unit: bytes/s}\n"
        "- {name: m_disk_wait_total, kind: counter, subsystem: storage, by: [device], device: {kind: disk, label: device}, "
        "scale: {floor: 0.5}, unit: bytes/s}\n"
        "- {name: m_switches_total, kind: counter, subsystem: cpu, weight: 0.3, scale: {floor: 0.5}, unit: 1/s}\n"
        "- {name: hwsonde_workload_cpu_seconds_total, kind: counter, subsystem: cpu, by: [workload], scale: {floor: 100}, weight: 0.3}\n"
    )
)
CONFIG = """
profiles: [./profile.yaml]
state: {dir: null}
source: {url: "URL", selector: "", history: 150s}
learning: {first_rows: 60, calibrated_rows: 120, memory_rows: 600, refit_growth: 1.0}
detectors: {members: [zscore, mahalanobis, extremes]}
episodes: {settle_rows: 5}
data_faults: {usual: 60s, missing: 10s}
"""

Fault = Callable[[str, str, int, float], float]
Labels = tuple[tuple[str, str], ...]
Gone = tuple[str, str, int, int]


def healthy(node: str, name: str, second: int, value: float) -> float:
    return value


def disk_of(node: str, begin: int, device: str = "nvme1n1") -> Fault:
    """One disk of one host has six times as much to do from a second on."""

    def fault(where: str, name: str, second: int, value: float) -> float:
        sick = where == node and second >= begin and f"/{device}" in name
        return value * 6 if sick else value

    return fault


def names() -> list[tuple[str, Labels]]:
    """Names of the series of one host and their own labels."""
    own: list[tuple[str, Labels]] = [
        (f"m_{subsystem}_{number}_total", ()) for subsystem in ("cpu", "memory", "network") for number in range(4)
    ]
    own += [(name, (("device", disk),)) for name in ("m_disk_total", "m_disk_wait_total") for disk in DISKS]
    return [*own, ("m_switches_total", ())]


def series(
    fault: Fault = healthy,
    *,
    hosts: Sequence[str] = HOSTS,
    seconds: int = END_S,
    jobs: Sequence[tuple[str, str, int, int]] = (),
    rename: Callable[[str], str] = str,
    gone: Sequence[Gone] = (),
    asked: Mapping[str, int] | None = None,
) -> list[tuple[Series, np.ndarray]]:
    """Counters of every series at each second, NaN where it has no sample.

    ``jobs`` are workload, host, first and last second; ``rename`` gives hosts other names; ``gone`` are hosts, and what in a name, that send
    nothing from one second to another. With ``asked`` there is ``up``, up to that second of a host.
    """
    made = []
    at = np.arange(seconds, dtype=np.float64)
    for place, node in enumerate(hosts):
        target = (
            ("cluster", "lab"),
            ("instance", f"h{place}:9880"),
            ("job", "hwsonde-exporter"),
            ("node", rename(node)),
        )
        for number, (name, own) in enumerate(names()):
            noise = np.random.default_rng([place, number]).normal(0, 3, seconds)
            plain = name + "".join(f"/{value}" for _, value in own)
            rates = [
                fault(node, plain, second, max(100 + 10 * number + noise[second], 0.0)) for second in range(seconds)
            ]
            away = _away(at, [one for one in gone if one[0] == node and one[1] in plain])
            made.append((Series(name, tuple(sorted([*target, *own]))), np.where(away, np.nan, np.cumsum(rates))))
        for workload, where, first, last in jobs:
            if where == node:
                one = Series(
                    "hwsonde_workload_cpu_seconds_total",
                    tuple(sorted([*target, ("mode", "user"), ("workload", workload)])),
                )
                away = _away(at, [one for one in gone if one[0] == node and not one[1]])
                made.append((one, np.where((at >= first) & (at <= last) & ~away, at, np.nan)))
        if asked is not None:
            away = _away(at, [one for one in gone if one[0] == node and not one[1]])
            told = np.where(at <= asked.get(node, seconds), 1.0 - away, np.nan)
            made.append((Series("up", tuple(sorted(target))), told))
    return sorted(made, key=lambda pair: pair[0])


def _away(at: np.ndarray, gone: Sequence[Gone]) -> np.ndarray:
    away = np.zeros(len(at), np.bool_)
    for _, _, first, until in gone:
        away |= (at >= first) & (at < until)
    return away


def batches(made: Sequence[tuple[Series, np.ndarray]], size: int = 5) -> list[tuple[SampleBatch, int]]:
    """Batches of ``size`` seconds."""
    seconds = len(made[0][1])
    result = []
    for begin in range(0, seconds, size):
        places = np.arange(begin, min(begin + size, seconds))
        known = [(one, places[np.isfinite(values[places])], values) for one, values in made]
        known = [(one, own, values) for one, own, values in known if len(own)]
        now_ms = START_MS + 1000 * int(places[-1]) + 150
        if not known:
            result.append((SampleBatch.empty(), now_ms))
            continue
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(own) for _, own, _ in known])])
        batch = SampleBatch(
            tuple(one for one, _, _ in known),
            offsets,
            np.concatenate([START_MS + 1000 * own for _, own, _ in known]),
            np.concatenate([values[own] for _, own, values in known]),
        )
        result.append((batch, now_ms))
    return result


def raw_of(batch: SampleBatch) -> bytes:
    found = []
    for index, one in enumerate(batch.series):
        own = slice(batch.offsets[index], batch.offsets[index + 1])
        samples = list(zip(batch.times[own].tolist(), batch.values[own].tolist(), strict=True))
        found.append(((("__name__", one.name), *one.labels), samples))
    return answer(found)


def record(path: Path, made: Sequence[tuple[Series, np.ndarray]]) -> Path:
    """Write an archive."""
    with ArchiveRecorder(path) as recorder:
        for batch, now_ms in batches(made):
            recorder.record(now_ms, Read(batch, (), raw_of(batch)))
    return path


def configured(folder: Path, url: str = "http://127.0.0.1:1") -> Path:
    """Write the configuration and its profile."""
    (folder / "profile.yaml").write_text(PROFILE)
    (folder / "config.yaml").write_text(CONFIG.replace("URL", url))
    return folder / "config.yaml"

"""A recording of a host that never was: a few counters, and faults where a test wants them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.faults.labels import Injection, Session
from hwsonde_detector.sources.archive import ArchiveRecorder
from hwsonde_detector.sources.base import Read
from hwsonde_detector.sources.decode import decode_answers
from hwsonde_detector.types import SampleBatch
from tests.detector.sources.answers import Identity, answer

START_MS = 1_800_000_000_000
LABELS = {"cluster": "bench", "node": "host", "instance": "host:1", "job": "hwsonde-exporter"}
TICK = 5

# Seconds from the start of a fault to its end, and what it is.
Planted = Mapping[tuple[int, int], str]


def identity(name: str, **labels: str) -> Identity:
    return tuple({"__name__": name, **LABELS, **labels}.items())


def series(seconds: int, planted: Planted, seed: int = 3) -> list[tuple[Identity, list[tuple[int, float]]]]:
    """Samples of every second."""
    random = np.random.default_rng(seed)

    def during(kind: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        mask = np.zeros(seconds, np.bool_)
        for (begin, end), what in planted.items():
            if what == kind:
                mask[begin:end] = True
        return mask

    def counter(rates: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[tuple[int, float]]:
        total = 1000.0 + np.cumsum(np.maximum(rates, 0.0))
        return [(START_MS + 1000 * second, float(value)) for second, value in enumerate(total)]

    hog, loss, busy = during("cpu"), during("loss"), during("disk")
    idle = np.where(hog, 0.01, random.normal(0.6, 0.03, seconds))
    return [
        (identity("hwsonde_cpu_seconds_total", cpu="0", mode="idle"), counter(idle)),
        (identity("hwsonde_cpu_seconds_total", cpu="0", mode="user"), counter(0.98 - idle)),
        (
            identity("hwsonde_cpu_pressure_waiting_seconds_total"),
            counter(np.where(hog, 0.9, np.abs(random.normal(0.02, 0.005, seconds)))),
        ),
        (
            identity("hwsonde_cpu_context_switches_total"),
            counter(np.where(hog, 9000, random.normal(2000, 100, seconds))),
        ),
        (
            identity("hwsonde_network_tcp_segments_total", direction="transmitted"),
            counter(random.normal(1000, 30, seconds)),
        ),
        (
            identity("hwsonde_network_tcp_retransmitted_segments_total"),
            counter(np.where(loss, 80, random.poisson(1, seconds)).astype(np.float64)),
        ),
        (
            identity("hwsonde_storage_busy_seconds_total", device="vda"),
            counter(np.where(busy, 0.99, np.abs(random.normal(0.1, 0.02, seconds)))),
        ),
        (
            identity("hwsonde_memory_pressure_waiting_seconds_total"),
            counter(np.abs(random.normal(0.01, 0.003, seconds))),
        ),
    ]


def record(path: Path, seconds: int, planted: Planted, silent: Sequence[tuple[int, int]] = ()) -> None:
    """Write an archive with a read every `TICK` seconds."""
    every = series(seconds, planted)
    with ArchiveRecorder(path) as recorder:
        for end in range(TICK, seconds + 1, TICK):
            begin = max(end - TICK - 2, 0)
            part = [
                (name, [samples[at] for at in range(begin, end) if not any(low <= at < high for low, high in silent)])
                for name, samples in every
            ]
            raw = answer([(name, samples) for name, samples in part if samples])
            batch, _ = decode_answers(raw, 0)
            recorder.record(START_MS + 1000 * end, Read(batch, (), raw, 0))


def session(seconds: int, learned: int, planted: Planted, **more: object) -> Session:
    """The labels that belong to it."""
    names = {"cpu": ("cpu",), "loss": ("network",), "disk": ("storage",), "nothing": ("cpu",)}
    return Session(
        1,
        "quiet",
        "host",
        {},
        [(kind, 1) for kind in dict.fromkeys(planted.values())],
        segments=[[START_MS, START_MS + 1000 * seconds]],
        learned_ms=START_MS + 1000 * learned,
        stage="done",
        injections=[
            Injection(
                kind, 1, names[kind], "host", START_MS + 1000 * begin, START_MS + 1000 * end, kind != "nothing", "", 0.2
            )
            for (begin, end), kind in planted.items()
        ],
    )


def batches(seconds: int, planted: Planted) -> list[tuple[SampleBatch, int]]:
    """The same as samples, without a file."""
    found = []
    every = series(seconds, planted)
    for end in range(TICK, seconds + 1, TICK):
        raw = answer([(name, samples[max(end - TICK - 2, 0) : end]) for name, samples in every])
        found.append((decode_answers(raw, 0)[0], START_MS + 1000 * end))
    return found

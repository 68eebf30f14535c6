"""What looking for data faults costs a step of one host: ``python -m benchmarks.data_fault_cost [--devices N] [--steps N]``.

The host has the series of the fixture hosts' golden expositions, its GPUs, network devices and disks repeated; one scrape a second, nothing
changes but the values. Printed is the CPU time of a whole step, and of the part that looks for data faults.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from hwsonde_detector import worker
from hwsonde_detector.config import load_profiles
from hwsonde_detector.plan import Plan
from hwsonde_detector.settings import DetectorSettings, LearningSettings, Settings
from hwsonde_detector.types import SampleBatch, Series
from hwsonde_detector.worker import WorkerState

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "exporter" / "golden"
LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
START_MS = 1_800_000_000_000
TARGET = {"job": "hwsonde-exporter", "instance": "n1:9880", "node": "n1"}


def golden() -> dict[Series, float]:
    """Every series of the fixture hosts."""
    found: dict[Series, float] = {}
    for path in sorted(GOLDEN.glob("*/*.txt")):
        for line in path.read_text(encoding="utf-8").splitlines():
            match = LINE.fullmatch(line)
            if match is not None:
                labels = dict(LABEL.findall(match[2] or "")) | TARGET
                found[Series(match[1], tuple(sorted(labels.items())))] = float(match[3])
    return found


def repeated(found: dict[Series, float], devices: int) -> dict[Series, float]:
    """The same with every device ``devices`` times."""
    result = dict(found)
    for one, value in found.items():
        labels = dict(one.labels)
        for number in range(devices):
            changed = {
                name: f"{labels[name]}{number}" for name in ("gpu", "uuid", "device", "chip") if labels.get(name)
            }
            if changed:
                result[Series(one.name, tuple(sorted((labels | changed).items())))] = value
    return result


def own(collectors: int = 48) -> dict[Series, float]:
    """What the exporter and the server tell of themselves."""
    prefix = "hwsonde_exporter_collector"
    made: dict[Series, float] = {}

    def add(name: str, value: float, **labels: str) -> None:
        made[Series(name, tuple(sorted((TARGET | labels).items())))] = value

    for number in range(collectors):
        add(f"{prefix}_available", 1.0, collector=f"c{number}", reason="")
        add(f"{prefix}_success", 1.0, collector=f"c{number}")
        add(f"{prefix}_duration_seconds", 0.01, collector=f"c{number}")
        add(f"{prefix}_last_success_timestamp_seconds", START_MS / 1000, collector=f"c{number}")
    add("hwsonde_exporter_build_info", 1.0, version="1")
    add("hwsonde_exporter_process_start_time_seconds", START_MS / 1000 - 9000)
    for name, value in (("up", 1.0), ("scrape_duration_seconds", 0.05), ("scrape_samples_scraped", 4600.0)):
        add(name, value)
    return made


def scrapes(values: dict[Series, float], count: int) -> Iterator[tuple[SampleBatch, int]]:
    """One scrape a second; counters grow, and gauges that are no whole numbers wobble a little below what they were."""
    order = tuple(sorted(values))
    base = np.array([values[one] for one in order])
    grows = np.array([one.name.endswith(("_total", "_sum", "_count")) for one in order])
    clocks = np.array([one.name.endswith("last_success_timestamp_seconds") for one in order])
    whole = base == np.floor(base)
    random = np.random.default_rng(1)
    for second in range(count):
        wobble = random.random(len(order))
        now = np.where(grows, base + second * 0.5 + 0.1 * wobble, np.where(whole, base, base * (1 - 0.01 * wobble)))
        now = np.where(clocks, START_MS / 1000 + second, now)
        times = np.full(len(order), START_MS + 1000 * second, np.int64)
        yield SampleBatch(order, np.arange(len(order) + 1), times, now), START_MS + 1000 * second + 150


def timed(call: Callable[..., object], spent: list[float]) -> Callable[..., object]:
    """The same function, its times appended."""

    def timing(*arguments: object, **named: object) -> object:
        began = time.thread_time()
        try:
            return call(*arguments, **named)
        finally:
            spent.append(time.thread_time() - began)

    return timing


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.data_fault_cost", description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, nargs="*", default=[0, 1], help="how often each device is repeated")
    parser.add_argument("--steps", type=int, default=300, help="steps that are timed")
    given = parser.parse_args()
    learning = LearningSettings(
        first_rows=60, calibrated_rows=120, memory_rows=600, refit_rows=100_000, refit_growth=10
    )
    plan = Plan(Settings(learning=learning, detectors=DetectorSettings(trees=20)), load_profiles(["hwsonde"]))
    names = set(plan.profiles[0].metric_names())
    print("| series sent | series read | channels | step ms | of it data faults ms | 90th percentile ms |")
    print("| --- | --- | --- | --- | --- | --- |")
    for devices in given.devices:
        everything = repeated(golden(), devices) | own()
        read = {one: value for one, value in everything.items() if one.name in names}
        faults: list[float] = []
        steps: list[float] = []
        original = worker.judge_data
        worker.judge_data = timed(original, faults)  # type: ignore[assignment]
        state = WorkerState()
        for batch, now in scrapes(read, 130 + given.steps):
            began = time.thread_time()
            state, outputs = worker.step(state, batch, now, plan)
            steps.append(time.thread_time() - began)
        worker.judge_data = original
        kept, times = faults[-given.steps :], steps[-given.steps :]
        channels = outputs.reports[0].learning.channels
        print(
            f"| {len(everything)} | {len(read)} | {channels} | {1000 * statistics.median(times):.2f} "
            f"| {1000 * statistics.median(kept):.2f} | {1000 * statistics.quantiles(kept, n=10)[-1]:.2f} |"
        )


if __name__ == "__main__":
    main()

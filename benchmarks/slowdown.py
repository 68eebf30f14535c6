"""What being watched costs a program: its run time with hwsonde-exporter, with node_exporter and with neither, in turns.

``python -m benchmarks.slowdown [--rounds 12]`` runs the same fixed work on every core at once, so that whatever an exporter takes is
taken from it: once CPU-bound (arithmetic), once bound by system calls (one-byte reads). The exporters are scraped once a second, ours
samples at 10 Hz. The settings take turns within each round, so that drift of the machine falls on all of them; the ratio of each
round to the unwatched run of the same round is given as a median with its 95 % interval (bootstrap).
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.exporter_cost import Running, find_peer

WORK = {
    "CPU-bound": "x = 0\nfor i in range({n}): x += i * i % 7",
    "system calls": "import os\nf = os.open('/dev/zero', os.O_RDONLY)\nfor i in range({n}): os.read(f, 1)",
}
UNWATCHED, OURS, THEIRS = "unwatched", "hwsonde-exporter, 10 Hz", "node_exporter"


def run_time(code: str, cores: int) -> float:
    """Seconds until one process on each core has done the work."""
    began = time.perf_counter()
    programs = [subprocess.Popen([sys.executable, "-S", "-c", code]) for _ in range(cores)]
    for program in programs:
        program.wait()
    return time.perf_counter() - began


def calibrated(template: str, cores: int, seconds: float) -> str:
    """The work, sized to take about so many seconds."""
    count = 200_000
    while True:
        passed = run_time(template.format(n=count), cores)
        if passed > seconds / 4:
            return template.format(n=int(count * seconds / passed))
        count *= 4


@contextmanager
def watched(program: Running | None) -> Iterator[None]:
    """Let an exporter run and be scraped meanwhile."""
    if program is None:
        yield
        return
    program.start()
    over = threading.Event()

    def scrape() -> None:
        while not over.wait(1.0):
            program.scrape()

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        time.sleep(2.0)  # starting is not what is measured
        yield
    finally:
        over.set()
        thread.join()
        program.stop()


def interval(values: Sequence[float], generator: random.Random) -> tuple[float, float]:
    """Bounds of 95 % of the medians of resamples."""
    medians = sorted(statistics.median(generator.choices(values, k=len(values))) for _ in range(2000))
    return medians[50], medians[1949]


def main() -> int:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of one run")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    generator = random.Random(1)
    peer = find_peer()
    for kind, template in WORK.items():
        code = calibrated(template, cores, options.seconds)
        times: dict[str, list[float]] = {UNWATCHED: [], OURS: [], THEIRS: []}
        for _ in range(options.rounds):
            order = list(times)
            generator.shuffle(order)
            for setting in order:
                commands = {OURS: [sys.executable, "-P", "-m", "hwsonde_exporter"], THEIRS: [peer]}
                program = Running(setting, commands[setting]) if setting in commands else None
                with watched(program):
                    times[setting].append(run_time(code, cores))
        print(f"{kind}, {cores} processes on {cores} cores, {options.rounds} rounds of about {options.seconds:g} s:")
        for setting in (OURS, THEIRS):
            ratios = [with_it / without for with_it, without in zip(times[setting], times[UNWATCHED], strict=True)]
            low, high = interval(ratios, generator)
            print(
                f"  {setting:<24} {100 * (statistics.median(ratios) - 1):+.2f} % ({100 * (low - 1):+.2f} to {100 * (high - 1):+.2f})"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())

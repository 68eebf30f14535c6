"""What a scrape of the workload collector costs on a host with many control groups.

    python -m benchmarks.workload_cost [--cgroups 500] [--jobs 20]

Makes a tree of version 2 in a folder (so this is parsing and system calls only: the kernel's own rendering comes on top) and
compares a scrape with the naive way, which reads the same files of every control group each time. Prints milliseconds of CPU
and the ratio.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from hwsonde_exporter.collectors._cgroup_files import cpu_rows, io_rows, memory_rows, pressure_rows, thread_rows
from hwsonde_exporter.collectors._cgroups import find_hierarchies, walk
from hwsonde_exporter.collectors.workload import WorkloadCollector
from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.host import Host, Paths
from tests.fixtures import cgroup_trees as trees
from tests.fixtures.make_node192 import write

ROUNDS = 15


def build(folder: Path, cgroups: int, jobs: int) -> Host:
    """Make a node of Slurm with so many jobs of four threads each; the other cgroups are services."""
    tree = trees.root_v2((1e6, 1e5), cgroups) | {
        "proc/1/mountinfo": trees.MOUNTS_V2,
        "proc/1/net/snmp": "Tcp: InSegs\nTcp: 5",
    }
    for job in range(jobs):
        first = 10_000 + 10 * job
        use = trees.Use(1000.0, 10.0, anon=100, processes=[first], further_threads=[first + 1, first + 2, first + 3])
        tree |= trees.group_v2(f"/system.slice/slurmstepd.scope/job_{job}", use)
        for thread in range(first, first + 4):
            tree |= trees.thread(thread, "train", "R", 100, 1.0, 100)
    for service in range(cgroups - jobs):
        tree |= trees.group_v2(f"/system.slice/s{service}.service", trees.Use(1.0))
    write(tree, folder)
    return Host(Paths(folder / "proc", folder / "sys", folder / "root"))


def naive(host: Host) -> int:
    """Find and read every control group; gives the number of values."""

    def read(path: str) -> bytes | None:
        try:
            return host.files.read_once(path)
        except ReadError:
            return None

    values = 0
    for group in walk(find_hierarchies(host), time.monotonic).groups.values():
        rows = (
            cpu_rows(read, group, 100),
            pressure_rows(read, group),
            memory_rows(read, group),
            thread_rows(read, group),
        )
        values += sum(map(len, rows)) + len(io_rows(read, group, lambda _: False))
    return values


def milliseconds(work: Callable[[], object]) -> float:
    """Median CPU time of a call."""
    work()
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return median(times) * 1000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cgroups", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=20)
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        host = build(Path(folder), arguments.cgroups, arguments.jobs)
        collector = WorkloadCollector(host)
        collector.probe()
        series = len(list(collector.collect()))
        ours = milliseconds(lambda: list(collector.collect()))
        finding = milliseconds(lambda: walk(find_hierarchies(host), time.monotonic))
        every = milliseconds(lambda: naive(host))
        print(f"{arguments.cgroups} control groups, {arguments.jobs} jobs, {series} series")
        print(f"a scrape                        {ours:8.2f} ms of CPU, {ours / series * 1000:.1f} us a series")
        print(
            f"finding the control groups      {finding:8.2f} ms, when one came or went and at most a fiftieth of the time"
        )
        print(f"reading every one each time     {every:8.2f} ms")
        print(f"ratio                           {every / ours:8.1f}")
        host.files.close()


if __name__ == "__main__":
    main()

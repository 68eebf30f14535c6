"""What a scrape costs: CPU time of hwsonde-exporter beside the real node_exporter, scraped in the same run.

``python -m benchmarks.exporter_cost [--seconds 120]`` starts both programs in several settings on loopback, scrapes each once a second with
gzip as Prometheus does, and prints CPU time a scrape, series, memory and the ratios:

- *same values*: ours without the sampler and with only the collectors whose values node_exporter has too, against node_exporter with
  only the collectors that have them. This is the comparison that counts; the others show what more costs.
- *default*: both as installed; ours has the 10 Hz sampler.
- *sampler*: ours as installed less ours with ``--sampler.hertz=0``.

CPU time is user and system time of the whole process (proc_pid_stat(5)), in ticks of 10 ms; what happens between scrapes is
included, and divided by the number of scrapes. Exit status 1 if the same values cost more than node_exporter's.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import requests

TICKS = os.sysconf("SC_CLK_TCK")
OURS_SHARED = ("cpu", "memory", "pressure", "network", "network_link", "tcp", "storage", "filesystem", "host")
THEIRS_SHARED = (
    *(
        "cpu",
        "stat",
        "loadavg",
        "meminfo",
        "vmstat",
        "pressure",
        "netdev",
        "netclass",
        "netstat",
        "sockstat",
        "softnet",
    ),
    *("diskstats", "filesystem", "filefd", "timex", "schedstat", "uname", "os", "softirqs"),
)


def free_port() -> int:
    """A port that nobody holds now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def find_peer() -> str:
    """Path of node_exporter; ends the program with one line where there is none."""
    found = shutil.which("prometheus-node-exporter") or shutil.which("node_exporter")
    if found is None:
        raise SystemExit("node_exporter is not installed: apt-get install prometheus-node-exporter")
    return found


@dataclass
class Running:
    """One exporter under measurement."""

    name: str
    command: list[str]
    port: int = field(default_factory=free_port)
    scrapes: int = 0
    cpu: float = 0.0
    series: int = 0
    wire: int = 0

    def start(self) -> None:
        """Start it and wait until it answers."""
        command = [*self.command, f"--web.listen-address=127.0.0.1:{self.port}"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.session = requests.Session()
        for _ in range(200):
            try:
                self.scrape()
            except requests.RequestException:
                time.sleep(0.1)
            else:
                return
        raise SystemExit(f"{self.name} does not answer: {' '.join(command)}")

    def scrape(self) -> None:
        """Scrape it once, as Prometheus does."""
        headers = {"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "gzip"}
        with self.session.get(
            f"http://127.0.0.1:{self.port}/metrics", headers=headers, timeout=10, stream=True
        ) as answer:
            raw = answer.raw.read()
            answer.raise_for_status()
        self.scrapes += 1
        self.wire = len(raw)

    def cpu_seconds(self) -> float:
        """CPU time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident_mib(self) -> float:
        """Resident memory now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def count(self) -> None:
        """Count its series."""
        text = self.session.get(f"http://127.0.0.1:{self.port}/metrics", timeout=10).text
        self.series = sum(1 for line in text.splitlines() if line and not line.startswith("#"))

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(10)


def settings() -> list[Running]:
    """The programs that are compared."""
    ours = [sys.executable, "-P", "-m", "hwsonde_exporter"]
    peer = find_peer()
    known = subprocess.run([peer, "--help"], capture_output=True, text=True, check=False)
    has = known.stdout + known.stderr
    theirs = [f"--collector.{name}" for name in THEIRS_SHARED if re.search(rf"--(\[no-\])?collector\.{name}\s", has)]
    shared = [f"--collector.{name}" for name in OURS_SHARED]
    return [
        Running("ours, same values", [*ours, "--sampler.hertz=0", "--collector.disable-defaults", *shared]),
        Running("node_exporter, same values", [peer, "--collector.disable-defaults", *theirs]),
        Running("ours, default (10 Hz)", ours),
        Running("ours, default, no sampler", [*ours, "--sampler.hertz=0"]),
        Running("node_exporter, default", [peer]),
    ]


def measure(programs: list[Running], seconds: int) -> None:
    """Scrape all of them once a second; each at its own phase."""
    for program in programs:
        program.count()
    for _ in range(5):  # what only the first scrapes cost does not count
        for program in programs:
            program.scrape()
    before = {}
    for program in programs:
        before[program.name], program.scrapes = program.cpu_seconds(), 0
    began = time.monotonic()
    for second in range(seconds):
        for number, program in enumerate(programs):
            due = began + second + number / len(programs)
            time.sleep(max(0.0, due - time.monotonic()))
            program.scrape()
    for program in programs:
        program.cpu = program.cpu_seconds() - before[program.name]


def main() -> int:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=int, default=120)
    seconds = parser.parse_args().seconds
    programs = settings()
    started: list[Running] = []
    try:
        for program in programs:
            program.start()
            started.append(program)
        time.sleep(3)
        measure(programs, seconds)
        print(
            f"{'':<28} {'series':>7} {'CPU ms/scrape':>14} {'% of a core':>12} {'us/series':>10} {'MiB':>6} {'bytes':>7}"
        )
        for one in programs:
            each = one.cpu / one.scrapes * 1e3
            print(
                f"{one.name:<28} {one.series:>7} {each:>14.2f} {one.cpu / seconds * 100:>12.2f} "
                f"{each / one.series * 1e3:>10.2f} {one.resident_mib():>6.0f} {one.wire:>7}"
            )
    finally:
        for program in started:
            program.stop()
    same, peer, full, bare, default = (one.cpu / one.scrapes for one in programs)
    print(f"same values: ours / node_exporter = {same / peer:.2f}")
    print(f"default: ours / node_exporter = {full / default:.2f}; without the sampler {bare / default:.2f}")
    print(f"the 10 Hz sampler: {(full - bare) * 100:.2f} % of a core")
    return int(same > peer)


if __name__ == "__main__":
    sys.exit(main())

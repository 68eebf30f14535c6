"""What NVIDIA's GPUs cost the exporter, and what their faults cost a scrape; on recorded hosts, without a GPU.

``python -m benchmarks.gpu_cost [--seconds 60] [--scrapes 10000] [--only cpu,memory,faults,hosts]`` prints four tables:

- *cpu*: CPU time of the exporter and of its NVML worker with one and with eight GPUs, scraped once a second, with the sampler at 10 Hz and
  without; only the collectors of GPUs run. The worker's share holds the stand-in for the library, which answers quicker than a driver.
- *memory*: resident memory of the exporter after so many scrapes, as fast as they go, and after as many again; of the worker after as
  many requests.
- *faults*: for each fault that a test injects how many series are lost, how long a scrape takes against the healthy host, for how
  long the other GPUs give nothing new at the longest, and how long until everything is back. ``noticed`` is the time until the
  first scrape that shows the fault.
- *hosts*: metric types and series of each recorded host, and what promtool says.

Exit status 1 if memory grows by more than a mebibyte, a fault makes scrapes three times as slow, or promtool finds something.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from benchmarks.exporter_cost import Running
from hwsonde_exporter.nvml import quarantine
from hwsonde_exporter.nvml.client import Client, NvmlSettings
from hwsonde_exporter.nvml.groups import GROUPS
from tests.exporter.nvml_hosts.gpu_host import GPU_KINDS, GpuHost, Series, kernel_files, of, one, parsed, running
from tests.exporter.nvml_hosts.test_faults_end_to_end import CASES, GPUS, NOT_ALWAYS, four_gpus, readings, settled
from tests.exporter.nvml_hosts.test_golden_hosts import base, complete
from tests.nvml_shim.control import Control, Fault
from tests.nvml_shim.recording import load, names
from tests.nvml_shim.shim_host import ShimHost
from tests.nvml_shim.unkillable import HOLDERS

TICKS = os.sysconf("SC_CLK_TCK")
PERIOD = 1.0
DEADLINE = 0.5
# Faults that hang are tried again after so many seconds, not after half a minute.
TRIED_AGAIN = 2.0
LIMIT_MIB = 1.0
LIMIT_SLOWER = 3.0


def cpu_seconds(process: int) -> float:
    """CPU time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mib(process: int) -> float:
    """Resident memory of a process now."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def of_h200(gpus: int) -> dict[str, Any]:
    """The large host with so many of its GPUs."""
    recording = load("h200")
    return {**recording, "devices": recording["devices"][:gpus]}


@contextmanager
def serving(gpus: int, hertz: float) -> Iterator[tuple[Running, ShimHost]]:
    """The program itself on a recorded host, with no other collectors than those of GPUs."""
    with tempfile.TemporaryDirectory() as folder:
        shim = ShimHost(of_h200(gpus), Path(folder, "nvml"))
        paths = kernel_files(Path(folder, "host"), shim.recording)
        program = Running(
            f"{gpus} GPUs, {hertz:g} Hz",
            [
                sys.executable, "-P", "-m", "hwsonde_exporter", "--collector.disable-defaults",
                *(f"--collector.{name}" for name in sorted(GPU_KINDS)), f"--sampler.hertz={hertz:g}", f"--nvml.library={shim.library}",
                f"--path.procfs={paths.procfs}", f"--path.sysfs={paths.sysfs}", f"--path.rootfs={paths.rootfs}",
            ],
        )  # fmt: skip
        program.start()
        try:
            time.sleep(5)
            program.count()
            yield program, shim
        finally:
            program.stop()


def cpu(seconds: int) -> None:
    """Print CPU time of both processes."""
    print(f"\n{'':<16} {'series':>7} {'exporter %':>11} {'worker %':>9} {'exporter MiB':>13} {'worker MiB':>11}")
    for gpus in (1, 8):
        for hertz in (10.0, 0.0):
            with serving(gpus, hertz) as (program, shim):
                processes = (program.process.pid, shim.control.last_process)
                before = [cpu_seconds(process) for process in processes]
                began = time.monotonic()
                missed = 0
                for second in range(1, seconds + 1):
                    time.sleep(max(0.0, began + second - time.monotonic()))
                    try:
                        program.scrape()
                    except requests.RequestException:  # a machine on which others take all the time
                        missed += 1
                passed = time.monotonic() - began
                shares = [
                    100 * (cpu_seconds(process) - start) / passed
                    for process, start in zip(processes, before, strict=True)
                ]
                sizes = [resident_mib(process) for process in processes]
                print(
                    f"{program.name:<16} {program.series:>7} {shares[0]:>11.2f} {shares[1]:>9.2f} {sizes[0]:>13.1f} {sizes[1]:>11.1f}"
                    f"{f'  ({missed} scrapes missed)' if missed else ''}",
                    flush=True,
                )


def memory(scrapes: int) -> bool:
    """Print memory before and after many scrapes and requests; gives whether it stays."""
    grown = []
    with serving(8, 10.0) as (program, _):
        # What threads and the allocator take once, they take within the first thousands.
        for _number in range(scrapes):
            program.scrape()
        before = resident_mib(program.process.pid)
        for _number in range(scrapes):
            program.scrape()
        after = resident_mib(program.process.pid)
        grown.append(after - before)
        print(f"\nexporter: {before:.1f} MiB after {scrapes} scrapes of 8 GPUs, {after:.1f} MiB after as many again")
    with tempfile.TemporaryDirectory() as folder:
        shim = ShimHost(of_h200(1), Path(folder))
        client = Client(NvmlSettings(library=shim.library, deadline=10.0))
        groups = (*GROUPS, "samples")
        for _number in range(scrapes // 10):
            client.collect(groups)
        before = resident_mib(shim.control.last_process)
        for _number in range(scrapes):
            client.collect(groups)
        after = resident_mib(shim.control.last_process)
        client.stop()
        grown.append(after - before)
        print(f"worker: {before:.1f} MiB, after {scrapes} requests for every group {after:.1f} MiB")
    return max(grown) <= LIMIT_MIB


# ---- faults --------------------------------------------------------------------------------------------------------


def hanging(function: str = "*") -> Callable[[Control], object]:
    """A fault that lets calls of one GPU hang."""
    return lambda control: control.inject(Fault(device=2, function=function, hang="asleep"))


def hangs() -> dict[str, tuple[Callable[[Control], object], Callable[[Control], object]]]:
    """Faults that end the worker: what makes and what ends them."""
    return {
        "one group hangs": (hanging("nvmlDeviceGetClockInfo"), Control.heal),
        "a GPU hangs": (hanging(), Control.heal),
        "worker killed": (lambda control: os.kill(control.last_process, 9), lambda _: None),
    }


class Watch:
    """Scrapes all the time and notes how long each scrape takes, and how long each of some GPUs gives nothing new."""

    def __init__(self, host: GpuHost, gpus: set[str]) -> None:
        self.host = host
        self.gpus = gpus
        self.seconds: list[float] = []
        self.gap = 0.0
        self.least = 10**9
        self._seen: dict[str, tuple[float, float]] = {}

    def look(self) -> Series:
        """One scrape."""
        began = time.perf_counter()
        text = self.host.text()
        now = time.perf_counter()
        self.seconds.append(now - began)
        series = parsed(text)
        self.least = min(self.least, len(readings(series)))
        for gpu in self.gpus:
            joules = one(series, "hwsonde_gpu_energy_joules_total", gpu=gpu)
            changed, known = self._seen.get(gpu, (now, -1.0))
            self.gap = max(self.gap, now - changed)
            if joules is not None and joules != known:
                self._seen[gpu] = (now, joules)
        time.sleep(0.05)
        return series

    def until(self, condition: Callable[[Series], object], seconds: float = 60.0) -> float:
        """Look until a condition holds; gives how long that took, or the limit."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            if condition(self.look()):
                break
        return time.monotonic() - began

    def median(self) -> float:
        """Median time of the scrapes."""
        return statistics.median(self.seconds)


def try_fault(
    host: GpuHost, inject: Callable[[Control], object], heal: Callable[[Control], object], spared: set[str]
) -> tuple[float, str]:
    """One fault: how much slower scrapes are, and its line of the table."""
    before = settled(host)
    wanted = {key for key in readings(before) if key[0] not in NOT_ALWAYS}
    healthy = Watch(host, spared)
    end = time.monotonic() + 3 * PERIOD
    healthy.until(lambda _: time.monotonic() > end)
    restarts = sum(of(before, "hwsonde_gpu_nvml_restarts_total").values())
    sick = Watch(host, spared)
    inject(host.control)
    noticed = sick.until(
        lambda series: (
            not wanted <= readings(series).keys()
            or sum(of(series, "hwsonde_gpu_nvml_restarts_total").values()) > restarts
        ),
        5.0,
    )
    end = time.monotonic() + 4 * PERIOD
    sick.until(lambda _: time.monotonic() > end)
    heal(host.control)
    healed = Watch(host, spared).until(lambda series: wanted <= readings(series).keys())
    slower = sick.median() / healthy.median()
    lost = len(readings(before)) - sick.least
    line = f"{lost:>7} {noticed:>9.2f} {slower:>9.2f} {1e3 * max(sick.seconds):>11.1f} {sick.gap:>8.2f} {healed:>8.2f}"
    return slower, line


def faults() -> bool:
    """Print what each fault costs; gives whether scrapes stay as they are."""
    quarantine._FIRST_SECONDS = TRIED_AGAIN  # noqa: SLF001  (the healing of a hang is to be seen within a minute)
    print(
        f"\n{'fault':<22} {'lost':>7} {'noticed s':>9} {'scrape x':>9} {'longest ms':>11} {'gap s':>8} {'healed s':>8}"
    )
    worst = 0.0

    def run(
        name: str, inject: Callable[[Control], object], heal: Callable[[Control], object], spared: set[str]
    ) -> None:
        nonlocal worst
        with (
            tempfile.TemporaryDirectory() as folder,
            running(four_gpus(), Path(folder), deadline=DEADLINE, period=PERIOD) as host,
        ):
            slower, line = try_fault(host, inject, heal, spared)
        worst = max(worst, slower)
        print(f"{name:<22} {line}", flush=True)

    for name, case in CASES.items():
        touched = {gpu for gpu, metrics in case.lost.items() if metrics & {"*", "energy_joules_total"}}
        run(name, case.inject, case.heal, set(GPUS) - touched)
    for name, (inject, heal) in hangs().items():
        run(name, inject, heal, set(GPUS) - {"2"})
    with tempfile.TemporaryDirectory() as folder:
        held: dict[str, Any] = {}

        def hold(control: Control) -> None:
            held["it"] = HOLDERS["told"](control, "nvmlDeviceGetClockInfo", Path(folder))
            held["release"] = held["it"].__enter__()

        run("worker cannot be killed", hold, lambda _: held["release"](), set())
    return worst < LIMIT_SLOWER


# ---- hosts ---------------------------------------------------------------------------------------------------------


def hosts() -> bool:
    """Print types and series of each recorded host; gives whether promtool has nothing to say."""
    promtool = shutil.which("promtool")
    print(f"\n{'host':<14} {'GPU types':>10} {'GPU series':>11} {'promtool':>9}")
    sound = True
    for name in names():
        with (
            tempfile.TemporaryDirectory() as folder,
            running(name, Path(folder), fixed=21.3, base=base(name), hertz=10.0) as host,
        ):
            text = complete(name, host)
        series = [key for key in parsed(text) if key[0].startswith(("hwsonde_gpu_", "hwsonde_workload_gpu_"))]
        types = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE hwsonde_") and "gpu" in line}
        verdict = "not here"
        if promtool is not None:
            done = subprocess.run(
                [promtool, "check", "metrics"], input=text.encode(), capture_output=True, timeout=60, check=False
            )
            said = (done.stdout + done.stderr).decode().strip()
            verdict = "ok" if not done.returncode and not said else said.splitlines()[0]
            sound = sound and verdict == "ok"
        print(f"{name:<14} {len(types):>10} {len(series):>11} {verdict:>9}", flush=True)
    return sound


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--scrapes", type=int, default=10_000)
    parser.add_argument("--only", default="cpu,memory,faults,hosts")
    options = parser.parse_args()
    chosen = set(options.only.split(","))
    good = True
    if "cpu" in chosen:
        cpu(options.seconds)
    if "memory" in chosen:
        good = memory(options.scrapes) and good
    if "faults" in chosen:
        good = faults() and good
    if "hosts" in chosen:
        good = hosts() and good
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())

"""The training host of the pictures: the fixture host node192, alive, with eight GPUs that answer from a recording."""

from __future__ import annotations

import math
import shutil
import threading
import time
from pathlib import Path

import numpy as np

from tests.nvml_shim.shim_host import ShimHost
from tests.pictures.growing import GrowingFile, growing_files
from tests.pictures.hot_gpu import HotGpu, recorded

TEMPLATE = Path(__file__).resolve().parents[1] / "fixtures" / "hosts" / "node192"
# The sampler looks ten times a second: what it looks at must move more often than that; the rest every so manieth time.
TICK, SELDOM = 0.04, 10
# How old the template's counters are, in seconds.
UPTIME = 864_000
HERTZ = 100
# The rhythm of a training: a long wave, by so much, of so many seconds.
RHYTHM = (0.1, 47.0)
# The template's ports are nearly idle; a training fills a good part of them.
RDMA = 10.0
FAST = ("pressure/cpu", "pressure/memory", "pressure/io", "1/net/dev", "1/net/snmp")
SLOW = ("schedstat", "softirqs", "vmstat", "diskstats", "1/net/netstat")
MOVING = frozenset({b"MemFree", b"MemAvailable", b"Cached", b"AnonPages", b"Dirty", b"Writeback"})
LOAD = (110.0, 3.0)


class TrainingHost:
    """Writes the kernel files of a host that trains, from `start` to `stop`.

    Parameters
    ----------
    folder
        An empty folder. The kernel files come below ``node192``, by which name the tests' answers beside files know the host.
    seed
        Of the noise.

    Attributes
    ----------
    gpu
        The GPU whose cooling may fail.
    shim
        The library that the GPUs answer from.
    """

    def __init__(self, folder: Path, seed: int = 11) -> None:
        self.folder = folder / TEMPLATE.name
        shutil.copytree(TEMPLATE, self.folder, symlinks=True)
        _mend(self.folder)
        self.shim = ShimHost(recorded(), folder / "nvml")
        self.gpu = HotGpu(self.shim.control)
        self._random = np.random.default_rng(seed)
        _set_driver(self.folder, self.shim.recording["system"]["nvmlSystemGetDriverVersion"])
        proc = self.folder / "proc"
        self._fast, self._slow = (
            [GrowingFile(proc / name, UPTIME, self._random) for name in names] for names in (FAST, SLOW)
        )
        ports = sorted((self.folder / "sys" / "class" / "infiniband").glob("*/ports/*/*counters/*"))
        self._ports = growing_files(ports, UPTIME, self._random)
        self._stat = Stat(proc / "stat", self._random)
        self._meminfo = GrowingFile(proc / "meminfo", UPTIME, self._random)
        self._memory = (proc / "meminfo").read_bytes()
        self._loadavg = GrowingFile(proc / "loadavg", UPTIME, self._random)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="training host", daemon=True)

    @property
    def flags(self) -> tuple[str, ...]:
        """What makes an exporter read this host."""
        kinds = {"procfs": "proc", "sysfs": "sys", "rootfs": "root"}
        paths = tuple(f"--path.{kind}={self.folder / name}" for kind, name in kinds.items())
        return (*paths, f"--nvml.library={self.shim.library}")

    def start(self) -> None:
        """Begin to live."""
        self._thread.start()

    def stop(self) -> None:
        """End, and leave the files as they are."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(5)
        for file in (*self._fast, *self._slow, *self._ports, self._stat, self._meminfo, self._loadavg):
            file.close()

    def _run(self) -> None:
        before = began = time.monotonic()
        seldom, ticks = began, 0
        while not self._over.wait(TICK):
            now = time.monotonic()
            self.tick(now - before, now - began)
            before, ticks = now, ticks + 1
            if ticks % SELDOM == 0:
                self.tick_slow(now - seldom, now - began)
                seldom = now

    def _factor(self, since: float) -> float:
        """How fast the training is, ``since`` seconds after the start: all ranks wait for the slowest."""
        height, period = RHYTHM
        return self.gpu.speed * (1 + height * math.sin(2 * math.pi * since / period))

    def tick(self, seconds: float, since: float) -> None:
        """Let some time pass for what is looked at often."""
        factor = self._factor(since)
        for file in self._fast:
            file.tick(seconds, factor)
        self._stat.tick(seconds, factor)

    def tick_slow(self, seconds: float, since: float) -> None:
        """Let some time pass for the rest."""
        factor = self._factor(since)
        for file in self._slow:
            file.tick(seconds, factor)
        for port in self._ports:
            port.tick(seconds, RDMA * factor)
        self._meminfo.put(b"".join(self._moved(line) for line in self._memory.splitlines(keepends=True)))
        loads = self._random.normal(*LOAD, 3)
        self._loadavg.put(b"%.2f %.2f %.2f 118/9204 40118220\n" % tuple(loads))

    def _moved(self, line: bytes) -> bytes:
        name, rest = line.split(b":", 1)
        if name not in MOVING:
            return line
        return b"%s: %16d kB\n" % (name, int(int(rest.split()[0]) * self._random.normal(1, 0.002)))


class Stat(GrowingFile):
    """``/proc/stat``: each processor is charged for the time that passes, no more and no less; the first row is their sum."""

    def __init__(self, path: Path, random: np.random.Generator) -> None:
        super().__init__(path, UPTIME, random, every=True)
        rows = [line.split() for line in path.read_bytes().splitlines() if line.startswith(b"cpu")]
        times = np.array([row[1:] for row in rows[1:]], dtype=float)
        self._shares = times / times.sum(axis=1, keepdims=True)
        self._owed = np.zeros_like(times)
        self._charged = len(rows) * times.shape[1]
        self._noise = random

    def tick(self, seconds: float, factor: float = 1.0) -> None:
        """Let time pass, and write the file anew."""
        before = self.growing.values[: self._charged].copy()
        self.growing.grow(seconds, factor)
        noisy = self._shares * self._noise.normal(1, 0.08, self._shares.shape).clip(0.5, 1.5)
        self._owed += noisy / noisy.sum(axis=1, keepdims=True) * seconds * HERTZ
        charged = np.floor(self._owed).astype(np.int64)
        self._owed -= charged
        self.growing.values[: self._charged] = before + np.vstack([charged.sum(axis=0), charged]).ravel()
        self.put(self.growing.text())


def _mend(folder: Path) -> None:
    """Put right what is wrong with the template, which is there to be ill: bad cables, a fan, a slot with half of its lanes."""
    for ill, well in (("mlx5_2", "mlx5_1"), ("mlx5_3", "mlx5_1"), ("mlx5_5", "mlx5_6")):
        source, target = (folder / "sys/class/infiniband" / name / "ports/1" for name in (well, ill))
        for path in source.rglob("*"):
            if path.is_file():
                shutil.copyfile(path, target / path.relative_to(source))
    for name in ("operstate", "carrier", "speed", "duplex"):
        shutil.copyfile(folder / "sys/class/net/ib1" / name, folder / "sys/class/net/ib2" / name)
    for alarm in (folder / "sys/devices").rglob("fan*_alarm"):
        alarm.write_text("0\n", encoding="ascii")
    for current in (folder / "sys/devices").rglob("current_link_width"):
        shutil.copyfile(current.with_name("max_link_width"), current)


def _set_driver(folder: Path, version: str) -> None:
    """Let the kernel's files tell of the driver that the recording is of."""
    module, told = folder / "sys" / "module" / "nvidia" / "version", folder / "proc" / "driver" / "nvidia" / "version"
    before = module.read_text(encoding="utf-8").strip()
    for path in (module, told):
        path.write_text(path.read_text(encoding="utf-8").replace(before, version), encoding="utf-8")

"""A host with GPUs, end to end: a recorded NVML, kernel files that fit it, and the exporter that reads both."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from prometheus_client.parser import text_string_to_metric_families

from hwsonde_exporter.cell import Clocks
from hwsonde_exporter.exporter import Exporter, ExporterSettings
from hwsonde_exporter.exposition import render
from hwsonde_exporter.host import Paths
from hwsonde_exporter.nvml import supervisor
from hwsonde_exporter.nvml.client import NvmlSettings
from hwsonde_exporter.registry import load_collectors
from hwsonde_exporter.runner import RunnerSettings
from tests.nvml_shim.shim_host import ShimHost

HOSTS = Path(__file__).parents[2] / "fixtures" / "hosts"
GPU_KINDS = {name: kind for name, kind in load_collectors().items() if name.startswith("gpu")}
CLOCKS = Clocks(time.monotonic, time.time)
# How long a scrape would wait for a collector that hangs.
TIMEOUT = 30.0

Labels = frozenset[tuple[str, str]]
Series = dict[tuple[str, Labels], float]


def kernel_files(folder: Path, recording: Mapping[str, Any], base: str | None = None) -> Paths:
    """Kernel files that tell of a recording's driver and GPUs; the rest is that of a fixture host, or nothing."""
    proc, sys = folder / "proc", folder / "sys"
    for place, name in ((proc, "proc"), (sys, "sys")):
        place.mkdir(parents=True)
        if base is not None:
            for entry in (HOSTS / base / name).iterdir():
                if (name, entry.name) != ("proc", "driver"):
                    (place / entry.name).symlink_to(entry)
    driver = proc / "driver" / "nvidia"
    driver.mkdir(parents=True)
    version = recording["system"]["nvmlSystemGetDriverVersion"]
    (driver / "version").write_text(
        f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Tue Mar  5 22:23:56 UTC 2024\n"
    )
    for number, device in enumerate(recording["devices"]):
        calls = device["calls"]
        address = calls["nvmlDeviceGetPciInfo_v3"]["busId"].lower().removeprefix("0000")
        information = driver / "gpus" / address
        information.mkdir(parents=True)
        lines = (
            f"Model: \t\t {calls['nvmlDeviceGetName']}",
            f"GPU UUID: \t {calls['nvmlDeviceGetUUID']}",
            f"Device Minor: \t {number}",
        )
        (information / "information").write_text("\n".join(lines) + "\n")
        if base is None:
            files = sys / "bus/pci/devices" / address
            files.mkdir(parents=True)
            for name, content in (
                ("vendor", "0x10de"),
                ("device", "0x2335"),
                ("class", "0x030200"),
                ("numa_node", "0"),
            ):
                (files / name).write_text(f"{content}\n")
    return Paths(proc, sys, folder)


class GpuHost:
    """A running exporter on a recorded host.

    Attributes
    ----------
    shim
        The recorded host; ``shim.control`` injects faults.
    exporter
        The exporter.
    """

    def __init__(self, shim: ShimHost, exporter: Exporter) -> None:
        self.shim = shim
        self.control = shim.control
        self.exporter = exporter

    def text(self) -> str:
        """One scrape."""
        return render(self.exporter.scrape()).decode()

    def timed(self) -> tuple[Series, float]:
        """One scrape, and how many seconds it took."""
        began = time.perf_counter()
        text = self.text()
        seconds = time.perf_counter() - began
        return parsed(text), seconds

    def series(self) -> Series:
        """Series of one scrape."""
        return parsed(self.text())

    def wait(
        self, condition: Callable[[Series], object], seconds: float = 60.0, *, anew: bool = False
    ) -> tuple[Series, float]:
        """The first scrape that fulfils a condition, and how many seconds it took until then.

        Each collector reads at times of its own, so what fulfils the condition may have been read later than the rest. ``anew``
        asks for a scrape all of which was read after this call began.
        """
        began, moment = time.monotonic(), time.time()
        while True:
            whole = not anew or self._read_since(moment)
            found = self.series()
            if whole and condition(found):
                return found, time.monotonic() - began
            if time.monotonic() - began > seconds:
                raise AssertionError(f"it did not come about in {seconds} s")
            time.sleep(0.05)

    def renewed(self) -> Series:
        """A scrape all of which was read after this call began."""
        return self.wait(lambda _: True, anew=True)[0]

    def _read_since(self, moment: float) -> bool:
        """Whether each collector that runs in the background began its latest run after a Unix time."""
        return all(
            state.last_success is not None
            and state.duration is not None
            and state.last_success - state.duration >= moment
            for state in self.exporter.states()
            if state.available and state.period is not None
        )


def parsed(text: str) -> Series:
    """Series of an exposition by name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def of(series: Series, name: str, **labels: str) -> dict[Labels, float]:
    """Series of a metric that have these labels, by all of their labels."""
    wanted = labels.items()
    return {key: value for (found, key), value in series.items() if found == name and wanted <= dict(key).items()}


def one(series: Series, name: str, **labels: str) -> float | None:
    """Value of the only series of a metric that has these labels, or None."""
    found = of(series, name, **labels)
    assert len(found) <= 1, found
    return next(iter(found.values()), None)


def sound(series: Series) -> bool:
    """Whether every GPU answers and nothing of it is left out."""
    return set(gpus_up(series).values()) == {1} and not of(series, "hwsonde_gpu_nvml_skipped")


def gpus_up(series: Series) -> dict[str, float]:
    """Whether each GPU answers, by its label."""
    return {dict(labels)["gpu"]: value for labels, value in of(series, "hwsonde_gpu_up").items()}


def _hurried(kind: Any, period: float | None) -> Any:
    if period is None or kind.period is None or kind.period <= period:
        return kind
    return type(kind.__name__, (kind,), {"period": period})


@contextmanager
def running(
    recording: str | Mapping[str, Any],
    folder: Path,
    *,
    fixed: float | None = None,
    hertz: float = 0.0,
    deadline: float = 2.0,
    kinds: Collection[str] = tuple(GPU_KINDS),
    base: str | None = None,
    period: float | None = None,
    settle: bool = True,
    prepare: Callable[[ShimHost], object] = lambda _: None,
    captured: Paths | None = None,
) -> Iterator[GpuHost]:
    """An exporter on a recorded host.

    ``prepare`` may inject faults before it starts; ``period`` is the longest period of any collector, in seconds. ``captured`` are
    kernel files to take in place of those that are made to fit the recording.
    """
    shim = ShimHost(recording, folder / "nvml", fixed)
    prepare(shim)
    paths = captured or kernel_files(folder / "host", shim.recording, base)
    chosen = {name: _hurried(kind, period) for name, kind in load_collectors().items() if name in kinds}
    settings = ExporterSettings(
        RunnerSettings(frozenset(chosen), timeout=TIMEOUT),
        hertz=hertz,
        nvml=NvmlSettings(library=shim.library, deadline=deadline, hertz=hertz),
    )
    exporter = Exporter(chosen, paths, settings, CLOCKS)
    # A collector that does not wait for a worker which starts has nothing to tell, and how long the start takes is this machine's affair.
    with patch.object(supervisor, "_PATIENCE_SECONDS", TIMEOUT):
        exporter.start()
        try:
            if settle:
                exporter.settle(60.0)
            yield GpuHost(shim, exporter)
        finally:
            exporter.stop()

"""A stretch of history of made-up hosts, as ticks, as an archive, and as a Prometheus would give it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from hwsonde_detector.config import Config, load_config
from hwsonde_detector.sources.archive import ArchiveRecorder
from hwsonde_detector.sources.base import Read
from hwsonde_detector.types import SampleBatch, Series
from tests.detector.sources.answers import answer
from tests.detector.sources.server import Behaviour, Handler
from tests.detector.worker.hosts import CHANNELS, Fault, healthy, rates

START_MS = 1_793_491_200_000  # 2026-11-01T00:00:00Z
START = "2026-11-01T00:00:00Z"
Ticks = list[tuple[SampleBatch, int]]

PROFILE = "prefix: m_\nmetrics:\n" + "".join(
    f"  - {{name: m_{name}_total, kind: counter, subsystem: {name.split('_')[0]}, scale: {{floor: 0.5}}, unit: bytes/s}}\n"
    for name in CHANNELS
)
CONFIG = """
profiles: [./made-up.yaml]
source: {url: "URL", selector: "", history: 5m, connect_timeout: 2s, read_timeout: 20s}
learning: {first_rows: 40, calibrated_rows: 120, memory_rows: 600}
detectors: {members: [zscore, extremes], trees: 3}
episodes: {settle_rows: 5}
"""

FAULT_FROM, FAULT_TO = 500, 540
SECONDS = 700


def storage_fault(name: str, second: int, value: float) -> float:
    return value * 6 if FAULT_FROM <= second < FAULT_TO and name.startswith("storage") else value


def at(second: float) -> str:
    """RFC 3339 of a second of the history."""
    minute, rest = divmod(second, 60)
    return f"2026-11-01T00:{int(minute):02d}:{rest:06.3f}Z"


def config(folder: Path, url: str = "http://127.0.0.1:1", more: str = "") -> Config:
    """The configuration, whose profile lies in the folder."""
    (folder / "made-up.yaml").write_text(PROFILE)
    path = folder / "detector.yml"
    path.write_text(CONFIG.replace("URL", url) + more)
    return load_config(path)


class History:
    """Counters of several hosts, scraped once a second; ``faults`` by host."""

    def __init__(
        self, seconds: int = SECONDS, faults: dict[str, Fault] | None = None, hosts: Sequence[str] = ("n1", "n2")
    ) -> None:
        faults = {"n1": storage_fault} if faults is None else faults
        named = []
        for number, host in enumerate(hosts):
            made = rates(seconds, seed=7 + number, fault=faults.get(host, healthy))
            target = (("cluster", "lab"), ("instance", f"{host}:9880"), ("job", "hwsonde-exporter"), ("node", host))
            named += [(Series(f"m_{name}_total", target), np.cumsum(values)) for name, values in made.items()]
        named.sort(key=lambda pair: pair[0])
        self.series = tuple(one for one, _ in named)
        self.totals = np.array([total for _, total in named])
        self.times = START_MS + 1000 * np.arange(seconds, dtype=np.int64)

    def batch(self, since_ms: int, until_ms: int) -> SampleBatch:
        """Samples later than ``since_ms``, up to ``until_ms``."""
        kept = np.flatnonzero((self.times > since_ms) & (self.times <= until_ms))
        if not len(kept):
            return SampleBatch.empty()
        count = len(self.series)
        offsets = np.arange(count + 1, dtype=np.int64) * len(kept)
        return SampleBatch(self.series, offsets, np.tile(self.times[kept], count), self.totals[:, kept].ravel())

    def ticks(self, every_ms: int = 1000) -> Ticks:
        """As the service reads them: soon after each scrape."""
        moments = range(START_MS + 150, int(self.times[-1]) + 151, every_ms)
        return [(self.batch(moment - every_ms, moment), moment) for moment in moments]

    def archive(self, path: Path, every_ms: int = 1000) -> Path:
        """The same as the service records it."""
        with ArchiveRecorder(path) as recorder:
            recorder.record_start(None, {})
            for batch, now_ms in self.ticks(every_ms):
                recorder.record(now_ms, Read(batch, (), raw_of(batch), now_ms - every_ms))
        return path

    def openmetrics(self) -> str:
        """The same as ``promtool tsdb create-blocks-from openmetrics`` reads it."""
        lines: list[str] = []
        for name in sorted({one.name for one in self.series}):
            lines.append(f"# TYPE {name.removesuffix('_total')} counter")
            for one, totals in zip(self.series, self.totals, strict=True):
                if one.name == name:
                    labels = ",".join(f'{key}="{value}"' for key, value in one.labels)
                    lines += [
                        f"{name}{{{labels}}} {value!r} {ms / 1000}"
                        for ms, value in zip(self.times.tolist(), totals.tolist(), strict=True)
                    ]
        return "\n".join([*lines, "# EOF", ""])

    def served(self, before: Callable[[Handler], bool] = lambda handler: False) -> Behaviour:
        """A server that gives raw ranges of it; ``before`` may answer in its place and then says True."""

        def behave(handler: Handler) -> None:
            if not before(handler):
                form = handler.server.asked[-1].form
                until = round(float(form["time"]) * 1000)
                length = 1000 * int(form["query"].rsplit("[")[1][:-2])
                handler.reply(raw_of(self.batch(until - length, until)))

        return behave


def raw_of(batch: SampleBatch) -> bytes:
    series = []
    for index, one in enumerate(batch.series):
        part = slice(batch.offsets[index], batch.offsets[index + 1])
        pairs = zip(batch.times[part].tolist(), batch.values[part].tolist(), strict=True)
        series.append(((("__name__", one.name), *one.labels), list(pairs)))
    return answer(series)


def labels_file(folder: Path, *rows: tuple[str, float, float, str, str]) -> Path:
    """A CSV of (host, first second, last second, kind, subsystems)."""
    path = folder / "faults.csv"
    lines = ["entity,start,end,kind,subsystems"]
    lines += [f"{host},{at(start)},{at(end)},{kind},{names}" for host, start, end, kind, names in rows]
    path.write_text("\n".join([*lines, ""]))
    return path


def results(folder: Path) -> dict:
    return json.loads((folder / "backtest.json").read_bytes())

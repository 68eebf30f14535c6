"""Records what Prometheus has scraped, in the detector's own archive format."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

from hwsonde_detector.config import load_profiles
from hwsonde_detector.connect import metric_names
from hwsonde_detector.errors import SourceError
from hwsonde_detector.sources.archive import ArchiveRecorder
from hwsonde_detector.sources.options import SourceOptions
from hwsonde_detector.sources.prometheus import OWN_PREFIXES, PrometheusSource

if TYPE_CHECKING:
    from benchmarks.faults.child import Task

_MOST_BYTES = 1 << 36
# A scrape that took long is stored after its time.
_OVERLAP_MS = 2000
_NAMES_SECONDS = 30.0


def names_at(url: str, selector: str) -> set[str]:
    """Names of all metrics that Prometheus has of the exporters, so that a later profile finds what it wants in the archive."""
    opener = build_opener(ProxyHandler({}))
    query = urlencode({"match[]": f"{{{selector}}}"})
    with opener.open(f"{url}/api/v1/label/__name__/values?{query}", timeout=5) as answer:
        found = json.loads(answer.read())["data"]
    return {name for name in found if not name.startswith(OWN_PREFIXES)}


def capture(task: Task) -> None:
    """Arguments: ``url``, ``selector``, ``archive``, ``profiles`` and ``every_ms``. Slot 0 counts reads, slot 1 samples, slot 2 failures."""
    arguments = task.arguments
    wanted = set(metric_names(load_profiles(arguments["profiles"])))
    end = time.monotonic() + _NAMES_SECONDS
    found: set[str] = set()
    while time.monotonic() < end and task.running():
        time.sleep(1.0)
        try:
            seen = names_at(arguments["url"], arguments["selector"])
        except (OSError, ValueError, KeyError):
            continue
        # Until a scrape brings nothing that the one before had not.
        if found and seen <= found:
            break
        found |= seen
    options = SourceOptions(url=arguments["url"], selector=arguments["selector"], read_timeout_ms=20_000)
    source = PrometheusSource(options, sorted(wanted | found))
    every = int(arguments["every_ms"])
    with ArchiveRecorder(Path(arguments["archive"]), _MOST_BYTES) as recorder:
        task.begin()
        due = time.monotonic()
        since = time.time_ns() // 1_000_000 - every - _OVERLAP_MS
        while task.running() and not recorder.stopped:
            now = time.time_ns() // 1_000_000
            try:
                read = source.read(since, now)
            except SourceError:
                task.meter.add(2, 1)
            else:
                recorder.record(now, read)
                task.meter.add(0, 1)
                task.meter.add(1, read.batch.times.size)
                since = now - _OVERLAP_MS
            due = max(due + every / 1000, time.monotonic())
            while task.running() and (left := due - time.monotonic()) > 0:
                time.sleep(min(left, 0.2))
    source.close()

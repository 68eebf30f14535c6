"""The exporter's own metrics: what its collectors, its scrapes and its process do."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hwsonde_exporter import __version__
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.sampler import SamplerCounts
from hwsonde_exporter.state import State

# The name of this table beside those of the collectors, in ``collect[]`` and ``exclude[]``.
NAME = "exporter"


def _metric(name: str, kind: Kind, text: str, labels: tuple[str, ...] = (), unit: str = "", source: str = "") -> Metric:
    return Metric(f"hwsonde_exporter_{name}", kind, text, labels, unit, "exporter", source)


BUILD_INFO = _metric(
    "build_info",
    Kind.GAUGE,
    "Constant 1 labelled with the exporter's version.",
    ("version", "python_version"),
    source="package",
)
AVAILABLE = _metric(
    "collector_available",
    Kind.GAUGE,
    "Whether a collector can work here (1) or not (0), and why not.",
    ("collector", "reason"),
    source="probe at start, every minute and on SIGHUP",
)
SUCCESS = _metric(
    "collector_success",
    Kind.GAUGE,
    "Whether the collector's latest run succeeded (1) or not (0).",
    ("collector",),
    source="runner",
)
DURATION = _metric(
    "collector_duration_seconds",
    Kind.GAUGE,
    "How long the collector's latest run took.",
    ("collector",),
    "seconds",
    "monotonic clock around the collector",
)
LAST_SUCCESS = _metric(
    "collector_last_success_timestamp_seconds",
    Kind.GAUGE,
    "Unix time at which the values that the collector publishes were read.",
    ("collector",),
    "seconds",
    "wall clock",
)
ERRORS = _metric(
    "collector_errors_total",
    Kind.COUNTER,
    "Collector runs that failed, by reason.",
    ("collector", "reason"),
    source="runner",
)
SERIES = _metric(
    "series",
    Kind.GAUGE,
    "Series that the collector's latest success gave, and those that the fast sampler makes of it.",
    ("collector",),
    source="runner, sampler",
)
DROPPED = _metric(
    "dropped_series_total",
    Kind.COUNTER,
    "Samples left out: beyond the collector's series limit, duplicate, not declared or not a number.",
    ("collector", "reason"),
    source="runner, sampler",
)
REJECTED = _metric(
    "rejected_readings_total",
    Kind.COUNTER,
    "Readings of devices that are left out because they cannot be true; absent before the first.",
    ("collector",),
    source="the collector's ranges",
)
SCRAPES = _metric("scrapes_total", Kind.COUNTER, "Scrapes that were answered with metrics.", source="server")
REFUSED = _metric(
    "scrapes_refused_total", Kind.COUNTER, "Scrapes refused because too many were under way.", source="server"
)
INCOMPLETE = _metric(
    "scrapes_incomplete_total",
    Kind.COUNTER,
    "Scrapes answered without a collector for which they had waited as long as they could.",
    source="runner, X-Prometheus-Scrape-Timeout-Seconds",
)
REQUESTS_REFUSED = _metric(
    "requests_refused_total",
    Kind.COUNTER,
    "Connections and requests that --web.config.file turned away: no sound TLS, no right password, too many tries, too many requests.",
    ("reason",),
    source="server",
)
SCRAPE_DURATION = _metric(
    "scrape_duration_seconds",
    Kind.SUMMARY,
    "Time that collecting took, over the scrapes before this one.",
    (),
    "seconds",
    "monotonic clock",
)
RELOAD = _metric(
    "config_last_reload_successful",
    Kind.GAUGE,
    "Whether the configuration in force is the one that was last read (1) or that one was wrong (0).",
    source="SIGHUP",
)
TICKS = _metric("sampler_ticks_total", Kind.COUNTER, "Ticks of the fast sampler.", source="sampler")
LATE = _metric(
    "sampler_late_ticks_total",
    Kind.COUNTER,
    "Ticks of the fast sampler skipped because it woke too late.",
    source="sampler",
)
SAMPLER_REFUSED = _metric(
    "sampler_dropped_observations_total",
    Kind.COUNTER,
    "Readings that gave no observation: a counter that went backwards, a value that cannot be.",
    source="sampler",
)
SAMPLER_ERRORS = _metric(
    "sampler_errors_total",
    Kind.COUNTER,
    "Ticks in which the fast sampler got nothing from a collector.",
    ("collector",),
    source="sampler",
)
RESIDENT = _metric(
    "process_resident_memory_bytes",
    Kind.GAUGE,
    "Resident memory of the exporter.",
    (),
    "bytes",
    "/proc/self/statm field 2",
)
CPU = _metric(
    "process_cpu_seconds_total",
    Kind.COUNTER,
    "CPU time that the exporter has used, in user and system mode.",
    (),
    "seconds",
    "getrusage",
)
DESCRIPTORS = _metric(
    "process_open_fds", Kind.GAUGE, "File descriptors that the exporter holds open.", (), "", "/proc/self/fd"
)
START = _metric(
    "process_start_time_seconds",
    Kind.GAUGE,
    "Unix time at which the exporter started.",
    (),
    "seconds",
    "wall clock at start",
)

METRICS = (
    BUILD_INFO, AVAILABLE, SUCCESS, DURATION, LAST_SUCCESS, ERRORS, SERIES, DROPPED, REJECTED, SCRAPES, REFUSED, INCOMPLETE, REQUESTS_REFUSED,
    SCRAPE_DURATION, RELOAD,
    TICKS, LATE, SAMPLER_REFUSED, SAMPLER_ERRORS, RESIDENT, CPU, DESCRIPTORS, START,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ScrapeCounts:
    """What the server has done: scrapes answered and refused, seconds that the answers took together, answers
    without a late collector; requests that the listeners turned away, by reason, where they are protected.
    """

    answered: int
    refused: int
    seconds: float
    incomplete: int = 0
    turned_away: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """What the process uses; resident bytes and descriptors are None where /proc does not say."""

    cpu_seconds: float
    resident_bytes: int | None
    descriptors: int | None
    started: float


def read_process(started: float, self_folder: Path = Path("/proc/self")) -> ProcessUse:
    """Read what this process uses; always its own /proc, whatever the configured paths are."""
    resident = descriptors = None
    with suppress(OSError, ValueError, IndexError):
        resident = int((self_folder / "statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError):
        # Less the one that lists them.
        descriptors = len(os.listdir(self_folder / "fd")) - 1  # noqa: PTH208  (iterdir makes a path an entry)
    times = os.times()
    return ProcessUse(times.user + times.system, resident, descriptors, started)


def own_samples(
    states: Iterable[State],
    scrapes: ScrapeCounts,
    sampler: SamplerCounts | None,
    process: ProcessUse,
    *,
    reload_success: bool,
) -> list[Sample]:
    """The exporter's own metrics.

    ``sampler`` is None where it is switched off. A collector that cannot work here has a row that says why, and no other.
    """
    samples = [Sample(BUILD_INFO, (__version__, platform.python_version()), 1), Sample(RELOAD, (), int(reload_success))]
    for state in states:
        samples += _of_collector(state, sampler)
    samples += [
        Sample(SCRAPES, (), scrapes.answered),
        Sample(REFUSED, (), scrapes.refused),
        Sample(INCOMPLETE, (), scrapes.incomplete),
        *(Sample(REQUESTS_REFUSED, (reason,), count) for reason, count in scrapes.turned_away.items()),
        Sample(SCRAPE_DURATION, (), scrapes.seconds, "_sum"),
        Sample(SCRAPE_DURATION, (), scrapes.answered, "_count"),
        Sample(CPU, (), process.cpu_seconds),
        Sample(START, (), process.started),
    ]
    if sampler is not None:
        samples += [
            Sample(TICKS, (), sampler.ticks),
            Sample(LATE, (), sampler.late),
            Sample(SAMPLER_REFUSED, (), sampler.refused),
        ]
        samples += [Sample(SAMPLER_ERRORS, (name,), count) for name, count in sampler.errors.items()]
    if process.resident_bytes is not None:
        samples.append(Sample(RESIDENT, (), process.resident_bytes))
    if process.descriptors is not None:
        samples.append(Sample(DESCRIPTORS, (), process.descriptors))
    return samples


def _of_collector(state: State, sampler: SamplerCounts | None) -> list[Sample]:
    name = (state.name,)
    samples = [Sample(AVAILABLE, (state.name, state.reason), int(state.available))]
    if not state.available:
        return samples
    sampled, dropped = 0, dict(state.dropped)
    if sampler is not None:
        sampled, beyond = sampler.series.get(state.name, 0), sampler.beyond.get(state.name, 0)
        if beyond:
            dropped["limit"] = dropped.get("limit", 0) + beyond
    if state.success is not None:
        samples.append(Sample(SUCCESS, name, int(state.success)))
        samples.append(Sample(SERIES, name, (state.series if state.success else 0) + sampled))
    if state.duration is not None:
        samples.append(Sample(DURATION, name, state.duration))
    if state.last_success is not None:
        samples.append(Sample(LAST_SUCCESS, name, state.last_success))
    samples += [Sample(ERRORS, (state.name, reason), count) for reason, count in state.errors.items()]
    samples += [Sample(DROPPED, (state.name, reason), count) for reason, count in dropped.items()]
    if state.rejected:
        samples.append(Sample(REJECTED, name, state.rejected))
    return samples

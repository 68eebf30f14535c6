"""Faults recorded on a real host, as the series that the exporter would have published of them.

A folder holds NAME.npz with `t` (rows, Unix seconds), `x` (rows, channels), `names` and `cumulative` (channels: is it a counter), and a
meta.json whose `labels` say for each fault its `kind`, acceptable `subsystems`, `start`, `end` and whether it was `effective`.

Names such as `cpu.psi.some` are mapped to the metrics, labels and units of the exporter, so that the shipped profile decides which
channels they make, what these weigh and which subsystem they speak of. What the exporter samples ten times a second is sampled from the rows.
Channels that no metric stands for are left out; those of the workload's own progress (`app.`) are no measurements of the host.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.signals.profiles.rules import Formula, Profile
from hwsonde_detector.types import SampleBatch, Series

Floats: TypeAlias = NDArray[np.float64]
Key: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]

# What the profile calls by another subsystem than who recorded it: the kernel's table of open files is reached through file
# systems, and a process that somebody stopped is no fault of any resource.
OURS = {"fdleak": "storage", "fdleak_fixed": "storage", "stop_train": "workload"}

_DIRECTION = {"rx": "received", "tx": "transmitted"}
_OPERATION = {"rd": "read", "wr": "written"}


@dataclass(frozen=True, slots=True)
class Fault:
    """One injected fault: times in milliseconds, and the subsystems that may be named for it."""

    kind: str
    subsystems: frozenset[str]
    start_ms: int
    end_ms: int
    effective: bool


@dataclass(frozen=True, slots=True)
class Recording:
    """Values of series at times.

    ``times`` is int64 (rows), milliseconds; ``values`` float64 (rows, n) of the n ``series``, which are ascending.
    """

    times: NDArray[np.int64]
    series: tuple[Series, ...]
    values: Floats
    faults: tuple[Fault, ...]

    def thinned(self, apart_ms: int, first: int = 0) -> Recording:
        """Only rows at least so far apart, beginning with row ``first``: a slower scrape of the same host."""
        kept, last = [], None
        for row, time in enumerate(self.times.tolist()):
            if row >= first and (last is None or time - last >= apart_ms):
                kept.append(row)
                last = time
        return Recording(self.times[kept], self.series, self.values[kept], self.faults)

    def batches(self) -> Iterator[tuple[SampleBatch, int]]:
        """Each row as one scrape, with the time of the tick that brings it."""
        offsets = np.arange(len(self.series) + 1, dtype=np.int64)
        for time, row in zip(self.times.tolist(), self.values, strict=True):
            yield SampleBatch(self.series, offsets, np.full(len(row), time, np.int64), row), time


# Pattern of a recorded name, metric, labels (\1 is the pattern's first group) and what a value is multiplied by.
_MAP: tuple[tuple[str, str, dict[str, str], float], ...] = (
    (r"cpu\.psi\.some", "cpu_pressure_waiting_seconds_total", {}, 1e-6),
    # Ticks of a hundredth of a second, of two CPUs.
    (r"cpu\.(cpu\d)\.(user|nice|system|irq|softirq|steal|iowait)", "cpu_seconds_total", {"cpu": r"\1", "mode": r"\2"}, 0.01),
    (r"cpu\.ctxt", "cpu_context_switches_total", {}, 1),
    (r"cpu\.intr", "cpu_interrupts_total", {}, 1),
    (r"cpu\.processes", "cpu_forks_total", {}, 1),
    (r"cpu\.threads", "cpu_threads", {}, 1),
    (r"(?:cpu|net|sto)\.softirq\.(\w+)", "cpu_softirqs_total", {"vector": r"\1"}, 1),
    (r"cpu\.cg\.(\w+)\.usage_(\w+)", "workload_cpu_seconds_total", {"workload": r"\1", "mode": r"\2"}, 1e-9),
    (r"cpu\.cg\.(\w+)\.throttled_time", "workload_cpu_throttled_seconds_total", {"workload": r"\1"}, 1e-9),
    (r"cpu\.cg\.(\w+)\.psi\.some", "workload_pressure_waiting_seconds_total", {"workload": r"\1", "resource": "cpu"}, 1e-6),
    (r"mem\.cg\.(\w+)\.psi\.some", "workload_pressure_waiting_seconds_total", {"workload": r"\1", "resource": "memory"}, 1e-6),
    (r"sto\.cg\.(\w+)\.psi\.some", "workload_pressure_waiting_seconds_total", {"workload": r"\1", "resource": "io"}, 1e-6),
    (r"cpu\.pr\.([a-z]+)(\d?)\.delay", "workload_schedule_waiting_seconds_total", {"workload": r"\1", "n": r"\2"}, 1e-9),
    (r"cpu\.pr\.([a-z]+)(\d?)\.isT", "workload_tasks", {"workload": r"\1", "n": r"\2", "state": "stopped"}, 1),
    (r"sto\.pr\.([a-z]+)(\d?)\.isD", "workload_tasks", {"workload": r"\1", "n": r"\2", "state": "uninterruptible"}, 1),
    (r"mem\.psi\.some", "memory_pressure_waiting_seconds_total", {}, 1e-6),
    (r"mem\.psi\.full", "memory_pressure_stalled_seconds_total", {}, 1e-6),
    (r"mem\.cg\.(\w+)\.rss", "workload_memory_anonymous_bytes", {"workload": r"\1"}, 1),
    (r"mem\.cg\.(\w+)\.failcnt", "workload_memory_limit_events_total", {"workload": r"\1"}, 1),
    (r"mem\.cg\.(\w+)\.pgmajfault", "workload_major_page_faults_total", {"workload": r"\1"}, 1),
    (r"mem\.mi\.AnonPages", "memory_anonymous_bytes", {}, 1024),
    (r"mem\.mi\.MemAvailable", "memory_available_bytes", {}, 1024),
    (r"mem\.mi\.MemFree", "memory_free_bytes", {}, 1024),
    (r"mem\.mi\.Cached", "memory_cached_bytes", {}, 1024),
    (r"mem\.mi\.PageTables", "memory_page_tables_bytes", {}, 1024),
    (r"mem\.mi\.SUnreclaim", "memory_slab_unreclaimable_bytes", {}, 1024),
    (r"mem\.vm\.nr_shmem", "memory_shared_bytes", {}, 4096),
    (r"mem\.vm\.pgscan_(direct|kswapd)", "memory_scanned_pages_total", {"agent": r"\1"}, 1),
    (r"mem\.vm\.pgsteal_(direct|kswapd)", "memory_reclaimed_pages_total", {"agent": r"\1"}, 1),
    (r"mem\.vm\.pgmajfault", "memory_page_faults_total", {"kind": "major"}, 1),
    (r"mem\.vm\.pgfault", "memory_page_faults_total", {"kind": "minor"}, 1),
    (r"mem\.filenr", "storage_file_handles", {"state": "allocated"}, 1),
    (r"net\.dev(\d)\.([rt]x)_bytes", "network_bytes_total", {"device": r"dev\1", "direction": r"\2"}, 1),
    (r"net\.dev(\d)\.([rt]x)_pkts", "network_packets_total", {"device": r"dev\1", "direction": r"\2"}, 1),
    (r"net\.dev(\d)\.([rt]x)_drop", "network_dropped_packets_total", {"device": r"dev\1", "direction": r"\2"}, 1),
    (r"net\.dev(\d)\.([rt]x)_err", "network_errors_total", {"device": r"dev\1", "direction": r"\2"}, 1),
    (r"net\.sock(\d)\.retr", "network_tcp_flow_retransmits_total", {"device": r"dev\1", "remote": r"\1", "kind": "lost"}, 1),
    (r"net\.softnet\.drop", "network_softnet_dropped_packets_total", {}, 1),
    (r"net\.softnet\.proc", "network_softnet_packets_total", {}, 1),
    (r"net\.softnet\.squeeze", "network_softnet_squeezes_total", {}, 1),
    (r"net\.tcp(\d)\.InSegs", "network_tcp_segments_total", {"n": r"\1", "direction": "received"}, 1),
    (r"net\.tcp(\d)\.OutSegs", "network_tcp_segments_total", {"n": r"\1", "direction": "transmitted"}, 1),
    (r"net\.tcp(\d)\.RetransSegs", "network_tcp_retransmitted_segments_total", {"n": r"\1"}, 1),
    (r"net\.tcp(\d)\.InErrs", "network_tcp_receive_errors_total", {"n": r"\1"}, 1),
    (r"net\.tcp(\d)\.OutRsts", "network_tcp_resets_sent_total", {"n": r"\1"}, 1),
    (r"net\.tcp(\d)\.CurrEstab", "network_tcp_connections", {"n": r"\1"}, 1),
    (r"net\.tx(\d)\.TCPFastRetrans", "network_tcp_fast_retransmits_total", {"n": r"\1"}, 1),
    (r"net\.tx(\d)\.TCPSlowStartRetrans", "network_tcp_slow_start_retransmits_total", {"n": r"\1"}, 1),
    (r"net\.tx(\d)\.TCPLostRetransmit", "network_tcp_lost_retransmits_total", {"n": r"\1"}, 1),
    (r"net\.tx(\d)\.TCPSackRecovery", "network_tcp_recoveries_total", {"n": r"\1"}, 1),
    (r"net\.tx(\d)\.TCPTimeouts", "network_tcp_timeouts_total", {"n": r"\1"}, 1),
    (r"net\.tx(\d)\.TCPLossProbes", "network_tcp_loss_probes_total", {"n": r"\1"}, 1),
    (r"net\.tx(\d)\.TCPSACKReorder", "network_tcp_reorderings_total", {"n": r"\1"}, 1),
    (r"net\.tx(\d)\.TCPOFOQueue", "network_tcp_out_of_order_packets_total", {"n": r"\1"}, 1),
    (r"net\.tx(\d)\.TCPAutoCorking", "network_tcp_autocorkings_total", {"n": r"\1"}, 1),
    (r"net\.tx(\d)\.TCP(?:RcvQ|Backlog)Drop", "network_tcp_queue_drops_total", {"n": r"\1"}, 1),
    (r"net\.tx(\d)\.ListenDrops", "network_tcp_listen_drops_total", {"n": r"\1"}, 1),
    (r"net\.tx(\d)\.TCPDSACKRecv", "network_tcp_spurious_retransmits_total", {"n": r"\1"}, 1),
    (r"net\.tx(\d)\.TCPWantZeroWindowAdv", "network_tcp_zero_windows_total", {"n": r"\1"}, 1),
    (r"sto\.psi\.some", "storage_pressure_waiting_seconds_total", {}, 1e-6),
    (r"sto\.psi\.full", "storage_pressure_stalled_seconds_total", {}, 1e-6),
    (r"sto\.cg\.(\w+)\.(rd|wr)_bytes", "workload_io_bytes_total", {"workload": r"\1", "operation": r"\2"}, 1),
    (r"sto\.dsk\.io_ms", "storage_busy_seconds_total", {"device": "disk"}, 1e-3),
    (r"sto\.dsk\.io_wms", "storage_queue_seconds_total", {"device": "disk"}, 1e-3),
    (r"sto\.dsk\.(rd|wr)_ios", "storage_requests_total", {"device": "disk", "operation": r"\1"}, 1),
    (r"sto\.dsk\.(rd|wr)_sec", "storage_bytes_total", {"device": "disk", "operation": r"\1"}, 512),
    (r"sto\.dsk\.(rd|wr)_ms", "storage_request_seconds_total", {"device": "disk", "operation": r"\1"}, 1e-3),
    (r"sto\.mi\.Dirty", "memory_dirty_bytes", {}, 1024),
    (r"sto\.mi\.Writeback", "memory_writeback_bytes", {}, 1024),
    (r"sto\.procs_blocked", "cpu_processes_blocked", {}, 1),
)  # fmt: skip

# Sampled quantities: the recorded name, whether its rate is meant, and what that is multiplied by.
_SAMPLED: tuple[tuple[str, str, dict[str, str], bool, float], ...] = (
    (r"cpu\.procs_running", "cpu_processes_running_sampled", {}, False, 1),
    (r"cpu\.psi\.some", "cpu_pressure_waiting_sampled_ratio", {}, True, 1e-6),
    (r"mem\.psi\.some", "memory_pressure_waiting_sampled_ratio", {}, True, 1e-6),
    (r"sto\.psi\.some", "storage_pressure_waiting_sampled_ratio", {}, True, 1e-6),
    (r"cpu\.cpu\.(user|system|softirq)", "cpu_mode_sampled_ratio", {"mode": r"\1"}, True, 0.005),
    (r"cpu\.processes", "cpu_forks_sampled_per_second", {}, True, 1),
    (r"cpu\.ctxt", "cpu_context_switches_sampled_per_second", {}, True, 1),
    (r"mem\.vm\.pgmajfault", "memory_page_faults_sampled_per_second", {"kind": "major"}, True, 1),
    (r"net\.dev(\d)\.([rt]x)_bytes", "network_throughput_sampled_bytes_per_second", {"device": r"dev\1", "direction": r"\2"}, True, 1),
    (r"sto\.dsk\.io_ms", "storage_busy_sampled_ratio", {"device": "disk"}, True, 1e-3),
    (r"sto\.dsk\.(rd|wr)_sec", "storage_throughput_sampled_bytes_per_second", {"device": "disk", "operation": r"\1"}, True, 512),
    (r"net\.sock(\d)\.rtt", "network_tcp_rtt_seconds", {"device": r"dev\1", "remote": r"\1"}, False, 1e-6),
)  # fmt: skip


def read_recording(folder: Path, profile: Profile) -> Recording:
    """Read a folder.

    Parameters
    ----------
    folder
        With one .npz file and a meta.json.
    profile
        Whose references of sampled quantities are used.

    Raises
    ------
    OSError, KeyError, ValueError
        If a file is missing or of another shape.
    """
    files = sorted(folder.glob("*.npz"))
    if len(files) != 1:
        raise ValueError(f"{folder}: one .npz file and a meta.json are needed")
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    with np.load(files[0]) as archive:
        seconds, x = np.asarray(archive["t"], np.float64), np.asarray(archive["x"], np.float64)
        names = [str(name) for name in archive["names"]]
    columns = dict(sorted(_columns(names, x, seconds, profile)))
    series = [(_series(key), values) for key, values in columns.items()]
    series.sort(key=lambda pair: pair[0])
    faults = tuple(sorted((_fault(label) for label in meta["labels"]), key=lambda fault: fault.start_ms))
    return Recording(
        np.round(seconds * 1000).astype(np.int64),
        tuple(one for one, _ in series),
        np.column_stack([values for _, values in series]),
        faults,
    )


def _fault(label: Mapping[str, Any]) -> Fault:
    kind = str(label["kind"])
    named = {*label["subsystems"], OURS[kind]} if kind in OURS else set(label["subsystems"])
    start, end = (round(1000 * float(label[key])) for key in ("start", "end"))
    return Fault(kind, frozenset(named), start, end, bool(label["effective"]))


def _series(key: Key) -> Series:
    name, labels = key
    target = (("instance", "host:1"), ("job", "recorded"), ("node", "host"))
    return Series(f"hwsonde_{name}", tuple(sorted((*target, *labels))))


def _labels(labels: Mapping[str, str], found: re.Match[str]) -> tuple[tuple[str, str], ...]:
    words = _DIRECTION | _OPERATION
    made = {label: found.expand(text) for label, text in labels.items()}
    return tuple(sorted((label, words.get(value, value).lower()) for label, value in made.items() if value))


def _columns(names: list[str], x: Floats, seconds: Floats, profile: Profile) -> Iterator[tuple[Key, Floats]]:
    """Columns of all metrics; several recorded names that give one series are summed by the profile, as their labels differ."""
    known = dict(zip(names, x.T, strict=True))
    for name, column in known.items():
        for pattern, metric, labels, factor in _MAP:
            if found := re.fullmatch(pattern, name):
                yield (metric, _labels({**labels, **_apart(name, metric)}, found)), column * factor
        for pattern, metric, labels, is_rate, factor in _SAMPLED:
            if found := re.fullmatch(pattern, name):
                values = _rate(column, seconds) if is_rate else column
                yield from _moments(metric, _labels(labels, found), values * factor, profile)
    yield from _derived(known, seconds, profile)


def _apart(name: str, metric: str) -> dict[str, str]:
    """What tells two recorded names of one metric apart where the exporter publishes their sum."""
    return {"part": name.rsplit(".", maxsplit=1)[-1]} if metric == "network_tcp_queue_drops_total" else {}


def _rate(column: Floats, seconds: Floats) -> Floats:
    """Increase a second since the row before; 0 in the first row, and where the recording was cut."""
    passed = np.diff(seconds, prepend=seconds[:1])
    rate = np.diff(column, prepend=column[:1]) / np.where(passed > 0, passed, 1.0)
    return np.where((passed > 0) & (passed < 1.0), np.maximum(rate, 0.0), 0.0)


def _moments(
    metric: str, labels: tuple[tuple[str, str], ...], values: Floats, profile: Profile
) -> Iterator[tuple[Key, Floats]]:
    """Cumulative moments of values that were observed once a row."""
    name = f"hwsonde_{metric}"
    reference = next(
        (rule.reference for rule in profile.rules if rule.formula is Formula.DEVIATION and rule.parts[0].name == f"{name}_sum"), 0.0
    )  # fmt: skip
    yield (f"{metric}_sum", labels), np.cumsum(values)
    yield (f"{metric}_count", labels), np.arange(1.0, len(values) + 1)
    yield (f"{metric}_squared_deviation_total", labels), np.cumsum((values - reference) ** 2)


def _derived(known: Mapping[str, Floats], seconds: Floats, profile: Profile) -> Iterator[tuple[Key, Floats]]:
    """What the exporter computes itself: the share of time in which CPUs were busy, the CPU time outside of workloads, the memory's size."""

    def total(take: Callable[[str], bool]) -> Floats:
        return np.sum([column for name, column in known.items() if take(name)], axis=0, dtype=np.float64)

    busy = total(lambda name: re.fullmatch(r"cpu\.cpu\.(user|nice|system|irq|softirq)", name) is not None)
    if np.ndim(busy):
        yield from _moments("cpu_busy_sampled_ratio", (), _rate(busy, seconds) * 0.005, profile)
        used = total(lambda name: re.fullmatch(r"cpu\.cg\.\w+\.usage_\w+", name) is not None)
        # Both are counted in ticks of their own; what is left of one less the other may go back by one.
        yield ("workload_other_cpu_seconds_total", ()), np.maximum.accumulate(busy * 0.01 - used * 1e-9)
    if "mem.mi.MemAvailable" in known:
        size = 1024 * known["mem.mi.MemAvailable"].max()
        yield ("memory_size_bytes", ()), np.full(len(seconds), size)

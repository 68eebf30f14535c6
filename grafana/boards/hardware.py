"""Panels of the raw numbers: CPU, memory, network, storage and pressure."""

from __future__ import annotations

from grafana.boards.anomaly import HOST
from grafana.boards.kit import SLOW_RANGE, About, Panel, Query, graph

VIRTUAL = "not shown by this host's kernel, as in most virtual machines"


def rate(name: str, labels: str = "") -> str:
    """PromQL of a counter's rate on this host."""
    return f"rate({name}{{{HOST}{labels}}}[$__rate_interval])"


def slow_rate(name: str, labels: str = "") -> str:
    """PromQL of the rate of a counter that its collector reads every few seconds only: over four scrapes of a second it would jump."""
    return f"rate({name}{{{HOST}{labels}}}[{SLOW_RANGE}])"


def most(expr: str, count: int = 6) -> str:
    """PromQL of the greatest: of many more lines nobody reads the legend."""
    return f"topk({count}, {expr})"


def cpu() -> tuple[Panel, ...]:
    """What the processors do."""
    online = f"scalar(max(hwsonde_cpu_online{{{HOST}}}))"
    busy = rate("hwsonde_cpu_seconds_total", ',mode!="idle"')
    return (
        graph(
            About(
                "CPU use by mode",
                "Share of all processors' time in each mode; idle is what is left to 100 %.",
                "percentunit",
            ),
            Query(f"sum by (mode) ({busy}) / {online}", "{{mode}}"),
            stacked=True,
            top=1,
        ),
        graph(
            About(
                "Runnable, blocked and load",
                "Threads that want a CPU or wait for storage now, and the kernel's load average.",
                "none",
            ),
            Query(f"hwsonde_cpu_processes_running{{{HOST}}}", "runnable"),
            Query(f"hwsonde_cpu_processes_blocked{{{HOST}}}", "blocked"),
            Query(f"hwsonde_cpu_load1{{{HOST}}}", "load, 1 min"),
            Query(f"hwsonde_cpu_online{{{HOST}}}", "processors"),
        ),
        graph(
            About(
                "Switches, interrupts, forks", "Symptoms of what runs, seldom a cause by themselves.", "ops", width=8
            ),
            Query(rate("hwsonde_cpu_context_switches_total"), "context switches"),
            Query(rate("hwsonde_cpu_interrupts_total"), "interrupts"),
            Query(rate("hwsonde_cpu_forks_total"), "forks"),
        ),
        graph(
            About(
                "Frequency", "Least, mean and greatest clock of each package's processors.", "hertz", VIRTUAL, width=8
            ),
            Query(f"hwsonde_cpu_frequency_package_hertz{{{HOST}}}", "package {{package}} {{statistic}}"),
        ),
        graph(
            About(
                "Thermal throttling",
                "Throttle events of packages and cores; anything above 0 costs speed.",
                "ops",
                VIRTUAL,
                width=8,
            ),
            Query(slow_rate("hwsonde_cpu_package_throttles_total"), "package {{package}}"),
            Query(slow_rate("hwsonde_cpu_core_throttles_total"), "cores of package {{package}}"),
            top=1,
        ),
    )


def memory() -> tuple[Panel, ...]:
    """Where memory goes, and what the kernel does to get it back."""
    return (
        graph(
            About("Memory", "What can be had without swapping, and what the larger uses are.", "bytes"),
            Query(f"hwsonde_memory_size_bytes{{{HOST}}}", "size"),
            Query(f"hwsonde_memory_available_bytes{{{HOST}}}", "available"),
            Query(f"hwsonde_memory_anonymous_bytes{{{HOST}}}", "anonymous"),
            Query(f"hwsonde_memory_cached_bytes{{{HOST}}}", "page cache"),
            Query(f"hwsonde_memory_dirty_bytes{{{HOST}}}", "dirty"),
        ),
        graph(
            About("Page faults", "Minor faults only map a page; major ones had to read it from storage.", "ops"),
            Query(rate("hwsonde_memory_page_faults_total"), "{{kind}}"),
        ),
        graph(
            About(
                "Reclaim",
                "Pages scanned and reclaimed; a process that reclaims for itself (direct) is being slowed.",
                "ops",
                width=8,
            ),
            Query(rate("hwsonde_memory_scanned_pages_total"), "scanned by {{agent}}"),
            Query(rate("hwsonde_memory_reclaimed_pages_total"), "reclaimed by {{agent}}"),
        ),
        graph(
            About(
                "Swapping and refaults",
                "Pages moved to and from swap, and pages read again soon after they were dropped.",
                "ops",
                width=8,
            ),
            Query(rate("hwsonde_memory_swapped_pages_total"), "swap {{direction}}"),
            Query(rate("hwsonde_memory_workingset_refaults_total"), "refault {{kind}}"),
        ),
        graph(
            About(
                "Stalls and kills",
                "Allocations that had to wait, compactions that processes waited for, processes killed.",
                "ops",
                width=8,
            ),
            Query(f"sum({rate('hwsonde_memory_allocation_stalls_total')})", "allocation stalls"),
            Query(rate("hwsonde_memory_compaction_stalls_total"), "compaction stalls"),
            Query(rate("hwsonde_memory_oom_kills_total"), "out-of-memory kills"),
        ),
    )


def network() -> tuple[Panel, ...]:
    """What the network carries, and what it loses."""
    sent = rate("hwsonde_network_tcp_segments_total", ',direction="transmitted"')
    again = rate("hwsonde_network_tcp_retransmitted_segments_total")
    return (
        graph(
            About("Throughput", "Bytes by device and direction; the ten busiest.", "Bps"),
            Query(most(rate("hwsonde_network_bytes_total"), 10), "{{device}} {{direction}}"),
        ),
        graph(
            About("Packets", "Packets by device and direction; the ten busiest.", "pps"),
            Query(most(rate("hwsonde_network_packets_total"), 10), "{{device}} {{direction}}"),
        ),
        graph(
            About("TCP segments sent again", "Share of sent segments that were sent before.", "percentunit", width=8),
            Query(
                f"sum({again}) / clamp_min(sum({sent}), 1)",
                "retransmitted",
            ),
        ),
        graph(
            About(
                "How TCP noticed a loss",
                "Time-outs hurt most; fast retransmits and loss probes repair within a round trip.",
                "ops",
                width=8,
            ),
            Query(rate("hwsonde_network_tcp_timeouts_total"), "time-outs"),
            Query(rate("hwsonde_network_tcp_fast_retransmits_total"), "fast retransmits"),
            Query(rate("hwsonde_network_tcp_loss_probes_total"), "loss probes"),
            Query(rate("hwsonde_network_tcp_lost_retransmits_total"), "lost retransmits"),
        ),
        graph(
            About(
                "Errors and drops",
                "Packets that a device or the kernel lost; the six of each that lost most.",
                "pps",
                width=8,
            ),
            Query(most(rate("hwsonde_network_errors_total")), "{{device}} {{direction}} errors"),
            Query(most(rate("hwsonde_network_dropped_packets_total")), "{{device}} {{direction}} dropped"),
            Query(rate("hwsonde_network_softnet_dropped_packets_total"), "kernel backlog dropped"),
        ),
    )


def storage() -> tuple[Panel, ...]:
    """What the disks do, and how long they take."""
    seconds, requests = rate("hwsonde_storage_request_seconds_total"), rate("hwsonde_storage_requests_total")
    available, size = (f"hwsonde_storage_filesystem_{part}_bytes{{{HOST}}}" for part in ("available", "size"))
    return (
        graph(
            About("Throughput", "Bytes by disk and operation; the ten busiest.", "Bps"),
            Query(most(rate("hwsonde_storage_bytes_total"), 10), "{{device}} {{operation}}"),
        ),
        graph(
            About(
                "Time of a request",
                "Mean time from a request's start to its end; nothing while there are no requests.",
                "s",
                "no requests",
            ),
            Query(f"{seconds} / ({requests} > 0)", "{{device}} {{operation}}"),
        ),
        graph(
            About("Requests", "Requests that ended, by disk and operation; the ten most frequent.", "iops", width=8),
            Query(most(requests, 10), "{{device}} {{operation}}"),
        ),
        graph(
            About("Busy", "Share of time with at least one request under way.", "percentunit", width=8),
            Query(rate("hwsonde_storage_busy_seconds_total"), "{{device}}"),
            top=1,
        ),
        graph(
            About("File systems", "Used share of each file system.", "percentunit", "no file system to show", width=8),
            Query(f"1 - {available} / {size}", "{{mountpoint}}"),
            top=1,
        ),
    )


def pressure() -> tuple[Panel, ...]:
    """The kernel's own measure of harm done by too little of a resource."""
    text = "Share of time in which some (waiting) or all (stalled) tasks made no progress for want of it."
    quiet = "the kernel was built or started without pressure stall information"
    return (
        graph(
            About("CPU", text, "percentunit", quiet, width=8),
            Query(rate("hwsonde_cpu_pressure_waiting_seconds_total"), "waiting"),
            Query(rate("hwsonde_cpu_irq_pressure_stalled_seconds_total"), "interrupts"),
        ),
        graph(
            About("Memory", text, "percentunit", quiet, width=8),
            Query(rate("hwsonde_memory_pressure_waiting_seconds_total"), "waiting"),
            Query(rate("hwsonde_memory_pressure_stalled_seconds_total"), "stalled"),
        ),
        graph(
            About("Storage", text, "percentunit", quiet, width=8),
            Query(rate("hwsonde_storage_pressure_waiting_seconds_total"), "waiting"),
            Query(rate("hwsonde_storage_pressure_stalled_seconds_total"), "stalled"),
        ),
    )

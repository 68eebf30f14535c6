"""Which lines of meminfo, vmstat and numastat become which metric."""

from __future__ import annotations

from functools import partial

from hwsonde_exporter.metric import Kind, Metric

_counter = partial(Metric, kind=Kind.COUNTER, subsystem="memory")
_gauge = partial(Metric, kind=Kind.GAUGE, subsystem="memory")


def _bytes(thing: str, key: str, text: str) -> tuple[bytes, Metric]:
    name = f"hwsonde_memory_{thing}_bytes"
    return key.encode(), _gauge(name=name, help=text, unit="bytes", source=f"/proc/meminfo {key} (KiB)")


MEMINFO: dict[bytes, Metric] = dict(
    (
        _bytes("size", "MemTotal", "Usable RAM."),
        _bytes("available", "MemAvailable", "Memory a new workload could have without swapping."),
        _bytes("free", "MemFree", "Memory not used at all."),
        _bytes("cached", "Cached", "Memory in the page cache."),
        _bytes("shared", "Shmem", "Shared and tmpfs memory, among it /dev/shm of data loaders."),
        _bytes("dirty", "Dirty", "Memory waiting to be written to storage."),
        _bytes("swap_size", "SwapTotal", "Swap space."),
        _bytes("swap_free", "SwapFree", "Swap space not used."),
        _bytes("swap_cached", "SwapCached", "Memory that came back from swap and still has its place there."),
        _bytes("zswap", "Zswap", "Memory that holds compressed swapped pages."),
        _bytes("zswapped", "Zswapped", "Size of the pages that are held compressed."),
        _bytes("hardware_corrupted", "HardwareCorrupted", "Memory the kernel took out of use for hardware faults."),
        _bytes("buffers", "Buffers", "Memory in block device buffers."),
        _bytes("slab_reclaimable", "SReclaimable", "Kernel slab memory that can be reclaimed."),
        _bytes("slab_unreclaimable", "SUnreclaim", "Kernel slab memory that cannot be reclaimed."),
        _bytes("anonymous", "AnonPages", "Anonymous memory mapped by processes."),
        _bytes("mapped", "Mapped", "Files mapped by processes."),
        _bytes("writeback", "Writeback", "Memory being written to storage."),
        _bytes("page_tables", "PageTables", "Memory used by page tables."),
        _bytes("secondary_page_tables", "SecPageTables", "Memory used by page tables of virtual machines and IOMMUs."),
        _bytes("vmalloc_used", "VmallocUsed", "Kernel memory mapped page by page, among it that of drivers."),
        _bytes("per_cpu", "Percpu", "Kernel memory of which each CPU has its own copy."),
        _bytes("kernel_stack", "KernelStack", "Memory used by kernel stacks, about 16 KiB a thread."),
        _bytes("mlocked", "Mlocked", "Memory locked by processes."),
        _bytes("unevictable", "Unevictable", "Memory that reclaim cannot take."),
        _bytes("committed", "Committed_AS", "Memory promised to processes."),
        _bytes("commit_limit", "CommitLimit", "Memory that may be promised under the overcommit ratio."),
        _bytes("anonymous_hugepages", "AnonHugePages", "Anonymous memory in transparent huge pages."),
        _bytes("shared_hugepages", "ShmemHugePages", "Shared and tmpfs memory in transparent huge pages."),
        _bytes("file_hugepages", "FileHugePages", "Page cache in transparent huge pages."),
        _bytes("hugetlb", "Hugetlb", "Memory set aside for huge pages of all sizes, used or not."),
        _bytes("active_anonymous", "Active(anon)", "Anonymous memory used of late."),
        _bytes("inactive_anonymous", "Inactive(anon)", "Anonymous memory not used of late, the first to be swapped."),
        _bytes("active_file", "Active(file)", "Page cache used of late."),
        _bytes("inactive_file", "Inactive(file)", "Page cache not used of late, the first to be reclaimed."),
    )
)

PAGE_FAULTS = _counter(
    name="hwsonde_memory_page_faults_total",
    help="Page faults; a major fault waited for storage.",
    labels=("kind",),
    source="/proc/vmstat pgfault minus pgmajfault, pgmajfault",
)
PINNED_PAGES = _gauge(
    name="hwsonde_memory_pinned_pages",
    help="Pages pinned for devices, for example by RDMA or GPUDirect.",
    source="/proc/vmstat nr_foll_pin_acquired minus nr_foll_pin_released",
)
_SWAPPED = _counter(
    name="hwsonde_memory_swapped_pages_total",
    help="Pages swapped in and out.",
    labels=("direction",),
    source="/proc/vmstat pswpin, pswpout",
)
_PAGED = _counter(
    name="hwsonde_memory_paged_bytes_total",
    help="Bytes paged in from and out to storage.",
    labels=("direction",),
    unit="bytes",
    source="/proc/vmstat pgpgin, pgpgout (KiB)",
)
_SCANNED = _counter(
    name="hwsonde_memory_scanned_pages_total",
    help="Pages scanned for reclaim; direct means an allocation had to wait.",
    labels=("agent",),
    source="/proc/vmstat pgscan_kswapd, pgscan_direct, pgscan_khugepaged, pgscan_proactive",
)
_RECLAIMED = _counter(
    name="hwsonde_memory_reclaimed_pages_total",
    help="Pages reclaimed; direct means an allocation had to wait.",
    labels=("agent",),
    source="/proc/vmstat pgsteal_kswapd, pgsteal_direct, pgsteal_khugepaged, pgsteal_proactive",
)
_STALLS = _counter(
    name="hwsonde_memory_allocation_stalls_total",
    help="Allocations that stalled for direct reclaim.",
    labels=("zone",),
    source="/proc/vmstat allocstall_*",
)
_OOM_KILLS = _counter(
    name="hwsonde_memory_oom_kills_total",
    help="Processes killed for want of memory.",
    source="/proc/vmstat oom_kill",
)
_REFAULTS = _counter(
    name="hwsonde_memory_workingset_refaults_total",
    help="Pages faulted back in soon after they were evicted.",
    labels=("kind",),
    source="/proc/vmstat workingset_refault_anon, workingset_refault_file",
)
_COMPACTION_STALLS = _counter(
    name="hwsonde_memory_compaction_stalls_total",
    help="Allocations that stalled for memory compaction.",
    source="/proc/vmstat compact_stall",
)
_COMPACTION_FAILURES = _counter(
    name="hwsonde_memory_compaction_failures_total",
    help="Memory compactions that freed no large enough block.",
    source="/proc/vmstat compact_fail",
)
_HUGEPAGE_FAULTS = _counter(
    name="hwsonde_memory_hugepage_faults_total",
    help="Transparent huge page faults that got a huge page or fell back.",
    labels=("result",),
    source="/proc/vmstat thp_fault_alloc, thp_fault_fallback",
)
_HUGEPAGE_COLLAPSES = _counter(
    name="hwsonde_memory_hugepage_collapses_total",
    help="Runs of pages that the kernel joined into a huge page, or failed to.",
    labels=("result",),
    source="/proc/vmstat thp_collapse_alloc, thp_collapse_alloc_failed",
)
_HUGEPAGE_SPLITS = _counter(
    name="hwsonde_memory_hugepage_splits_total",
    help="Huge pages that were split.",
    source="/proc/vmstat thp_split_page",
)
_NUMA_HINT_FAULTS = _counter(
    name="hwsonde_memory_numa_hint_faults_total",
    help="NUMA balancing hint faults.",
    source="/proc/vmstat numa_hint_faults",
)
_NUMA_LOCAL_HINT_FAULTS = _counter(
    name="hwsonde_memory_numa_local_hint_faults_total",
    help="NUMA balancing hint faults on pages of the task's own node.",
    source="/proc/vmstat numa_hint_faults_local",
)
_NUMA_MIGRATED = _counter(
    name="hwsonde_memory_numa_migrated_pages_total",
    help="Pages moved between NUMA nodes by balancing.",
    source="/proc/vmstat numa_pages_migrated",
)
_MIGRATED = _counter(
    name="hwsonde_memory_migrated_pages_total",
    help="Pages moved in memory, for compaction or NUMA balancing, and those that could not be.",
    labels=("result",),
    source="/proc/vmstat pgmigrate_success, pgmigrate_fail",
)
_WRITTEN = _counter(
    name="hwsonde_memory_written_pages_total",
    help="Dirty pages written to storage.",
    source="/proc/vmstat nr_written",
)
_DIRTIED = _counter(
    name="hwsonde_memory_dirtied_pages_total",
    help="Pages made dirty.",
    source="/proc/vmstat nr_dirtied",
)
_CACHE_DROPS = _counter(
    name="hwsonde_memory_cache_drops_total",
    help="Times somebody told the kernel to drop its caches; what was dropped must be read anew.",
    labels=("kind",),
    source="/proc/vmstat drop_pagecache, drop_slab",
)

# Line of vmstat -> metric, labels, factor.
VMSTAT: dict[bytes, tuple[Metric, tuple[str, ...], int]] = {
    b"pswpin": (_SWAPPED, ("in",), 1),
    b"pswpout": (_SWAPPED, ("out",), 1),
    b"pgpgin": (_PAGED, ("in",), 1024),
    b"pgpgout": (_PAGED, ("out",), 1024),
    b"pgscan_kswapd": (_SCANNED, ("kswapd",), 1),
    b"pgscan_direct": (_SCANNED, ("direct",), 1),
    b"pgscan_khugepaged": (_SCANNED, ("khugepaged",), 1),
    b"pgscan_proactive": (_SCANNED, ("proactive",), 1),
    b"pgsteal_kswapd": (_RECLAIMED, ("kswapd",), 1),
    b"pgsteal_direct": (_RECLAIMED, ("direct",), 1),
    b"pgsteal_khugepaged": (_RECLAIMED, ("khugepaged",), 1),
    b"pgsteal_proactive": (_RECLAIMED, ("proactive",), 1),
    b"allocstall_dma": (_STALLS, ("dma",), 1),
    b"allocstall_dma32": (_STALLS, ("dma32",), 1),
    b"allocstall_normal": (_STALLS, ("normal",), 1),
    b"allocstall_movable": (_STALLS, ("movable",), 1),
    b"allocstall_device": (_STALLS, ("device",), 1),
    b"oom_kill": (_OOM_KILLS, (), 1),
    b"workingset_refault_anon": (_REFAULTS, ("anonymous",), 1),
    b"workingset_refault_file": (_REFAULTS, ("file",), 1),
    b"compact_stall": (_COMPACTION_STALLS, (), 1),
    b"compact_fail": (_COMPACTION_FAILURES, (), 1),
    b"thp_fault_alloc": (_HUGEPAGE_FAULTS, ("huge",), 1),
    b"thp_fault_fallback": (_HUGEPAGE_FAULTS, ("fallback",), 1),
    b"thp_collapse_alloc": (_HUGEPAGE_COLLAPSES, ("joined",), 1),
    b"thp_collapse_alloc_failed": (_HUGEPAGE_COLLAPSES, ("failed",), 1),
    b"thp_split_page": (_HUGEPAGE_SPLITS, (), 1),
    b"numa_hint_faults": (_NUMA_HINT_FAULTS, (), 1),
    b"numa_hint_faults_local": (_NUMA_LOCAL_HINT_FAULTS, (), 1),
    b"numa_pages_migrated": (_NUMA_MIGRATED, (), 1),
    b"pgmigrate_success": (_MIGRATED, ("moved",), 1),
    b"pgmigrate_fail": (_MIGRATED, ("failed",), 1),
    b"nr_written": (_WRITTEN, (), 1),
    b"nr_dirtied": (_DIRTIED, (), 1),
    b"drop_pagecache": (_CACHE_DROPS, ("pagecache",), 1),
    b"drop_slab": (_CACHE_DROPS, ("slab",), 1),
}

NUMA_SIZE = _gauge(
    name="hwsonde_memory_numa_size_bytes",
    help="Memory of a NUMA node; only where there are several.",
    labels=("numa_node",),
    unit="bytes",
    source="/sys/devices/system/node/nodeN/meminfo MemTotal (KiB)",
)
NUMA_FREE = _gauge(
    name="hwsonde_memory_numa_free_bytes",
    help="Free memory of a NUMA node; only where there are several.",
    labels=("numa_node",),
    unit="bytes",
    source="/sys/devices/system/node/nodeN/meminfo MemFree (KiB)",
)
NUMA_ANONYMOUS = _gauge(
    name="hwsonde_memory_numa_anonymous_bytes",
    help="Anonymous memory on a NUMA node; only where there are several.",
    labels=("numa_node",),
    unit="bytes",
    source="/sys/devices/system/node/nodeN/meminfo AnonPages (KiB)",
)
NUMA_CACHED = _gauge(
    name="hwsonde_memory_numa_cached_bytes",
    help="Page cache and shared memory on a NUMA node; only where there are several.",
    labels=("numa_node",),
    unit="bytes",
    source="/sys/devices/system/node/nodeN/meminfo FilePages (KiB)",
)
NODE_MEMINFO: dict[bytes, Metric] = {
    b"MemTotal": NUMA_SIZE,
    b"MemFree": NUMA_FREE,
    b"AnonPages": NUMA_ANONYMOUS,
    b"FilePages": NUMA_CACHED,
}
NUMA_ALLOCATIONS = _counter(
    name="hwsonde_memory_numa_allocations_total",
    help="Page allocations on a NUMA node, by result; results overlap, so do not sum them.",
    labels=("numa_node", "result"),
    source="/sys/devices/system/node/nodeN/numastat",
)
NUMASTAT: dict[bytes, str] = {
    b"numa_hit": "hit",
    b"numa_miss": "miss",
    b"numa_foreign": "foreign",
    b"interleave_hit": "interleave_hit",
    b"local_node": "local",
    b"other_node": "other",
}

METRICS: tuple[Metric, ...] = (
    *MEMINFO.values(),
    PAGE_FAULTS,
    # Each once, in the order of the table.
    *dict.fromkeys(metric for metric, _, _ in VMSTAT.values()),
    PINNED_PAGES,
    *NODE_MEMINFO.values(),
    NUMA_ALLOCATIONS,
)

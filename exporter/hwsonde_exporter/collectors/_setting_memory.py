"""Settings of memory: huge pages, NUMA, swapping, writing back.

Sources: linux/Documentation/admin-guide/sysctl/vm.rst and admin-guide/mm/{transhuge,hugetlbpage,multigen_lru,ksm}.rst.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._files import entries, read_or_none, sys_number
from hwsonde_exporter.collectors._setting_rows import (
    Row,
    file_rows,
    kibibytes,
    plain,
    read_line,
    row,
    selected,
    switch,
    words,
)
from hwsonde_exporter.host import Host

_HUGE_PAGES = re.compile(r"hugepages-(\d+)kB\Z")

_VM_FILES = (
    ("memory.swappiness", "swappiness", plain),
    ("memory.overcommit", "overcommit_memory", words({"0": "heuristic", "1": "always", "2": "never"})),
    ("memory.overcommit_ratio", "overcommit_ratio", plain),
    ("memory.zone_reclaim", "zone_reclaim_mode", plain),
    ("memory.dirty_ratio", "dirty_ratio", plain),
    ("memory.dirty_background_ratio", "dirty_background_ratio", plain),
    ("memory.dirty_bytes", "dirty_bytes", plain),
    ("memory.dirty_background_bytes", "dirty_background_bytes", plain),
    ("memory.dirty_expire_centiseconds", "dirty_expire_centisecs", plain),
    ("memory.minimum_free_bytes", "min_free_kbytes", kibibytes),
    ("memory.watermark_scale_factor", "watermark_scale_factor", plain),
    ("memory.compaction_proactiveness", "compaction_proactiveness", plain),
    ("memory.maximum_map_count", "max_map_count", plain),
    ("memory.overcommit_huge_pages", "nr_overcommit_hugepages", plain),
)
_MM_FILES = (
    ("memory.transparent_huge_pages", "transparent_hugepage/enabled", selected),
    ("memory.transparent_huge_pages_defragmentation", "transparent_hugepage/defrag", selected),
    ("memory.transparent_huge_pages_shared", "transparent_hugepage/shmem_enabled", selected),
    ("memory.khugepaged_defragmentation", "transparent_hugepage/khugepaged/defrag", switch),
    ("memory.same_page_merging", "ksm/run", switch),
    ("memory.multigenerational_lru", "lru_gen/enabled", plain),
)


def memory_rows(host: Host) -> Iterator[Row]:
    """Settings of the host's memory; static huge pages by their size."""
    proc, sys = host.paths.procfs, host.paths.sys("kernel", "mm")
    yield from file_rows(host, proc / "sys" / "vm", _VM_FILES)
    numa = read_line(host, proc / "sys" / "kernel" / "numa_balancing")
    if numa:
        yield row("memory.numa_balancing", {"0": "off", "1": "on", "2": "tiering"}.get(numa, numa))
    yield from file_rows(host, sys, _MM_FILES)
    for name in entries(sys / "hugepages"):
        match = _HUGE_PAGES.match(name)
        count = sys_number(host, sys / "hugepages" / name / "nr_hugepages")
        if match and count is not None:
            # Those beyond the number that was asked for come and go with their users.
            surplus = sys_number(host, sys / "hugepages" / name / "surplus_hugepages") or 0
            yield row("memory.huge_pages", str(max(0, count - surplus)), f"{match[1]}kB")
    table = parsing.key_values(read_or_none(host, proc / "meminfo") or b"")
    if (swap := table.get(b"SwapTotal")) is not None:
        yield row("memory.swap", "on" if swap else "off")

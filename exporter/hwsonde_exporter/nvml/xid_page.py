"""The page of all XID codes, made from the table: python -m hwsonde_exporter.nvml.xid_page docs/xid.md."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from hwsonde_exporter.nvml.xid import LAST, PRECREATED, TABLE, Origin, Severity, Xid, switch_units

_HEAD = """# XID and SXID errors

Made from the code by `python -m hwsonde_exporter.nvml.xid_page docs/xid.md`; do not edit by hand.

NVIDIA's driver numbers what goes wrong on a GPU (XID) and on an NVSwitch (SXID). The exporter hears of XIDs from the driver's
library and from the kernel's log, and counts what both tell once. Names, severities and advice below are this project's own,
written from NVIDIA's public XID catalogue and the open driver; they speak of the usual case. NVIDIA's documentation decides.

| metric | what it tells |
| --- | --- |
| `hwsonde_gpu_xid_errors_total{gpu,uuid,xid}` | how often the driver reported a code since the exporter started |
| `hwsonde_gpu_xid_last_timestamp_seconds{gpu,uuid,xid}` | when it did so last |
| `hwsonde_gpu_xid_info{xid,name,class,severity,action}` | the row of the table below, for each code that was seen |
| `hwsonde_gpu_xid_logged_errors{gpu,uuid,xid}` | the same in the kernel's log since the driver was loaded, before the exporter started too |
| `hwsonde_gpu_sxid_errors_total{switch,sxid,severity}` and `..._sxid_last_timestamp_seconds`, `..._sxid_info` | the same of NVSwitches |
| `hwsonde_gpu_xid_source_up{source}` | whether the library (`nvml`, of all GPUs that the driver counts) and the kernel's log (`kmsg`) are heard |
| `hwsonde_gpu_kernel_log_lost_records_total` | records of the log that were overwritten before they were read |

One fault often prints several lines: a count says how often the driver reported, not how many faults there were. Details that the
driver prints (process, address, engine) are never labels.

## Severity

| severity | meaning | alert |
| --- | --- | --- |
| critical | the GPU or the host is of no use to jobs until somebody acts | `HwsondeGpuXid` pages |
| warning | to be looked at in working hours | `HwsondeGpuXidWarning` |
| info | the program that failed is told of it; nobody else has to act | none |

Faults of programs (class application) are always info: a normal end of a large job leaves hundreds of them. Where different programs
fail on one GPU and nowhere else, the GPU is to blame all the same.

Why these page and their neighbours do not:

- 63 and 94 do not: the driver has put the error right or confined it to one program, and asks for a reset at leisure. 64 and 95 do:
  it could not.
- 48 does: it is the only code that boards without row remapping give. 171 and 172, told beside it, say where and do not page again.
- 13, 31, 43, 45 and 69 do not: they are how programs fail. 109, 119 and 120 do: the GPU does nothing more until it is reset.
- 92 does not: all its errors were corrected. It is at 0 from the start, for a trend that ends in 48.
- 61 does not: current boards do not use it. 62, the same controller's halt, does.
- 121 to 125 do not: the link goes on, and a flash memory matters at the next start.
- 137 does not: mostly a program's access to a peer. 74, 136 and 155 do: the job's collectives fail or hang.
- 144 to 150 do not: NVLink 5 reports trifles and disasters under one number. Where a reset is needed the driver says so in
  `hwsonde_gpu_recovery_action` and by 154, and that has an alert of its own.
- 156 and 160 do not: they are what 63 is, for other parts. 157 and 161: the board goes on with what it has.

These have a series at 0 for each GPU from the start, so that `increase()` sees the first of each:
"""

_QUERIES = """
## Queries

Critical errors of the last hour, with what to do:

    (time() - hwsonde_gpu_xid_last_timestamp_seconds < 3600)
      * on (cluster, node, xid) group_left (name, action) hwsonde_gpu_xid_info{severity="critical"}

All but those of programs, by host, in a day:

    sum by (node, xid) (increase(hwsonde_gpu_xid_errors_total{xid!~"8|11|13|31|32|43|45|69"}[1d])) > 0

## All codes

| XID | what happened | class | severity | what to do |
| --- | --- | --- | --- | --- |
"""

_SWITCHES = """
## NVSwitch codes

The switch's own driver prints how bad each one is (`Fatal`, `Non-fatal`), which becomes the label `severity`. A fatal one usually
shows as XID 74 on the GPUs behind the link, and pages there. The thousands of a code tell the unit that found it.

| SXID | unit |
| --- | --- |
"""

_TRYING = """
## Trying it

Root may write a line to the kernel's log; it is counted like one of the driver's:

    echo "NVRM: Xid (PCI:0000:3b:00): 79, a drill" > /dev/kmsg

Replace the address by one of `/proc/driver/nvidia/gpus`. The page follows within two scrapes; tell the people on duty before.
"""


def page() -> str:
    """Give the page as Markdown."""
    rows = "".join(map(_row, TABLE.values()))
    units = "".join(f"| {number}000 to {number}999 | {unit} |\n" for number, unit in switch_units().items())
    return f"{_HEAD}{_precreated()}{_QUERIES}{rows}{_counts()}{_SWITCHES}{units}{_TRYING}"


def _row(row: Xid) -> str:
    return f"| {row.code} | {row.name} | {row.origin} | {row.severity} | {row.advice} |\n"


def _precreated() -> str:
    return ", ".join(map(str, PRECREATED)) + ".\n"


def _counts() -> str:
    by = {severity: sum(row.severity is severity for row in TABLE.values()) for severity in reversed(Severity)}
    of = {origin: sum(row.origin is origin for row in TABLE.values()) for origin in Origin}
    told = [", ".join(f"{count} {name}" for name, count in counts.items()) for counts in (by, of)]
    return f"\n{LAST} codes: {told[0]}; by class {told[1]}. A code that is not in the table is a warning.\n"


def main(arguments: Sequence[str]) -> int:
    """Write the page; gives the exit status."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m hwsonde_exporter.nvml.xid_page PAGE.md\n")
        return 2
    try:
        Path(arguments[0]).write_text(page(), encoding="utf-8")
    except OSError as error:
        sys.stderr.write(f"hwsonde_exporter.nvml.xid_page: {arguments[0]}: {error.strerror}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

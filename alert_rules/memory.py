"""Alerts about the host's memory. No input, no output."""

from __future__ import annotations

from alert_rules.timing import Timing
from alert_rules.wording import words
from alert_rules.writing import CRITICAL, INFO, WARNING, Rule, Writer, record

STALLED = "entity:hwsonde_memory_pressure_stalled_seconds:rate5m"
CORRECTED = "controller:hwsonde_memory_edac_corrected_errors:increase1h"


def rules(timing: Timing, writer: Writer) -> list[Rule]:
    """Every rule of the group."""
    errors = "increase(hwsonde_memory_edac_errors_total"
    controller = "memory controller {{ $labels.controller }}"
    return [
        record(STALLED, "rate(hwsonde_memory_pressure_stalled_seconds_total[5m])"),
        record(CORRECTED, f'sum without (type) ({errors}{{type="corrected"}}[1h]))'),
        writer.alert(
            "HwsondeMemoryEccUncorrected",
            CRITICAL,
            f'{errors}{{type="uncorrected"}}[1h]) > 0',
            words(
                "memory",
                f"{controller} had an error that it could not correct. Drain the host and have the module replaced.",
                "Data in memory was lost. The kernel has ended what used it, or will stop the host at the next such error.",
            ),
        ),
        writer.alert(
            "HwsondeMemoryEccCorrected",
            WARNING,
            f"{CORRECTED} > 100",
            words(
                "memory",
                f"{controller} corrected more than a hundred errors within an hour. Plan the replacement of the module.",
                "No data was lost. A module that errs this often is far more likely to have an error that cannot be corrected.",
            ),
        ),
        writer.alert(
            "HwsondeMemoryPagesOffline",
            INFO,
            "hwsonde_memory_hardware_corrupted_bytes > 0",
            words(
                "memory",
                "{{ $value | humanize1024 }}B of memory were taken out of use for hardware faults. Look at the counts of the modules.",
                "The kernel keeps away from pages with faults until the next boot.",
            ),
            wait=timing.state,
        ),
        writer.alert(
            "HwsondeMemoryOomKills",
            WARNING,
            "increase(hwsonde_memory_oom_kills_total[15m]) > 0",
            words(
                "memory",
                "the kernel ended processes for want of memory. Read its log for which, and whose limit was met.",
                "A job or a service was killed. A killed worker often leaves its job hanging until it times out.",
            ),
        ),
        writer.alert(
            "HwsondeMemoryPressure",
            WARNING,
            f"{STALLED} > 0.1",
            words(
                "memory",
                "for {{ $value | humanizePercentage }} of the time every task waits for memory. Find what grew.",
                "The kernel is busy finding memory, and nothing on this host makes progress meanwhile. Kills follow.",
            ),
            wait=timing.state,
        ),
    ]

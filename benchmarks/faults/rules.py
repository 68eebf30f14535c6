"""Plain alert rules with the usual bounds, one channel each; `rules.yaml` says what the channels are. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hwsonde_detector.types import Subsystem

SILENT_MS = 5000
"""An exporter that has not been heard for so long is down, says a rule."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A channel is loud above ``limit``, or below it where ``low`` is set."""

    channel: str
    limit: float
    subsystem: Subsystem
    low: bool = False

    def excess(self, value: float) -> float:
        """How many times over the bound, at least 1 where the rule fires; 0 where it does not, or nothing is known."""
        if self.low:
            return self.limit / max(value, 1e-9) if value < self.limit else 0.0
        return value / self.limit if self.limit > 0 and value > self.limit else float(self.limit == 0 and value > 0)


BOUNDS = (
    Bound("cpu_seconds", 0.1, Subsystem.CPU, low=True),  # of idle: more than 90 % in use
    Bound("cpu_pressure_waiting_seconds", 0.2, Subsystem.CPU),
    Bound("workload_cpu_throttled_seconds", 0.25, Subsystem.CPU),
    Bound("memory_available_ratio", 0.1, Subsystem.MEMORY, low=True),
    Bound("memory_pressure_waiting_seconds", 0.2, Subsystem.MEMORY),
    Bound("memory_oom_kills", 0.0, Subsystem.MEMORY),
    Bound("storage_busy_seconds", 0.9, Subsystem.STORAGE),
    Bound("storage_pressure_waiting_seconds", 0.2, Subsystem.STORAGE),
    Bound("file_handles_ratio", 0.8, Subsystem.STORAGE),
    Bound("tcp_retransmit_ratio", 0.01, Subsystem.NETWORK),
    Bound("workload_tcp_retransmit_ratio", 0.01, Subsystem.NETWORK),
    Bound("network_dropped_packets", 0.0, Subsystem.NETWORK),
    Bound("network_errors", 0.0, Subsystem.NETWORK),
    Bound("network_softnet_dropped_packets", 0.0, Subsystem.NETWORK),
)


def votes(row: Mapping[str, float]) -> dict[str, float]:
    """Largest excess by subsystem of the rules that fire on a row, by channel; empty where none does."""
    found: dict[str, float] = {}
    for bound in BOUNDS:
        # NaN, as what is not there, is neither above nor below anything.
        excess = bound.excess(row.get(bound.channel, float("nan")))
        if excess > 0:
            found[bound.subsystem] = max(found.get(bound.subsystem, 0.0), excess)
    return found

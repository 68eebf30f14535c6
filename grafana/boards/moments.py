"""Panels of the fast sampler's cumulative moments.

Mean and variance come from the increases of the three counters over one range. The sum of squared deviations is taken from a constant near
the usual value (the quantity's reference), so variance = D / n - (mean - reference)^2. `increase` extrapolates each counter by the same factor, which
cancels in the quotients.
"""

from __future__ import annotations

from dataclasses import dataclass

from grafana.boards.anomaly import HOST
from grafana.boards.kit import About, Panel, Query, band

_RANGE = "$__rate_interval"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A sampled family without labels and the reference that the exporter states in its help."""

    family: str
    reference: float
    title: str
    unit: str


QUANTITIES = (
    Quantity("hwsonde_cpu_busy_sampled_ratio", 0.25, "CPU use", "percentunit"),
    Quantity("hwsonde_cpu_pressure_waiting_sampled_ratio", 0.1, "Waiting for a CPU", "percentunit"),
    Quantity("hwsonde_cpu_processes_running_sampled", 1.0, "Runnable threads", "none"),
    Quantity("hwsonde_cpu_context_switches_sampled_per_second", 1000.0, "Context switches", "ops"),
    Quantity("hwsonde_memory_pressure_waiting_sampled_ratio", 0.0, "Waiting for memory", "percentunit"),
    Quantity("hwsonde_storage_pressure_waiting_sampled_ratio", 0.0, "Waiting for storage", "percentunit"),
)


def mean(quantity: Quantity) -> str:
    """PromQL of the mean over the range."""
    return (
        f"increase({quantity.family}_sum{{{HOST}}}[{_RANGE}]) / increase({quantity.family}_count{{{HOST}}}[{_RANGE}])"
    )


def deviation(quantity: Quantity) -> str:
    """PromQL of the standard deviation over the range; rounding may leave a variance a little below 0."""
    squares = f"increase({quantity.family}_squared_deviation_total{{{HOST}}}[{_RANGE}]) / increase({quantity.family}_count{{{HOST}}}[{_RANGE}])"
    return f"sqrt(clamp_min({squares} - ({mean(quantity)} - {quantity.reference}) ^ 2, 0))"


def panels() -> tuple[Panel, ...]:
    """One panel a quantity: mean, the band of one deviation around it, and the extremes of the trailing minute."""
    text = "Mean of the observations between two points, the band of one standard deviation, and the extremes of the trailing 60 s (dotted)."
    return tuple(
        band(
            About(quantity.title, text, quantity.unit, width=8),
            mean=Query(mean(quantity), "mean"),
            lower=Query(f"clamp_min({mean(quantity)} - {deviation(quantity)}, 0)", "mean - deviation"),
            upper=Query(f"{mean(quantity)} + {deviation(quantity)}", "mean + deviation"),
            extremes=(
                Query(f"{quantity.family}_minimum{{{HOST}}}", "minimum of 60 s"),
                Query(f"{quantity.family}_maximum{{{HOST}}}", "maximum of 60 s"),
            ),
        )
        for quantity in QUANTITIES
    )

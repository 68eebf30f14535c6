"""Panels about hwsonde itself: what the detector has to judge by, and how the exporter does."""

from __future__ import annotations

from grafana.boards.anomaly import HOST, NO_SCORE
from grafana.boards.hardware import most, rate
from grafana.boards.kit import About, Panel, Query, graph, listing, tile

# The detector's own series say where the detector runs, which may be another host of the cluster.
_CLUSTER = 'cluster="$cluster"'


def _own(name: str) -> str:
    return f"rate(hwsonde_detector_{name}{{{_CLUSTER}}}[$__rate_interval])"


def detector() -> tuple[Panel, ...]:
    """Coverage, learning, reading: whether silence means health."""
    return (
        graph(
            About(
                "Channels", "Channels known of this host, and those that the model in force looks at.", "none", width=8
            ),
            Query(f"max(hwsonde_detector_channels{{{HOST}}})", "known"),
            Query(f"max(hwsonde_detector_channels_judged{{{HOST}}})", "judged"),
        ),
        graph(
            About(
                "Coverage",
                "share of the channels that the model looks at that was really judged; what is missing cannot be found.",
                "percentunit",
                NO_SCORE,
                width=8,
            ),
            Query(f"max(hwsonde_anomaly_coverage_ratio{{{HOST}}})", "coverage"),
            top=1,
        ),
        graph(
            About(
                "Age of the model",
                "Age of the newest row in the model in force; it grows while learning is frozen by an anomaly.",
                "s",
                NO_SCORE,
                width=8,
            ),
            Query(f"min(hwsonde_detector_model_age_seconds{{{HOST}}})", "age"),
        ),
        graph(
            About(
                "Windows",
                "Windows judged and skipped by the cluster's detectors, all their hosts together.",
                "ops",
                width=8,
            ),
            Query(f"sum({_own('windows_scored_total')})", "judged"),
            Query(f"sum by (reason) ({_own('windows_skipped_total')})", "skipped: {{reason}}"),
        ),
        graph(
            About("Reads", "Answers of the source and failed reads by reason.", "ops", width=8),
            Query(f"sum({_own('reads_total')})", "answers"),
            Query(f"sum by (reason) ({_own('read_errors_total')})", "failed: {{reason}}"),
        ),
        graph(
            About(
                "Lag and durations",
                "Age of the newest sample read, and mean time of a read and of a step.",
                "s",
                width=8,
            ),
            Query(f"max(hwsonde_detector_lag_seconds{{{_CLUSTER}}})", "lag"),
            Query(f"sum({_own('read_duration_seconds_sum')}) / sum({_own('read_duration_seconds_count')})", "read"),
            Query(f"sum({_own('step_duration_seconds_sum')}) / sum({_own('step_duration_seconds_count')})", "step"),
        ),
    )


def exporter() -> tuple[Panel, ...]:
    """Whether the exporter gives all that it could, and what it costs."""
    silent = f"max by (collector, reason) (hwsonde_exporter_collector_available{{{HOST}}}) == 0"
    count, seconds = (
        rate("hwsonde_exporter_scrape_duration_seconds_count"),
        rate("hwsonde_exporter_scrape_duration_seconds_sum"),
    )
    return (
        tile(
            About("Collectors at work", "Collectors whose latest run succeeded.", "none", width=4, height=4),
            Query(f"count(hwsonde_exporter_collector_success{{{HOST}}} == 1)"),
        ),
        tile(
            About(
                "Collectors failing",
                "Collectors that can work here and whose latest run failed.",
                "none",
                width=4,
                height=4,
            ),
            Query(
                f"count(hwsonde_exporter_collector_success{{{HOST}}} == 0"
                f" unless on (collector) hwsonde_exporter_collector_available{{{HOST}}} == 0) or vector(0)"
            ),
            bad=1,
        ),
        tile(
            About("Series", "Series of all collectors in their latest runs.", "none", width=4, height=4),
            Query(f"sum(hwsonde_exporter_series{{{HOST}}})"),
        ),
        tile(
            About("Resident memory", "Memory of the exporter's process.", "bytes", width=4, height=4),
            Query(f"hwsonde_exporter_process_resident_memory_bytes{{{HOST}}}"),
        ),
        tile(
            About(
                "CPU of the exporter", "Share of one processor, over five minutes.", "percentunit", width=4, height=4
            ),
            Query(f"rate(hwsonde_exporter_process_cpu_seconds_total{{{HOST}}}[5m])"),
            bad=0.03,
        ),
        tile(
            About("Running for", "Time since the exporter started.", "s", width=4, height=4),
            Query(f"time() - hwsonde_exporter_process_start_time_seconds{{{HOST}}}"),
        ),
        graph(
            About("Time of collectors", "How long the latest runs of the ten slowest collectors took.", "s", width=8),
            Query(most(f"hwsonde_exporter_collector_duration_seconds{{{HOST}}}", 10), "{{collector}}"),
        ),
        graph(
            About("Time to collect", "Mean time that collecting took for a scrape, without its text.", "s", width=4),
            Query(f"{seconds} / {count}", "scrape"),
        ),
        graph(
            About("Fast sampler", "Ticks, and those that were skipped because they came too late.", "ops", width=4),
            Query(rate("hwsonde_exporter_sampler_ticks_total"), "ticks"),
            Query(rate("hwsonde_exporter_sampler_late_ticks_total"), "late"),
        ),
        listing(
            About(
                "Silent collectors",
                "Collectors that cannot work on this host, and why.",
                "none",
                "every collector can work here",
                width=8,
            ),
            Query(silent),
            {"collector": "Collector", "reason": "Reason"},
        ),
    )

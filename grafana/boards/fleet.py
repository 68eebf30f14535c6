"""The board of a cluster: which hosts, which part of them, and what changed."""

from __future__ import annotations

from grafana.boards.anomaly import NO_EPISODE, NO_SCORE, SUBSYSTEMS
from grafana.boards.frame import Board
from grafana.boards.gpu import NO_GPU
from grafana.boards.kit import TO_HOST, About, Columns, Panel, Query, colours, graph, listing, tile

ALL = 'cluster="$cluster"'
# Alerts of the rules in alert_rules, but for the one that always fires.
FIRING = f'ALERTS{{{ALL},alertstate="firing",alertname=~"Hwsonde.*",alertname!="HwsondeWatchdog"'
NO_ALERT = "no alert"
NO_CHANGE = "nothing changed since the exporters started"


def _tiles() -> tuple[Panel, ...]:
    up = f'up{{{ALL},job="hwsonde-exporter"}}'
    return (
        tile(About("Hosts", "Hosts whose exporter answers.", "none", width=3, height=4), Query(f"sum({up})")),
        tile(
            About("Silent hosts", "Hosts whose exporter does not answer.", "none", width=3, height=4),
            Query(f"count({up} == 0) or vector(0)"),
            bad=1,
        ),
        tile(
            About("Anomalous hosts", "Hosts with an open episode.", "none", width=3, height=4),
            Query(f"count(max by (node) (hwsonde_incident_active{{{ALL}}})) or vector(0)"),
            bad=1,
        ),
        tile(
            About("Alerts that page", "Critical alerts that fire now.", "none", width=3, height=4),
            Query(f'count({FIRING},severity="critical"}}) or vector(0)'),
            bad=1,
        ),
        tile(
            About("Tickets", "Warnings that fire now.", "none", width=3, height=4),
            Query(f'count({FIRING},severity="warning"}}) or vector(0)'),
        ),
        tile(
            About("GPUs", "GPUs that answer.", "none", NO_GPU, width=3, height=4),
            Query(f"sum(hwsonde_gpu_up{{{ALL}}})"),
        ),
        tile(
            About("Lost GPUs", "GPUs that answered before and do not now.", "none", width=3, height=4),
            Query(f"count(hwsonde_gpu_up{{{ALL}}} == 0) or vector(0)"),
            bad=1,
        ),
        tile(
            About("Data at fault", "Hosts of whose data something is missing or wrong.", "none", width=3, height=4),
            Query(f"count(max by (node) (hwsonde_data_fault_score{{{ALL}}}) >= 1) or vector(0)"),
            bad=1,
        ),
    )


def _scores() -> tuple[Panel, ...]:
    episodes = graph(
        About(
            "Open episodes by part",
            "How many hosts have an open episode, by the part that it is attributed to.",
            "none",
            NO_EPISODE,
        ),
        Query(f"count by (subsystem) (max by (node, subsystem) (hwsonde_incident_active{{{ALL}}}))", "{{subsystem}}"),
        stacked=True,
    )
    return (
        graph(
            About(
                "Highest scores", "The ten hosts with the highest fused score; above 1 is anomalous.", "none", NO_SCORE
            ),
            Query(f'topk(10, max by (node) (hwsonde_anomaly_score{{{ALL},detector="fused"}}))', "{{node}}"),
            limit=1,
            top=1.2,
        ),
        colours(episodes, SUBSYSTEMS),
        listing(
            About(
                "Open episodes", "Hosts with an open episode now; a host's name leads to its board.", "none", NO_EPISODE
            ),
            Query(f"max by (node, subsystem, scope) (hwsonde_incident_active{{{ALL}}})"),
            Columns({"node": "Host", "subsystem": "Part", "scope": "Reaches"}, {"Host": TO_HOST}),
        ),
        listing(
            About("Alerts", "What fires now, the alert that always fires left out.", "none", NO_ALERT),
            Query(f"max by (node, alertname, severity) ({FIRING}}})"),
            Columns({"severity": "Severity", "alertname": "Alert", "node": "Host"}, {"Host": TO_HOST}),
        ),
    )


def _changes() -> tuple[Panel, ...]:
    changed = f"hwsonde_setting_last_change_timestamp_seconds{{{ALL}}}"
    return (
        listing(
            About(
                "Settings that changed last",
                "The latest changes of settings, by host and area.",
                "s",
                NO_CHANGE,
                width=8,
            ),
            Query(f"bottomk(20, time() - max by (node, area) ({changed}))"),
            Columns({"node": "Host", "area": "Area", "Value": "Ago"}, {"Host": TO_HOST}),
        ),
        listing(
            About("Hosts that started last", "The latest boots.", "s", width=8),
            Query(f"bottomk(20, time() - max by (node) (hwsonde_host_boot_timestamp_seconds{{{ALL}}}))"),
            Columns({"node": "Host", "Value": "Ago"}, {"Host": TO_HOST}),
        ),
        listing(
            About(
                "GPU errors of the last day",
                "Latest errors (XID) that drivers reported, newest first.",
                "s",
                "no error was reported",
                width=8,
            ),
            Query(
                "bottomk(20, time() - max by (node, gpu, xid) "
                f"(hwsonde_gpu_xid_last_timestamp_seconds{{{ALL}}}) < 86400)"
            ),
            Columns({"node": "Host", "gpu": "GPU", "xid": "XID", "Value": "Ago"}, {"Host": TO_HOST}),
        ),
    )


def _use() -> tuple[Panel, ...]:
    used = f"avg by (node) (hwsonde_gpu_utilization_ratio{{{ALL}}})"
    received = f'rate(hwsonde_network_bytes_total{{{ALL},direction="received"}}[$__rate_interval])'
    return (
        graph(
            About("GPU use", "Mean use of the cluster's GPUs, and of the ten hosts that use theirs least.", "percentunit", NO_GPU, width=8),
            Query(f"avg(hwsonde_gpu_utilization_ratio{{{ALL}}})", "all"),
            Query(f"bottomk(10, {used})", "{{node}}"),
            top=1,
        ),
        graph(
            About("GPU power", "Power that all GPUs of a host draw; the ten that draw most, and all together.", "watt", NO_GPU, width=8),
            Query(f"topk(10, sum by (node) (hwsonde_gpu_power_average_watts{{{ALL}}}))", "{{node}}"),
            Query(f"sum(hwsonde_gpu_power_average_watts{{{ALL}}})", "all"),
        ),
        graph(
            About("CPU use", "The ten hosts that are busiest.", "percentunit", width=8),
            Query(
                f'topk(10, clamp_min(1 - avg by (node) (rate(hwsonde_cpu_seconds_total{{{ALL},mode="idle"}}[$__rate_interval])), 0))',
                "{{node}}",
            ),
            top=1,
        ),
        graph(
            About("Network", "Bytes received; the ten hosts that receive most.", "Bps", width=8),
            Query(f"topk(10, sum by (node) ({received}))", "{{node}}"),
        ),
        graph(
            About(
                "Waiting for memory",
                "Share of time in which all tasks of a host waited for memory; the worst ten.",
                "percentunit", "the kernels have no pressure stall information", width=8,
            ),
            Query(
                f"topk(10, max by (node) (rate(hwsonde_memory_pressure_stalled_seconds_total{{{ALL}}}[$__rate_interval])))",
                "{{node}}",
            ),
        ),
        graph(
            About(
                "Waiting for storage",
                "Share of time in which all tasks of a host waited for storage; the worst ten.",
                "percentunit", "the kernels have no pressure stall information", width=8,
            ),
            Query(
                f"topk(10, max by (node) (rate(hwsonde_storage_pressure_stalled_seconds_total{{{ALL}}}[$__rate_interval])))",
                "{{node}}",
            ),
        ),
    )  # fmt: skip


BOARD = Board(
    name="fleet",
    text="A cluster at a glance: which hosts deviate, in which part, what fires and what changed.",
    span="1h",
    rows=(
        ("Now", _tiles()),
        ("Who deviates", _scores()),
        ("What changed", _changes()),
        ("What the hosts do", _use()),
    ),
)

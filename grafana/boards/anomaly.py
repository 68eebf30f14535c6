"""Panels about the score: how far over the threshold, which detectors say so, which part, which channels."""

from __future__ import annotations

from grafana.boards.kit import About, Panel, Query, colours, graph, listing, tile

HOST = 'cluster="$cluster",node="$node"'
NO_EPISODE = "no open episode"
NO_SCORE = "no score yet"

# The colours of the detector's own page (Okabe and Ito), so that a part looks the same in both places.
SUBSYSTEMS = {
    "cpu": "#0072b2",
    "gpu": "#009e73",
    "memory": "#cc79a7",
    "network": "#56b4e9",
    "storage": "#e69f00",
    "power": "#f0e442",
    "thermal": "#d55e00",
    "pcie": "#888888",
    "workload": "#999999",
}


def panels() -> tuple[Panel, ...]:
    """Every panel of the row, in order."""
    return (*_tiles(), *_graphs(), *_tables())


def _tiles() -> tuple[Panel, ...]:
    return (
        tile(
            About(
                "Score now",
                "Fused score of the newest windows; above 1 is anomalous.",
                "none",
                NO_SCORE,
                width=4,
                height=4,
            ),
            Query(f'max(hwsonde_anomaly_score{{{HOST},detector="fused"}})'),
            bad=1,
        ),
        tile(
            About("Open episodes", "Episodes of this host that are open now.", "none", width=4, height=4),
            Query(f"count(max by (subsystem) (hwsonde_incident_active{{{HOST}}})) or vector(0)"),
            bad=1,
        ),
        tile(
            About("Scores count", "No page is sent before enough of this host was learned.", "none", width=4, height=4),
            Query(f"max(hwsonde_anomaly_calibrated{{{HOST}}})"),
            good=1,
            words={"0": "still learning", "1": "yes"},
        ),
        tile(
            About("Learned", "Rows learned, of those needed before scores count.", "percentunit", width=4, height=4),
            Query(
                f"clamp_max(max(hwsonde_anomaly_learning_rows{{{HOST}}}) / max(hwsonde_anomaly_learning_rows_needed{{{HOST}}}), 1)"
            ),
        ),
        tile(
            About(
                "Coverage",
                "share of the channels that the model looks at that the newest window really judged.",
                "percentunit",
                NO_SCORE,
                width=4,
                height=4,
            ),
            Query(f"max(hwsonde_anomaly_coverage_ratio{{{HOST}}})"),
            good=0.9,
        ),
        tile(
            About(
                "Age of the newest score",
                "How long ago the newest judged window ended.",
                "s",
                NO_SCORE,
                width=4,
                height=4,
            ),
            Query(f"time() - max(hwsonde_anomaly_window_end_timestamp_seconds{{{HOST}}})"),
            # As late as the slower profile's alert allows: at a scrape every quarter of a minute a healthy age goes up to half a minute.
            bad=180,
        ),
    )


def _graphs() -> tuple[Panel, ...]:
    parts = graph(
        About(
            "Parts of the score",
            "The fused score divided among the parts of the host by the evidence in their channels. A share is not proof of a cause.",
            "none",
            NO_SCORE,
        ),
        Query(f"max by (subsystem) (hwsonde_anomaly_subsystem_score{{{HOST}}})", "{{subsystem}}"),
        limit=1,
        stacked=True,
    )
    return (
        graph(
            About(
                "Score",
                "The agreement of the detectors, divided by the threshold. 1 is the configured false-alarm risk.",
                "none",
                NO_SCORE,
            ),
            Query(f'max(hwsonde_anomaly_score{{{HOST},detector="fused"}})', "fused"),
            limit=1,
            top=1.2,
        ),
        colours(parts, SUBSYSTEMS),
        graph(
            About(
                "What each detector says",
                "The calibrated score of each member; the fused score is the second largest of them.",
                "none",
                NO_SCORE,
            ),
            Query(f'max by (detector) (hwsonde_anomaly_score{{{HOST},detector!="fused"}})', "{{detector}}"),
            limit=1,
        ),
        graph(
            About(
                "Channels outside of their band",
                "Share of the judged channels outside of what was expected of them.",
                "percentunit",
                NO_SCORE,
            ),
            Query(f"max(hwsonde_anomalous_channels_ratio{{{HOST}}})", "outside"),
        ),
    )


def _tables() -> tuple[Panel, ...]:
    share = f"topk(10, max by (channel, subsystem) (hwsonde_anomaly_channel_share{{{HOST}}}))"
    device = f"topk(10, max by (class, device) (hwsonde_anomaly_device_score{{{HOST}}}))"
    return (
        listing(
            About(
                "Top channels",
                "Channels with the largest share in the score of an open episode.",
                "percentunit",
                NO_EPISODE,
                width=16,
            ),
            Query(share),
            {"channel": "Channel", "subsystem": "Part", "Value": "Share"},
        ),
        listing(
            About(
                "Top devices",
                "Parts of the score that belong to single devices, while an episode is open.",
                "none",
                NO_EPISODE,
                width=8,
            ),
            Query(device),
            {"class": "Class", "device": "Device", "Value": "Score"},
        ),
    )

"""The anomaly explorer: from the score to the channel, its expected band, and the hosts around."""

from __future__ import annotations

from grafana.boards import anomaly
from grafana.boards.anomaly import HOST, NO_EPISODE, NO_SCORE
from grafana.boards.fleet import ALL
from grafana.boards.frame import NODE, Board, Choice
from grafana.boards.kit import About, Panel, Query, band, graph, listing

NO_FAULT = "no fault of data"


def _channels() -> tuple[Panel, ...]:
    share = f"max by (channel) (hwsonde_anomaly_channel_share{{{HOST}}})"
    info = f"max by (channel, title, subsystem, class, device, address) (hwsonde_anomaly_channel_info{{{HOST}}})"
    chosen = f'{{{HOST},channel="$channel"}}'
    beside = band(
        About(
            "The chosen channel beside its band",
            "Value of the channel and what was expected of it, in its own unit; told while an episode is open.",
            "short",
            NO_EPISODE,
            width=24,
        ),
        mean=Query(f"max(hwsonde_anomaly_channel_value{chosen})", "value"),
        lower=Query(f"max(hwsonde_anomaly_expected_lower{chosen})", "expected at least"),
        upper=Query(f"max(hwsonde_anomaly_expected_upper{chosen})", "expected at most"),
        extremes=(),
    )
    return (
        listing(
            About(
                "Channels of the open episode",
                "What deviates most, with the part and the device that it belongs to.",
                "percentunit",
                NO_EPISODE,
                width=24,
            ),
            Query(f"sort_desc({share} * on (channel) group_left (title, subsystem, class, device, address) {info})"),
            {
                "title": "What",
                "device": "Device",
                "class": "Class",
                "address": "Address",
                "subsystem": "Part",
                "channel": "Channel",
                "Value": "Share",
            },
        ),
        beside,
        graph(
            About("Shares of channels", "How large a part of the score each channel has.", "percentunit", NO_EPISODE),
            Query(f"topk(10, {share})", "{{channel}}"),
            stacked=True,
            top=1,
        ),
        graph(
            About("Parts by device", "Parts of the score that belong to single devices.", "none", NO_EPISODE),
            Query(f"topk(10, max by (class, device) (hwsonde_anomaly_device_score{{{HOST}}}))", "{{class}} {{device}}"),
            stacked=True,
        ),
    )


def _around() -> tuple[Panel, ...]:
    fused = f'hwsonde_anomaly_score{{{ALL},detector="fused"}}'
    return (
        graph(
            About(
                "This host among the others",
                "Score of this host, the median and the highest of the cluster: if all rise together it is no host's fault.",
                "none",
                NO_SCORE,
            ),
            Query(f'max(hwsonde_anomaly_score{{{HOST},detector="fused"}})', "this host"),
            Query(f"quantile(0.5, max by (node) ({fused}))", "median"),
            Query(f"max({fused})", "highest"),
            limit=1,
        ),
        graph(
            About("Other hosts above 1", "Hosts of the cluster whose score is above 1 at the same time.", "none", "no host is above 1"),
            Query(f"max by (node) ({fused}) > 1", "{{node}}"),
        ),
        graph(
            About("Faults of data", "How far the data of this host are at fault, by kind; 1 is the threshold.", "none", NO_FAULT),
            Query(f"max by (kind) (hwsonde_data_fault_score{{{HOST}}})", "{{kind}}"),
            limit=1,
            top=1.2,
        ),
        graph(
            About(
                "What the detector makes of changes",
                "Whether a change of workloads is being learned, and whether learning is frozen.",
                "none", NO_SCORE,
            ),
            Query(f"max by (reason) (hwsonde_anomaly_settling{{{HOST}}})", "settling: {{reason}}"),
            Query(f"max(hwsonde_anomaly_learning_frozen{{{HOST}}})", "learning frozen"),
        ),
        listing(
            About("Settings that differ", "Settings of this host that are not those of most of its peers.", "none", "none differs"),
            Query(f"max by (setting, device) (hwsonde_setting_differs{{{HOST}}})"),
            {"setting": "Setting", "device": "Device"},
        ),
        listing(
            About("Alerts of this host", "What fires now.", "none", "no alert"),
            Query(f'max by (alertname, severity) (ALERTS{{{HOST},alertstate="firing",alertname=~"Hwsonde.*"}})'),
            {"severity": "Severity", "alertname": "Alert"},
        ),
    )  # fmt: skip


BOARD = Board(
    name="anomaly-explorer",
    text="From a host's score to the channel that deviates, its expected band, and what happened around it.",
    choices=(
        NODE,
        Choice(
            "channel",
            "Channel",
            'label_values(hwsonde_anomaly_channel_value{cluster="$cluster",node="$node"}, channel)',
        ),
    ),
    rows=(
        ("The score", anomaly.panels()),
        ("From the part to the channel", _channels()),
        ("Around it", _around()),
    ),
)

"""The board of settings: who differs from its peers, what changed, who has which value."""

from __future__ import annotations

from grafana.boards.fleet import ALL, NO_CHANGE
from grafana.boards.frame import NODE, Board, Choice
from grafana.boards.kit import TO_HOST, About, Columns, Panel, Query, graph, listing, tile

ALIKE = "no host differs from its peers"
INFO = "hwsonde_setting_info"
ONE = f'{INFO}{{{ALL},setting="$setting"}}'


def _differ() -> tuple[Panel, ...]:
    differs = f"hwsonde_setting_differs{{{ALL}}}"
    return (
        tile(
            About("Hosts that differ", "Hosts of which a setting is not that of most of their peers.", "none", width=6, height=4),
            Query(f"count(max by (node) ({differs})) or vector(0)"),
            bad=1,
        ),
        tile(
            About("Settings that differ", "Settings in which at least one host differs.", "none", width=6, height=4),
            Query(f"count(max by (setting) ({differs})) or vector(0)"),
            bad=1,
        ),
        tile(
            About("Changes within an hour", "Changes that the exporters saw, on all hosts.", "none", width=6, height=4),
            Query(f"round(sum(increase(hwsonde_setting_changes_total{{{ALL}}}[1h])))"),
        ),
        tile(
            About("Settings", "Different settings that are read.", "none", width=6, height=4),
            Query(f"count(count by (setting) ({INFO}{{{ALL}}}))"),
        ),
        listing(
            About("Who differs", "Settings of hosts that are not those of most of their peers.", "none", ALIKE),
            Query(f"max by (node, setting, device) ({differs})"),
            Columns({"node": "Host", "setting": "Setting", "device": "Device"}, {"Host": TO_HOST}),
        ),
        listing(
            About("Where many differ", "Settings by the number of hosts that differ.", "none", ALIKE),
            Query(f"sort_desc(count by (setting) (max by (node, setting) ({differs})))"),
            {"setting": "Setting", "Value": "Hosts"},
        ),
    )  # fmt: skip


def _one() -> tuple[Panel, ...]:
    return (
        listing(
            About("Values of the chosen setting", "How many hosts have which value.", "none"),
            Query(f"sort_desc(count by (value) (count by (node, value) ({ONE})))"),
            {"value": "Value", "Value": "Hosts"},
        ),
        listing(
            About("The chosen setting, host by host", "The value on every host, for each of its devices.", "none"),
            Query(f"max by (node, device, value) ({ONE})"),
            Columns({"node": "Host", "device": "Device", "value": "Value"}, {"Host": TO_HOST}),
        ),
    )


def _changes() -> tuple[Panel, ...]:
    changes, newest = "hwsonde_setting_changes_total", "hwsonde_setting_last_change_timestamp_seconds"
    here = f'{INFO}{{{ALL},node="$node"}}'
    return (
        graph(
            About("Changes by area", "Changes within five minutes, over all hosts.", "none"),
            Query(f"sum by (area) (increase({changes}{{{ALL}}}[5m]))", "{{area}}"),
            stacked=True,
            top=1,
        ),
        listing(
            About("Latest changes", "The newest change of each area of each host.", "s", NO_CHANGE),
            Query(f"bottomk(30, time() - max by (node, area) ({newest}{{{ALL}}}))"),
            Columns({"node": "Host", "area": "Area", "Value": "Ago"}, {"Host": TO_HOST}),
        ),
        listing(
            About(
                "What changed on the chosen host",
                "Settings that had another value within the last hour, with the values that they had.",
                "none",
                "nothing changed on this host",
                width=12,
            ),
            Query(
                f"max by (setting, device, value) (last_over_time({here}[1h])) and on (setting, device)"
                f" (count by (setting, device) (last_over_time({here}[1h])) > 1)"
            ),
            {"setting": "Setting", "device": "Device", "value": "Value"},
        ),
        listing(
            About("All settings of the chosen host", "What was read last.", "none", width=12),
            Query(f"max by (setting, device, value) ({here})"),
            {"setting": "Setting", "device": "Device", "value": "Value"},
        ),
    )


BOARD = Board(
    name="settings",
    text="Settings of hosts: who differs from its peers, what changed, and who has which value.",
    span="6h",
    choices=(
        NODE,
        Choice("setting", "Setting", 'label_values(hwsonde_setting_info{cluster="$cluster"}, setting)'),
    ),
    rows=(
        ("Who differs from its peers", _differ()),
        ("One setting", _one()),
        ("What changed", _changes()),
    ),
)

"""What pictures of the boards showed to be missing: columns that can be seen, units where they belong, no brown areas, no endless legends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from grafana.boards.kit import WIDTHS, About, Columns, Panel, Query, graph, listing
from grafana.check_panels import panels
from grafana.generate import BOARDS, DETECTOR_URL, document

MADE = {board.name: document(board, DETECTOR_URL) for board in BOARDS}
# Of a window that is 1400 pixels wide, between two panels of it, and what Grafana gives a column that says nothing.
PAGE, GAP, LEAST = 1376, 8, 150
TABLES = [
    pytest.param(panel, id=f"{name}-{panel['title']}")
    for name, board in MADE.items()
    for panel in panels(board)
    if panel["type"] == "table"
]


def plain(panel: Panel) -> dict[str, Any]:
    """What Grafana gets."""
    made: dict[str, Any] = json.loads(JSONEncoder().encode(panel.build()))
    return made


def overrides(panel: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Properties by heading."""
    return {
        override["matcher"]["options"]: {one["id"]: one["value"] for one in override["properties"]}
        for override in panel["fieldConfig"]["overrides"]
    }


@pytest.mark.parametrize("panel", TABLES)
def test_all_columns_of_a_table_can_be_seen(panel: dict[str, Any]) -> None:
    titles = panel["transformations"][0]["options"]["renameByName"].values()
    widths = [overrides(panel).get(title, {}).get("custom.width") for title in titles]
    assert None in widths, "one takes what is left of the width"
    assert sum(width or LEAST for width in widths) <= panel["gridPos"]["w"] / 24 * PAGE - GAP


@pytest.mark.parametrize("panel", TABLES)
def test_a_unit_stands_behind_values_alone(panel: dict[str, Any]) -> None:
    """Grafana writes the unit of a whole table behind every label that looks like a number, too: GPU 5 s."""
    assert panel["fieldConfig"]["defaults"]["unit"] == "string"
    titles = panel["transformations"][0]["options"]["renameByName"]
    for label, title in titles.items():
        properties = overrides(panel)[title]
        assert ("unit" in properties) == (label == "Value")
        assert (properties.get("noValue") == " ") == (label != "Value")


def test_the_widest_of_known_columns_gives_way() -> None:
    assert set(WIDTHS) >= {"Host", "Ago", "Setting"}
    changes = Columns({"node": "Host", "Value": "Ago"}, {"Host": "/d/x"}).changes("s")
    assert changes["Host"] == {"noValue": " ", "links": [{"title": "Open", "url": "/d/x"}]}
    assert changes["Ago"] == {"custom.width": WIDTHS["Ago"], "unit": "s"}
    assert Columns({"node": "Host", "x": "What"}).changes("s")["Host"]["custom.width"] == WIDTHS["Host"]


def test_words_stand_for_values() -> None:
    made = plain(listing(About("x", "x."), Query("up"), Columns({"job": "Job", "Value": "Up"}, words={"1": "up"})))
    assert overrides(made)["Up"]["mappings"] == [{"type": "value", "options": {"1": {"text": "up"}}}]


@pytest.mark.parametrize(
    ("queries", "stacked", "filled"),
    [
        ([Query("up", "up")], False, 8),
        ([Query("up", "{{job}}")], False, 0),
        ([Query("up", "a"), Query("up", "b")], False, 0),
        ([Query("up", "{{job}}")], True, 60),
    ],
)
def test_only_a_single_line_and_stacks_have_an_area(queries: list[Query], stacked: bool, filled: int) -> None:
    made = plain(graph(About("x", "x."), *queries, stacked=stacked))
    assert made["fieldConfig"]["defaults"]["custom"]["fillOpacity"] == filled

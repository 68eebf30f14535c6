"""The boards: current, kept whole by Grafana's own model, complete, and asking only for series that exist."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from statistics import fmean, pstdev
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from grafana.boards import moments
from grafana.boards.anomaly import SUBSYSTEMS
from grafana.boards.frame import Board
from grafana.check_panels import panels, substitute
from grafana.generate import BOARDS, DETECTOR_URL, document, main, text
from hwsonde_detector.types import Subsystem
from tests.grafana.known import fast_quantities, series, slow_series

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "grafana" / "dashboards"
NAMES = [board.name for board in BOARDS]
MADE = {board.name: document(board, DETECTOR_URL) for board in BOARDS}
VALUES = {"cluster": "a", "node": "n1", "gpu": ".*", "setting": "cpu.governor", "channel": "cpu_busy{mode=user}"}
UNKNOWN_TO_THE_MODEL = {"titleFormat", "textFormat", "tagKeys", "step"}
# Series that Prometheus makes, with their labels.
MADE_BY_PROMETHEUS = {
    "up": {"job"},
    "ALERTS": {"alertname", "alertstate", "severity", "subsystem"},
}

every_board = pytest.mark.parametrize("board", MADE.values(), ids=MADE)


def queries() -> list[tuple[str, str, str]]:
    """Board, panel and expression of every query."""
    return [
        (name, panel["title"], target["expr"])
        for name, board in MADE.items()
        for panel in panels(board)
        for target in panel["targets"]
    ]


def named(expr: str) -> dict[str, set[str]]:
    """The series that an expression asks for, with their labels; those that nobody gives have none."""
    known = series() | MADE_BY_PROMETHEUS
    without_values = re.sub(r'"[^"]*"', '""', expr)
    return {name: known.get(name, set()) for name in re.findall(r"hwsonde_\w+|\bup\b|\bALERTS\b", without_values)}


@pytest.mark.parametrize("board", BOARDS, ids=NAMES)
def test_committed_file_is_current(board: Board) -> None:
    path = FOLDER / f"{board.name}.json"
    assert path.read_text(encoding="utf-8") == text(board, DETECTOR_URL), "run: python -m grafana.generate"


def test_there_are_no_other_files() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(NAMES)


def losses(ours: Any, theirs: Any, path: str = "$") -> Iterator[str]:
    """Where a document changed on its way through Grafana's model."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            if key in theirs:
                yield from losses(value, theirs[key], f"{path}.{key}")
            elif value not in (None, [], {}) and key not in UNKNOWN_TO_THE_MODEL:
                yield f"{path}.{key}"
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from losses(one, other, f"{path}[{index}]")
    elif ours != theirs:
        yield f"{path}: {ours!r} became {theirs!r}"


@every_board
def test_grafanas_model_keeps_all_of_it(board: dict[str, Any]) -> None:
    again = json.loads(JSONEncoder().encode(Dashboard.from_json(board)))
    assert list(losses(board, again)) == []


@every_board
def test_panels_are_whole_and_lie_on_the_grid(board: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    identities = [panel["id"] for panel in board["panels"]]
    assert sorted(set(identities)) == sorted(identities)
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, f"{panel['title']} lies on another panel"
        taken |= cells
    for panel in panels(board):
        assert panel["description"].endswith("."), panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["fieldConfig"]["defaults"]["unit"]
        references = [target["refId"] for target in panel["targets"]]
        assert references
        assert len(set(references)) == len(references)
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"]
            assert target["legendFormat"] or panel["type"] in {"stat", "table"}, panel["title"]
            assert bool(target.get("instant")) == (panel["type"] != "timeseries")


@every_board
def test_titles_are_told_apart_within_a_row(board: dict[str, Any]) -> None:
    row: list[str] = []
    for panel in board["panels"]:
        if panel["type"] == "row":
            row = []
            continue
        assert panel["title"] not in row
        row.append(panel["title"])


def test_promtool_takes_every_query(tmp_path: Path) -> None:
    exprs = [expr for _, _, expr in queries()]
    exprs += [annotation["expr"] for board in MADE.values() for annotation in board["annotations"]["list"]]
    rules = [{"record": f"panel:{number}", "expr": substitute(expr, VALUES)} for number, expr in enumerate(exprs)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", str(tmp_path / "rules.yml")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


def test_what_is_read_every_few_seconds_is_not_asked_over_four_scrapes() -> None:
    """Over four seconds a counter that is read every five jumps between nothing and too much, and a quotient of two has holes."""
    slow = slow_series()
    assert {"hwsonde_network_rdma_bytes_total", "hwsonde_network_tcp_rtt_seconds_count"} <= slow
    asked = [
        (board, title, name)
        for board, title, expr in queries()
        for name in re.findall(r"(hwsonde_\w+)(?:\{[^}]*\})?\[\$__rate_interval\]", expr)
    ]
    assert len(asked) > 50
    assert [one for one in asked if one[2] in slow] == []


def test_panels_of_what_is_read_every_few_seconds_have_wide_steps() -> None:
    found = [
        panel
        for board in MADE.values()
        for panel in panels(board)
        if any("[${__rate_interval}]" in target["expr"] for target in panel["targets"])
    ]
    assert len(found) > 10
    assert {panel.get("interval") for panel in found} == {"30s"}


@pytest.mark.parametrize("name", NAMES)
def test_series_and_labels_of_every_query_exist(name: str) -> None:
    for board, title, expr in queries():
        if board != name:
            continue
        asked = named(expr)
        assert asked, title
        assert all(asked.values()) or all(one in series() for one in asked if not asked[one]), f"{title}: {asked}"
        labels = {"cluster", "node", "instance"}.union(*asked.values())
        used = set(re.findall(r"[{,](\w+)(?:=|!=|=~|!~)\"", expr))
        groups = re.findall(r"\b(?:by|on|without|ignoring|group_left) \(([^)]*)\)", expr)
        used |= {label for group in groups for label in group.split(", ") if re.fullmatch(r"[a-z_]+", label)}
        assert used <= labels, f"{title}: no series has the label {used - labels}"


@pytest.mark.parametrize(
    "panel",
    [pytest.param(panel, id=f"{name}-{panel['title']}") for name, board in MADE.items() for panel in panels(board)],
)
def test_legends_and_columns_name_labels_that_the_result_has(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        labels = {"node", "instance"}.union(*named(target["expr"]).values())
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels
        for transformation in panel.get("transformations", []):
            titles = transformation["options"]["renameByName"]
            assert set(titles) <= labels | {"Value"}
            for override in panel["fieldConfig"]["overrides"]:
                assert override["matcher"]["options"] in titles.values()


@every_board
def test_what_a_table_leaves_out_of_its_query_has_no_column(board: dict[str, Any]) -> None:
    """A label that the query keeps and no heading names would show as a column under its own name."""
    for panel in panels(board):
        if panel["type"] == "table":
            (target,) = panel["targets"]
            kept = {
                label
                for group in re.findall(r"\b(?:by|group_left) \(([^)]*)\)", target["expr"])
                for label in group.split(", ")
            }
            titles = panel["transformations"][0]["options"]["renameByName"]
            assert set(titles) - {"Value"} <= kept, panel["title"]


def test_moments_use_the_exporters_own_references() -> None:
    exported = fast_quantities()
    for quantity in moments.QUANTITIES:
        source = exported[quantity.family]
        assert source.reference == quantity.reference, (
            f"{quantity.family}: the exporter's constant is {source.reference}"
        )
        assert not source.metric.labels, "the panel shows one band"


@pytest.mark.parametrize("start", [0.0, 5000.0])
def test_the_band_is_the_deviation_of_the_observations(tmp_path: Path, start: float) -> None:
    """Ten observations a second, published as the sampler does, give back their own mean and deviation."""
    random = Random(7)
    quantity = moments.QUANTITIES[0]
    observed = [[random.betavariate(2, 5) for _ in range(10)] for _ in range(31)]
    total, squares = start * 0.3, start * 0.04
    rows = []
    for second, observations in enumerate(observed):
        total += sum(observations)
        squares += sum((value - quantity.reference) ** 2 for value in observations)
        rows.append((total, start + 10 * (second + 1), squares))
    names = [f"{quantity.family}_{suffix}" for suffix in ("sum", "count", "squared_deviation_total")]
    inputs = [
        {"series": f'{name}{{cluster="a",node="n1"}}', "values": " ".join(repr(row[number]) for row in rows)}
        for number, name in enumerate(names)
    ]
    # A range of 30 s at second 30 spans 31 samples in Prometheus 2 and 30 in Prometheus 3, which leaves out the left end.
    values = [value for second in observed[1:] for value in second]
    cases = {moments.mean(quantity): fmean(values), moments.deviation(quantity): pstdev(values)}
    expected = [
        {
            "expr": f"abs(sum({substitute(expr, VALUES, '30s')}) - {value!r}) < bool 0.002",
            "eval_time": "30s",
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
        for expr, value in cases.items()
    ]
    (tmp_path / "rules.yml").write_text("groups: []\n")
    test = {"interval": "1s", "input_series": inputs, "promql_expr_test": expected}
    (tmp_path / "test.yml").write_text(
        yaml.safe_dump({"rule_files": ["rules.yml"], "evaluation_interval": "1s", "tests": [test]}, width=1_000_000)
    )
    command = ["promtool", "test", "rules", "test.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_parts_have_the_colours_of_the_detectors_page() -> None:
    sheet = (ROOT / "detector_sidecar" / "hwsonde_detector" / "web" / "static" / "palette.css").read_text(
        encoding="utf-8"
    )
    page = dict(re.findall(r"--(\w+): (#\w{6});", sheet.split("@media", maxsplit=1)[0]))
    # Black lines cannot be seen on Grafana's dark page.
    assert {name: colour for name, colour in SUBSYSTEMS.items() if name != "pcie"} == {
        name: page[name] for name in SUBSYSTEMS if name != "pcie"
    }


def test_parts_are_all_that_the_detector_knows() -> None:
    assert {str(subsystem) for subsystem in Subsystem} == set(SUBSYSTEMS)


@every_board
def test_lines_of_parts_have_their_colours(board: dict[str, Any]) -> None:
    for panel in panels(board):
        by_part = any(target["legendFormat"] == "{{subsystem}}" for target in panel["targets"])
        fixed = {
            override["matcher"]["options"]: one["value"]["fixedColor"]
            for override in panel["fieldConfig"]["overrides"]
            for one in override["properties"]
            if one["id"] == "color"
        }
        assert fixed == SUBSYSTEMS if by_part else not SUBSYSTEMS.keys() & fixed.keys(), panel["title"]


@pytest.mark.parametrize("board", BOARDS, ids=NAMES)
def test_links_lead_to_the_other_boards_and_to_the_detectors_page_at_the_same_time(board: Board) -> None:
    made = document(board, "https://detector.example")
    others, page = made["links"]
    assert (others["type"], others["tags"], others["keepTime"], others["includeVars"]) == (
        "dashboards",
        ["hwsonde"],
        True,
        True,
    )
    assert "hwsonde" in made["tags"]
    host = "host=${cluster:percentencode}%2F${node:percentencode}&" if board.of_host else ""
    assert page["url"] == f"${{detector:raw}}/#{host}from=${{__from}}&to=${{__to}}"
    variables = {variable["name"]: variable for variable in made["templating"]["list"]}
    assert list(variables) == ["datasource", "cluster", *(choice.name for choice in board.choices), "detector"]
    assert variables["detector"]["query"] == "https://detector.example"


def test_identities_are_unique_and_those_that_links_use() -> None:
    identities = [board["uid"] for board in MADE.values()]
    assert len(set(identities)) == len(identities)
    written = json.dumps(list(MADE.values()))
    assert set(re.findall(r"/d/(hwsonde-[a-z-]+)", written)) <= set(identities)
    links = (ROOT / "detector_sidecar/hwsonde_detector/web/links.py").read_text(encoding="utf-8")
    assert set(re.findall(r"/d/(hwsonde-[a-z-]+)", links)) <= set(identities)


@every_board
def test_variables_are_those_that_are_asked_for(board: dict[str, Any]) -> None:
    variables = {variable["name"] for variable in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?(?!__)(\w+)", json.dumps(board)))
    assert used == variables, used ^ variables
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.findall(r"label_values\((\w+)(?:\{.*\})?, (\w+)\)", variable["query"])[0]
            assert label in series()[metric] | {"cluster", "node"}


def test_provisioning_is_what_grafana_takes() -> None:
    folder = ROOT / "grafana" / "provisioning"
    (source,) = yaml.safe_load((folder / "datasources" / "hwsonde.yaml").read_text())["datasources"]
    assert source["type"] == "prometheus"
    assert source["url"].startswith("http")
    (provider,) = yaml.safe_load((folder / "dashboards" / "hwsonde.yaml").read_text())["providers"]
    assert provider["type"] == "file"
    assert provider["options"]["path"].startswith("/")


def test_a_site_writes_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--detector-url", "https://d.example", "--output", str(tmp_path / "new")]) == 0
    assert sorted(path.stem for path in (tmp_path / "new").iterdir()) == sorted(NAMES)
    for board in BOARDS:
        assert json.loads((tmp_path / "new" / f"{board.name}.json").read_text()) == document(board, "https://d.example")
    assert main(["--output", "/dev/null/x"]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1

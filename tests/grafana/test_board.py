"""The host board: current, kept whole by Grafana's own model, complete, and asking only for series that exist."""

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
from grafana.check_panels import panels, substitute
from grafana.generate import DETECTOR_URL, document, main, text
from tests.grafana.known import fast_quantities, series

ROOT = Path(__file__).resolve().parents[2]
BOARD = json.loads((ROOT / "grafana" / "dashboards" / "host.json").read_text(encoding="utf-8"))
VALUES = {"cluster": "a", "node": "n1"}
UNKNOWN_TO_THE_MODEL = {"titleFormat", "textFormat", "tagKeys", "step"}


def queries() -> list[tuple[str, str]]:
    return [(panel["title"], target["expr"]) for panel in panels(BOARD) for target in panel["targets"]]


def test_committed_file_is_current() -> None:
    assert (ROOT / "grafana" / "dashboards" / "host.json").read_text(encoding="utf-8") == text(DETECTOR_URL), (
        "run: python -m grafana.generate"
    )


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


def test_grafanas_model_keeps_all_of_it() -> None:
    again = json.loads(JSONEncoder().encode(Dashboard.from_json(BOARD)))
    assert list(losses(BOARD, again)) == []


def test_panels_are_whole_and_lie_on_the_grid() -> None:
    taken: set[tuple[int, int]] = set()
    identities = [panel["id"] for panel in BOARD["panels"]]
    assert sorted(set(identities)) == sorted(identities)
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, f"{panel['title']} lies on another panel"
        taken |= cells
    for panel in panels(BOARD):
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


def test_titles_are_told_apart_within_a_row() -> None:
    row: list[str] = []
    for panel in BOARD["panels"]:
        if panel["type"] == "row":
            row = []
            continue
        assert panel["title"] not in row
        row.append(panel["title"])


def test_promtool_takes_every_query(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": substitute(expr, VALUES)} for number, (_, expr) in enumerate(queries())
    ]
    rules.append({"record": "annotation", "expr": substitute(BOARD["annotations"]["list"][0]["expr"], VALUES)})
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


@pytest.mark.parametrize(("title", "expr"), queries())
def test_series_and_labels_of_a_query_exist(title: str, expr: str) -> None:
    known = series()
    names = re.findall(r"hwsonde_\w+", expr)
    assert names
    labels: set[str] = {"cluster", "node"}
    for name in names:
        assert name in known, f"{title}: {name} is given by neither program"
        labels |= known[name]
    used = set(re.findall(r"[{,](\w+)(?:=|!=|=~|!~)\"", expr))
    used |= {label for group in re.findall(r"\b(?:by|on|without) \(([^)]*)\)", expr) for label in group.split(", ")}
    assert used <= labels, f"{title}: no series has the label {used - labels}"


@pytest.mark.parametrize("panel", list(panels(BOARD)), ids=lambda panel: panel["title"])
def test_legends_and_columns_name_labels_that_exist(panel: dict[str, Any]) -> None:
    known = series()
    for target in panel["targets"]:
        labels = set().union(*(known[name] for name in re.findall(r"hwsonde_\w+", target["expr"])))
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels
        for transformation in panel.get("transformations", []):
            assert set(transformation["options"]["renameByName"]) <= labels | {"Value"}


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


def test_links_lead_to_the_host_on_the_detectors_page() -> None:
    (link,) = document("https://detector.example")["links"]
    assert link["url"] == "${detector:raw}/#host=${cluster:percentencode}%2F${node:percentencode}"
    variables = {variable["name"]: variable for variable in document("https://detector.example")["templating"]["list"]}
    assert list(variables) == ["datasource", "cluster", "node", "detector"]
    assert variables["detector"]["query"] == "https://detector.example"


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
    assert json.loads((tmp_path / "new" / "host.json").read_text()) == document("https://d.example")
    assert main(["--output", "/dev/null/x"]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1

"""Pages about GPUs name only what exists: metrics, collectors' options, alerts, rules, files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from alert_rules.generate import rule_file
from alert_rules.timing import FAST
from alert_rules.writing import Links
from hwsonde_exporter.nvml.answer import WorkerState
from hwsonde_exporter.nvml.check_rules import GPU_RULES
from hwsonde_exporter.nvml.read_state import EVENT_REASONS
from hwsonde_exporter.options import options
from hwsonde_exporter.registry import load_collectors
from tests.grafana.known import series

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [DOCS / "gpu.md", DOCS / "xid.md", *sorted((DOCS / "runbooks").glob("HwsondeGpu*.md"))]
KNOWN = {*series(), *(metric.name for kind in load_collectors().values() for metric in kind.metrics)}

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


@each_page
def test_metrics_that_are_named_exist(page: Path) -> None:
    for name in re.findall(
        r"hwsonde_(?:gpu|workload|setting|pcie|thermal|power)_\w+\*?", page.read_text(encoding="utf-8")
    ):
        if name.endswith("*"):
            assert any(known.startswith(name[:-1]) for known in KNOWN), name
        else:
            assert name in KNOWN, name


@each_page
def test_options_alerts_and_pages_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    keys = options(load_collectors())
    for option in re.findall(r"`--((?:nvml|path|collector|privacy)[\w.-]*)", text):
        assert option in keys, option
    alerts = set(re.findall(r"alert: (\w+)", rule_file(FAST, Links())))
    assert set(re.findall(r"\bHwsonde[A-Z]\w+", text)) <= alerts
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert (page.parent / link).exists(), link


def test_the_page_lists_every_rule_of_the_check() -> None:
    text = (DOCS / "gpu.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(gpu_\w+)`", text[text.index("## Settings and checks") : text.index("## Coming from")]))
    assert {rule.name for rule in GPU_RULES} == named


def test_lines_of_the_table_of_reasons_are_the_drivers_own() -> None:
    """What the pages call reasons and states is what the exporter publishes."""
    text = " ".join(page.read_text(encoding="utf-8") for page in PAGES)
    reasons = {reason for reason, _ in EVENT_REASONS}
    assert set(re.findall(r"`((?:hw|sw)_\w+|gpu_idle|applications_clocks_setting)`", text)) <= reasons
    assert set(re.findall(r'state="(\w+)"', text)) <= {state.value for state in WorkerState} | {"current"}

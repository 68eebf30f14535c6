"""The page about the fixture hosts is current, and no collector gives too little or too much on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwsonde_exporter.registry import load_collectors
from tests.exporter.collectors.fixture_table import COMMAND, SAMPLED, Table, flood, table, to_markdown
from tests.exporter.collectors.hosts import NAMES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "fixture-hosts.md"
# The smallest limit on series that any host has by default.
LIMIT = 2000
# Eight modes a CPU; some fifty counters a port; some ten settings a network device, a disk, a PCI device.
NUMEROUS = {"cpu", "rdma", "settings"}


@pytest.fixture(scope="module")
def found() -> Table:
    return table()


def test_page_is_current(found: Table) -> None:
    assert PAGE.read_text(encoding="utf-8") == to_markdown(found), f"run: {COMMAND}"


def test_the_training_node_gives_what_was_promised(found: Table) -> None:
    total = found.total("node192")
    assert total.types >= 110
    assert total.series >= 700


def test_no_collector_floods(found: Table) -> None:
    assert {name for name, _, _ in flood(found)} <= NUMEROUS
    assert all(cell.series <= LIMIT for row in found.cells.values() for cell in row.values())


def test_every_collector_works_somewhere_or_needs_what_no_fixture_has(found: Table) -> None:
    silent = {name for name, row in found.cells.items() if not any(cell.series for cell in row.values())}
    # GPUs have fixtures of their own, answers of the driver: tests/exporter/nvml_hosts.
    silent = {name for name in silent if not name.startswith("gpu")}
    assert silent == {"network_probe", "textfile"}, "peers and a directory are for the operator to give"
    assert found.cells.keys() == load_collectors().keys() | {SAMPLED}


@pytest.mark.parametrize("name", NAMES)
def test_each_host_gives_series(found: Table, name: str) -> None:
    assert found.total(name).series > 300

"""Every metric that was promised for the host is built, or docs/development.md says why it is not.

`promised.csv` beside this file names them, with type, unit and labels; it changes only when a promise does.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from hwsonde_exporter import reference

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[2] / "docs" / "development.md"
TITLE = "## What the host's collectors leave out"
BUILT = {row.name: row for row in reference.rows()}
with (HERE / "promised.csv").open(encoding="utf-8", newline="") as file:
    PROMISED = {row["name"]: row for row in csv.DictReader(file)}

# What belongs to another part of the exporter, or cannot be had from files.
ABSENT = {
    "hwsonde_cpu_run_queue_latency_seconds",
    "hwsonde_storage_request_latency_seconds",
}
# Labels that were promised and are not there.
WITHOUT = {
    "hwsonde_exporter_build_info": {"revision"},
    "hwsonde_network_info": {"firmware_version"},
    "hwsonde_storage_device_info": {"serial"},
}  # fmt: skip


def told() -> dict[str, str]:
    """Rows of the page's table: name, and label behind a dot if it is one, with the reason."""
    section = PAGE.read_text(encoding="utf-8").partition(f"{TITLE}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `(\S+)` \| (.+) \|$", section, re.MULTILINE))


def test_nothing_is_missing_but_what_is_argued() -> None:
    assert len(PROMISED) > 200
    assert PROMISED.keys() - BUILT.keys() == ABSENT


def test_the_page_argues_what_is_missing_and_nothing_else() -> None:
    labels = {f"{name}.{label}" for name, missing in WITHOUT.items() for label in missing}
    assert told().keys() == ABSENT | labels
    assert all(len(reason) > 40 and reason.endswith(".") for reason in told().values())


@pytest.mark.parametrize("name", sorted(PROMISED.keys() - ABSENT))
def test_it_is_what_was_promised(name: str) -> None:
    promised, built = PROMISED[name], BUILT[name]
    assert (built.type, built.unit) == (promised["type"], promised["unit"])
    missing = set(promised["labels"].split(",")) - set(built.labels.split(","))
    assert missing == WITHOUT.get(name, set())

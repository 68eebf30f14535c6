"""docs/parity: which of our series says what one of dcgm-exporter's or nvidia_gpu_exporter's does.

Neither of the two runs without a GPU, so their values are not compared; that ours exist, with these labels, is.
"""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from hwsonde_exporter import self_metrics
from hwsonde_exporter.registry import load_collectors
from tests.exporter.nvml_hosts.gpu_host import Series, running
from tests.exporter.parity.table import Selector

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "parity"
RECORDINGS = sorted(path.stem for path in (Path(__file__).parents[2] / "nvml_shim" / "recordings").glob("*.json"))
KINDS = {"", "gauge", "volatile", "counter"}
# What dcgm-exporter publishes unless its etc/default-counters.csv is changed.
DCGM_DEFAULTS = (
    "SM_CLOCK", "MEM_CLOCK", "MEMORY_TEMP", "GPU_TEMP", "POWER_USAGE", "TOTAL_ENERGY_CONSUMPTION",
    "PCIE_TX_THROUGHPUT", "PCIE_RX_THROUGHPUT", "PCIE_REPLAY_COUNTER", "GPU_UTIL", "MEM_COPY_UTIL", "ENC_UTIL",
    "DEC_UTIL", "XID_ERRORS", "FB_FREE", "FB_USED", "NVLINK_BANDWIDTH_TOTAL", "VGPU_LICENSE_STATUS",
    "UNCORRECTABLE_REMAPPED_ROWS", "CORRECTABLE_REMAPPED_ROWS", "ROW_REMAP_FAILURE",
)  # fmt: skip
# On no recorded board: PCIe without counters of bytes, and MIG on Hopper.
NOT_RECORDED = frozenset({"hwsonde_gpu_pcie_throughput_bytes_per_second", "hwsonde_gpu_mig_sm_active_ratio"})


def table(name: str) -> list[dict[str, str]]:
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


ROWS = [(name, row) for name in ("dcgm_exporter", "nvidia_gpu_exporter") for row in table(name)]
each_row = pytest.mark.parametrize("row", [row for _, row in ROWS], ids=lambda row: row["theirs"])


def known() -> dict[str, tuple[str, ...]]:
    metrics = [metric for kind in load_collectors().values() for metric in kind.metrics]
    return {metric.name: metric.labels for metric in (*metrics, *self_metrics.METRICS)}


KNOWN = known()


def test_no_series_of_theirs_comes_twice() -> None:
    assert [name for name, times in Counter(row["theirs"] for _, row in ROWS).items() if times > 1] == []


def test_every_default_of_dcgm_exporter_has_a_row_and_all_but_one_a_series() -> None:
    rows = {Selector.parse(row["theirs"]).name: row for row in table("dcgm_exporter")}
    missing = [name for name in DCGM_DEFAULTS if not rows[f"DCGM_FI_DEV_{name}"]["ours"]]
    assert missing == ["VGPU_LICENSE_STATUS"]


@each_row
def test_ours_exist_with_these_labels(row: dict[str, str]) -> None:
    assert row["kind"] in KINDS
    if not row["ours"]:
        assert len(row["note"]) > 10, "what is not published needs a reason"
        assert not row["kind"]
        return
    ours = Selector.parse(row["ours"])
    assert set(ours.labels) <= set(KNOWN[ours.name]), ours
    assert set(row["by"].split()) <= set(KNOWN[ours.name])
    assert row["kind"] or row["note"] or ours.name.endswith("last_timestamp_seconds"), (
        "what is not comparable needs a note"
    )
    if row["kind"] == "counter":
        assert ours.name.endswith("_total")


def test_times_of_violations_are_nanoseconds() -> None:
    """As the headers of NVIDIA's data centre tools have them; ours are seconds."""
    rows = [Selector.parse(row["theirs"]) for row in table("dcgm_exporter") if "_VIOLATION" in row["theirs"]]
    assert [theirs.factor for theirs in rows] == [1e-9] * 6


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> list[Series]:
    """What the exporter publishes on each recorded host."""
    found = []
    for name in RECORDINGS:
        if name != "sick":
            with running(name, tmp_path_factory.mktemp(name)) as host:
                # Activity is the difference of two samples, a second apart.
                ready = "hwsonde_gpu_graphics_active_ratio" if name == "h200" else "hwsonde_gpu_up"
                found.append(host.wait(lambda series, ready=ready: any(key[0] == ready for key in series))[0])
    return found


def test_what_can_be_compared_is_published_on_some_recorded_host(published: list[Series]) -> None:
    missing = []
    for _, row in ROWS:
        if not row["kind"]:
            continue
        ours = Selector.parse(row["ours"])
        wanted = ours.labels.items()
        there = any(
            name == ours.name and wanted <= dict(labels).items() for series in published for name, labels in series
        )
        if not there and ours.name not in NOT_RECORDED:
            missing.append(row["ours"])
    assert sorted(set(missing)) == []

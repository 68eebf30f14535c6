"""The value of every GPU metric, traced from the recording to the exposition."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hwsonde_exporter.metric import Kind
from tests.exporter.nvml_hosts.expected import GPU, UNRECORDED
from tests.exporter.nvml_hosts.expected_parts import MIG, mig_rows
from tests.exporter.nvml_hosts.gpu_host import GPU_KINDS, Series, of, one, running, sound
from tests.exporter.nvml_hosts.told import Told

TIME = 21.3
HEALTHY = ("h200", "a100-mig", "workstation", "old-driver")
# What is not in a recording but of the exporter itself, of the driver as a whole, of errors, and of processes by their files;
# tried in tests of their own.
OTHERS = {metric.name for name in ("gpu_driver", "gpu_xid") for metric in GPU_KINDS[name].metrics} | {
    "hwsonde_gpu_up", "hwsonde_gpu_nvml_skipped", "hwsonde_gpu_process_info", "hwsonde_gpu_processes_left_out",
    "hwsonde_workload_gpu_info",
}  # fmt: skip
TABLE = sorted({metric.name for kind in GPU_KINDS.values() for metric in kind.metrics} - OTHERS)


def expected(recording: dict[str, Any]) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    """Every series that a host should have, by metric."""
    found: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for number, device in enumerate(recording["devices"]):
        told = Told(device["calls"], recording["missing"], TIME)
        shown = told.get("MigMode", None, "current") == 1
        parts = [Told(part["calls"], recording["missing"], TIME) for part in device.get("mig", ()) if shown]
        own = {"gpu": str(number), "uuid": device["calls"]["nvmlDeviceGetUUID"]}
        for name, rows in (
            *((name, make(told)) for name, make in GPU.items()),
            *((name, mig_rows(name, parts)) for name in MIG),
        ):
            for labels, value in rows:
                found.setdefault(f"hwsonde_gpu_{name}", {})[frozenset({**own, **labels}.items())] = value
    return found


@pytest.fixture(scope="module", params=HEALTHY)
def host(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dict[str, Any], Series]]:
    """A recording, and one scrape of the host it is of."""
    with running(request.param, tmp_path_factory.mktemp("gpu"), fixed=TIME) as found:
        needs_time = request.param == "h200"  # two looks at the hardware counters
        found.wait(sound)
        series, _ = found.wait(
            lambda series: sound(series) and (not needs_time or of(series, "hwsonde_gpu_sm_active_ratio")), anew=True
        )
        yield dict(found.shim.recording), series


def test_every_metric_of_the_tables_is_traced() -> None:
    told = {f"hwsonde_gpu_{name}" for name in (*GPU, *MIG, *UNRECORDED)}
    assert told == set(TABLE)


@pytest.mark.parametrize("name", TABLE)
def test_the_value_is_the_recorded_one(name: str, host: tuple[dict[str, Any], Series]) -> None:
    recording, series = host
    wanted, found = expected(recording).get(name, {}), of(series, name)
    assert {tuple(sorted(labels)) for labels in found} == {tuple(sorted(labels)) for labels in wanted}
    for labels, value in wanted.items():
        assert found[labels] == pytest.approx(value, rel=1e-9, abs=1e-9), dict(labels)


def test_most_metrics_have_series_on_some_host() -> None:
    """Else the comparison above would compare nothing with nothing."""
    from tests.nvml_shim.recording import load

    seen = {name for host in HEALTHY for name in expected(load(host))}
    # GPM of MIG devices needs a Hopper that is cut up: see test_changes.py.
    assert set(TABLE) - seen == {f"hwsonde_gpu_{name}" for name in (*UNRECORDED, "mig_sm_active_ratio")}


def test_all_gpus_are_up_and_counted(host: tuple[dict[str, Any], Series]) -> None:
    recording, series = host
    count = len(recording["devices"])
    assert list(of(series, "hwsonde_gpu_up").values()) == [1] * count
    assert one(series, "hwsonde_gpu_devices") == one(series, "hwsonde_gpu_pci_devices") == count
    assert one(series, "hwsonde_gpu_driver_mismatch") == 0
    versions = dict(next(iter(of(series, "hwsonde_gpu_driver_info"))))
    assert (
        versions["driver_version"]
        == versions["kernel_module_version"]
        == recording["system"]["nvmlSystemGetDriverVersion"]
    )
    assert not of(series, "hwsonde_gpu_nvml_errors_total")
    assert not of(series, "hwsonde_gpu_nvml_rejected_readings_total")


def test_counters_of_errors_exist_before_the_first_one(host: tuple[dict[str, Any], Series]) -> None:
    recording, series = host
    for number in range(len(recording["devices"])):
        assert of(series, "hwsonde_gpu_xid_errors_total", gpu=str(number), xid="79")


def test_kinds_agree_with_names() -> None:
    for kind in GPU_KINDS.values():
        for metric in kind.metrics:
            assert (metric.kind is Kind.COUNTER) == metric.name.endswith("_total")


# ---- values that move -----------------------------------------------------------------------------------------------


def test_counters_grow_at_the_recorded_rates(tmp_path: Path) -> None:
    """Between two moments of the recording, counters grow by the exact integral of their rates."""
    with running("h200", tmp_path, fixed=10.0) as host:
        counters = (("hwsonde_gpu_pcie_bytes_total", {"direction": "receive"}), ("hwsonde_gpu_energy_joules_total", {}))
        # A worker that starts slowly has not counted anything yet.
        before, _ = host.wait(lambda series: all(len(of(series, name, **labels)) == 8 for name, labels in counters))
        host.control.freeze(14.0)
        # The GPUs are read one after the other, so the first ones may still be told as they were.
        after, _ = host.wait(
            lambda series: all(
                (one(series, name, gpu=str(gpu), **labels) or 0) > (one(before, name, gpu=str(gpu), **labels) or 0)
                for name, labels in counters
                for gpu in range(8)
            )
        )
        for gpu in range(8):
            calls = host.shim.recording["devices"][gpu]["calls"]
            for name, answer, scale in (
                ("hwsonde_gpu_energy_joules_total", calls["nvmlDeviceGetTotalEnergyConsumption"], 1e-3),
                ("hwsonde_gpu_pcie_bytes_total", calls["nvmlDeviceGetFieldValues"]["198"], 1.0),
            ):
                more = {"direction": "receive"} if "pcie" in name else {}
                grown = (one(after, name, gpu=str(gpu), **more) or 0) - (one(before, name, gpu=str(gpu), **more) or 0)
                ends = [Told({"nvmlX": answer}, [], time).number("nvmlX") or 0 for time in (10.0, 14.0)]
                assert grown == pytest.approx((ends[1] - ends[0]) * scale, rel=1e-9)


@pytest.mark.slow
def test_sampled_quantities_have_the_mean_and_variance_of_the_recorded_wave(tmp_path: Path) -> None:
    """Power swings as a sine, whose variance is half of its swing squared; a little more than a period is watched."""
    with running("h200", tmp_path, hertz=10.0) as host:
        wave = host.shim.recording["devices"][0]["calls"]["nvmlDeviceGetFieldValues"]["186"]
        name = "hwsonde_gpu_power_sampled"
        wanted = 10 * wave["period"]
        found, _ = host.wait(lambda series: (one(series, f"{name}_watts_count", gpu="0") or 0) >= wanted)
        assert not of(found, "hwsonde_gpu_nvml_errors_total")
    count, total, squares = (
        one(found, f"{name}_{suffix}", gpu="0") or 0
        for suffix in ("watts_count", "watts_sum", "watts_squared_deviation_total")
    )
    mean, swing = total / count, wave["swing"] / 1000
    reference = next(
        quantity.reference for quantity in GPU_KINDS["gpu"].quantities if quantity.metric.name == f"{name}_watts"
    )  # type: ignore[attr-defined]
    variance = squares / count - (mean - reference) ** 2
    assert mean == pytest.approx(wave["mean"] / 1000, abs=0.2 * swing)
    assert variance == pytest.approx(swing**2 / 2, rel=0.25)

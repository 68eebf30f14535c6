"""Hosts that change under the exporter: drivers that come and go, resets, MIG, XIDs; and a host that was sick from the start."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hwsonde_exporter import cell
from hwsonde_exporter.nvml import supervisor
from tests.exporter.nvml_hosts.gpu_host import GpuHost, Series, gpus_up, of, one, running
from tests.exporter.nvml_hosts.test_faults_end_to_end import (
    DEADLINE,
    GPUS,
    NOT_ALWAYS,
    PERIOD,
    four_gpus,
    of_gpu,
    readings,
    settled,
)
from tests.nvml_shim.control import NO_PERMISSION, NOT_SUPPORTED, Fault
from tests.nvml_shim.shim_host import ShimHost

ALL_UP = dict.fromkeys(GPUS, 1.0)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[GpuHost]:
    with running(four_gpus(), tmp_path, deadline=DEADLINE, period=PERIOD) as found:
        yield found


# ---- the driver -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (9, "no_driver", "no_kernel_support"),
        (18, "mismatch", "no_kernel_support"),
        (NO_PERMISSION, "no_permission", "no_permission"),
    ],
)
def test_it_starts_without_a_driver_and_finds_it_later(
    error: int, state: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is not there is looked for once a minute.
    monkeypatch.setattr(cell, "PROBE_SECONDS", PERIOD)
    monkeypatch.setattr(supervisor, "_BACK_OFF_SECONDS", (0.0, PERIOD))

    def unload(shim: ShimHost) -> None:
        shim.control.unload_driver(error)

    with running(four_gpus(), tmp_path, deadline=DEADLINE, period=PERIOD, prepare=unload) as host:
        without, _ = host.wait(lambda series: one(series, "hwsonde_gpu_nvml_state", state=state) == 1, anew=True)
        assert not readings(without)
        assert one(without, "hwsonde_exporter_collector_available", collector="gpu", reason=reason) == 0
        assert one(without, "hwsonde_gpu_pci_devices") == 4
        assert one(without, "hwsonde_gpu_devices") == 0
        assert one(without, "hwsonde_gpu_driver_mismatch") == (1 if state == "mismatch" else None)
        host.control.load_driver()
        host.wait(lambda series: gpus_up(series) == ALL_UP)


def test_a_driver_that_is_loaded_anew_is_asked_anew(host: GpuHost) -> None:
    before = settled(host)
    for stale in (1, 2):
        started = host.control.initialisations
        host.control.load_driver(stale)
        host.wait(lambda _, started=started: host.control.initialisations > started)
        wanted = {key for key in readings(before) if key[0] not in NOT_ALWAYS}
        host.wait(lambda series, wanted=wanted: wanted <= readings(series).keys(), anew=True)
        assert gpus_up(host.renewed()) == ALL_UP


def test_a_reset_gpu_gets_new_handles(host: GpuHost) -> None:
    settled(host)
    host.control.reset_gpu(1)
    series, _ = host.wait(lambda series: of(series, "hwsonde_gpu_power_watts", gpu="1"))
    joules = one(series, "hwsonde_gpu_energy_joules_total", gpu="1")
    later, _ = host.wait(lambda series: (one(series, "hwsonde_gpu_energy_joules_total", gpu="1") or 0) > (joules or 0))
    assert gpus_up(later) == ALL_UP


def test_functions_that_the_library_lacks_are_not_called_again_and_again(tmp_path: Path) -> None:
    with running("old-driver", tmp_path, deadline=DEADLINE, period=PERIOD) as host:
        host.wait(lambda series: of(series, "hwsonde_gpu_power_average_watts"))
        before = {
            name: host.control.calls(name)
            for name in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetFanSpeed", "nvmlDeviceGetMarginTemperature")
        }
        memory = before["nvmlDeviceGetMemoryInfo"]
        host.wait(lambda _: host.control.calls("nvmlDeviceGetMemoryInfo") > memory + 4)
        # Its memory is asked for with the older call; what it does not have is not.
        assert host.control.calls("nvmlDeviceGetFanSpeed") == before["nvmlDeviceGetFanSpeed"]
        assert host.control.calls("nvmlDeviceGetMarginTemperature") == 0


def test_what_a_gpu_does_not_have_is_asked_for_once(host: GpuHost) -> None:
    settled(host)
    calls = host.control.calls("nvmlDeviceGetTemperatureThreshold")
    assert calls > 0
    powers = host.control.calls("nvmlDeviceGetClockInfo")
    host.wait(lambda _: host.control.calls("nvmlDeviceGetClockInfo") > powers + 40)
    assert host.control.calls("nvmlDeviceGetTemperatureThreshold") == calls


def test_a_call_that_is_not_supported_is_no_error(host: GpuHost) -> None:
    before = settled(host)
    host.control.inject(Fault(device=1, function="nvmlDeviceGetTotalEnergyConsumption", error=NOT_SUPPORTED))
    after, _ = host.wait(lambda series: not of(series, "hwsonde_gpu_energy_joules_total", gpu="1"), anew=True)
    assert len(of(after, "hwsonde_gpu_energy_joules_total")) == len(GPUS) - 1
    assert {key[0] for key in of_gpu(before, "1") - of_gpu(after, "1")} - NOT_ALWAYS == {
        "hwsonde_gpu_energy_joules_total"
    }
    assert not of(after, "hwsonde_gpu_nvml_errors_total")
    assert gpus_up(after) == ALL_UP


# ---- GPUs that move, and MIG ----------------------------------------------------------------------------------------


def test_a_gpu_keeps_its_series_when_another_one_before_it_is_gone(host: GpuHost) -> None:
    before = settled(host)
    host.control.remove_gpu(0)
    after, _ = host.wait(lambda series: gpus_up(series)["0"] == 0 and not of_gpu(series, "0"), anew=True)
    for gpu in ("1", "2", "3"):
        (labels,) = of(after, "hwsonde_gpu_up", gpu=gpu)
        assert labels in of(before, "hwsonde_gpu_up", gpu=gpu)
        wanted = {key for key in of_gpu(before, gpu) if key[0] not in NOT_ALWAYS}
        assert wanted <= of_gpu(after, gpu)
    host.control.add_gpu(0)
    host.wait(lambda series: gpus_up(series) == ALL_UP and of_gpu(series, "0"))


@pytest.mark.slow
def test_mig_is_switched_on_and_off(host: GpuHost) -> None:
    before = settled(host)
    calls = host.shim.recording["devices"][3]
    host.control.switch_mig(3, on=True)
    cut, _ = host.wait(
        lambda series: (
            len(of(series, "hwsonde_gpu_mig_info", gpu="3")) == 2
            and len(of(series, "hwsonde_gpu_mig_sm_active_ratio", gpu="3")) == 2
        ),
        anew=True,
    )
    assert one(cut, "hwsonde_gpu_mig_enabled", gpu="3", state="current") == 1
    for part in calls["mig"]:
        instance = {"gpu": "3", "gpu_instance": str(part["calls"]["nvmlDeviceGetGpuInstanceId"])}
        assert (
            one(cut, "hwsonde_gpu_mig_memory_used_bytes", **instance)
            == part["calls"]["nvmlDeviceGetMemoryInfo"]["used"]
        )
        assert one(cut, "hwsonde_gpu_mig_sm_active_ratio", **instance) == pytest.approx(
            part["calls"]["nvmlGpmMetricsGet"]["2"] / 100
        )
    assert not of(cut, "hwsonde_gpu_utilization_ratio", gpu="3")
    assert gpus_up(cut) == ALL_UP
    host.control.switch_mig(3, on=None)
    wanted = {key for key in readings(before) if key[0] not in NOT_ALWAYS}
    whole, _ = host.wait(
        lambda series: wanted <= readings(series).keys() and not of(series, "hwsonde_gpu_mig_info"), anew=True
    )
    assert gpus_up(whole) == ALL_UP


@pytest.mark.slow
def test_a_process_struct_of_another_size_gives_no_nonsense(host: GpuHost) -> None:
    before = settled(host)
    pids = {dict(labels)["pid"] for labels in of(before, "hwsonde_gpu_process_memory_bytes")}
    many = [{"pid": 48_400 + number, "usedGpuMemory": 1 << 30} for number in range(5)]
    host.control.answer(0, "nvmlDeviceGetComputeRunningProcesses_v3", many)
    host.wait(lambda series: len(of(series, "hwsonde_gpu_process_memory_bytes", gpu="0")) == 5)
    host.control.grow_processes(32)
    odd, _ = host.wait(lambda series: len(of(series, "hwsonde_gpu_process_memory_bytes", gpu="0")) != 5)
    found = {dict(labels)["pid"] for labels in of(odd, "hwsonde_gpu_process_memory_bytes")}
    assert found <= pids | {str(row["pid"]) for row in many}
    for value in of(odd, "hwsonde_gpu_process_memory_bytes").values():
        assert 0 <= value < 1 << 40


# ---- counters -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_counter_of_32_bits_that_wraps_goes_on_growing(tmp_path: Path) -> None:
    recording = four_gpus()
    with running(recording, tmp_path, deadline=DEADLINE, period=PERIOD) as host:
        settled(host)
        wrapping = {"197": {"start": 2**32 - 60_000, "rate": 40_000.0, "wrap": 32, "type": "uint"}}
        host.control.freeze(0.0)
        host.control.answer(1, "nvmlDeviceGetFieldValues", wrapping)
        labels = {"gpu": "1", "direction": "transmit"}
        calls = host.control.calls("nvmlDeviceGetFieldValues")
        host.wait(lambda _: host.control.calls("nvmlDeviceGetFieldValues") > calls + 40)
        total = one(host.series(), "hwsonde_gpu_pcie_bytes_total", **labels) or 0
        for second in range(1, 5):
            host.control.freeze(float(second))
            found, _ = host.wait(
                lambda series, total=total: (one(series, "hwsonde_gpu_pcie_bytes_total", **labels) or 0) > total
            )
            grown = (one(found, "hwsonde_gpu_pcie_bytes_total", **labels) or 0) - total
            assert grown == pytest.approx(40_000, abs=1)
            total += grown


def test_a_counter_that_stumbles_once_does_not_look_like_a_restart(host: GpuHost) -> None:
    before = settled(host)
    joules = one(before, "hwsonde_gpu_energy_joules_total", gpu="1") or 0
    host.control.inject(Fault(device=1, function="nvmlDeviceGetTotalEnergyConsumption", error=999, one_in=2))
    last, seen = joules, 0
    end = time.monotonic() + 4 * PERIOD
    while time.monotonic() < end or not seen:
        value = one(host.series(), "hwsonde_gpu_energy_joules_total", gpu="1")
        if value is not None:
            assert value >= last
            seen += value > last
            last = value
        time.sleep(PERIOD / 10)


# ---- XIDs -----------------------------------------------------------------------------------------------------------


def xids(series: Series, gpu: str, code: str) -> float:
    return one(series, "hwsonde_gpu_xid_errors_total", gpu=gpu, xid=code) or 0


def test_an_xid_is_counted_once_with_its_gpu(host: GpuHost) -> None:
    settled(host)
    for _ in range(3):
        host.control.xid(1, 79)
    host.control.xid(3, 48)
    series, _ = host.wait(lambda series: xids(series, "1", "79") == 3 and xids(series, "3", "48") == 1)
    assert one(series, "hwsonde_gpu_xid_last_timestamp_seconds", gpu="1", xid="79")
    assert of(series, "hwsonde_gpu_xid_info", xid="79")
    assert all(
        value == 0
        for labels, value in of(series, "hwsonde_gpu_xid_errors_total").items()
        if dict(labels)["gpu"] in {"0", "2"}
    )


def test_xids_are_neither_lost_nor_doubled_when_the_worker_is_replaced(host: GpuHost) -> None:
    settled(host)
    host.control.xid(0, 94)
    host.wait(lambda series: xids(series, "0", "94") == 1)
    started = host.control.initialisations
    host.control.load_driver()
    host.wait(lambda _: host.control.initialisations > started)
    host.wait(
        lambda series: gpus_up(series) == ALL_UP and one(series, "hwsonde_gpu_xid_source_up", source="nvml") == 1,
        anew=True,
    )
    host.control.xid(0, 94)
    series, _ = host.wait(lambda series: xids(series, "0", "94") >= 2)
    assert xids(series, "0", "94") == 2


# ---- a host that is sick from the start -----------------------------------------------------------------------------


def test_a_sick_host_shows_what_ails_it(tmp_path: Path) -> None:
    with running("sick", tmp_path, deadline=DEADLINE, period=PERIOD) as host:
        series, _ = host.wait(
            lambda series: (
                one(series, "hwsonde_gpu_nvml_skipped", gpu="4", call="*") == 1
                and of(series, "hwsonde_gpu_row_remap_failed", gpu="1")
                and of(series, "hwsonde_gpu_nvlink_up", gpu="6")
            ),
            anew=True,
        )
        up = gpus_up(series)
        assert {gpu: up[gpu] for gpu in ("0", "1", "2", "5", "6", "7")} == dict.fromkeys(
            ("0", "1", "2", "5", "6", "7"), 1
        )
        assert up["4"] == 0
        # The lost one never told its UUID: it is missing from the count of those that answer, but not from the driver's.
        assert up.get("3", 0) == 0
        assert one(series, "hwsonde_gpu_devices") == 8
        assert not of_gpu(series, "3")
        assert one(series, "hwsonde_gpu_row_remap_failed", gpu="1") == 1
        assert one(series, "hwsonde_gpu_row_remap_banks", gpu="1", availability="none") == 1
        assert one(series, "hwsonde_gpu_sram_ecc_threshold_exceeded", gpu="1") == 1
        assert one(series, "hwsonde_gpu_row_remap_pending", gpu="2") == 1
        assert one(series, "hwsonde_gpu_recovery_action", gpu="2") == 1
        assert one(series, "hwsonde_gpu_clocks_event_active", gpu="5", reason="hw_thermal_slowdown") == 1
        assert (one(series, "hwsonde_gpu_temperature_margin_celsius", gpu="5") or 0) <= 1
        assert one(series, "hwsonde_gpu_nvlink_up", gpu="6", link="11") == 0
        assert (one(series, "hwsonde_gpu_nvlink_errors_total", gpu="6", link="3", error="crc_flit") or 0) > 70_000
        assert one(series, "hwsonde_gpu_fabric_degraded", gpu="6", aspect="degraded_bandwidth") == 1
        assert one(series, "hwsonde_gpu_pcie_link_width_lanes", gpu="7") == 4
        assert one(series, "hwsonde_gpu_pcie_link_generation", gpu="7") == 3
        assert (one(series, "hwsonde_gpu_pcie_replays_total", gpu="7") or 0) > 88_000
        assert of_gpu(series, "0")

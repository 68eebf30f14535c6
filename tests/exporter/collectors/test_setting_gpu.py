"""Settings of GPUs from the worker's answers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors._setting_gpu import gpu_rows
from hwsonde_exporter.collectors._setting_rows import MAX_VALUE
from hwsonde_exporter.nvml.answer import Answer, Device, Reading, WorkerState

READINGS = (
    Reading("info", ("NVIDIA H200", "0000:3a:00.0", "165", "96.00.CF.00.02", "hopper", "9.0", "0"), 1),
    Reading("firmware_info", ("G520.0280.00.05", "570.86.15", ""), 1),
    Reading("persistence_mode_enabled", (), 1),
    Reading("compute_mode", (), 3),
    Reading("ecc_enabled", ("current",), 1),
    Reading("ecc_enabled", ("pending",), 0),
    Reading("mig_enabled", ("current",), 1),
    Reading("mig_enabled", ("pending",), 1),
    Reading("mig_info", ("MIG-2", "2", "0", "3g.71gb"), 1),
    Reading("mig_info", ("MIG-1", "1", "0", "1g.18gb"), 1),
    Reading("power_limit_watts", ("requested",), 650_000),
    Reading("power_limit_watts", ("default",), 700_000),
    Reading("application_clock_hertz", ("graphics",), 1980),
    Reading("application_clock_hertz", ("memory",), 3201),
    Reading("utilization_ratio", (), 97),
)


def rows(*devices: Device, **driver: str) -> dict[tuple[str, str], str]:
    found = list(gpu_rows(Answer(WorkerState.RUNNING, "", devices, len(devices), driver)))
    assert len({(row.setting, row.device) for row in found}) == len(found)
    return {(row.setting, row.device): row.value for row in found}


def test_every_setting_of_a_gpu() -> None:
    found = rows(
        Device("3", "GPU-a", "0000:3a:00.0", True, "", READINGS), driver_version="570.86.15", cuda_version="12.8"
    )
    assert found == {
        ("gpu.driver", ""): "570.86.15",
        ("gpu.driver_cuda", ""): "12.8",
        ("gpu.model", "gpu3"): "NVIDIA H200",
        ("gpu.vbios", "gpu3"): "96.00.CF.00.02",
        ("gpu.inforom", "gpu3"): "G520.0280.00.05",
        ("gpu.firmware", "gpu3"): "570.86.15",
        ("gpu.persistence", "gpu3"): "on",
        ("gpu.compute_mode", "gpu3"): "exclusive process",
        ("gpu.ecc", "gpu3"): "on",
        ("gpu.ecc_after_reset", "gpu3"): "off",
        ("gpu.mig", "gpu3"): "on",
        ("gpu.mig_after_reset", "gpu3"): "on",
        ("gpu.mig_profiles", "gpu3"): "1g.18gb 3g.71gb",
        ("gpu.power_limit_watts", "gpu3"): "650",
        ("gpu.power_limit_default_watts", "gpu3"): "700",
        ("gpu.application_clock_graphics_megahertz", "gpu3"): "1980",
        ("gpu.application_clock_memory_megahertz", "gpu3"): "3201",
    }


def test_no_serial_number_and_no_uuid_is_a_setting() -> None:
    found = rows(Device("3", "GPU-a", "0000:3a:00.0", True, "", READINGS))
    assert not {"165", "GPU-a", "MIG-1"} & set(" ".join(found.values()).split())


def test_a_gpu_that_does_not_answer_has_no_settings() -> None:
    assert rows(Device("3", "GPU-a", "0000:3a:00.0", False, "gpu_is_lost")) == {}
    assert list(gpu_rows(Answer(WorkerState.NO_DRIVER))) == []


def test_what_no_gpu_has_is_left_out() -> None:
    readings = (
        Reading("compute_mode", (), 17), Reading("persistence_mode_enabled", (), 4294967295), Reading("mig_info", ("short",), 1),
        Reading("power_limit_watts", ("requested",), 4294967295), Reading("application_clock_hertz", ("memory",), 0), Reading("info", (), 1),
    )  # fmt: skip
    assert rows(Device("0", "GPU-a", "", True, "", readings)) == {}


@given(
    st.lists(
        st.tuples(
            st.sampled_from([reading.name for reading in READINGS]),
            st.lists(st.text(max_size=300), max_size=5).map(tuple),
            st.floats(-1e12, 1e12),
        )
    )
)
def test_any_answer_is_survived(readings: list[tuple[str, tuple[str, ...], float]]) -> None:
    device = Device("0", "GPU-a", "", True, "", tuple(Reading(*reading) for reading in readings))
    for row in gpu_rows(Answer(WorkerState.RUNNING, "", (device,))):
        assert len(row.value) <= MAX_VALUE
        assert row.setting.startswith("gpu.")

"""From readings to samples: ranges, scales, counters; and what the collectors say where there is nothing to read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors import (
    _gpu_health_table,
    _gpu_parts_table,
    _gpu_state_table,
    gpu,
    gpu_driver,
    gpu_health,
    gpu_identity,
    gpu_mig,
    gpu_nvlink,
)
from hwsonde_exporter.collectors._gpu_rows import Converter, Growth, Steady, by_reading, is_blank
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host, Paths
from hwsonde_exporter.metric import Kind, Sample
from hwsonde_exporter.nvml.answer import Answer, Device, Reading, WorkerState
from hwsonde_exporter.nvml.client import NvmlSettings
from hwsonde_exporter.privacy import Level, Privacy
from tests.exporter.collectors.hosts import fixture_host

TABLES = (
    _gpu_state_table.STATE, _gpu_health_table.HEALTH, _gpu_health_table.IDENTITY, _gpu_parts_table.NVLINK,
    _gpu_parts_table.NVLINK_HEALTH, _gpu_parts_table.PROCESSES, _gpu_parts_table.MIG,
)  # fmt: skip
ROWS = by_reading(row for table in TABLES for row in table)
BLANKS = [
    (1 << 32) - 1, (1 << 64) - 1, (1 << 63) - 1, 1 << 63, 0x7FFFFFFFFFFFFFF0, 1 << 47, (1 << 47) + 3, (1 << 31) - 1, 1e300,
]  # fmt: skip


def device(*readings: Reading, index: str = "0", uuid: str = "GPU-a", up: bool | None = True, **more: Any) -> Device:
    return Device(index, uuid, "0000:3a:00.0", up, readings=readings, **more)


def shown(samples: Sequence[Sample]) -> dict[tuple[str, ...], float]:
    return {(sample.metric.name.removeprefix("hwsonde_gpu_"), *sample.labels[2:]): sample.value for sample in samples}


class FakeClient:
    """Gives the answers that it is given, the last one again and again."""

    def __init__(self, *answers: Answer, serials: bool = False) -> None:
        self.settings = NvmlSettings(serials=serials)
        self.answers = list(answers)
        self.rejections: dict[str, int] = {}
        self.fast: list[tuple[str, str, str, float]] = []
        self.calls: list[tuple[str, float]] = []

    def collect(self, groups: Sequence[str], every: float = 0.0) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def reject(self, readings: dict[str, int]) -> None:
        for name, count in readings.items():
            self.rejections[name] = self.rejections.get(name, 0) + count

    def take_fast(self) -> list[tuple[str, str, str, float]]:
        return self.fast

    def take_calls(self) -> list[tuple[str, float]]:
        calls, self.calls = self.calls, []
        return calls

    def errors(self) -> dict[tuple[str, str], int]:
        return {("ecc", "unknown"): 2}

    def restarts(self) -> dict[str, int]:
        return {"hung": 1, "crashed": 0}

    def rejected(self) -> dict[str, int]:
        return {"power_watts": 3}


def host_with(client: FakeClient) -> Host:
    host = fixture_host("node192")
    return Host(host.paths, host.files, nvml=client)  # type: ignore[arg-type]


# ---- one reading ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "labels", "raw", "value"),
    [
        ("utilization_ratio", (), 97, 0.97),
        ("sm_active_ratio", (), 100.4, 1.0),
        ("memory_used_bytes", (), 123_731_968_000, 123_731_968_000),
        ("clock_hertz", ("sm",), 1980, 1.98e9),
        ("power_watts", ("gpu",), 655_883, 655.883),
        ("energy_joules_total", (), 362_457_983_931, 362_457_983.931),
        ("throttled_seconds_total", ("power",), 1_500_000_000, 1.5),
        ("temperature_margin_celsius", (), -3, -3),
        ("pcie_rate_bytes_per_second", ("transmit",), 1024.0, 1024.0 * 2**20),
        ("pcie_throughput_bytes_per_second", ("receive",), 7, 7000),
        ("nvlink_speed_bytes_per_second", ("0",), 26_562, 26_562e6),
        ("performance_state", (), 32, None),
        ("utilization_ratio", (), 101, None),
        ("temperature_celsius", ("memory",), 0, None),
        ("power_limit_watts", ("max",), 0, None),
        ("pcie_link_width_lanes", (), 0, None),
        ("process_sm_utilization_ratio", ("7",), 4_294_967_295, None),
    ],
)
def test_a_reading_becomes_a_value_in_the_metrics_unit(
    name: str, labels: tuple[str, ...], raw: float, value: float | None
) -> None:
    converter = Converter(ROWS)
    samples = converter.samples([device(Reading(name, labels, raw))])
    assert shown(samples) == ({} if value is None else {(name, *labels): value})
    assert converter.rejected == ({name: 1} if value is None else {})


@pytest.mark.parametrize("raw", BLANKS)
@pytest.mark.parametrize("name", ROWS)
def test_blanks_are_rejected_by_every_row(name: str, raw: float) -> None:
    converter = Converter(ROWS)
    labels = ("x",) * (len(ROWS[name].metric.labels) - 2)
    assert converter.samples([device(Reading(name, labels, raw))]) == []


def test_blank_patterns() -> None:
    assert all(is_blank(raw) for raw in BLANKS if 0 < raw < 1e20)
    assert not any(is_blank(raw) for raw in (0, 1, (1 << 47) + 16, (1 << 47) - 1, 1 << 32, 1 << 62))


@given(
    readings=st.lists(
        st.builds(
            Reading,
            st.sampled_from(sorted(ROWS)) | st.text(max_size=4),
            st.lists(st.text(max_size=6), max_size=4).map(tuple),
            st.integers(-(1 << 65), 1 << 65) | st.floats(allow_nan=False, allow_infinity=False),
        ),
        max_size=20,
    )
)
def test_whatever_is_read_the_samples_are_sound(readings: list[Reading]) -> None:
    converter = Converter(ROWS)
    for _ in range(2):
        seen = set()
        for sample in converter.samples([device(*readings)]):
            assert (sample.metric.name, sample.labels) not in seen
            seen.add((sample.metric.name, sample.labels))
            assert len(sample.labels) == len(sample.metric.labels)
            assert sample.metric.kind is Kind.GAUGE or sample.value >= 0
            assert abs(sample.value) < 1e19
            assert all(label.isprintable() or not label for label in sample.labels)


def test_counters_that_wrap_and_counters_that_are_set_back() -> None:
    growth = Growth()
    key = ("pcie_bytes_total",)
    assert growth.total(key, 4_000_000_000, 32) == 0
    assert growth.total(key, 5, 32) == (1 << 32) - 4_000_000_000 + 5
    other = ("other",)
    assert [growth.total(other, raw, 64) for raw in (1 << 40, (1 << 40) + 7, 3)] == [0, 7, 10]
    narrow = ("said to have 64 bits",)
    assert [growth.total(narrow, raw, 64) for raw in ((1 << 32) - 10, 10)] == [0, 20]


@given(steps=st.lists(st.integers(0, 1 << 31), max_size=20), start=st.integers(0, (1 << 32) - 1))
def test_a_counter_of_32_bits_is_followed_wherever_it_wraps(steps: list[int], start: int) -> None:
    growth, true = Growth(), start
    growth.total(("a",), start, 32)
    for step in steps:
        true += step
        assert growth.total(("a",), true % (1 << 32), 32) == true - start


def test_a_lone_fall_is_not_believed_and_a_second_is() -> None:
    steady = Steady()
    assert [steady.value(("a",), raw) for raw in (100, 0, 110, 0, 5, 7)] == [100, 100, 110, 110, 5, 7]


def test_texts_of_the_driver_are_made_fit_for_labels() -> None:
    labels = ("H200\n\x00\x1b", "0000:3a:00.0", "", "é" * 300, "hopper", "9.0", "")
    sample = Converter(ROWS).samples([device(Reading("info", labels, 1))])[0]
    assert sample.labels[2] == "H200 ??"
    assert len(sample.labels[5]) == 128


# ---- the collectors ------------------------------------------------------------------------------------------------


def test_gpus_that_do_not_answer_are_named_and_those_nobody_could_ask_left_out() -> None:
    devices = (
        device(Reading("utilization_ratio", (), 50)),
        device(index="1", uuid="GPU-b", up=False),
        device(index="2", uuid="GPU-c", up=None),
        device(index="3", uuid="GPU-d", skipped={"ecc": 5.0}),
    )
    collector = gpu.GpuCollector(host_with(FakeClient(Answer(WorkerState.RUNNING, devices=devices, gpus=4))))
    samples = list(collector.collect())
    assert {sample.labels[1]: sample.value for sample in samples if sample.metric is gpu.UP} == {
        "GPU-a": 1,
        "GPU-b": 0,
        "GPU-d": 1,
    }
    assert [sample.labels for sample in samples if sample.metric is gpu.SKIPPED] == [("3", "GPU-d", "ecc")]


def test_a_gpu_that_was_never_reached_is_named_by_the_kernel() -> None:
    lost = tuple(Device(str(number), "", "", up=False, error="gpu_is_lost") for number in range(8))
    client = FakeClient(
        Answer(WorkerState.RUNNING, devices=lost, gpus=8), Answer(WorkerState.RUNNING, devices=lost, gpus=7)
    )
    collector = gpu.GpuCollector(host_with(client))
    # The last one was never woken, so that the kernel does not know it either.
    assert [sample.labels[1][:4] for sample in collector.collect()] == ["GPU-"] * 7 + [""]
    assert {sample.labels[1] for sample in collector.collect()} == {""}


def test_samples_are_observed_with_the_range_and_scale_of_their_reading() -> None:
    client = FakeClient(Answer(WorkerState.RUNNING))
    client.fast = [("0", "GPU-a", "power", 655_000), ("0", "GPU-a", "utilization", 255), ("0", "GPU-a", "clock", 1980)]
    found = gpu.GpuCollector(host_with(client)).observe()
    assert [(quantity.metric.name, labels, value) for quantity, labels, value in found] == [
        ("hwsonde_gpu_power_sampled_watts", ("0", "GPU-a"), 655.0),
        ("hwsonde_gpu_clock_sampled_hertz", ("0", "GPU-a"), 1.98e9),
    ]
    assert gpu.GpuCollector(Host()).observe() == []


def test_serial_numbers_are_shown_on_request_and_the_kernel_knows_the_node() -> None:
    labels = ("NVIDIA H200", "0000:3a:00.0", "1654", "96.00", "hopper", "9.0", "")
    answer = Answer(WorkerState.RUNNING, devices=(device(Reading("info", labels, 1)),))
    for serials, serial in ((False, ""), (True, "1654")):
        collector = gpu_identity.GpuIdentityCollector(host_with(FakeClient(answer, serials=serials)))
        (sample,) = collector.collect()
        assert dict(zip(gpu_identity.INFO.labels, sample.labels, strict=True)) | {"numa_node": ""} == {
            "gpu": "0", "uuid": "GPU-a", "name": "NVIDIA H200", "pci_bus_id": "0000:3a:00.0", "serial": serial, "vbios_version": "96.00",
            "architecture": "hopper", "compute_capability": "9.0", "numa_node": "",
        }  # fmt: skip
        assert sample.labels[-1] == "0"


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (WorkerState.NO_LIBRARY, Reason.MISSING_TOOL),
        (WorkerState.NO_BINDING, Reason.MISSING_TOOL),
        (WorkerState.NO_DRIVER, Reason.NO_KERNEL_SUPPORT),
        (WorkerState.MISMATCH, Reason.NO_KERNEL_SUPPORT),
        (WorkerState.NO_PERMISSION, Reason.NO_PERMISSION),
        (WorkerState.HUNG, None),
        (WorkerState.STUCK, None),
        (WorkerState.STARTING, None),
    ],
)
def test_why_there_is_nothing_is_said_where_it_lasts(state: WorkerState, reason: Reason | None) -> None:
    collector = gpu_health.GpuHealthCollector(host_with(FakeClient(Answer(state, "it is so"))))
    if reason is None:
        collector.probe()
        assert list(collector.collect()) == []
        return
    with pytest.raises(Unavailable) as caught:
        collector.probe()
    assert (caught.value.reason, caught.value.detail) == (reason, "it is so")
    # What worked before and is lost is reported as lost.
    lost = Answer(state, devices=(device(up=False),))
    gpu.GpuCollector(host_with(FakeClient(lost))).probe()


def test_what_nobody_answered_is_no_answer_of_a_host_without_anything() -> None:
    answer = Answer(WorkerState.STARTING, "the driver is being asked for its GPUs", unanswered=True)
    collector = gpu_health.GpuHealthCollector(host_with(FakeClient(answer)))
    for ask in (collector.probe, collector.collect):
        with pytest.raises(
            ReadError, match=r"^the GPUs could not be asked \(starting\): the driver is being asked for its GPUs$"
        ):
            ask()


@pytest.mark.parametrize(
    "kind", [gpu_nvlink.GpuNvlinkCollector, gpu_nvlink.GpuNvlinkHealthCollector, gpu_mig.GpuMigCollector]
)
def test_what_no_gpu_has_is_named(kind: Any) -> None:
    with pytest.raises(Unavailable) as caught:
        kind(host_with(FakeClient(Answer(WorkerState.RUNNING, devices=(device(),))))).probe()
    assert caught.value.reason is Reason.NO_HARDWARE
    left_out = {kind.groups[0]: 3.0}
    kind(host_with(FakeClient(Answer(WorkerState.RUNNING, devices=(device(skipped=left_out),))))).probe()
    # What is left out of the GPU beside it says nothing of this.
    with pytest.raises(Unavailable):
        kind(host_with(FakeClient(Answer(WorkerState.RUNNING, devices=(device(skipped={"events": 3.0}),))))).probe()


def test_readings_that_are_rejected_reach_the_client() -> None:
    client = FakeClient(Answer(WorkerState.RUNNING, devices=(device(Reading("power_watts", ("gpu",), -5)),)))
    collector = gpu.GpuCollector(host_with(client))
    for _ in range(2):
        collector.collect()
    assert client.rejections == {"power_watts": 2}


def test_a_host_without_gpus_says_so(tmp_path: Path) -> None:
    host = Host(Paths(tmp_path, tmp_path, tmp_path), nvml=FakeClient(Answer(WorkerState.RUNNING)))  # type: ignore[arg-type]
    for kind in (gpu.GpuCollector, gpu_driver.GpuDriverCollector):
        with pytest.raises(Unavailable) as caught:
            kind(host).probe()
        assert caught.value.reason is Reason.NO_HARDWARE


# ---- the driver ----------------------------------------------------------------------------------------------------


def driver_samples(answer: Answer, **calls: Any) -> dict[tuple[str, ...], float]:
    client = FakeClient(answer)
    client.calls = [("ecc", 0.002), ("ecc", 0.2)]
    collector = gpu_driver.GpuDriverCollector(host_with(client))
    collector.probe()
    return {
        (sample.metric.name.removeprefix("hwsonde_gpu_") + sample.suffix, *sample.labels): sample.value
        for sample in collector.collect()
    }


def test_versions_counts_and_calls_are_told() -> None:
    versions = {"driver_version": "550.90.07", "nvml_version": "12.550.90.07", "cuda_version": "12.4"}
    found = driver_samples(Answer(WorkerState.RUNNING, gpus=8, driver=versions))
    assert found["pci_devices",] == found["devices",] == 8
    assert found["driver_mismatch",] == 0
    assert found["driver_info", "550.90.07", "12.550.90.07", "12.4", "550.90.07"] == 1
    assert found["nvml_state", "running"] == 1
    assert sum(value for key, value in found.items() if key[0] == "nvml_state") == 1
    assert found["nvml_call_seconds_count", "ecc"] == 2
    assert found["nvml_call_seconds_bucket", "ecc", "0.003"] == 1
    assert found["nvml_errors_total", "ecc", "unknown"] == 2
    assert found["nvml_restarts_total", "hung"] == 1
    assert found["nvml_rejected_readings_total", "power_watts"] == 3


@pytest.mark.parametrize("state", ["no_library", "no_binding", "no_permission", "error"])
def test_gpus_of_which_the_library_says_nothing_are_counted_as_none_where_there_are_some(
    state: str, tmp_path: Path
) -> None:
    found = driver_samples(Answer(WorkerState(state)))
    assert (found["pci_devices",], found["devices",], found["nvml_state", state]) == (8, 0, 1)
    # A driver is loaded, and the bus has no GPU.
    client = FakeClient(Answer(WorkerState(state)))
    bare = gpu_driver.GpuDriverCollector(Host(Paths(tmp_path, tmp_path, tmp_path), nvml=client))  # type: ignore[arg-type]
    names = {sample.metric.name for sample in bare.collect()}
    assert "hwsonde_gpu_nvml_state" in names
    assert "hwsonde_gpu_devices" not in names


def test_versions_that_differ_and_a_library_that_refuses_are_a_mismatch() -> None:
    assert (
        driver_samples(Answer(WorkerState.RUNNING, gpus=8, driver={"driver_version": "570.1"}))["driver_mismatch",] == 1
    )
    found = driver_samples(Answer(WorkerState.MISMATCH))
    assert (found["driver_mismatch",], found["devices",]) == (1, 0)
    found = driver_samples(Answer(WorkerState.STUCK))
    assert ("devices",) not in found
    assert ("driver_mismatch",) not in found
    assert found["nvml_state", "stuck"] == 1


def test_a_collection_right_after_a_probe_asks_no_second_time() -> None:
    first = Answer(WorkerState.RUNNING, devices=(device(Reading("utilization_ratio", (), 50)),))
    second = Answer(WorkerState.RUNNING, devices=(device(Reading("utilization_ratio", (), 60)),))
    collector = gpu.GpuCollector(host_with(FakeClient(first, second)))
    collector.probe()
    values = [shown(list(collector.collect()))["utilization_ratio",] for _ in range(2)]
    assert values == [0.5, 0.6]


def test_nothing_personal_is_left_where_privacy_is_strict() -> None:
    metric = ROWS["mig_info"].metric
    (labels,) = Privacy(Level.STRICT, b"k" * 32).labels([metric], [("0", "GPU-a", "MIG-b", "1", "0", "3g.40gb")])
    assert "GPU-a" not in labels
    assert "MIG-b" not in labels

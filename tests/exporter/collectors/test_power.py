from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors._powercap import Unwrapped, package_of, zones
from hwsonde_exporter.collectors.power_host import PowerHostCollector
from hwsonde_exporter.collectors.power_rapl import POWER_SAMPLED, PowerRaplCollector
from hwsonde_exporter.collectors.power_rapl_limit import PowerRaplLimitCollector
from hwsonde_exporter.collectors.power_sensor import PowerSensorCollector, watts
from hwsonde_exporter.collectors.voltage import VoltageCollector
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from tests.exporter.collectors.hosts import NoController, fixture_host, values
from tests.exporter.collectors.trees import Forbidden, tree_host

CAP = "sys/class/powercap"
INTEL = {"sys/devices/system/cpu/modalias": "cpu:type:x86,ven0000fam0006mod008F:feature:"}
RANGE = 262_143_328_850


def zone(name: str, title: str, energy: int = 0, energy_range: int | None = RANGE) -> dict[str, str]:
    files = {f"{CAP}/{name}/name": title, f"{CAP}/{name}/energy_uj": str(energy)}
    return files if energy_range is None else files | {f"{CAP}/{name}/max_energy_range_uj": str(energy_range)}


def set_energy(folder: Path, name: str, energy: int | str) -> None:
    (folder / CAP / name / "energy_uj").write_text(f"{energy}\n")


def joules(collector: PowerRaplCollector) -> dict[tuple[str, ...], float]:
    return {key[1:]: value for key, value in values(list(collector.collect())).items()}


# ---- zones ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "identity"),
    [
        ("package-0", ("0", "", "package")),
        ("package-11", ("11", "", "package")),
        ("package-1-die-0", ("1", "0", "package")),
        ("psys", ("0", "", "psys")),
        ("psys-1", ("1", "", "psys")),
    ],
)
def test_names_of_zones_at_the_top(name: str, identity: tuple[str, str, str]) -> None:
    assert package_of(name) == identity


@given(st.text())
def test_other_names_are_none(name: str) -> None:
    assert package_of(name) is None or name.startswith(("package-", "psys"))


def test_a_client_shows_its_package_twice_but_it_counts_once(tmp_path: Path) -> None:
    files = INTEL | zone("intel-rapl:0", "package-0", 5) | zone("intel-rapl:0:0", "core", 3)
    files |= zone("intel-rapl:0:1", "uncore", 1) | zone("intel-rapl:1", "psys", 9)
    files |= zone("intel-rapl-mmio:0", "package-0", 5) | {f"{CAP}/intel-rapl/enabled": "1"}
    found = zones(tree_host(tmp_path, files))
    assert [(zone.package, zone.domain) for zone in found] == [
        ("0", "package"), ("0", "psys"), ("0", "core"), ("0", "uncore"),
    ]  # fmt: skip
    assert "mmio" not in found[0].path


def test_a_package_that_is_shown_only_through_memory_counts(tmp_path: Path) -> None:
    assert len(zones(tree_host(tmp_path, INTEL | zone("intel-rapl-mmio:0", "package-0")))) == 1


def test_the_core_of_amd_is_one_core_and_left_out(tmp_path: Path) -> None:
    files = {"sys/devices/system/cpu/modalias": "cpu:type:x86,ven0002fam0019mod0011:feature:"}
    files |= zone("intel-rapl:0", "package-0") | zone("intel-rapl:0:0", "core")
    assert [zone.domain for zone in zones(tree_host(tmp_path, files))] == ["package"]


def test_a_part_without_its_package_and_an_odd_zone_are_left_out(tmp_path: Path) -> None:
    files = INTEL | zone("intel-rapl:7:0", "dram") | zone("intel-rapl:1", "cluster-1") | zone("dtpm:0", "package-0")
    assert zones(tree_host(tmp_path, files)) == []


# ---- energy --------------------------------------------------------------------------------------------------------


def test_energy_starts_at_nothing_and_wraps() -> None:
    energy = Unwrapped()
    for value in (1_000, 1_500, 400, 400):
        assert energy.update(value, 2_000)
    assert energy.total == 500 + 900
    assert not energy.update(2_001, 2_000)
    assert energy.total == 1_400


def test_a_wrap_of_unknown_range_gives_what_is_known() -> None:
    energy = Unwrapped()
    for value in (1_000, 300):
        energy.update(value, None)
    assert energy.total == 300


@given(st.lists(st.integers(0, RANGE - 1), min_size=1, max_size=50))
def test_unwrapped_energy_is_the_true_energy(steps: list[int]) -> None:
    energy = Unwrapped()
    true = 0
    energy.update(0, RANGE)
    for step in steps:
        true += step
        energy.update(true % RANGE, RANGE)
    assert energy.total == true


@given(st.lists(st.tuples(st.integers(0, 1 << 64), st.one_of(st.none(), st.integers(0, 1 << 64)))))
def test_energy_never_decreases(readings: list[tuple[int, int | None]]) -> None:
    energy, last = Unwrapped(), 0
    for value, energy_range in readings:
        energy.update(value, energy_range)
        assert energy.total >= last
        last = energy.total


def test_energy_by_package_and_domain(tmp_path: Path) -> None:
    files = INTEL | zone("intel-rapl:0", "package-0", RANGE - 1_000_000) | zone("intel-rapl:0:0", "dram", 7)
    collector = PowerRaplCollector(tree_host(tmp_path, files))
    collector.probe()
    assert joules(collector) == {("0", "package"): 0, ("0", "dram"): 0}
    set_energy(tmp_path, "intel-rapl:0", 2_000_000)
    set_energy(tmp_path, "intel-rapl:0:0", 500_007)
    assert joules(collector) == {("0", "package"): 3, ("0", "dram"): 0.5}


def test_dies_are_summed_and_none_is_forgotten(tmp_path: Path) -> None:
    files = INTEL | zone("intel-rapl:0", "package-0-die-0") | zone("intel-rapl:1", "package-0-die-1")
    collector = PowerRaplCollector(tree_host(tmp_path, files))
    collector.probe()
    joules(collector)
    set_energy(tmp_path, "intel-rapl:0", 1_000_000)
    set_energy(tmp_path, "intel-rapl:1", 2_000_000)
    assert joules(collector) == {("0", "package"): 3}
    set_energy(tmp_path, "intel-rapl:1", "junk")
    with pytest.raises(ReadError):
        collector.collect()
    assert collector.observe() == []
    set_energy(tmp_path, "intel-rapl:1", 2_500_000)
    assert joules(collector) == {("0", "package"): 3.5}


def test_the_sampler_gets_packages_only() -> None:
    source = PowerRaplCollector(fixture_host("node192"))
    assert [(quantity, labels) for quantity, labels, _ in source.observe()] == [
        (POWER_SAMPLED, ("0",)),
        (POWER_SAMPLED, ("1",)),
    ]


def test_root_only_counters_are_told(tmp_path: Path) -> None:
    collector = PowerRaplCollector(
        tree_host(tmp_path, INTEL | zone("intel-rapl:0", "package-0"), Forbidden("energy_uj"))
    )
    with pytest.raises(Unavailable, match="CAP_DAC_READ_SEARCH") as caught:
        collector.probe()
    assert caught.value.reason is Reason.NO_PERMISSION
    with pytest.raises(ReadError):
        collector.collect()


@pytest.mark.parametrize("kind", [PowerRaplCollector, PowerRaplLimitCollector])
def test_zones_that_a_container_hides_are_told(kind: type, tmp_path: Path) -> None:
    files = {f"{CAP}/intel-rapl:0": "-> ../../devices/virtual/powercap/intel-rapl/intel-rapl:0"}
    with pytest.raises(Unavailable, match=r"--path\.sysfs") as caught:
        kind(tree_host(tmp_path, files)).probe()
    assert caught.value.reason is Reason.NO_PERMISSION


def test_counters_that_fail_otherwise_are_told(tmp_path: Path) -> None:
    files = INTEL | zone("intel-rapl:0", "package-0")
    host = tree_host(tmp_path, files)
    (tmp_path / CAP / "intel-rapl:0" / "energy_uj").unlink()
    with pytest.raises(Unavailable, match="No such file") as caught:
        PowerRaplCollector(host).probe()
    assert caught.value.reason is Reason.NO_HARDWARE


def test_limits_can_be_read_where_energy_cannot(tmp_path: Path) -> None:
    base = f"{CAP}/intel-rapl:0"
    files = INTEL | zone("intel-rapl:0", "package-0") | zone("intel-rapl:0:0", "dram")
    files |= {f"{base}/constraint_0_name": "long_term", f"{base}/constraint_0_power_limit_uw": "350000000"}
    files |= {
        f"{base}/constraint_1_power_limit_uw": "18446744073709551615",
        f"{base}:0/constraint_0_power_limit_uw": "0",
    }
    collector = PowerRaplLimitCollector(tree_host(tmp_path, files, Forbidden("energy_uj")))
    collector.probe()
    assert values(list(collector.collect())) == {("hwsonde_power_rapl_limit_watts", "0", "package", "long_term"): 350.0}


def test_a_limit_without_a_name_goes_by_its_number_and_the_lower_die_counts(tmp_path: Path) -> None:
    files = INTEL | zone("intel-rapl:0", "package-0-die-0") | zone("intel-rapl:1", "package-0-die-1")
    files |= {f"{CAP}/intel-rapl:0/constraint_0_power_limit_uw": "200000000"}
    files |= {f"{CAP}/intel-rapl:1/constraint_0_power_limit_uw": "150000000"}
    collector = PowerRaplLimitCollector(tree_host(tmp_path, files))
    collector.probe()
    assert values(list(collector.collect())) == {
        ("hwsonde_power_rapl_limit_watts", "0", "package", "constraint_0"): 150.0
    }


# ---- sensors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, -1, 4_294_967_295, 4_294_967_295_000, 1 << 63])
def test_no_power(value: int | None) -> None:
    assert watts(value) is None


def chip(number: int, name: str, attributes: dict[str, str]) -> dict[str, str]:
    base = f"sys/devices/platform/{name}.{number}/hwmon/hwmon{number}"
    files = {f"{base}/{key}": value for key, value in ({"name": name} | attributes).items()}
    return files | {f"sys/class/hwmon/hwmon{number}": f"-> ../../{base.removeprefix('sys/')}"}


def test_present_power_goes_before_its_average_and_odd_values_are_counted(tmp_path: Path) -> None:
    attributes = {
        "power1_input": "250000000",
        "power1_average": "240000000",
        "power1_label": "PPT",
        "power2_average": "9000000",
    }
    collector = PowerSensorCollector(
        tree_host(tmp_path, chip(0, "amdgpu", attributes | {"power3_input": "4294967295"}))
    )
    collector.probe()
    assert values(list(collector.collect())) == {
        ("hwsonde_power_sensor_watts", "amdgpu.0", "PPT"): 250.0,
        ("hwsonde_power_sensor_watts", "amdgpu.0", "power2"): 9.0,
    }
    assert collector.host.rejections.count == 1


def test_several_acpi_meters_are_parts_and_not_the_host(tmp_path: Path) -> None:
    files = {}
    for number, part in enumerate(("Module Power Socket 0", "CPU Power Socket 0")):
        files |= chip(number, "power_meter", {"power1_average": f"{5 - number}00000000", "power1_oem_info": part})
    host = tree_host(tmp_path, files)
    with pytest.raises(Unavailable):
        PowerHostCollector(host, controller=NoController()).probe()
    collector = PowerSensorCollector(host)
    collector.probe()
    answer = values(list(collector.collect()))
    assert answer["hwsonde_power_sensor_watts", "power_meter.0", "Module Power Socket 0"] == 500
    assert answer["hwsonde_power_sensor_watts", "power_meter.1", "CPU Power Socket 0"] == 400


def test_voltages(tmp_path: Path) -> None:
    attributes = {
        "in0_input": "1008",
        "in1_input": "0",
        "in2_input": "-12050",
        "in3_input": "229000",
        "in3_label": "vin",
    }
    collector = VoltageCollector(tree_host(tmp_path, chip(0, "nct6775", attributes | {"in4_input": "99999999"})))
    collector.probe()
    assert values(list(collector.collect())) == {
        ("hwsonde_power_voltage_volts", "nct6775.0", "in0"): 1.008,
        ("hwsonde_power_voltage_volts", "nct6775.0", "in2"): -12.05,
        ("hwsonde_power_voltage_volts", "nct6775.0", "vin"): 229.0,
    }


@pytest.mark.parametrize("kind", [PowerSensorCollector, VoltageCollector, PowerRaplCollector, PowerRaplLimitCollector])
def test_a_host_without_sensors_says_so(kind: type, tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        kind(tree_host(tmp_path, {})).probe()
    assert caught.value.reason in {Reason.NO_HARDWARE, Reason.NO_KERNEL_SUPPORT}

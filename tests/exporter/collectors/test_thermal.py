from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors._hwmon import chip_label, chips, sensors, signed
from hwsonde_exporter.collectors.cpu_uncore import CpuUncoreCollector
from hwsonde_exporter.collectors.thermal import ThermalCollector, celsius
from hwsonde_exporter.collectors.thermal_core import ThermalCoreCollector
from hwsonde_exporter.collectors.thermal_zone import ThermalZoneCollector
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from tests.exporter.collectors.hosts import fixture_host, values
from tests.exporter.collectors.trees import Forbidden, tree_host
from tests.fixtures.make_node192 import Tree

SMBUS = "sys/devices/pci0000:00/0000:00:1f.4/i2c-1"
UNCORE = "sys/devices/system/cpu/intel_uncore_frequency"


def chip(number: int, device: str, name: str, attributes: Tree) -> Tree:
    base = f"{device}/hwmon/hwmon{number}"
    files = {f"{base}/{key}": value for key, value in ({"name": name} | attributes).items()}
    return files | {f"sys/class/hwmon/hwmon{number}": f"-> ../../{base.removeprefix('sys/')}"}


def answer(host: Host) -> dict[tuple[str, ...], float]:
    collector = ThermalCollector(host)
    collector.probe()
    return values(list(collector.collect()))


# ---- names and numbers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("driver", "target", "label"),
    [
        ("coretemp", "../../devices/platform/coretemp.0/hwmon/hwmon4", "coretemp.0"),
        ("k10temp", "../../devices/pci0000:00/0000:00:18.3/hwmon/hwmon2", "k10temp-0000:00:18.3"),
        ("nct6798", "../../devices/platform/nct6775.656/hwmon/hwmon5", "nct6798-nct6775.656"),
        ("nvme", "../../devices/pci0000:40/0000:41:00.0/nvme/nvme0/hwmon1", "nvme0"),
        ("jc42", "../../devices/pci0000:00/0000:00:1f.4/i2c-0/0-0018/hwmon/hwmon6", "jc42-0000:00:1f.4-0018"),
        ("pmbus", "../../devices/pci0000:00/0000:00:1f.4/i2c-0/i2c-3/3-0058/hwmon/hwmon7", "pmbus-0000:00:1f.4-0058"),
        ("tmp75", "../../devices/platform/AMDI0010:01/i2c-2/2-0048/hwmon/hwmon0", "tmp75-AMDI0010:01-0048"),
        ("acpitz", "../../devices/virtual/thermal/thermal_zone0/hwmon0", "acpitz-thermal_zone0"),
        ("power_meter", "../../devices/LNXSYSTM:00/LNXSYBUS:00/ACPI000D:00/hwmon/hwmon0", "power_meter-ACPI000D:00"),
        ("lm75", "../../devices/i2c-0/0-0048/hwmon/hwmon0", "lm75-0048"),
        ("", "../../devices/platform/x.0/hwmon/hwmon0", "x.0"),
        ("odd", "", "odd"),
    ],
)  # fmt: skip
def test_name_of_a_chip(driver: str, target: str, label: str) -> None:
    assert chip_label(driver, target) == label


@given(st.text(), st.text())
def test_any_name_of_a_chip_can_be_shown(driver: str, target: str) -> None:
    assert chip_label(driver, target).isprintable()


def test_a_name_does_not_change_with_the_order_of_a_boot(tmp_path: Path) -> None:
    names = []
    for boot, (first, second, bus) in enumerate(((0, 1, "i2c-1"), (9, 2, "i2c-7"))):
        device = SMBUS.replace("i2c-1", bus)
        files = chip(first, f"{device}/{bus[4:]}-0018", "jc42", {"temp1_input": "30000"})
        files |= chip(second, "sys/devices/platform/coretemp.0", "coretemp", {"temp1_input": "60000"})
        names.append([chip.label for chip in chips(tree_host(tmp_path / str(boot), files))])
    assert sorted(names[0]) == sorted(names[1]) == ["coretemp.0", "jc42-0000:00:1f.4-0018"]


def test_chips_of_one_address_behind_a_multiplexer_are_told_apart(tmp_path: Path) -> None:
    files: Tree = {}
    for number in range(3):
        device = f"{SMBUS}/i2c-{number + 2}/{number + 2}-0058"
        files |= chip(number, device, "pmbus", {"temp1_input": f"4{number}000"})
    degrees = answer(tree_host(tmp_path, files))
    assert [
        degrees["hwsonde_thermal_sensor_celsius", f"pmbus-0000:00:1f.4-0058{end}", "temp1"] for end in ("", "#2", "#3")
    ] == [
        40,
        41,
        42,
    ]


def test_a_disk_is_named_as_elsewhere(tmp_path: Path) -> None:
    device = "sys/devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0"
    files = chip(0, device, "drivetemp", {"temp1_input": "33000", "device": "-> ../../../0:0:0:0"})
    files[f"{device}/block/sda/size"] = "1"
    assert ("hwsonde_thermal_sensor_celsius", "drivetemp-sda", "temp1") in answer(tree_host(tmp_path, files))


def test_a_copy_of_sysfs_without_links_is_understood(tmp_path: Path) -> None:
    base = "sys/class/hwmon/hwmon3"
    files = {f"{base}/name": "k10temp", f"{base}/device": "-> ../../../0000:00:18.3", f"{base}/temp1_input": "50000"}
    assert ("hwsonde_thermal_sensor_celsius", "k10temp-0000:00:18.3", "temp1") in answer(tree_host(tmp_path, files))


def test_labels_that_come_twice(tmp_path: Path) -> None:
    attributes = {
        "temp1_input": "1",
        "temp1_label": "CPU",
        "temp2_input": "1",
        "temp2_label": "CPU",
        "temp10_input": "1",
    }
    host = tree_host(
        tmp_path, chip(0, "sys/devices/platform/x.0", "x", attributes | {"temp3_input": "1", "temp3_label": "temp2"})
    )
    assert [sensor.label for sensor in sensors(host, chips(host)[0], "temp")] == ["CPU", "temp2", "temp3", "temp10"]


@pytest.mark.parametrize(
    ("data", "value"),
    [(b"-5000\n", -5000), (b"0\n", 0), (b" 7 ", 7), (b"--5", None), (b"", None), (b"-", None), (b"1.5", None)],
)
def test_signed_numbers(data: bytes, value: int | None) -> None:
    assert signed(data) == value


@given(st.binary())
def test_any_number_is_survived(data: bytes) -> None:
    value = signed(data)
    assert value is None or isinstance(value, int)


@pytest.mark.parametrize(
    "value", [None, 0, -128_000, -62_001, 127_000, 127_500, 127_875, 128_000, 255_875, 65_261_850, -273_150, 1 << 63]
)
def test_no_temperature(value: int | None) -> None:
    assert celsius(value) is None


@pytest.mark.parametrize("value", [-5_000, 250, 45_500, 126_875])
def test_temperature(value: int) -> None:
    assert celsius(value) == value / 1000


# ---- collectors ----------------------------------------------------------------------------------------------------


def test_what_cannot_be_true_is_left_out_and_counted(tmp_path: Path) -> None:
    attributes = {
        "temp1_input": "-128000",
        "temp2_input": "45000",
        "temp3_input": "52000",
        "temp3_fault": "1",
        "temp4_input": "junk",
    }
    attributes |= {
        "fan1_input": "65535",
        "fan2_input": "0",
        "fan3_input": "-1",
        "temp2_crit": "0",
        "temp2_max": "65261850",
    }
    host = tree_host(tmp_path, chip(0, "sys/devices/platform/x.0", "x", attributes))
    assert answer(host) == {
        ("hwsonde_thermal_sensor_celsius", "x.0", "temp2"): 45,
        ("hwsonde_thermal_fan_rpm", "x.0", "fan2"): 0,
    }
    assert host.rejections.count == 4


def test_alarms(tmp_path: Path) -> None:
    attributes = {
        "temp1_input": "95000",
        "temp1_max_alarm": "1",
        "temp1_crit_alarm": "0",
        "temp2_input": "1000",
        "temp2_alarm": "0",
    }
    attributes |= {"fan1_input": "0", "fan1_fault": "1", "fan1_alarm": "0", "fan2_input": "900", "fan2_min_alarm": "0"}
    found = answer(tree_host(tmp_path, chip(0, "sys/devices/platform/x.0", "x", attributes)))
    assert {key[2]: value for key, value in found.items() if "alarm" in key[0]} == {
        "temp1": 1, "temp2": 0, "fan1": 1, "fan2": 0,
    }  # fmt: skip


def test_the_package_speaks_for_its_cores() -> None:
    found = answer(fixture_host("node192"))
    assert found["hwsonde_thermal_sensor_celsius", "coretemp.1", "Package id 1"] == 88
    assert not [key for key in found if "Core" in str(key)]


def test_cores_without_a_package_speak_for_themselves(tmp_path: Path) -> None:
    attributes = {"temp2_input": "50000", "temp2_label": "Core 0", "temp3_input": "52000", "temp3_label": "Core 1"}
    host = tree_host(tmp_path, chip(0, "sys/devices/platform/coretemp.0", "coretemp", attributes))
    assert ("hwsonde_thermal_sensor_celsius", "coretemp.0", "Core 1") in answer(host)


def test_each_core_on_demand() -> None:
    collector = ThermalCoreCollector(fixture_host("node192"))
    collector.probe()
    found = values(list(collector.collect()))
    assert found["hwsonde_thermal_core_celsius", "coretemp.1", "0"] == 86
    assert len(found) == 8
    assert not ThermalCoreCollector.enabled


def test_chips_that_are_reported_elsewhere_are_left_out(tmp_path: Path) -> None:
    files = chip(0, "sys/devices/virtual/thermal/thermal_zone0", "acpitz", {"temp1_input": "30000"})
    files |= chip(1, "sys/devices/pci0000:40/0000:41:00.0/nvme/nvme0", "nvme", {"temp1_input": "30000"})
    with pytest.raises(Unavailable) as caught:
        ThermalCollector(tree_host(tmp_path, files)).probe()
    assert caught.value.reason is Reason.NO_HARDWARE


def test_sensors_that_may_not_be_read_are_an_error(tmp_path: Path) -> None:
    files = chip(0, "sys/devices/platform/x.0", "x", {"temp1_input": "45000"})
    collector = ThermalCollector(tree_host(tmp_path, files, Forbidden("_input")))
    collector.probe()
    with pytest.raises(ReadError):
        collector.collect()


def test_zones_and_cooling(tmp_path: Path) -> None:
    base = "sys/class/thermal"
    files = {f"{base}/thermal_zone0/type": "acpitz", f"{base}/thermal_zone0/temp": "27800"}
    files |= {
        f"{base}/thermal_zone1/type": "iwlwifi_1",
        f"{base}/thermal_zone1/temp": "0",
        f"{base}/thermal_zonex/temp": "1",
    }
    for number, (kind, state) in enumerate(
        (("Processor", "0"), ("Processor", "2"), ("Fan", "1"), ("intel_powerclamp", "-1"))
    ):
        device = f"{base}/cooling_device{number}"
        files |= {f"{device}/type": kind, f"{device}/cur_state": state, f"{device}/max_state": "10"}
    collector = ThermalZoneCollector(tree_host(tmp_path, files))
    collector.probe()
    assert values(list(collector.collect())) == {
        ("hwsonde_thermal_zone_celsius", "0", "acpitz"): 27.8,
        ("hwsonde_thermal_cooling_state", "all", "Processor"): 2,
        ("hwsonde_thermal_cooling_state", "2", "Fan"): 1,
        ("hwsonde_thermal_cooling_maximum_state", "all", "Processor"): 10,
        ("hwsonde_thermal_cooling_maximum_state", "2", "Fan"): 10,
    }


@pytest.mark.parametrize("kind", [ThermalCollector, ThermalCoreCollector, ThermalZoneCollector, CpuUncoreCollector])
def test_a_host_without_sensors_says_so(kind: type, tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        kind(tree_host(tmp_path, {})).probe()
    assert caught.value.reason in {Reason.NO_HARDWARE, Reason.NO_KERNEL_SUPPORT}


# ---- uncore --------------------------------------------------------------------------------------------------------


def uncore(host: Host) -> dict[tuple[str, ...], float]:
    collector = CpuUncoreCollector(host)
    collector.probe()
    return {key[1:]: value for key, value in values(list(collector.collect())).items()}


def test_uncore_of_dies(tmp_path: Path) -> None:
    files = {
        f"{UNCORE}/package_00_die_00/current_freq_khz": "2400000",
        f"{UNCORE}/package_00_die_01/current_freq_khz": "800000",
    }
    files |= {
        f"{UNCORE}/package_01_die_00/current_freq_khz": "0",
        f"{UNCORE}/package_01_die_01/current_freq_khz": "99999999",
    }
    assert uncore(tree_host(tmp_path, files)) == {("0", "0"): 2.4e9, ("0", "1"): 0.8e9}


def test_uncore_of_clusters(tmp_path: Path) -> None:
    files = {f"{UNCORE}/package_00_die_00/max_freq_khz": "2500000"}
    for number, (domain, kilohertz) in enumerate((("0", "2400000"), ("0", "1800000"), ("4", "2000000"))):
        base = f"{UNCORE}/uncore{number:02d}"
        files |= {f"{base}/package_id": "1", f"{base}/domain_id": domain, f"{base}/current_freq_khz": kilohertz}
    assert uncore(tree_host(tmp_path, files)) == {("1", "0"): 1.8e9, ("1", "4"): 2e9}


def test_uncore_that_only_root_may_read(tmp_path: Path) -> None:
    files = {f"{UNCORE}/package_00_die_00/current_freq_khz": "2400000"}
    collector = CpuUncoreCollector(tree_host(tmp_path, files, Forbidden("current_freq_khz")))
    with pytest.raises(Unavailable) as caught:
        collector.probe()
    assert caught.value.reason is Reason.NO_PERMISSION
    with pytest.raises(ReadError):
        collector.collect()

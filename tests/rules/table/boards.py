"""Cases of the alerts about processors, heat, PCI Express, the clock and settings."""

from __future__ import annotations

from tests.rules.table.row import HOST, JUDGED, LOOK, Row, grown, jumped, series, steady, turned

NIC = {"device": "0000:3b:00.0", "class": "network"}
GPU = {"device": "0000:4d:00.0", "class": "gpu"}
SENSOR = {"chip": "coretemp.0", "sensor": "Package id 0"}
LANES, MOST = "hwsonde_pcie_link_width_lanes", "hwsonde_pcie_link_max_width_lanes"
AER = "hwsonde_pcie_aer_errors_total"
CELSIUS, CRITICAL = "hwsonde_thermal_sensor_celsius", "hwsonde_thermal_sensor_critical_celsius"
DIFFERS, CHANGED = "hwsonde_setting_differs", "hwsonde_setting_last_change_timestamp_seconds"

ROWS = (
    Row(
        "HwsondeCpuThrottled",
        {series("hwsonde_cpu_throttled_seconds_total", package="1"): grown(6)},
        {series("hwsonde_cpu_throttled_seconds_total", package="1"): grown(1.2)},
        {**HOST, "package": "1"},
        "a/n1: processor package 1 is slowed down by heat for 10% of the time. Check fans, inlet temperature and heat sink.",
    ),
    Row(
        "HwsondeCpuMachineCheck",
        {series("hwsonde_cpu_machine_check_exceptions_total"): jumped(1)},
        {series("hwsonde_cpu_machine_check_exceptions_total"): steady(192)},
        HOST,
        "a/n1: the processor reported a machine check. Read the kernel's log for the part that failed.",
    ),
    Row(
        "HwsondeThermalAlarm",
        {series(CELSIUS, **SENSOR): turned(60, 101), series(CRITICAL, **SENSOR): steady(100)},
        {
            series(CELSIUS, **SENSOR): steady(99), series(CRITICAL, **SENSOR): steady(100),
            # A sensor that has no limit says 0.
            series(CELSIUS, chip="acpitz"): steady(40), series(CRITICAL, chip="acpitz"): steady(0),
        },
        {**HOST, **SENSOR},
        "a/n1: sensor Package id 0 of coretemp.0 is beyond its limit. Check fans, inlet temperature and dust.",
        also=(
            {series("hwsonde_thermal_sensor_alarm", **SENSOR): turned(0, 1)},
            {series("hwsonde_thermal_fan_alarm", chip="nct6798", sensor="fan1"): turned(0, 1)},
        ),
    ),
    Row(
        "HwsondePcieDegraded",
        {series(LANES, **NIC): turned(16, 8), series(MOST, **NIC): steady(16)},
        # A slot of eight lanes is no fault of its device, and GPUs have an alert of their own.
        {
            series(LANES, **NIC): steady(8), series(MOST, **NIC): steady(8),
            series(LANES, **GPU): steady(8), series(MOST, **GPU): steady(16),
        },
        {**HOST, **NIC},
        "a/n1: PCI device 0000:3b:00.0 (network) runs its link narrower or slower than it and its slot could. "
        "Reseat it, or look at its riser and cable.",
        also=(
            {
                series("hwsonde_pcie_link_speed_transfers_per_second", **NIC): turned(32e9, 8e9),
                series("hwsonde_pcie_link_max_speed_transfers_per_second", **NIC): steady(32e9),
            },
        ),
    ),
    Row(
        "HwsondePcieErrors",
        {series(AER, **NIC, severity="nonfatal"): jumped(1)},
        {series(AER, **NIC, severity="nonfatal"): steady(3), series(AER, **NIC, severity="correctable"): grown(10)},
        {**HOST, **NIC},
        "a/n1: PCI device 0000:3b:00.0 (network) reports errors of its link. Reseat it, or look at its riser, cable and slot.",
        also=({series(AER, **NIC, severity="correctable"): grown(30)},),
    ),
    Row(
        "HwsondeClockUnsynchronized",
        {series("hwsonde_host_clock_synchronized"): turned(1, 0)},
        {series("hwsonde_host_clock_synchronized"): "1+0x60 0x4 1+0x100"},
        HOST,
        "a/n1: no time service keeps the system clock. See whether chronyd or its like runs and reaches its servers.",
    ),
    Row(
        "HwsondeClockOffset",
        {series("hwsonde_host_clock_offset_seconds"): turned(0, -0.25)},
        {series("hwsonde_host_clock_offset_seconds"): steady(-0.01)},
        HOST,
        "a/n1: the system clock is 250ms away from its reference. Look at the time service and its servers.",
    ),
    Row(
        "HwsondeClockSourceSlow",
        {series("hwsonde_host_clock_source_info", current="hpet", available="hpet acpi_pm"): steady(1)},
        {series("hwsonde_host_clock_source_info", current="kvm-clock", available="kvm-clock tsc acpi_pm"): steady(1)},
        {**HOST, "current": "hpet", "available": "hpet acpi_pm"},
        "a/n1: the kernel reads the time from hpet, which is slow. Read its log for why tsc was given up, then reboot.",
    ),
    Row(
        "HwsondeSettingDiffers",
        # Both detectors of a pair say so, and it is one alert.
        {
            series(DIFFERS, {**JUDGED, "instance": detector}, setting="network.mtu_bytes", device="eth0"): steady(1)
            for detector in ("d1:9881", "d2:9881")
        },
        {series(DIFFERS, JUDGED, setting="network.mtu_bytes", device="eth0"): "1+0x8 stale"},
        {"cluster": "a", "node": "n1", "setting": "network.mtu_bytes", "device": "eth0"},
        "a/n1: network.mtu_bytes of eth0 is set otherwise than on most of its peers. Compare, then set it alike.",
    ),
    Row(
        "HwsondeSettingChanged",
        {series(CHANGED, area="cpu"): steady(LOOK - 120)},
        {series(CHANGED, area="cpu"): steady(-7200)},
        {**HOST, "area": "cpu"},
        "a/n1: a setting of the area cpu was changed 2m 0s ago. Nothing to do if it was meant.",
    ),
)  # fmt: skip

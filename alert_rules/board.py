"""Alerts about what a host's parts sit on: processors, heat, fans, PCI Express, the clock. No input, no output."""

from __future__ import annotations

from alert_rules.timing import Timing
from alert_rules.wording import words
from alert_rules.writing import WARNING, Rule, Writer

_DEVICE = "PCI device {{ $labels.device }} ({{ $labels.class }})"


def _processors_and_heat(timing: Timing, writer: Writer) -> list[Rule]:
    return [
        writer.alert(
            "HwsondeCpuThrottled",
            WARNING,
            "rate(hwsonde_cpu_throttled_seconds_total[5m]) > 0.05",
            words(
                "cpu",
                "processor package {{ $labels.package }} is slowed down by heat for {{ $value | humanizePercentage }} of the time. "
                "Check fans, inlet temperature and heat sink.",
                "Its clock is held down to keep it whole. Data loading and everything else that processors do for GPUs is slower.",
            ),
            wait=timing.state,
        ),
        writer.alert(
            "HwsondeCpuMachineCheck",
            WARNING,
            "increase(hwsonde_cpu_machine_check_exceptions_total[1h]) > 0",
            words(
                "cpu",
                "the processor reported a machine check. Read the kernel's log for the part that failed.",
                "A machine check is an error that hardware could not put right: of a processor, a cache, memory or a link.",
            ),
        ),
        writer.alert(
            "HwsondeThermalAlarm",
            WARNING,
            "hwsonde_thermal_sensor_alarm == 1\nor\nhwsonde_thermal_sensor_celsius >= (hwsonde_thermal_sensor_critical_celsius > 0)\n"
            "or\nhwsonde_thermal_fan_alarm == 1\n",
            words(
                "thermal",
                "sensor {{ $labels.sensor }} of {{ $labels.chip }} is beyond its limit. Check fans, inlet temperature and dust.",
                "A board sensor says that a part is too hot or that a fan is too slow. Throttling or a shutdown follows.",
            ),
            wait=timing.state,
        ),
    ]


def _pcie(timing: Timing, writer: Writer) -> list[Rule]:
    width, speed = "hwsonde_pcie_link_width_lanes", "hwsonde_pcie_link_speed_transfers_per_second"
    most = "hwsonde_pcie_link_max_width_lanes"
    fastest = "hwsonde_pcie_link_max_speed_transfers_per_second"
    # The links of GPUs, which change with what they do, are judged by their driver's word.
    others = '{class!~"gpu|bridge"}'
    errors = "hwsonde_pcie_aer_errors_total"
    return [
        writer.alert(
            "HwsondePcieDegraded",
            WARNING,
            f'0 < {width}{others} < {most}\nor\n0 < {speed}{{class=~"network|nvme"}} < {fastest}\n',
            words(
                "pcie",
                f"{_DEVICE} runs its link narrower or slower than it and its slot could. Reseat it, or look at its riser and cable.",
                "The link was trained with fewer lanes or a lower speed, so the device moves less data than it is built for.",
            ),
            wait=timing.lasting,
        ),
        writer.alert(
            "HwsondePcieErrors",
            WARNING,
            f'sum without (severity) (increase({errors}{{severity=~"fatal|nonfatal"}}[1h])) > 0\nor\n'
            f'sum without (severity) (increase({errors}{{severity="correctable"}}[1h])) > 1000\n',
            words(
                "pcie",
                f"{_DEVICE} reports errors of its link. Reseat it, or look at its riser, cable and slot.",
                "Packets on the link are damaged. What cannot be sent again is lost, and the device may fall off the bus.",
            ),
        ),
    ]


def _clock(timing: Timing, writer: Writer) -> list[Rule]:
    return [
        writer.alert(
            "HwsondeClockUnsynchronized",
            WARNING,
            "hwsonde_host_clock_synchronized == 0",
            words(
                "clock",
                "no time service keeps the system clock. See whether chronyd or its like runs and reaches its servers.",
                "The clock runs free and drifts by seconds a day. Logs and samples of different hosts can no longer be put in order.",
            ),
            wait=timing.lasting,
        ),
        writer.alert(
            "HwsondeClockOffset",
            WARNING,
            "abs(hwsonde_host_clock_offset_seconds) > 0.05",
            words(
                "clock",
                "the system clock is {{ $value | humanizeDuration }} away from its reference. Look at the time service and its servers.",
                "Hosts that disagree about the time confuse logs, leases, certificates and the order in which things happened.",
            ),
            wait=timing.lasting,
        ),
        writer.alert(
            "HwsondeClockSourceSlow",
            WARNING,
            'hwsonde_host_clock_source_info{current=~"hpet|acpi_pm|jiffies|refined-jiffies"} == 1',
            words(
                "clock",
                "the kernel reads the time from {{ $labels.current }}, which is slow. Read its log for why tsc was given up, then reboot.",
                "Each reading of the time costs a microsecond instead of some nanoseconds. Programs that read it often are far slower.",
            ),
            wait=timing.state,
        ),
    ]


def rules(timing: Timing, writer: Writer) -> list[Rule]:
    """Every rule of the group."""
    return [*_processors_and_heat(timing, writer), *_pcie(timing, writer), *_clock(timing, writer)]

"""The metrics of NVMe controllers."""

from __future__ import annotations

from functools import partial

from hwsonde_exporter.metric import Kind, Metric

_LOG = "NVMe SMART log (Get Log Page 02h by NVME_IOCTL_ADMIN_CMD, needs CAP_SYS_ADMIN)"
_gauge = partial(Metric, kind=Kind.GAUGE, labels=("device",), subsystem="storage")
_smart = partial(_gauge, unit="ratio")


def _counter(name: str, text: str, field: str, label: str = "", unit: str = "") -> Metric:
    return Metric(
        f"hwsonde_storage_nvme_{name}_total",
        Kind.COUNTER,
        text,
        ("device", label) if label else ("device",),
        unit,
        "storage",
        f"{_LOG}: {field}",
    )


LIVE = _gauge(
    name="hwsonde_storage_nvme_live",
    help="Whether an NVMe controller is live (1) or not (0).",
    source="/sys/class/nvme/nvmeN/state",
)
INFO = _gauge(
    name="hwsonde_storage_nvme_info",
    help="Constant 1 labelled with the identity of an NVMe controller.",
    labels=("device", "model", "firmware_version", "transport", "pci_bus_id", "numa_node"),
    source="/sys/class/nvme/nvmeN/{model,firmware_rev,transport,address,numa_node}",
)
STUCK = _gauge(
    name="hwsonde_storage_nvme_stuck",
    help="Whether an NVMe controller leaves a question for its health unanswered (1) or not (0).",
    source="hwmon or SMART log that did not come back in time",
)
SMART_AVAILABLE = _gauge(
    name="hwsonde_storage_nvme_smart_available",
    help="Whether the SMART log of an NVMe controller can be read (1) or not (0), and why not.",
    labels=("device", "reason"),
    source=_LOG,
)
CRITICAL_WARNING = _gauge(
    name="hwsonde_storage_nvme_critical_warning",
    help="Whether an NVMe critical warning is set (1) or not (0).",
    labels=("device", "condition"),
    source=f"{_LOG}: critical warning",
)
SPARE = _smart(
    name="hwsonde_storage_nvme_spare_ratio", help="Spare capacity left.", source=f"{_LOG}: available spare / 100"
)
SPARE_THRESHOLD = _smart(
    name="hwsonde_storage_nvme_spare_threshold_ratio",
    help="Spare capacity below which the device warns.",
    source=f"{_LOG}: available spare threshold / 100",
)
WEAR = _smart(
    name="hwsonde_storage_nvme_wear_ratio",
    help="Rated life used; may pass 1.",
    source=f"{_LOG}: percentage used / 100",
)
TEMPERATURE = _gauge(
    name="hwsonde_storage_nvme_temperature_celsius",
    help="Temperature of an NVMe device.",
    labels=("device", "sensor"),
    unit="celsius",
    subsystem="thermal",
    source="NVMe SMART log or, without privilege, /sys/class/nvme/nvmeN/hwmon*/temp*_input / 1000",
)
TEMPERATURE_LIMIT = _gauge(
    name="hwsonde_storage_nvme_temperature_limit_celsius",
    help="Temperature above which an NVMe device warns and throttles (warning) or may stop (critical).",
    labels=("device", "limit"),
    unit="celsius",
    subsystem="thermal",
    source="/sys/class/nvme/nvmeN/hwmon*/{temp1_max,temp1_crit} / 1000",
)
_MEDIA_ERRORS = _counter(
    "media_errors", "Unrecovered data integrity errors over the life of the device.", "media and data integrity errors"
)
_ERROR_LOG = _counter(
    "error_log_entries",
    "Errors that the device has logged over its life; commands that it refused count too.",
    "number of error information log entries",
)
_UNSAFE = _counter("unsafe_shutdowns", "Power losses without notice over the life of the device.", "unsafe shutdowns")
_CYCLES = _counter("power_cycles", "Times the device was powered up over its life.", "power cycles")
_POWER_ON = _counter(
    "power_on_seconds", "Powered time over the life of the device.", "power on hours x 3600", unit="seconds"
)
_BUSY = _counter(
    "busy_seconds",
    "Time in which the controller was busy with I/O commands over the life of the device.",
    "controller busy time (min) x 60",
    unit="seconds",
)
_BYTES = _counter(
    "data_bytes",
    "Bytes that hosts have read and written over the life of the device.",
    "data units read and written x 512000",
    "operation",
    "bytes",
)
_COMMANDS = _counter(
    "commands",
    "Read and write commands completed over the life of the device.",
    "host read and write commands",
    "operation",
)
_OVER_LIMIT = _counter(
    "thermal_throttled_seconds",
    "Seconds above a temperature threshold over the life of the device.",
    "warning and critical composite temperature time (min) x 60",
    "level",
    "seconds",
)
_MANAGED = _counter(
    "thermal_management_seconds",
    "Seconds in which the device ran slower to keep cool, lightly or heavily, over its life.",
    "total time for thermal management temperature 1 and 2",
    "level",
    "seconds",
)
_TRANSITIONS = _counter(
    "thermal_management_transitions",
    "Times the device began to run slower to keep cool, lightly or heavily, over its life.",
    "thermal management temperature 1 and 2 transition count",
    "level",
)

# Count of the log -> metric, labels behind the device, what the count is multiplied by.
COUNTS: dict[str, tuple[Metric, tuple[str, ...], int]] = {
    "media_errors": (_MEDIA_ERRORS, (), 1),
    "error_log_entries": (_ERROR_LOG, (), 1),
    "unsafe_shutdowns": (_UNSAFE, (), 1),
    "power_cycles": (_CYCLES, (), 1),
    "power_on_hours": (_POWER_ON, (), 3600),
    "busy_minutes": (_BUSY, (), 60),
    "data_units_read": (_BYTES, ("read",), 512_000),
    "data_units_written": (_BYTES, ("write",), 512_000),
    "read_commands": (_COMMANDS, ("read",), 1),
    "write_commands": (_COMMANDS, ("write",), 1),
    "warning_temperature_minutes": (_OVER_LIMIT, ("warning",), 60),
    "critical_temperature_minutes": (_OVER_LIMIT, ("critical",), 60),
    "light_throttle_seconds": (_MANAGED, ("light",), 1),
    "heavy_throttle_seconds": (_MANAGED, ("heavy",), 1),
    "light_throttle_transitions": (_TRANSITIONS, ("light",), 1),
    "heavy_throttle_transitions": (_TRANSITIONS, ("heavy",), 1),
}

METRICS: tuple[Metric, ...] = (
    LIVE, INFO, STUCK, SMART_AVAILABLE, CRITICAL_WARNING, SPARE, SPARE_THRESHOLD, WEAR, TEMPERATURE, TEMPERATURE_LIMIT,
    *dict.fromkeys(metric for metric, _, _ in COUNTS.values()),
)  # fmt: skip

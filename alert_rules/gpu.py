"""Alerts about GPUs, and what their pages say. No input, no output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alert_rules.timing import Timing, duration
from alert_rules.wording import HOST

if TYPE_CHECKING:
    from alert_rules.rules import Rule, Writer

CRITICAL, WARNING = "critical", "warning"
_GPU = f"{HOST}: GPU {{{{ $labels.gpu }}}}"

_XID_SUMMARY = "{{ $labels.name }} (XID {{ $labels.xid }}). What to do: {{ $labels.action }}."
_XID_TEXT = (
    "NVIDIA's driver reported this error {{ $value | humanizeDuration }} ago. docs/xid.md says what each number means. "
    "The job on this GPU has most likely failed or hangs."
)
_RECOVERIES = (
    (1, "reset the GPU"),
    (2, "reboot the host"),
    (4, "drain the host, then reset the GPU"),
    (7, "reboot the host"),
)
_WHAT_TO_DO = (
    "".join(
        f"{{{{ {'if' if not place else 'else if'} eq $value {number}.0 }}}}{text}"
        for place, (number, text) in enumerate(_RECOVERIES)
    )
    + "{{ else }}see hwsonde_gpu_recovery_action{{ end }}"
)

XID = {"summary": f"{_GPU}: {_XID_SUMMARY}", "description": _XID_TEXT, "subsystem": "gpu"}
XID_WARNING = {
    "summary": f"{_GPU}: {_XID_SUMMARY}",
    "description": "NVIDIA's driver reported this error {{ $value | humanizeDuration }} ago. docs/xid.md says what each number means. "
    "It needs no action at once.",
    "subsystem": "gpu",
}
LOST = {
    "summary": f"{_GPU} ({{{{ $labels.uuid }}}}) does not answer any more. Drain the host, look at its XIDs, then reset it or reboot.",
    "description": "The driver answered for this GPU before and does not now: it fell off the bus, waits for a reset, or hangs. "
    "Everything else of the host is still measured.",
    "subsystem": "gpu",
}
MISSING = {
    "summary": f"{HOST}: {{{{ $value }}}} of the GPUs on the PCI bus are not used by the driver. Read the kernel's log for the reason, then reboot.",
    "description": "The driver has left out a GPU that the bus has: its initialisation failed, or another driver holds it for a virtual machine.",
    "subsystem": "gpu",
}
MEMORY_FAILED = {
    "summary": f"{_GPU} cannot repair its memory any more. Drain the host and have the GPU replaced.",
    "description": "No spare memory rows are left, or its caches had more uncorrectable errors than the vendor accepts. Jobs on it will fail.",
    "subsystem": "gpu",
}
RESET_NEEDED = {
    "summary": f"{_GPU} waits for a repair. When its job has ended: {_WHAT_TO_DO}.",
    "description": "The driver has marked faulty memory for replacement, or asks for a recovery, and can do it only when the GPU is started anew.",
    "subsystem": "gpu",
}
LINK_DOWN = {
    "summary": f"{_GPU}: NVLink {{{{ $labels.link }}}} went down. Collectives over it are slow or fail: reset the GPU when its job has ended.",
    "description": "The link was up within the last day. If it stays down after a reset, have the module and its baseboard looked at.",
    "subsystem": "gpu",
}
THROTTLED = {
    "summary": f'{_GPU} is slowed down by {{{{ if eq $labels.reason "hw_power_brake_slowdown" }}}}the power brake: check supplies and their cables'
    "{{ else }}heat: check fans, inlet temperature and heat sink{{ end }}.",
    "description": "The hardware itself holds the clocks down, by half or more. A synchronous job is as slow as its slowest GPU.",
    "subsystem": "gpu",
}
DRIVER = {
    "summary": f"{HOST}: the library and the kernel module of NVIDIA's driver are of different versions, so no GPU is measured. Reboot the host.",
    "description": "The driver was updated while its old module was loaded. New jobs cannot start on the GPUs; those that run go on.",
    "subsystem": "gpu",
}


def _xid(severity: str, seconds: int) -> str:
    """Age of each error of a severity that is younger than so many seconds, with what its number means."""
    info = f'max by (cluster, node, xid, name, action) (hwsonde_gpu_xid_info{{severity="{severity}"}})'
    age = f"(time() - hwsonde_gpu_xid_last_timestamp_seconds < {seconds})"
    return f"{age}\n* on (cluster, node, xid) group_left (name, action) {info}\n"


def _lost(vanished: str) -> str:
    """GPUs that do not answer, and those that were there a while ago where the driver now speaks only of others.

    The second is a GPU that was lost before the exporter was started again.
    """
    up = "hwsonde_gpu_up"
    gone = f"max_over_time({up}[{vanished}]) unless on (cluster, node, uuid) {up}"
    return f"{up} == 0\nor\n(\n  {gone}\n  and on (cluster, node) hwsonde_gpu_devices\n)\n"


def gpu_alerts(timing: Timing, writer: Writer) -> list[Rule]:
    """Alerts about GPUs."""
    link = "hwsonde_gpu_nvlink_up"
    return [
        # One event, with nothing to wait for; held for a while, since nothing says that it was put right.
        writer.alert("HwsondeGpuXid", CRITICAL, _xid("critical", timing.xid), XID),
        writer.alert("HwsondeGpuXidWarning", WARNING, _xid("warning", timing.xid), XID_WARNING),
        writer.alert("HwsondeGpuLost", CRITICAL, _lost(duration(timing.vanished)), LOST, wait=timing.down),
        writer.alert(
            "HwsondeGpuMissing",
            WARNING,
            "hwsonde_gpu_pci_devices - hwsonde_gpu_devices > 0",
            MISSING,
            wait=timing.collector,
        ),
        writer.alert(
            "HwsondeGpuMemoryFailed",
            CRITICAL,
            "hwsonde_gpu_row_remap_failed == 1\nor\nhwsonde_gpu_sram_ecc_threshold_exceeded == 1\n",
            MEMORY_FAILED,
            wait=timing.down,
        ),
        writer.alert(
            "HwsondeGpuResetNeeded",
            WARNING,
            "hwsonde_gpu_recovery_action > 0\nor\nhwsonde_gpu_row_remap_pending == 1\nor\nhwsonde_gpu_retired_pages_pending == 1\n",
            RESET_NEEDED,
            wait=timing.down,
        ),
        writer.alert(
            "HwsondeGpuNvlinkDown",
            WARNING,
            f"{link} == 0\nand\nmax_over_time({link}[{duration(86400)}]) == 1\n",
            LINK_DOWN,
            wait=timing.down,
        ),
        writer.alert(
            "HwsondeGpuThrottled",
            WARNING,
            'hwsonde_gpu_clocks_event_active{reason=~"hw_thermal_slowdown|hw_power_brake_slowdown"} == 1',
            THROTTLED,
            wait=timing.down,
        ),
        writer.alert(
            "HwsondeGpuDriverMismatch", WARNING, "hwsonde_gpu_driver_mismatch == 1", DRIVER, wait=timing.collector
        ),
    ]

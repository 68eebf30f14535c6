"""Alerts about GPUs, and what their pages say. No input, no output."""

from __future__ import annotations

from alert_rules.timing import Timing, duration
from alert_rules.wording import HOST, words
from alert_rules.writing import CRITICAL, INFO, WARNING, Rule, Writer, was

_NUMBER = "GPU {{ $labels.gpu }}"
_GPU = f"{HOST}: {_NUMBER}"

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

_UNASKED = 'hwsonde_gpu_nvml_state{state=~"no_library|no_binding|no_permission|error"} == 1'
_MISMATCH = 'hwsonde_gpu_nvml_state{state="mismatch"} == 1'

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
    "summary": f"{HOST}: {{{{ $value }}}} of the GPUs on the PCI bus are not known through the driver. "
    "See hwsonde_gpu_nvml_state: where it is running, read the kernel's log, then reboot.",
    "description": "The driver has left out a GPU that the bus has, since its initialisation failed; or the exporter cannot use the driver's "
    "library, and nobody watches the GPUs.",
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
    '{{ else if eq $labels.reason "hw_slowdown" }}its hardware: check heat, supplies and their cables'
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

    The second is a GPU that was lost before the exporter was started again. One that cannot use the driver's library since then knows of none;
    nor does one whose driver was updated under its loaded module, which `HwsondeGpuDriverMismatch` tells: jobs go on, and no GPU is lost.
    """
    up = "hwsonde_gpu_up"
    gone = f"max_over_time({up}[{vanished}]) unless on (cluster, node, uuid) {up}"
    older = f"unless on (cluster, node) {_MISMATCH}\n"
    seen = f"{gone}\n  and on (cluster, node) hwsonde_gpu_devices\n  unless on (cluster, node) {_UNASKED}"
    return f"{up} == 0\n{older}or\n(\n  {seen}\n  {older})\n"


def fast_rules(timing: Timing, writer: Writer) -> list[Rule]:
    """What is worth a page at once."""
    return [
        # One event, with nothing to wait for; held for a while, since nothing says that it was put right.
        writer.alert("HwsondeGpuXid", CRITICAL, _xid("critical", timing.xid), XID),
        writer.alert("HwsondeGpuXidWarning", WARNING, _xid("warning", timing.xid), XID_WARNING),
        writer.alert("HwsondeGpuLost", CRITICAL, _lost(duration(timing.vanished)), LOST, wait=timing.down),
    ]


def _throttled() -> str:
    """Slowdowns by hardware; the general reason only where no other one says which it is."""
    active = "hwsonde_gpu_clocks_event_active"
    known = f'{active}{{reason=~"hw_thermal_slowdown|hw_power_brake_slowdown"}} == 1'
    return f'{known}\nor\n(\n  {active}{{reason="hw_slowdown"}} == 1\n  unless on (cluster, node, uuid) {known}\n)\n'


def _states(timing: Timing, writer: Writer) -> list[Rule]:
    """What the driver says of GPUs."""
    link = "hwsonde_gpu_nvlink_up"
    return [
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
            # The board keeps this state, so there is nothing to wait out; and who was paged for the rows that were replaced on the way is not
            # told that it is over before this says that it is not.
            wait=timing.hardware,
        ),
        writer.alert(
            "HwsondeGpuResetNeeded",
            WARNING,
            "hwsonde_gpu_recovery_action > 0\nor\nhwsonde_gpu_row_remap_pending == 1\nor\nhwsonde_gpu_retired_pages_pending == 1\n",
            RESET_NEEDED,
            wait=timing.down,
        ),
        writer.alert(
            "HwsondeGpuNvlinkDown", WARNING, f"{link} == 0\nand\n{was(link, 1)}\n", LINK_DOWN, wait=timing.down
        ),
        writer.alert("HwsondeGpuThrottled", WARNING, _throttled(), THROTTLED, wait=timing.down),
        writer.alert(
            "HwsondeGpuDriverMismatch", WARNING, "hwsonde_gpu_driver_mismatch == 1", DRIVER, wait=timing.collector
        ),
    ]


def _memory(timing: Timing, writer: Writer) -> list[Rule]:
    """Errors of memory and caches, and what is left to mend them."""
    errors = "increase(hwsonde_gpu_ecc_errors_total"
    return [
        writer.alert(
            "HwsondeGpuEccUncorrected",
            WARNING,
            f'{errors}{{type="uncorrected"}}[1h]) > 0',
            words(
                "gpu",
                f"{_NUMBER} had a memory error that it could not correct. Reset it when its job has ended, and watch whether it comes back.",
                "Data in the GPU's memory was lost, and the process that used it has most likely failed.",
            ),
        ),
        writer.alert(
            "HwsondeGpuEccCorrected",
            INFO,
            f'{errors}{{type="corrected"}}[1h]) > 100',
            words(
                "gpu",
                f"{_NUMBER} corrected more than a hundred memory errors within an hour. Note it, and compare with its like.",
                "No data was lost and nothing is slower. A GPU that errs far more often than its like is more likely to fail.",
            ),
        ),
        writer.alert(
            "HwsondeGpuSpareRowsGone",
            WARNING,
            'hwsonde_gpu_row_remap_banks{availability="none"} > 0',
            words(
                "gpu",
                f"{_NUMBER} has no spare rows left in {{{{ $value }}}} memory banks. Plan its replacement.",
                "The next faulty row in such a bank cannot be repaired.",
            ),
            wait=timing.state,
        ),
    ]


def _links(timing: Timing, writer: Writer) -> list[Rule]:
    """NVLink and PCI Express."""
    lanes, generation = "hwsonde_gpu_pcie_link_width_lanes", "hwsonde_gpu_pcie_link_generation"
    return [
        writer.alert(
            "HwsondeGpuNvlinkErrors",
            WARNING,
            # Errors that forward correction mends are usual on fast links.
            'sum without (error) (increase(hwsonde_gpu_nvlink_errors_total{error!~"effective|symbol"}[1h])) > 10',
            words(
                "gpu",
                f"{_NUMBER}: NVLink {{{{ $labels.link }}}} makes errors. Reset the GPU when its job has ended, and watch whether they come back.",
                "Data on the link is sent again or the link is retrained. Such links are slower and soon fail.",
            ),
        ),
        writer.alert(
            "HwsondeGpuPcieDegraded",
            WARNING,
            f"0 < {lanes} < hwsonde_gpu_pcie_link_max_width_lanes\nor\n"
            f"(\n  {generation} < hwsonde_gpu_pcie_link_max_generation\n  and avg_over_time(hwsonde_gpu_utilization_ratio[5m]) > 0.5\n)\n",
            words(
                "pcie",
                f"{_NUMBER} runs its PCIe link narrower or slower than it and its slot could. Reseat it, or look at its riser and cable.",
                "The link was trained with fewer lanes or a lower speed. Copies between host and GPU, and RDMA to it, are slower.",
            ),
            wait=timing.lasting,
        ),
        writer.alert(
            "HwsondeGpuPcieErrors",
            WARNING,
            "increase(hwsonde_gpu_pcie_replays_total[15m]) > 120",
            words(
                "pcie",
                f"{_NUMBER} sends PCIe packets again and again. Reseat it, or look at its riser, cable and slot.",
                "Packets between host and GPU are damaged and replayed. It costs bandwidth, and the GPU may fall off the bus.",
            ),
        ),
    ]


def _fabric(timing: Timing, writer: Writer) -> list[Rule]:
    """The NVLink fabric and its switches."""
    return [
        writer.alert(
            "HwsondeGpuFabricNotReady",
            CRITICAL,
            "0 < hwsonde_gpu_fabric_state < 3\nor\nhwsonde_gpu_fabric_status > 0\n",
            words(
                "gpu",
                f"{_NUMBER} is not part of the NVLink fabric. Look at the fabric manager's service and log.",
                "Programs that use CUDA cannot start on a GPU whose fabric is not ready.",
            ),
            wait=timing.collector,
        ),
        writer.alert(
            "HwsondeGpuFabricDegraded",
            WARNING,
            "hwsonde_gpu_fabric_degraded == 1",
            words(
                "gpu",
                f"{_NUMBER}: the NVLink fabric is degraded ({{{{ $labels.aspect }}}}). Look at links, switches and the fabric manager's log.",
                "Traffic takes fewer or other ways through the fabric, so collectives are slower.",
            ),
            wait=timing.state,
        ),
        writer.alert(
            "HwsondeGpuSwitchFault",
            CRITICAL,
            f'time() - hwsonde_gpu_sxid_last_timestamp_seconds{{severity="fatal"}} < {timing.xid}',
            words(
                "gpu",
                "NVSwitch {{ $labels.switch }} reported a fatal error (SXID {{ $labels.sxid }}). Drain the host, then reset all its GPUs together.",
                "Traffic through this switch has stopped. Jobs that use its links have failed or hang.",
            ),
        ),
    ]


def _driver(timing: Timing, writer: Writer) -> list[Rule]:
    """The driver itself, and whether its errors are heard."""
    return [
        writer.alert(
            "HwsondeGpuDriverHung",
            CRITICAL,
            # A driver or library that is not there is a state of its own, and no hang.
            'sum without (state) (avg_over_time(hwsonde_gpu_nvml_state{state=~"starting|hung|stuck|crashed"}[10m])) > 0.5',
            words(
                "gpu",
                "NVIDIA's driver leaves questions unanswered most of the time. Drain the host, save its kernel log, then reboot.",
                "The process that asks the driver hangs or dies again and again. Programs on the GPUs hang as well, and new ones cannot start.",
            ),
            wait=timing.state,
        ),
        writer.alert(
            "HwsondeGpuXidUnheard",
            WARNING,
            # Without any source the collector has nothing to publish.
            "hwsonde_gpu_devices > 0\nunless on (cluster, node) hwsonde_gpu_xid_source_up == 1\n",
            words(
                "gpu",
                "errors of the GPUs (XID) are heard from no source. Let the exporter read the kernel's log.",
                "Neither the driver's library nor the kernel's log tells the exporter of errors, so none of them pages.",
            ),
            wait=timing.collector,
        ),
    ]


def rules(timing: Timing, writer: Writer) -> list[Rule]:
    """What may wait for a round of the hardware's groups."""
    parts = (_states, _memory, _links, _fabric, _driver)
    return [rule for part in parts for rule in part(timing, writer)]

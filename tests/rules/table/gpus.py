"""Cases of the alerts about GPUs."""

from __future__ import annotations

from tests.rules.table.row import HOST, LOOK, Row, grown, jumped, series, steady, turned

GPU = {"gpu": "3", "uuid": "GPU-3"}
OF = {**HOST, **GPU}
ECC = "hwsonde_gpu_ecc_errors_total"
LANES, MOST = "hwsonde_gpu_pcie_link_width_lanes", "hwsonde_gpu_pcie_link_max_width_lanes"
GENERATION, NEWEST = "hwsonde_gpu_pcie_link_generation", "hwsonde_gpu_pcie_link_max_generation"
BUSY = "hwsonde_gpu_utilization_ratio"
STATE, SOURCE = "hwsonde_gpu_nvml_state", "hwsonde_gpu_xid_source_up"
SWITCH = {"switch": "1", "sxid": "20034", "severity": "fatal"}
XID, XID_INFO = "hwsonde_gpu_xid_last_timestamp_seconds", "hwsonde_gpu_xid_info"
REASON = "hwsonde_gpu_clocks_event_active"


def xid(severity: str) -> dict[str, str]:
    """An error of that severity, two minutes before it is looked at."""
    info = {"name": "it", "class": "hardware", "severity": severity, "action": "act"}
    return {series(XID, **GPU, xid="79"): steady(LOOK - 120), series(XID_INFO, xid="79", **info): steady(1)}


def state(name: str, wrong: float, right: float = 0, **labels: str) -> tuple[dict[str, str], dict[str, str]]:
    """The two cases of a state of a GPU."""
    one = series(name, **GPU, **labels)
    return {one: turned(right, wrong)}, {one: steady(right)}


ROWS = (
    Row("HwsondeGpuXid", xid("critical"), xid("info")),
    Row("HwsondeGpuXidWarning", xid("warning"), xid("critical")),
    Row("HwsondeGpuLost", *state("hwsonde_gpu_up", 0, 1),
        also=({series("hwsonde_gpu_up", **GPU): "1+0x90 stale", series("hwsonde_gpu_devices"): steady(7)},),
    ),
    Row(
        "HwsondeGpuMissing",
        # As an exporter says it that may not open the devices; one that is left out is tried in test_gpu_alerts.
        {series("hwsonde_gpu_pci_devices"): steady(8), series("hwsonde_gpu_devices"): steady(0)},
        {series("hwsonde_gpu_pci_devices"): steady(8), series("hwsonde_gpu_devices"): steady(8)},
    ),
    Row("HwsondeGpuMemoryFailed", *state("hwsonde_gpu_row_remap_failed", 1),
        also=(state("hwsonde_gpu_sram_ecc_threshold_exceeded", 1)[0],),
    ),
    Row("HwsondeGpuResetNeeded", *state("hwsonde_gpu_row_remap_pending", 1),
        also=(state("hwsonde_gpu_recovery_action", 1)[0], state("hwsonde_gpu_retired_pages_pending", 1)[0],),
    ),
    Row(
        "HwsondeGpuNvlinkDown",
        {series("hwsonde_gpu_nvlink_up", **GPU, link="3"): turned(1, 0)},
        {series("hwsonde_gpu_nvlink_up", **GPU, link="3"): steady(0)},
    ),
    Row("HwsondeGpuThrottled", *state(REASON, 1, reason="hw_power_brake_slowdown"),
        also=(state(REASON, 1, reason="hw_slowdown")[0],),
    ),
    Row(
        "HwsondeGpuDriverMismatch",
        {series("hwsonde_gpu_driver_mismatch"): turned(0, 1)},
        {series("hwsonde_gpu_driver_mismatch"): steady(0)},
    ),
    Row(
        "HwsondeGpuEccUncorrected",
        {series(ECC, **GPU, type="uncorrected"): jumped(1)},
        {series(ECC, **GPU, type="uncorrected"): steady(3), series(ECC, **GPU, type="corrected"): grown(9)},
        {**OF, "type": "uncorrected"},
        "a/n1: GPU 3 had a memory error that it could not correct. Reset it when its job has ended, and watch whether it comes back.",
    ),
    Row(
        "HwsondeGpuEccCorrected",
        {series(ECC, **GPU, type="corrected"): grown(3)},
        {series(ECC, **GPU, type="corrected"): grown(1)},
        {**OF, "type": "corrected"},
        "a/n1: GPU 3 corrected more than a hundred memory errors within an hour. Note it, and compare with its like.",
    ),
    Row(
        "HwsondeGpuSpareRowsGone",
        {series("hwsonde_gpu_row_remap_banks", **GPU, availability="none"): turned(0, 2)},
        {
            series("hwsonde_gpu_row_remap_banks", **GPU, availability="none"): steady(0),
            series("hwsonde_gpu_row_remap_banks", **GPU, availability="partial"): steady(2),
        },
        {**OF, "availability": "none"},
        "a/n1: GPU 3 has no spare rows left in 2 memory banks. Plan its replacement.",
    ),
    Row(
        "HwsondeGpuNvlinkErrors",
        {series("hwsonde_gpu_nvlink_errors_total", **GPU, link="4", error="replay"): grown(1)},
        {
            series("hwsonde_gpu_nvlink_errors_total", **GPU, link="4", error="replay"): grown(0.1),
            series("hwsonde_gpu_nvlink_errors_total", **GPU, link="4", error="effective"): grown(100),
        },
        {**OF, "link": "4"},
        "a/n1: GPU 3: NVLink 4 makes errors. Reset the GPU when its job has ended, and watch whether they come back.",
    ),
    Row(
        "HwsondeGpuPcieDegraded",
        {
            series(GENERATION, **GPU): turned(5, 3), series(NEWEST, **GPU): steady(5), series(BUSY, **GPU): steady(0.9),
            series(LANES, **GPU): steady(16), series(MOST, **GPU): steady(16),
        },
        # An idle GPU slows its link down.
        {
            series(GENERATION, **GPU): steady(1), series(NEWEST, **GPU): steady(5), series(BUSY, **GPU): steady(0.1),
            series(LANES, **GPU): steady(16), series(MOST, **GPU): steady(16),
        },
        OF,
        "a/n1: GPU 3 runs its PCIe link narrower or slower than it and its slot could. Reseat it, or look at its riser and cable.",
        also=({series(LANES, **GPU): turned(16, 8), series(MOST, **GPU): steady(16)},),
    ),
    Row(
        "HwsondeGpuPcieErrors",
        {series("hwsonde_gpu_pcie_replays_total", **GPU): grown(12)},
        {series("hwsonde_gpu_pcie_replays_total", **GPU): grown(4)},
        OF,
        "a/n1: GPU 3 sends PCIe packets again and again. Reseat it, or look at its riser, cable and slot.",
    ),
    Row(
        "HwsondeGpuFabricNotReady",
        *state("hwsonde_gpu_fabric_state", 2, 3),
        OF,
        "a/n1: GPU 3 is not part of the NVLink fabric. Look at the fabric manager's service and log.",
        also=(state("hwsonde_gpu_fabric_status", 5)[0],),
    ),
    Row(
        "HwsondeGpuFabricDegraded",
        *state("hwsonde_gpu_fabric_degraded", 1, aspect="degraded_bandwidth"),
        {**OF, "aspect": "degraded_bandwidth"},
        "a/n1: GPU 3: the NVLink fabric is degraded (degraded_bandwidth). Look at links, switches and the fabric manager's log.",
    ),
    Row(
        "HwsondeGpuSwitchFault",
        {series("hwsonde_gpu_sxid_last_timestamp_seconds", **SWITCH): steady(LOOK - 120)},
        {series("hwsonde_gpu_sxid_last_timestamp_seconds", **{**SWITCH, "severity": "nonfatal"}): steady(LOOK - 120)},
        {**HOST, **SWITCH},
        "a/n1: NVSwitch 1 reported a fatal error (SXID 20034). Drain the host, then reset all its GPUs together.",
    ),
    Row(
        "HwsondeGpuDriverHung",
        # It hangs, is started again, answers once and hangs again.
        {series(STATE, state="hung"): "0+0x30 " + "1x2 0 " * 60, series(STATE, state="starting"): "0+0x30 " + "0x2 1 " * 60},
        {
            series(STATE, state="running"): "1+0x30 0x3 1+0x200", series(STATE, state="hung"): "0+0x30 1x3 0+0x200",
            series(STATE, node="n2", state="running"): steady(0), series(STATE, node="n2", state="no_library"): steady(1),
            series(STATE, node="n2", state="stuck"): steady(0),
        },
        HOST,
        "a/n1: NVIDIA's driver leaves questions unanswered most of the time. Drain the host, save its kernel log, then reboot.",
    ),
    Row(
        "HwsondeGpuXidUnheard",
        {series("hwsonde_gpu_devices"): steady(8), series(SOURCE, source="kmsg"): "1+0x30 stale"},
        {
            series("hwsonde_gpu_devices"): steady(8), series("hwsonde_gpu_devices", node="n2"): steady(0),
            series(SOURCE, source="nvml"): steady(0), series(SOURCE, source="kmsg"): steady(1),
        },
        HOST,
        "a/n1: errors of the GPUs (XID) are heard from no source. Let the exporter read the kernel's log.",
    ),
)  # fmt: skip

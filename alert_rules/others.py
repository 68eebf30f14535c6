"""The same conditions on the names of dcgm-exporter, nvidia_gpu_exporter and node_exporter, for hosts without ours. No input, no output.

Alerts have the names of ours, so that routes, silencing and runbooks are the same. What those exporters do not measure has no rule here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from alert_rules.timing import Timing, duration
from alert_rules.upkeep import WATCHDOG
from alert_rules.writing import Group, Links, Rule, Writer, record, was

# A program on Kubernetes is scraped at its pod's address and tells the host's name in a label of its own.
HOST = "{{ with $labels.cluster }}{{ . }}/{{ end }}{{ or $labels.node $labels.Hostname $labels.instance }}"
# One series for each GPU: labels of pods come and go with jobs, and each instance of a divided GPU repeats what holds for all of it.
DCGM = "max by (cluster, node, job, instance, Hostname, gpu, UUID) ({})"
# The driver's numbers for which HwsondeGpuXid pages (docs/xid.md).
XIDS = (46, 48, 54, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 155, 158, 167, 169)

_GPU = "GPU {{ or $labels.gpu $labels.uuid }}"
_DEVICE = "{{ or $labels.device $labels.master $labels.zpool }}{{ with $labels.port }} port {{ . }}{{ end }}"
_VIRTUAL = 'device!~"lo|(docker|br|veth|virbr|cali|cilium|flannel|cni|tun|tap|lxc|bond|vxlan|kube|nodelocal).*"'
_EXPORTERS = 'job=~".*(node.?exporter|dcgm.?exporter|nvidia.?gpu.?exporter).*"'
_RATIO = "entity:node_netstat_Tcp_RetransSegs:ratio_rate5m"
_SHARE = "{{ $value | humanizePercentage }}"
_HOUR = duration(3600)


@dataclass(frozen=True, slots=True)
class _Other:
    """One alert: its name, which gives severity and description, how long it waits, what it says, and when."""

    name: str
    wait: int
    summary: str
    expr: str


def _changed_to(codes: tuple[int, ...], seconds: int) -> str:
    """Give the condition that a GPU's last XID is one of these, and was another one, or none, within so many seconds.

    The metric keeps the last number for ever, so that its being there says nothing, and a repeat of the same cannot be seen.
    """
    last = "DCGM_FI_DEV_XID_ERRORS"
    over, xid = duration(seconds), DCGM.format(last)
    one_of = "\nor\n".join(f"{xid} == {code}" for code in codes)
    # By the GPU's identity alone: other labels are new with each job, and then an old error looked like a new one.
    # What was there before anybody looked is not new either.
    unseen = f"{last} unless on (UUID) {last} offset {over}\nand on (job, instance) up offset {over}"
    new = f"changes({last}[{over}]) > 0\nor\n{unseen}"
    return f"(\n{one_of}\n)\nand on (UUID) (\n{new}\n)\n"


def _grown(name: str, over: str, least: float) -> str:
    """Give the condition that a counter of dcgm-exporter grew by more than that."""
    return f"{DCGM.format(f'increase({name}[{over}])')} > {least}"


def _gpu_events(timing: Timing) -> Iterator[_Other]:
    """Errors that the driver reports, and GPUs that are lost."""
    temperature = "DCGM_FI_DEV_GPU_TEMP"
    yield _Other(
        "HwsondeGpuXid",
        0,
        f"{_GPU}: XID {{{{ $value }}}}. docs/xid.md says what it means and what to do.",
        _changed_to(XIDS, timing.xid),
    )
    gone = DCGM.format(f"max_over_time({temperature}[{_HOUR}:1m])")
    yield _Other(
        "HwsondeGpuLost",
        timing.down,
        f"{_GPU} sends nothing any more. Drain the host, look at its XIDs, then reset it or reboot.",
        f"(\n  {gone}\n  unless on (UUID) {temperature}\n)\nand on (job, instance) up == 1\n",
    )


def _gpu_memory(timing: Timing) -> Iterator[_Other]:
    """Errors of memory and caches, and what is left to mend them."""
    yield _Other(
        "HwsondeGpuMemoryFailed",
        timing.down,
        f"{_GPU} cannot repair its memory any more. Drain the host and have the GPU replaced.",
        f"{DCGM.format('DCGM_FI_DEV_ROW_REMAP_FAILURE')} > 0\nor\nnvidia_smi_remapped_rows_failure == 1\n"
        "or\nnvidia_smi_ecc_errors_uncorrected_aggregate_sram_threshold_exceeded == 1\n",
    )
    yield _Other(
        "HwsondeGpuResetNeeded",
        timing.down,
        f"{_GPU} waits for a repair. Reset it when its job has ended.",
        f"{DCGM.format('DCGM_FI_DEV_RETIRED_PENDING')} > 0\nor\nnvidia_smi_remapped_rows_pending == 1\n"
        "or\nnvidia_smi_retired_pages_pending == 1\nor\nnvidia_smi_gpu_recovery_action > 0\n",
    )
    yield _Other(
        "HwsondeGpuEccUncorrected",
        0,
        f"{_GPU} had a memory error that it could not correct. Reset it when its job has ended, and watch whether it comes back.",
        f"{_grown('DCGM_FI_DEV_ECC_DBE_VOL_TOTAL', _HOUR, 0)}\nor\n"
        f"increase(nvidia_smi_ecc_errors_uncorrected_volatile_total[{_HOUR}]) > 0\n",
    )
    yield _Other(
        "HwsondeGpuEccCorrected",
        0,
        f"{_GPU} corrected more than a hundred memory errors within an hour. Note it, and compare with its like.",
        f"{_grown('DCGM_FI_DEV_ECC_SBE_VOL_TOTAL', _HOUR, 100)}\nor\n"
        f"increase(nvidia_smi_ecc_errors_corrected_volatile_total[{_HOUR}]) > 100\n",
    )
    yield _Other(
        "HwsondeGpuSpareRowsGone",
        timing.state,
        f"{_GPU} has no spare rows left in {{{{ $value }}}} memory banks. Plan its replacement.",
        "nvidia_smi_remapped_rows_histogram_none > 0",
    )


def _gpu_links(timing: Timing) -> Iterator[_Other]:
    """Links, the fabric, and what slows a GPU down."""
    yield _Other(
        "HwsondeGpuNvlinkErrors",
        0,
        f"{_GPU} has errors on its NVLinks. Reset the GPU when its job has ended, and watch whether they come back.",
        f"{_grown('DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL', _HOUR, 10)}\nor\n"
        f"{_grown('DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL', _HOUR, 10)}\nor\n"
        f"{_grown('DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL', _HOUR, 10)}\n",
    )
    yield _Other(
        "HwsondeGpuPcieDegraded",
        timing.lasting,
        f"{_GPU} runs its PCIe link narrower than it and its slot could. Reseat it, or look at its riser and cable.",
        "0 < nvidia_smi_pcie_link_width_current < nvidia_smi_pcie_link_width_max",
    )
    yield _Other(
        "HwsondeGpuPcieErrors",
        0,
        f"{_GPU} sends PCIe packets again and again. Reseat it, or look at its riser, cable and slot.",
        _grown("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "15m", 120),
    )
    reasons = "nvidia_smi_clocks_event_reasons_hw"
    yield _Other(
        "HwsondeGpuThrottled",
        timing.down,
        f"{_GPU} is slowed down by its hardware: check heat, supplies and their cables.",
        f"{reasons}_thermal_slowdown == 1\nor\n{reasons}_power_brake_slowdown == 1\nor\n{reasons}_slowdown == 1\n"
        f"or\n{DCGM.format('rate(DCGM_FI_DEV_THERMAL_VIOLATION[5m])')} * 1e-9 > 0.05\n",
    )
    yield _Other(
        "HwsondeGpuFabricNotReady",
        timing.collector,
        f"{_GPU} is not part of the NVLink fabric. Look at the fabric manager's service and log.",
        "0 < nvidia_smi_fabric_state < 3",
    )


def _network_links(timing: Timing) -> Iterator[_Other]:
    """Links that are down, go up and down, or run slower than they did."""
    state, up = "node_infiniband_state_id", f"node_network_up{{{_VIRTUAL}}}"
    rate, speed = "node_infiniband_rate_bytes_per_second", f"node_network_speed_bytes{{{_VIRTUAL}}}"
    yield _Other(
        "HwsondeNetworkRdmaDown",
        timing.down,
        f"RDMA port {_DEVICE} went down. Look at the cable, the switch port and the subnet manager.",
        f"{state} != 4\nand\nmax_over_time({state}[1d:5m]) == 4\n",
    )
    yield _Other(
        "HwsondeNetworkDown",
        timing.down,
        f"network device {_DEVICE} went down. Look at the cable and the switch port.",
        f"{up} == 0\nand\n{was(up, 1)}\n",
    )
    yield _Other(
        "HwsondeNetworkLinkFlapping",
        0,
        f"the link of {_DEVICE} was lost twice or more within an hour. Clean or replace the cable or the module.",
        f"increase(node_network_carrier_changes_total{{{_VIRTUAL}}}[1h]) > 3.5\nor\nincrease(node_infiniband_link_downed_total[1h]) > 1.5\n",
    )
    yield _Other(
        "HwsondeNetworkLinkSlow",
        timing.state,
        f"{_DEVICE} runs at {{{{ $value | humanize }}}}B/s, slower than within the last day. "
        "Look at the cable, the module and the switch port.",
        f"(0 < {rate} < max_over_time({rate}[1d:5m]))\nor\n(0 < {speed} < max_over_time({speed}[1d:5m]))\n",
    )


def _network_faults(timing: Timing) -> Iterator[_Other]:
    """Bonds without a member, damaged data, and what is sent again."""
    yield _Other(
        "HwsondeNetworkBondDegraded",
        timing.state,
        f"bond {_DEVICE} has only {{{{ $value }}}} members with a link. Look at the others.",
        "node_bonding_active < node_bonding_slaves",
    )
    yield _Other(
        "HwsondeNetworkCableErrors",
        timing.state,
        f"{_DEVICE} receives damaged data. Clean or replace the cable or the module.",
        "increase(node_infiniband_symbol_error_total[15m]) > 100\nor\nincrease(node_infiniband_local_link_integrity_errors_total[15m]) > 100\n"
        f"or\nincrease(node_network_receive_frame_total{{{_VIRTUAL}}}[15m]) > 100\n",
    )
    yield _Other(
        "HwsondeNetworkRetransmits",
        timing.lasting,
        f"{_SHARE} of the TCP segments are sent again. Look at drops here, at the switch port and at the peers.",
        f"{_RATIO} > 0.01",
    )


def _filesystems(timing: Timing) -> Iterator[_Other]:
    """File systems, their servers, and tasks that wait for them."""
    readonly, mount = "node_filesystem_readonly", "{{ $labels.mountpoint }}"
    yield _Other(
        "HwsondeStorageFilesystemFull",
        timing.state,
        f"{mount} has only {_SHARE} of its space or inodes left. Find what fills it.",
        f"(node_filesystem_avail_bytes / (node_filesystem_size_bytes > 0) < 0.05 and {readonly} == 0)\nor\n"
        f"(node_filesystem_files_free / (node_filesystem_files > 0) < 0.05 and {readonly} == 0)\n",
    )
    yield _Other(
        "HwsondeStorageReadOnly",
        timing.state,
        f"{mount} became read-only. Read the kernel's log: the file system or its disk has most likely failed.",
        f"{readonly} == 1\nand\n{was(readonly, 0)}\n",
    )
    yield _Other(
        "HwsondeStorageStuck",
        timing.state,
        f"{mount} does not answer. See whether its server or disk is reachable.",
        # Of what it may not look at, node_exporter says the same as of what fails.
        "node_filesystem_device_error == 1\nand\nmin_over_time(node_filesystem_device_error[1d:5m]) == 0\n",
    )
    yield _Other(
        "HwsondeStorageNfsTimeouts",
        0,
        "the server of {{ $labels.export }} lets requests time out. Look at the server and at the network to it.",
        "sum without (operation, mountaddr, protocol) (increase(node_mountstats_nfs_operations_major_timeouts_total[15m])) > 0",
    )
    yield _Other(
        "HwsondeStoragePressure",
        timing.lasting,
        f"for {_SHARE} of the time every task waits for storage. Find the disk that is busy and what uses it.",
        "rate(node_pressure_io_stalled_seconds_total[5m]) > 0.5",
    )


def _arrays(timing: Timing) -> Iterator[_Other]:
    """Arrays that lost a disk."""
    inactive = 'node_md_state{state="inactive"}'
    yield _Other(
        "HwsondeStorageArrayDown",
        timing.state,
        f"array {_DEVICE} does not run. Look at its members before anything is written or rebuilt.",
        # A container of IMSM or DDF never runs, and node_exporter does not say which array is one.
        f"{inactive} == 1\nand\n{was(inactive, 0)}\n"
        'or\nnode_zfs_zpool_state{state=~"faulted|suspended|unavail"} == 1\n',
    )
    yield _Other(
        "HwsondeStorageArrayDegraded",
        timing.state,
        f"array {_DEVICE} has lost a member. Replace the disk: the next one may cost the data.",
        'node_md_disks_required - ignoring (state) node_md_disks{state="active"} > 0\n'
        'or\nnode_zfs_zpool_state{state="degraded"} == 1\n',
    )


def _exporters(timing: Timing) -> Iterator[_Other]:
    """Exporters that do not answer."""
    yield _Other(
        "HwsondeExporterDown",
        timing.down,
        "an exporter ({{ $labels.job }}) does not answer, so a part of this host is watched by nobody. "
        "See whether the host or only the exporter is down.",
        f"up{{{_EXPORTERS}}} == 0",
    )


def _memories(timing: Timing) -> Iterator[_Other]:
    """Errors of memory, and the want of it."""
    yield _Other(
        "HwsondeMemoryEccUncorrected",
        0,
        "memory controller {{ $labels.controller }} had an error that it could not correct. Drain the host and have the module replaced.",
        "increase(node_edac_uncorrectable_errors_total[1h]) > 0",
    )
    yield _Other(
        "HwsondeMemoryEccCorrected",
        0,
        "memory controller {{ $labels.controller }} corrected more than a hundred errors within an hour. Plan the replacement of the module.",
        "increase(node_edac_correctable_errors_total[1h]) > 100",
    )
    yield _Other(
        "HwsondeMemoryOomKills",
        0,
        "the kernel ended processes for want of memory. Read its log for which, and whose limit was met.",
        "increase(node_vmstat_oom_kill[15m]) > 0",
    )
    yield _Other(
        "HwsondeMemoryPressure",
        timing.state,
        f"for {_SHARE} of the time every task waits for memory. Find what grew.",
        "rate(node_pressure_memory_stalled_seconds_total[5m]) > 0.1",
    )


def _boards(timing: Timing) -> Iterator[_Other]:
    """Heat, and the clock."""
    yield _Other(
        "HwsondeThermalAlarm",
        timing.state,
        "sensor {{ $labels.sensor }} of {{ $labels.chip }} is beyond its limit. Check fans, inlet temperature and dust.",
        "node_hwmon_temp_alarm == 1\nor\nnode_hwmon_temp_celsius >= (node_hwmon_temp_crit_celsius > 0)\nor\nnode_hwmon_fan_alarm == 1\n",
    )
    yield _Other(
        "HwsondeClockUnsynchronized",
        timing.lasting,
        "no time service keeps the system clock. See whether chronyd or its like runs and reaches its servers.",
        "node_timex_sync_status == 0",
    )
    yield _Other(
        "HwsondeClockOffset",
        timing.lasting,
        "the system clock is {{ $value | humanizeDuration }} away from its reference. Look at the time service and its servers.",
        "abs(node_timex_offset_seconds) > 0.05",
    )


def _texts(value: str | dict[str, str]) -> dict[str, str]:
    return value if isinstance(value, dict) else {}


def _alert(one: _Other, like: Rule, writer: Writer) -> Rule:
    """Write the alert with the severity and the description of ours of the same name."""
    labels, annotations = _texts(like["labels"]), _texts(like["annotations"])
    said = {"summary": f"{HOST}: {one.summary}"}
    # Descriptions of ours that ask for a value speak of another metric's.
    if "{{" not in annotations["description"]:
        said["description"] = annotations["description"]
    else:
        said["description"] = "The runbook says what it means and what to check."
    if "subsystem" in annotations:
        said["subsystem"] = annotations["subsystem"]
    waiting = {"wait": one.wait} if one.wait else {}
    return writer.alert(one.name, labels["severity"], one.expr, said, **waiting)


def groups(timing: Timing, links: Links, ours: Mapping[str, Rule]) -> list[Group]:
    """Every group of rules; ``ours`` are the alerts of hosts with our exporter, by name."""
    writer, calm = Writer(links), duration(timing.hardware)
    sent = "(rate(node_netstat_Tcp_OutSegs[5m]) > 100)"
    recorded = record(_RATIO, f"rate(node_netstat_Tcp_RetransSegs[5m])\n/ {sent}\n")
    made: dict[str, tuple[Callable[[Timing], Iterator[_Other]], ...]] = {
        "gpu": (_gpu_events, _gpu_memory, _gpu_links),
        "network": (_network_links, _network_faults),
        "storage": (_filesystems, _arrays),
        "host": (_exporters, _memories, _boards),
    }
    found: list[Group] = []
    for name, parts in made.items():
        first = [recorded] if name == "network" else []
        last = [ours[WATCHDOG]] if name == "host" else []
        rules = [*first, *(_alert(one, ours[one.name], writer) for part in parts for one in part(timing)), *last]
        found.append({"name": f"others_{name}", "interval": calm, "rules": rules})
    return found

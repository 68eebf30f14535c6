"""What the statistics of network drivers mean: each driver has names of its own for the same things.

A name in a table may hold ``#``, which stands for a number. Where a label value is ``#`` too, the number becomes that label
(a priority). Where none is, the statistic is that of a part (a ring, a queue, a lane), and the parts are summed, unless the
driver gives the total itself. Names that are in no table are not reported: there are some two thousand on a large
adapter, and most count by ring what the kernel counts by device.

Sources: the drivers' lists of strings and the kernel's documentation of mlx5 counters.
"""

from __future__ import annotations

from functools import partial

from hwsonde_exporter.metric import Kind, Metric

_counter = partial(Metric, kind=Kind.COUNTER, subsystem="network")
_gauge = partial(Metric, kind=Kind.GAUGE, subsystem="network")
_DIRECTION = ("device", "direction")
_PRIORITY = ("device", "priority", "direction")
_STATISTICS = "ETHTOOL_GSTATS"

PAUSE_FRAMES = _counter(
    name="hwsonde_network_pause_frames_total",
    help="Link level pause frames received and sent.",
    labels=_DIRECTION,
    source=f"{_STATISTICS} rx_pause_ctrl_phy, tx_pause_ctrl_phy (mlx5) and what others call the same, or ETHTOOL_MSG_PAUSE_GET",
)
PAUSE_SECONDS = _counter(
    name="hwsonde_network_pause_seconds_total",
    help="Seconds the link was paused as a whole, by pause frames received and sent.",
    labels=_DIRECTION,
    unit="seconds",
    source=f"{_STATISTICS} rx_global_pause_duration, tx_global_pause_duration (us; mlx5)",
)
PFC_FRAMES = _counter(
    name="hwsonde_network_pfc_frames_total",
    help="Priority flow control frames received and sent.",
    labels=_PRIORITY,
    source=f"{_STATISTICS} rx_prioN_pause, tx_prioN_pause (mlx5) and what others call the same",
)
PFC_SECONDS = _counter(
    name="hwsonde_network_pfc_pause_seconds_total",
    help="Seconds a priority was paused, by frames received and sent.",
    labels=_PRIORITY,
    unit="seconds",
    source=f"{_STATISTICS} rx_prioN_pause_duration, tx_prioN_pause_duration (us; mlx5), pfc_priN_rx_duration_us (bnxt_en)",
)
PFC_STORMS = _counter(
    name="hwsonde_network_pfc_storms_total",
    help="Pause storms the device warned of (warning) or cut off (error).",
    labels=("device", "level"),
    source=f"{_STATISTICS} tx_pause_storm_warning_events, tx_pause_storm_error_events (mlx5), pfc_wd_storms_detected_pN (bnxt_en)",
)
PRIORITY_DISCARDS = _counter(
    name="hwsonde_network_priority_discards_total",
    help="Packets of a priority that the port dropped for want of buffer.",
    labels=("device", "priority"),
    source=f"{_STATISTICS} rx_prioN_discards (mlx5), rx_discard_packets_cosN (bnxt_en, by class of service)",
)
PHY_ERRORS = _counter(
    name="hwsonde_network_phy_errors_total",
    help="Physical layer errors of a port, by kind; link_down counts the times the link was lost.",
    labels=("device", "error"),
    source=f"{_STATISTICS} rx_crc_errors_phy, rx_symbol_err_phy, rx_discards_phy, tx_discards_phy, link_down_events_phy (mlx5) and "
    "what others call the same, or ETHTOOL_MSG_STATS_GET",
)
FEC_BLOCKS = _counter(
    name="hwsonde_network_fec_blocks_total",
    help="Blocks with errors that forward error correction repaired (corrected) or could not (uncorrectable).",
    labels=("device", "result"),
    source="ETHTOOL_MSG_FEC_GET statistics; "
    + _STATISTICS
    + " rx_fec_corrected_blocks, rx_fec_uncorrectable_blocks (bnxt_en)",
)
FEC_BITS = _counter(
    name="hwsonde_network_fec_corrections_total",
    help="Bits that forward error correction repaired; on fast links some are usual.",
    labels=("device",),
    source=f"{_STATISTICS} rx_corrected_bits_phy (mlx5), rx_corrected_bits (bnxt_en), or ETHTOOL_MSG_FEC_GET",
)
DISCARDS = _counter(
    name="hwsonde_network_discards_total",
    help="Packets that the device or its driver dropped, by reason; no_buffer means that the host took them too slowly.",
    labels=("device", "direction", "reason"),
    source=f"{_STATISTICS} rx_out_of_buffer, outbound_pci_buffer_overflow, rx_buff_alloc_err (mlx5) and what others call the same",
)
QUEUE_STOPS = _counter(
    name="hwsonde_network_queue_stops_total",
    help="Times a transmit queue was full and stopped.",
    labels=("device",),
    source=f"{_STATISTICS} tx_queue_stopped (mlx5), queue_N_tx_queue_stop (ena), tx_stop[N] (gve)",
)
RECOVERIES = _counter(
    name="hwsonde_network_recoveries_total",
    help="Times a driver had to recover a queue or reset the device, by cause.",
    labels=("device", "cause"),
    source=f"{_STATISTICS} tx_recover, rx_recover (mlx5), tx_timeout, wd_expired, reset_cnt and the like (others)",
)
MODULE_EVENTS = _counter(
    name="hwsonde_network_module_events_total",
    help="Events of the cable or optical module of a port.",
    labels=("device", "event"),
    source=f"{_STATISTICS} module_unplug, module_bus_stuck, module_high_temp, module_bad_shorted (mlx5)",
)
PCIE_ERRORS = _counter(
    name="hwsonde_network_pcie_errors_total",
    help="Signal errors that a network device saw on its PCI Express link.",
    labels=_DIRECTION,
    source=f"{_STATISTICS} rx_pci_signal_integrity, tx_pci_signal_integrity (mlx5)",
)
PCIE_STALLED = _gauge(
    name="hwsonde_network_pcie_stalled_ratio",
    help="Share of the last second in which a network device wanted to read or write memory and PCI Express had no credits.",
    labels=("device", "operation"),
    unit="ratio",
    source=f"{_STATISTICS} outbound_pci_stalled_rd, outbound_pci_stalled_wr (percent; mlx5)",
)
PCIE_STALLED_SECONDS = _counter(
    name="hwsonde_network_pcie_stalled_seconds_total",
    help="Seconds in which a network device was stalled by PCI Express for more than 30 % of the time.",
    labels=("device", "operation"),
    unit="seconds",
    source=f"{_STATISTICS} outbound_pci_stalled_rd_events, outbound_pci_stalled_wr_events (mlx5)",
)
ALLOWANCE = _counter(
    name="hwsonde_network_allowance_exceeded_total",
    help="Packets queued or dropped because the instance had used up what its type allows, by allowance.",
    labels=("device", "allowance"),
    source=f"{_STATISTICS} bw_in_allowance_exceeded and the like (ena)",
)
CONNTRACK_LEFT = _gauge(
    name="hwsonde_network_conntrack_allowance_available",
    help="Connections that may still be tracked before the instance's allowance is used up.",
    labels=("device",),
    source=f"{_STATISTICS} conntrack_allowance_available (ena)",
)

METRICS: tuple[Metric, ...] = (
    PAUSE_FRAMES, PAUSE_SECONDS, PFC_FRAMES, PFC_SECONDS, PFC_STORMS, PRIORITY_DISCARDS, PHY_ERRORS, FEC_BLOCKS, FEC_BITS, DISCARDS,
    QUEUE_STOPS, RECOVERIES, MODULE_EVENTS, PCIE_ERRORS, PCIE_STALLED, PCIE_STALLED_SECONDS, ALLOWANCE, CONNTRACK_LEFT,
)  # fmt: skip

# What a value is divided by.
DIVISORS: dict[Metric, int] = {PAUSE_SECONDS: 1_000_000, PFC_SECONDS: 1_000_000, PCIE_STALLED: 100}
# Values beyond are no readings.
GREATEST: dict[Metric, int] = {PCIE_STALLED: 100}

# Metric, and the values of its labels but the device.
Series = tuple[Metric, tuple[str, ...]]
Table = dict[str, Series]

RECEIVED, TRANSMITTED = "received", "transmitted"
_RX, _TX = RECEIVED, TRANSMITTED

MLX5: Table = {
    "rx_pause_ctrl_phy": (PAUSE_FRAMES, (_RX,)),
    "tx_pause_ctrl_phy": (PAUSE_FRAMES, (_TX,)),
    "rx_global_pause_duration": (PAUSE_SECONDS, (_RX,)),
    "tx_global_pause_duration": (PAUSE_SECONDS, (_TX,)),
    "rx_prio#_pause": (PFC_FRAMES, ("#", _RX)),
    "tx_prio#_pause": (PFC_FRAMES, ("#", _TX)),
    "rx_prio#_pause_duration": (PFC_SECONDS, ("#", _RX)),
    "tx_prio#_pause_duration": (PFC_SECONDS, ("#", _TX)),
    "tx_pause_storm_warning_events": (PFC_STORMS, ("warning",)),
    "tx_pause_storm_error_events": (PFC_STORMS, ("error",)),
    "rx_prio#_discards": (PRIORITY_DISCARDS, ("#",)),
    "rx_crc_errors_phy": (PHY_ERRORS, ("crc",)),
    "rx_symbol_err_phy": (PHY_ERRORS, ("symbol",)),
    "rx_pcs_symbol_err_phy": (PHY_ERRORS, ("pcs_symbol",)),
    "rx_discards_phy": (PHY_ERRORS, ("receive_discard",)),
    "tx_discards_phy": (PHY_ERRORS, ("transmit_discard",)),
    "tx_errors_phy": (PHY_ERRORS, ("transmit",)),
    "link_down_events_phy": (PHY_ERRORS, ("link_down",)),
    "rx_in_range_len_errors_phy": (PHY_ERRORS, ("length",)),
    "rx_oversize_pkts_phy": (PHY_ERRORS, ("oversize",)),
    "rx_undersize_pkts_phy": (PHY_ERRORS, ("undersize",)),
    "rx_fragments_phy": (PHY_ERRORS, ("fragment",)),
    "rx_jabbers_phy": (PHY_ERRORS, ("jabber",)),
    "rx_corrected_bits_phy": (FEC_BITS, ()),
    "rx_out_of_buffer": (DISCARDS, (_RX, "no_buffer")),
    "outbound_pci_buffer_overflow": (DISCARDS, (_RX, "pcie_overflow")),
    "rx_buff_alloc_err": (DISCARDS, (_RX, "no_memory")),
    "rx_steer_missed_packets": (DISCARDS, (_RX, "no_receiver")),
    "rx_oversize_pkts_buffer": (DISCARDS, (_RX, "oversize")),
    "tx_queue_dropped": (DISCARDS, (_TX, "queue_full")),
    "tx_queue_stopped": (QUEUE_STOPS, ()),
    "tx_recover": (RECOVERIES, ("transmit_queue",)),
    "rx_recover": (RECOVERIES, ("receive_queue",)),
    "module_unplug": (MODULE_EVENTS, ("unplugged",)),
    "module_bus_stuck": (MODULE_EVENTS, ("bus_stuck",)),
    "module_high_temp": (MODULE_EVENTS, ("high_temperature",)),
    "module_bad_shorted": (MODULE_EVENTS, ("bad_or_shorted",)),
    "rx_pci_signal_integrity": (PCIE_ERRORS, (_RX,)),
    "tx_pci_signal_integrity": (PCIE_ERRORS, (_TX,)),
    "outbound_pci_stalled_rd": (PCIE_STALLED, ("read",)),
    "outbound_pci_stalled_wr": (PCIE_STALLED, ("write",)),
    "outbound_pci_stalled_rd_events": (PCIE_STALLED_SECONDS, ("read",)),
    "outbound_pci_stalled_wr_events": (PCIE_STALLED_SECONDS, ("write",)),
}

BNXT: Table = {
    "rx_pause_frames": (PAUSE_FRAMES, (_RX,)),
    "tx_pause_frames": (PAUSE_FRAMES, (_TX,)),
    "rx_pfc_ena_frames_pri#": (PFC_FRAMES, ("#", _RX)),
    "tx_pfc_ena_frames_pri#": (PFC_FRAMES, ("#", _TX)),
    "pfc_pri#_rx_duration_us": (PFC_SECONDS, ("#", _RX)),
    "pfc_pri#_tx_duration_us": (PFC_SECONDS, ("#", _TX)),
    "pfc_wd_storms_detected_p#": (PFC_STORMS, ("error",)),
    "rx_discard_packets_cos#": (PRIORITY_DISCARDS, ("#",)),
    "rx_fcs_err_frames": (PHY_ERRORS, ("crc",)),
    "rx_align_err_frames": (PHY_ERRORS, ("alignment",)),
    "rx_pcs_symbol_err": (PHY_ERRORS, ("pcs_symbol",)),
    "rx_stat_discard": (PHY_ERRORS, ("receive_discard",)),
    "tx_stat_discard": (PHY_ERRORS, ("transmit_discard",)),
    "tx_err": (PHY_ERRORS, ("transmit",)),
    "link_down_events": (PHY_ERRORS, ("link_down",)),
    "rx_ovrsz_frames": (PHY_ERRORS, ("oversize",)),
    "rx_undrsz_frames": (PHY_ERRORS, ("undersize",)),
    "rx_runt_frames": (PHY_ERRORS, ("fragment",)),
    "rx_jbr_frames": (PHY_ERRORS, ("jabber",)),
    "rx_fec_corrected_blocks": (FEC_BLOCKS, ("corrected",)),
    "rx_fec_uncorrectable_blocks": (FEC_BLOCKS, ("uncorrectable",)),
    "rx_corrected_bits": (FEC_BITS, ()),
    # Older drivers give the rings only.
    "rx_total_ring_discards": (DISCARDS, (_RX, "no_buffer")),
    "rx_total_discard_pkts": (DISCARDS, (_RX, "no_buffer")),
    "[#]: rx_discards": (DISCARDS, (_RX, "no_buffer")),
    "rx_total_oom_discards": (DISCARDS, (_RX, "no_memory")),
    "rx_total_buf_errors": (DISCARDS, (_RX, "error")),
    "[#]: rx_buf_errors": (DISCARDS, (_RX, "error")),
    "tx_total_ring_discards": (DISCARDS, (_TX, "queue_full")),
    "tx_total_discard_pkts": (DISCARDS, (_TX, "queue_full")),
    "[#]: tx_discards": (DISCARDS, (_TX, "queue_full")),
    "rx_total_resets": (RECOVERIES, ("receive_queue",)),
    "[#]: rx_resets": (RECOVERIES, ("receive_queue",)),
    "tx_total_resets": (RECOVERIES, ("transmit_queue",)),
    "total_missed_irqs": (RECOVERIES, ("missed_interrupt",)),
    "[#]: missed_irqs": (RECOVERIES, ("missed_interrupt",)),
}

ICE: Table = {
    # xon frames end a pause; xoff frames begin one, and only those are counted here.
    "link_xoff_rx.nic": (PAUSE_FRAMES, (_RX,)),
    "link_xoff_tx.nic": (PAUSE_FRAMES, (_TX,)),
    "rx_priority_#_xoff.nic": (PFC_FRAMES, ("#", _RX)),
    "tx_priority_#_xoff.nic": (PFC_FRAMES, ("#", _TX)),
    "rx_crc_errors.nic": (PHY_ERRORS, ("crc",)),
    "illegal_bytes.nic": (PHY_ERRORS, ("symbol",)),
    "mac_local_faults.nic": (PHY_ERRORS, ("local_fault",)),
    "mac_remote_faults.nic": (PHY_ERRORS, ("remote_fault",)),
    "rx_length_errors.nic": (PHY_ERRORS, ("length",)),
    "rx_len_errors.nic": (PHY_ERRORS, ("length",)),
    "rx_oversize.nic": (PHY_ERRORS, ("oversize",)),
    "rx_undersize.nic": (PHY_ERRORS, ("undersize",)),
    "rx_fragments.nic": (PHY_ERRORS, ("fragment",)),
    "rx_jabber.nic": (PHY_ERRORS, ("jabber",)),
    "tx_errors.nic": (PHY_ERRORS, ("transmit",)),
    "rx_dropped.nic": (PHY_ERRORS, ("receive_discard",)),
    "tx_dropped_link_down.nic": (DISCARDS, (_TX, "link_down")),
    "rx_dropped": (DISCARDS, (_RX, "no_buffer")),
    "rx_alloc_fail": (DISCARDS, (_RX, "no_memory")),
    "tx_busy": (QUEUE_STOPS, ()),
    "tx_timeout.nic": (RECOVERIES, ("transmit_timeout",)),
}

I40E: Table = {
    "port.link_xoff_rx": (PAUSE_FRAMES, (_RX,)),
    "port.link_xoff_tx": (PAUSE_FRAMES, (_TX,)),
    "port.rx_priority_#_xoff": (PFC_FRAMES, ("#", _RX)),
    "port.tx_priority_#_xoff": (PFC_FRAMES, ("#", _TX)),
    "port.rx_priority_#_xoff_rx": (PFC_FRAMES, ("#", _RX)),
    "port.tx_priority_#_xoff_tx": (PFC_FRAMES, ("#", _TX)),
    "port.rx_crc_errors": (PHY_ERRORS, ("crc",)),
    "port.illegal_bytes": (PHY_ERRORS, ("symbol",)),
    "port.mac_local_faults": (PHY_ERRORS, ("local_fault",)),
    "port.mac_remote_faults": (PHY_ERRORS, ("remote_fault",)),
    "port.rx_length_errors": (PHY_ERRORS, ("length",)),
    "port.rx_oversize": (PHY_ERRORS, ("oversize",)),
    "port.rx_undersize": (PHY_ERRORS, ("undersize",)),
    "port.rx_fragments": (PHY_ERRORS, ("fragment",)),
    "port.rx_jabber": (PHY_ERRORS, ("jabber",)),
    "port.tx_errors": (PHY_ERRORS, ("transmit",)),
    "port.rx_dropped": (PHY_ERRORS, ("receive_discard",)),
    "port.tx_dropped_link_down": (DISCARDS, (_TX, "link_down")),
    "rx_dropped": (DISCARDS, (_RX, "no_buffer")),
    "rx_alloc_fail": (DISCARDS, (_RX, "no_memory")),
    "tx_busy": (QUEUE_STOPS, ()),
    "port.tx_timeout": (RECOVERIES, ("transmit_timeout",)),
}

# ixgbe and its smaller and older siblings.
IXGBE: Table = {
    "rx_flow_control_xoff": (PAUSE_FRAMES, (_RX,)),
    "tx_flow_control_xoff": (PAUSE_FRAMES, (_TX,)),
    "rx_pb_#_pxoff": (PFC_FRAMES, ("#", _RX)),
    "tx_pb_#_pxoff": (PFC_FRAMES, ("#", _TX)),
    "rx_crc_errors": (PHY_ERRORS, ("crc",)),
    "rx_align_errors": (PHY_ERRORS, ("alignment",)),
    "rx_length_errors": (PHY_ERRORS, ("length",)),
    "rx_long_length_errors": (PHY_ERRORS, ("oversize",)),
    "rx_short_length_errors": (PHY_ERRORS, ("undersize",)),
    "rx_missed_errors": (DISCARDS, (_RX, "no_buffer")),
    "alloc_rx_page_failed": (DISCARDS, (_RX, "no_memory")),
    "alloc_rx_buff_failed": (DISCARDS, (_RX, "no_memory")),
    "rx_no_dma_resources": (DISCARDS, (_RX, "no_descriptor")),
    "tx_restart_queue": (QUEUE_STOPS, ()),
    "tx_timeout_count": (RECOVERIES, ("transmit_timeout",)),
}

ENA: Table = {
    "bw_in_allowance_exceeded": (ALLOWANCE, ("bandwidth_in",)),
    "bw_out_allowance_exceeded": (ALLOWANCE, ("bandwidth_out",)),
    "pps_allowance_exceeded": (ALLOWANCE, ("packets",)),
    "conntrack_allowance_exceeded": (ALLOWANCE, ("conntrack",)),
    "linklocal_allowance_exceeded": (ALLOWANCE, ("link_local",)),
    "conntrack_allowance_available": (CONNTRACK_LEFT, ()),
    "rx_drops": (DISCARDS, (_RX, "no_buffer")),
    "rx_overruns": (DISCARDS, (_RX, "no_buffer")),
    "queue_#_rx_page_alloc_fail": (DISCARDS, (_RX, "no_memory")),
    "queue_#_rx_skb_alloc_fail": (DISCARDS, (_RX, "no_memory")),
    "queue_#_rx_bad_desc_num": (DISCARDS, (_RX, "error")),
    "tx_drops": (DISCARDS, (_TX, "queue_full")),
    "queue_#_tx_queue_stop": (QUEUE_STOPS, ()),
    "queue_#_tx_missed_tx": (RECOVERIES, ("missed_completion",)),
    "tx_timeout": (RECOVERIES, ("transmit_timeout",)),
    "os_netdev_wd": (RECOVERIES, ("transmit_timeout",)),
    "wd_expired": (RECOVERIES, ("watchdog",)),
    "reset_fail": (RECOVERIES, ("failed_reset",)),
    "missing_admin_interrupt": (RECOVERIES, ("missed_interrupt",)),
}

GVE: Table = {
    "rx_queue_drop_cnt[#]": (DISCARDS, (_RX, "no_buffer")),
    "rx_drops_packet_over_mru[#]": (DISCARDS, (_RX, "oversize")),
    "rx_drops_invalid_checksum[#]": (DISCARDS, (_RX, "checksum")),
    "rx_skb_alloc_fail": (DISCARDS, (_RX, "no_memory")),
    "rx_buf_alloc_fail": (DISCARDS, (_RX, "no_memory")),
    "rx_desc_err_dropped_pkt": (DISCARDS, (_RX, "error")),
    "tx_dropped": (DISCARDS, (_TX, "error")),
    "tx_stop[#]": (QUEUE_STOPS, ()),
    "tx_timeouts": (RECOVERIES, ("transmit_timeout",)),
    "reset_cnt": (RECOVERIES, ("reset",)),
}

VIRTIO: Table = {
    "rx_drops": (DISCARDS, (_RX, "error")),
    "rx#_drops": (DISCARDS, (_RX, "error")),
    "rx_queue_#_drops": (DISCARDS, (_RX, "error")),
    "tx_tx_timeouts": (RECOVERIES, ("transmit_timeout",)),
    "tx#_tx_timeouts": (RECOVERIES, ("transmit_timeout",)),
    "tx_queue_#_tx_timeouts": (RECOVERIES, ("transmit_timeout",)),
}

DRIVERS: dict[str, Table] = {
    "mlx5_core": MLX5,
    "bnxt_en": BNXT,
    "ice": ICE,
    "i40e": I40E,
    "ixgbe": IXGBE,
    "igb": IXGBE,
    "igc": IXGBE,
    "e1000e": IXGBE,
    "ena": ENA,
    "gve": GVE,
    "virtio_net": VIRTIO,
}

"""Which file of an RDMA port becomes which metric; drivers have names of their own for the same things.

Sources: Documentation/ABI/stable/sysfs-class-infiniband, and the lists of names in mlx5_ib, bnxt_re, irdma and efa.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hwsonde_exporter.metric import Kind, Metric

_PORT = ("device", "port")
_DIRECTION = (*_PORT, "direction")
_PORTS = "/sys/class/infiniband/DEV/ports/PORT"
_COUNTERS = f"{_PORTS}/counters"
_HW = f"{_PORTS}/hw_counters"
_counter = partial(Metric, kind=Kind.COUNTER, subsystem="network", labels=_PORT)

BYTES = _counter(
    name="hwsonde_network_rdma_bytes_total",
    help="Bytes received and transmitted by an RDMA port.",
    labels=_DIRECTION,
    unit="bytes",
    source=f"{_COUNTERS}/port_rcv_data, port_xmit_data (x 4); hw_counters/rx_bytes, tx_bytes (efa, bnxt_re)",
)
PACKETS = _counter(
    name="hwsonde_network_rdma_packets_total",
    help="Packets received and transmitted by an RDMA port.",
    labels=_DIRECTION,
    source=f"{_COUNTERS}/port_rcv_packets, port_xmit_packets; hw_counters/rx_pkts, tx_pkts (efa, bnxt_re)",
)
MULTICAST = _counter(
    name="hwsonde_network_rdma_multicast_packets_total",
    help="Multicast packets received and transmitted by an RDMA port; the others are unicast.",
    labels=_DIRECTION,
    source=f"{_COUNTERS}/multicast_rcv_packets, multicast_xmit_packets",
)
ERRORS = _counter(
    name="hwsonde_network_rdma_errors_total",
    help="Port errors, by kind.",
    labels=(*_PORT, "error"),
    source=f"{_COUNTERS}/symbol_error, port_rcv_errors, port_rcv_remote_physical_errors, port_rcv_switch_relay_errors, "
    "port_rcv_constraint_errors, port_xmit_constraint_errors, local_link_integrity_errors, excessive_buffer_overrun_errors, "
    "VL15_dropped; hw_counters/rx_icrc_encapsulated",
)
TRANSMIT_DISCARDS = _counter(
    name="hwsonde_network_rdma_transmit_discards_total",
    help="Packets the port could not send.",
    source=f"{_COUNTERS}/port_xmit_discards; hw_counters/tx_roce_discards (bnxt_re)",
)
RECEIVE_DISCARDS = _counter(
    name="hwsonde_network_rdma_receive_discards_total",
    help="Packets the port received and dropped.",
    source=f"{_HW}/rx_drops (efa), rx_roce_discards (bnxt_re), ip4InDiscards, ip6InDiscards (irdma)",
)
TRANSMIT_WAIT = _counter(
    name="hwsonde_network_rdma_transmit_wait_ticks_total",
    help="Ticks the port had data to send but no credits or arbitration; the congestion signal of InfiniBand.",
    source=f"{_COUNTERS}/port_xmit_wait",
)
LINK_DOWNED = _counter(
    name="hwsonde_network_rdma_link_downed_total",
    help="Times the link went down.",
    source=f"{_COUNTERS}/link_downed",
)
LINK_RECOVERIES = _counter(
    name="hwsonde_network_rdma_link_error_recoveries_total",
    help="Times the link recovered from an error by itself.",
    source=f"{_COUNTERS}/link_error_recovery",
)
CNP = _counter(
    name="hwsonde_network_rdma_cnp_packets_total",
    help="Congestion notification packets sent, received, handled or ignored (RoCE).",
    labels=(*_PORT, "action"),
    source=f"{_HW}/np_cnp_sent, rp_cnp_handled, rp_cnp_ignored (mlx5); tx_cnp_pkts, rx_cnp_pkts (bnxt_re)",
)
ECN = _counter(
    name="hwsonde_network_rdma_ecn_marked_packets_total",
    help="RoCE packets received with a congestion mark.",
    source=f"{_HW}/np_ecn_marked_roce_packets (mlx5), rx_ecn_marked_pkts (bnxt_re), RxECNMrkd (irdma)",
)
RETRIES = _counter(
    name="hwsonde_network_rdma_retries_total",
    help="Transport retries, by cause.",
    labels=(*_PORT, "cause"),
    source=f"{_HW}/local_ack_timeout_err, packet_seq_err, rnr_nak_retry_err, implied_nak_seq_err, roce_adp_retrans, "
    "roce_adp_retrans_to (mlx5); to_retransmits, seq_err_naks_rcvd, rnr_naks_rcvd (bnxt_re); retrans_timeout_events (efa)",
)
RETRANSMITTED = _counter(
    name="hwsonde_network_rdma_retransmitted_packets_total",
    help="Packets sent again.",
    source=f"{_HW}/retrans_pkts (efa), tcpRetransSegs (irdma)",
)
RETRANSMITTED_BYTES = _counter(
    name="hwsonde_network_rdma_retransmitted_bytes_total",
    help="Bytes sent again.",
    unit="bytes",
    source=f"{_HW}/retrans_bytes (efa)",
)
SLOW_RESTARTS = _counter(
    name="hwsonde_network_rdma_slow_restarts_total",
    help="Times the adapter began anew at a low rate after it had been idle (RoCE).",
    source=f"{_HW}/roce_slow_restart (mlx5)",
)
OUT_OF_BUFFER = _counter(
    name="hwsonde_network_rdma_out_of_buffer_total",
    help="Packets dropped for want of receive work requests.",
    source=f"{_HW}/out_of_buffer (mlx5), rx_out_of_buffer (bnxt_re)",
)
OUT_OF_SEQUENCE = _counter(
    name="hwsonde_network_rdma_out_of_sequence_total",
    help="Packets received out of sequence.",
    source=f"{_HW}/out_of_sequence (mlx5), oos_drop_count (bnxt_re)",
)
COMPLETION_ERRORS = _counter(
    name="hwsonde_network_rdma_completion_errors_total",
    help="Work requests completed with an error; those flushed belong to connections that are being closed.",
    labels=(*_PORT, "side", "error"),
    source=f"{_HW}/req_cqe_error, req_remote_access_errors, req_remote_invalid_request, resp_cqe_error, resp_local_length_error, "
    "resp_remote_access_errors and newer ones (mlx5); what bnxt_re and efa call the same",
)
REQUESTS = _counter(
    name="hwsonde_network_rdma_requests_total",
    help="RDMA requests received; a duplicate was sent again by its requester.",
    labels=(*_PORT, "operation"),
    source=f"{_HW}/rx_read_requests, rx_write_requests, rx_atomic_requests, duplicate_request (mlx5); rx_read_req and the like "
    "(bnxt_re); iwInRdmaReads and the like (irdma)",
)
WORK_REQUESTS = _counter(
    name="hwsonde_network_rdma_work_requests_total",
    help="Work requests of this host that were carried out.",
    labels=(*_PORT, "operation"),
    source=f"{_HW}/send_wrs, recv_wrs, rdma_read_wrs, rdma_write_wrs (efa); tx_read_req and the like (bnxt_re); iwOutRdmaReads and "
    "the like (irdma)",
)
WORK_BYTES = _counter(
    name="hwsonde_network_rdma_work_request_bytes_total",
    help="Bytes that work requests moved, and those moved for the peers' reads and writes.",
    labels=(*_PORT, "operation"),
    unit="bytes",
    source=f"{_HW}/send_bytes, recv_bytes, rdma_read_bytes, rdma_write_bytes, rdma_read_resp_bytes, rdma_write_recv_bytes (efa)",
)
REMOTE_EVENTS = _counter(
    name="hwsonde_network_rdma_remote_events_total",
    help="Times a peer did not answer or a connection to it was impaired and slowed down.",
    labels=(*_PORT, "event"),
    source=f"{_HW}/unresponsive_remote_events, impaired_remote_conn_events (efa)",
)
COMMAND_ERRORS = _counter(
    name="hwsonde_network_rdma_command_errors_total",
    help="Commands to the device that failed, or that it did not answer.",
    labels=(*_PORT, "error"),
    source=f"{_HW}/cmds_err, no_completion_cmds (efa)",
)

METRICS: tuple[Metric, ...] = (
    BYTES, PACKETS, MULTICAST, ERRORS, TRANSMIT_DISCARDS, RECEIVE_DISCARDS, TRANSMIT_WAIT, LINK_DOWNED, LINK_RECOVERIES, CNP, ECN,
    RETRIES, RETRANSMITTED, RETRANSMITTED_BYTES, SLOW_RESTARTS, OUT_OF_BUFFER, OUT_OF_SEQUENCE, COMPLETION_ERRORS, REQUESTS,
    WORK_REQUESTS, WORK_BYTES, REMOTE_EVENTS, COMMAND_ERRORS,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One series of a port.

    Attributes
    ----------
    files
        Files below the port's folder, summed (those that the port has).
    metric, labels
        The series, without the labels of the port.
    bits
        Width of the counter: it stops at all bits set, and tells nothing from then on.
    factor
        What a value is multiplied by.
    """

    files: tuple[str, ...]
    metric: Metric
    labels: tuple[str, ...] = ()
    bits: int = 64
    factor: int = 1


def _standard(file: str, metric: Metric, *labels: str, bits: int = 64, factor: int = 1) -> Row:
    return Row((f"counters/{file}",), metric, labels, bits, factor)


def _extended(file: str, metric: Metric, *labels: str, factor: int = 1) -> Row:
    return Row((f"counters_ext/{file}",), metric, labels, factor=factor)


def _hardware(files: str, metric: Metric, *labels: str) -> Row:
    return Row(tuple(f"hw_counters/{file}" for file in files.split()), metric, labels)


_RX, _TX = "received", "transmitted"
_ASKING, _ANSWERING = "requester", "responder"

# Of several rows of one series the first whose files can be read counts.
ROWS: tuple[Row, ...] = (
    # Kernels before 4.5 kept the 64-bit counters apart, beside 32-bit ones that stop after 16 GiB.
    _extended("port_rcv_data_64", BYTES, _RX, factor=4),
    _extended("port_xmit_data_64", BYTES, _TX, factor=4),
    _extended("port_rcv_packets_64", PACKETS, _RX),
    _extended("port_xmit_packets_64", PACKETS, _TX),
    _extended("port_multicast_rcv_packets", MULTICAST, _RX),
    _extended("port_multicast_xmit_packets", MULTICAST, _TX),
    # Widths as in the PortCounters attribute of the InfiniBand specification, which the kernel asks for.
    _standard("port_rcv_data", BYTES, _RX, factor=4),
    _standard("port_xmit_data", BYTES, _TX, factor=4),
    _standard("port_rcv_packets", PACKETS, _RX),
    _standard("port_xmit_packets", PACKETS, _TX),
    _standard("multicast_rcv_packets", MULTICAST, _RX),
    _standard("multicast_xmit_packets", MULTICAST, _TX),
    _standard("symbol_error", ERRORS, "symbol", bits=16),
    _standard("port_rcv_errors", ERRORS, "receive", bits=16),
    _standard("port_rcv_remote_physical_errors", ERRORS, "receive_remote_physical", bits=16),
    _standard("port_rcv_switch_relay_errors", ERRORS, "receive_switch_relay", bits=16),
    _standard("port_rcv_constraint_errors", ERRORS, "receive_constraint", bits=8),
    _standard("port_xmit_constraint_errors", ERRORS, "transmit_constraint", bits=8),
    _standard("local_link_integrity_errors", ERRORS, "local_link_integrity", bits=4),
    _standard("excessive_buffer_overrun_errors", ERRORS, "excessive_buffer_overrun", bits=4),
    _standard("VL15_dropped", ERRORS, "vl15_dropped", bits=16),
    _standard("port_xmit_discards", TRANSMIT_DISCARDS, bits=16),
    _standard("port_xmit_wait", TRANSMIT_WAIT, bits=32),
    _standard("link_downed", LINK_DOWNED, bits=8),
    _standard("link_error_recovery", LINK_RECOVERIES, bits=8),
    # mlx5
    _hardware("np_cnp_sent", CNP, "sent"),
    _hardware("rp_cnp_handled", CNP, "handled"),
    _hardware("rp_cnp_ignored", CNP, "ignored"),
    _hardware("np_ecn_marked_roce_packets", ECN),
    _hardware("local_ack_timeout_err", RETRIES, "ack_timeout"),
    _hardware("packet_seq_err", RETRIES, "sequence"),
    _hardware("rnr_nak_retry_err", RETRIES, "receiver_not_ready"),
    _hardware("implied_nak_seq_err", RETRIES, "implied_nak"),
    _hardware("roce_adp_retrans", RETRIES, "adaptive"),
    _hardware("roce_adp_retrans_to", RETRIES, "adaptive_timeout"),
    _hardware("roce_slow_restart", SLOW_RESTARTS),
    _hardware("out_of_buffer", OUT_OF_BUFFER),
    _hardware("out_of_sequence", OUT_OF_SEQUENCE),
    _hardware("req_cqe_error", COMPLETION_ERRORS, _ASKING, "completion"),
    _hardware("req_cqe_flush_error", COMPLETION_ERRORS, _ASKING, "flushed"),
    _hardware("req_remote_access_errors", COMPLETION_ERRORS, _ASKING, "remote_access"),
    _hardware("req_remote_invalid_request", COMPLETION_ERRORS, _ASKING, "remote_invalid_request"),
    _hardware("req_transport_retries_exceeded", COMPLETION_ERRORS, _ASKING, "retries_exceeded"),
    _hardware("req_rnr_retries_exceeded", COMPLETION_ERRORS, _ASKING, "receiver_not_ready_retries_exceeded"),
    _hardware("resp_cqe_error", COMPLETION_ERRORS, _ANSWERING, "completion"),
    _hardware("resp_cqe_flush_error", COMPLETION_ERRORS, _ANSWERING, "flushed"),
    _hardware("resp_local_length_error", COMPLETION_ERRORS, _ANSWERING, "local_length"),
    _hardware("resp_remote_access_errors", COMPLETION_ERRORS, _ANSWERING, "remote_access"),
    _hardware("rx_icrc_encapsulated", ERRORS, "icrc"),
    _hardware("rx_read_requests", REQUESTS, "read"),
    _hardware("rx_write_requests", REQUESTS, "write"),
    _hardware("rx_atomic_requests", REQUESTS, "atomic"),
    _hardware("duplicate_request", REQUESTS, "duplicate"),
    # bnxt_re
    _hardware("rx_roce_errors", ERRORS, "receive"),
    _hardware("tx_roce_errors", ERRORS, "transmit"),
    _hardware("tx_roce_discards", TRANSMIT_DISCARDS),
    _hardware("rx_roce_discards", RECEIVE_DISCARDS),
    _hardware("tx_cnp_pkts", CNP, "sent"),
    _hardware("rx_cnp_pkts", CNP, "received"),
    _hardware("rx_ecn_marked_pkts", ECN),
    _hardware("to_retransmits", RETRIES, "ack_timeout"),
    _hardware("seq_err_naks_rcvd", RETRIES, "sequence"),
    _hardware("rnr_naks_rcvd", RETRIES, "receiver_not_ready"),
    _hardware("rx_out_of_buffer", OUT_OF_BUFFER),
    _hardware("oos_drop_count", OUT_OF_SEQUENCE),
    _hardware("max_retry_exceeded", COMPLETION_ERRORS, _ASKING, "retries_exceeded"),
    _hardware("missing_resp", COMPLETION_ERRORS, _ASKING, "missing_response"),
    _hardware("bad_resp_err", COMPLETION_ERRORS, _ASKING, "bad_response"),
    _hardware("local_qp_op_err", COMPLETION_ERRORS, _ASKING, "local_operation"),
    _hardware("local_protection_err", COMPLETION_ERRORS, _ASKING, "local_protection"),
    _hardware("remote_invalid_req_err", COMPLETION_ERRORS, _ASKING, "remote_invalid_request"),
    _hardware("remote_access_err", COMPLETION_ERRORS, _ASKING, "remote_access"),
    _hardware("remote_op_err", COMPLETION_ERRORS, _ASKING, "remote_operation"),
    _hardware("unrecoverable_err", COMPLETION_ERRORS, _ASKING, "unrecoverable"),
    _hardware("res_length_mismatch", COMPLETION_ERRORS, _ANSWERING, "local_length"),
    _hardware("res_srq_err", COMPLETION_ERRORS, _ANSWERING, "receive_queue"),
    _hardware("res_cmp_err", COMPLETION_ERRORS, _ANSWERING, "completion"),
    _hardware("rx_read_req", REQUESTS, "read"),
    _hardware("rx_write_req", REQUESTS, "write"),
    _hardware("rx_atomic_req", REQUESTS, "atomic"),
    _hardware("rx_send_req", REQUESTS, "send"),
    _hardware("dup_req", REQUESTS, "duplicate"),
    _hardware("tx_read_req", WORK_REQUESTS, "read"),
    _hardware("tx_write_req", WORK_REQUESTS, "write"),
    _hardware("tx_atomic_req", WORK_REQUESTS, "atomic"),
    _hardware("tx_send_req", WORK_REQUESTS, "send"),
    # irdma; one file a version of the internet protocol
    _hardware("ip4InOctets ip6InOctets", BYTES, _RX),
    _hardware("ip4OutOctets ip6OutOctets", BYTES, _TX),
    _hardware("ip4InPkts ip6InPkts", PACKETS, _RX),
    _hardware("ip4OutPkts ip6OutPkts", PACKETS, _TX),
    _hardware("ip4InMcastPkts ip6InMcastPkts", MULTICAST, _RX),
    _hardware("ip4OutMcastPkts ip6OutMcastPkts", MULTICAST, _TX),
    _hardware("ip4InDiscards ip6InDiscards", RECEIVE_DISCARDS),
    _hardware("rxVlanErrors", ERRORS, "vlan"),
    _hardware("cnpSent", CNP, "sent"),
    _hardware("cnpHandled", CNP, "handled"),
    _hardware("cnpIgnored", CNP, "ignored"),
    _hardware("RxECNMrkd", ECN),
    _hardware("tcpRetransSegs", RETRANSMITTED),
    _hardware("iwInRdmaReads", REQUESTS, "read"),
    _hardware("iwInRdmaWrites", REQUESTS, "write"),
    _hardware("iwInRdmaSends", REQUESTS, "send"),
    _hardware("iwOutRdmaReads", WORK_REQUESTS, "read"),
    _hardware("iwOutRdmaWrites", WORK_REQUESTS, "write"),
    _hardware("iwOutRdmaSends", WORK_REQUESTS, "send"),
    # efa
    _hardware("rx_bytes", BYTES, _RX),
    _hardware("tx_bytes", BYTES, _TX),
    _hardware("rx_pkts", PACKETS, _RX),
    _hardware("tx_pkts", PACKETS, _TX),
    _hardware("rx_drops", RECEIVE_DISCARDS),
    _hardware("retrans_pkts", RETRANSMITTED),
    _hardware("retrans_bytes", RETRANSMITTED_BYTES),
    _hardware("retrans_timeout_events", RETRIES, "ack_timeout"),
    _hardware("unresponsive_remote_events", REMOTE_EVENTS, "unresponsive"),
    _hardware("impaired_remote_conn_events", REMOTE_EVENTS, "impaired"),
    _hardware("send_wrs", WORK_REQUESTS, "send"),
    _hardware("recv_wrs", WORK_REQUESTS, "receive"),
    _hardware("rdma_read_wrs", WORK_REQUESTS, "read"),
    _hardware("rdma_write_wrs", WORK_REQUESTS, "write"),
    _hardware("send_bytes", WORK_BYTES, "send"),
    _hardware("recv_bytes", WORK_BYTES, "receive"),
    _hardware("rdma_read_bytes", WORK_BYTES, "read"),
    _hardware("rdma_write_bytes", WORK_BYTES, "write"),
    _hardware("rdma_read_resp_bytes", WORK_BYTES, "peer_read"),
    _hardware("rdma_write_recv_bytes", WORK_BYTES, "peer_write"),
    _hardware("rdma_read_wr_err", COMPLETION_ERRORS, _ASKING, "read"),
    _hardware("rdma_write_wr_err", COMPLETION_ERRORS, _ASKING, "write"),
    _hardware("cmds_err", COMMAND_ERRORS, "failed"),
    _hardware("no_completion_cmds", COMMAND_ERRORS, "unanswered"),
)

"""TCP, UDP and IP statistics of the host's network namespace."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._files import read_net
from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

_PAGE_BYTES = os.sysconf("SC_PAGESIZE")

_counter = partial(Metric, kind=Kind.COUNTER, subsystem="network")
_gauge = partial(Metric, kind=Kind.GAUGE, subsystem="network")

# One row a metric: name behind hwsonde_network_, help, label name or "", protocol, and per series (field, label value).
_Row = tuple[str, str, str, str, tuple[tuple[str, str], ...]]
_COUNTERS: tuple[_Row, ...] = (
    ("tcp_segments", "TCP segments received and sent.", "direction", "Tcp",
     (("InSegs", "received"), ("OutSegs", "transmitted"))),
    ("tcp_retransmitted_segments", "TCP segments sent again.", "", "Tcp", (("RetransSegs", ""),)),
    ("tcp_receive_errors", "TCP segments received with an error.", "", "Tcp", (("InErrs", ""),)),
    ("tcp_resets_sent", "TCP resets sent.", "", "Tcp", (("OutRsts", ""),)),
    ("tcp_connections_opened", "TCP connections opened from here (active) and by peers (passive).", "side", "Tcp",
     (("ActiveOpens", "active"), ("PassiveOpens", "passive"))),
    ("tcp_connections_failed", "TCP connections that failed before they were established, or were reset after.", "phase",
     "Tcp", (("AttemptFails", "opening"), ("EstabResets", "established"))),
    ("tcp_timeouts", "TCP retransmission timeouts.", "", "TcpExt", (("TCPTimeouts", ""),)),
    ("tcp_fast_retransmits", "TCP segments sent again after duplicate acknowledgements: a packet was lost on the way.", "",
     "TcpExt", (("TCPFastRetrans", ""),)),
    ("tcp_slow_start_retransmits", "TCP segments sent again in slow start, after a timeout.", "", "TcpExt",
     (("TCPSlowStartRetrans", ""),)),
    ("tcp_lost_retransmits", "TCP segments lost again after they were sent again.", "", "TcpExt",
     (("TCPLostRetransmit", ""),)),
    ("tcp_syn_retransmits", "TCP connection requests sent again.", "", "TcpExt", (("TCPSynRetrans", ""),)),
    ("tcp_failed_retransmits", "TCP segments that could not be sent again: the device or its queue refused.", "", "TcpExt",
     (("TCPRetransFail", ""),)),
    ("tcp_spurious_retransmits", "Duplicate data that peers reported: retransmits that were not needed.", "", "TcpExt",
     (("TCPDSACKRecv", ""),)),
    ("tcp_spurious_timeouts", "TCP retransmission timeouts that were not needed.", "", "TcpExt",
     (("TCPSpuriousRTOs", ""),)),
    ("tcp_loss_probes", "Probes sent for a lost tail, before a timeout.", "", "TcpExt", (("TCPLossProbes", ""),)),
    ("tcp_recoveries", "Times TCP went into loss recovery, with selective acknowledgements or without.", "kind", "TcpExt",
     (("TCPSackRecovery", "sack"), ("TCPRenoRecovery", "reno"))),
    ("tcp_reorderings", "Times TCP saw packets overtake each other.", "", "TcpExt", (("TCPSACKReorder", ""),)),
    ("tcp_out_of_order_packets", "TCP packets that arrived before their turn and were queued.", "", "TcpExt",
     (("TCPOFOQueue", ""),)),
    ("tcp_autocorkings", "TCP segments held back because the device's queue had not drained.", "", "TcpExt",
     (("TCPAutoCorking", ""),)),
    ("tcp_delayed_acknowledgements", "TCP acknowledgements sent late, and those the peer had given up on.", "result",
     "TcpExt", (("DelayedACKs", "sent"), ("DelayedACKLost", "lost"))),
    ("tcp_zero_windows", "Times a receiver here had to tell its peer to stop sending.", "", "TcpExt",
     (("TCPToZeroWindowAdv", ""),)),
    ("tcp_queue_drops", "TCP packets dropped because a socket queue was full.", "queue", "TcpExt",
     (("TCPBacklogDrop", "backlog"), ("TCPRcvQDrop", "receive"), ("TCPOFODrop", "out_of_order"))),
    ("tcp_pruned", "Times received data was squeezed together or thrown away for want of socket memory.", "kind", "TcpExt",
     (("PruneCalled", "pruned"), ("TCPRcvCollapsed", "collapsed"))),
    ("tcp_listen_drops", "TCP connection requests dropped at listening sockets.", "", "TcpExt", (("ListenDrops", ""),)),
    ("tcp_listen_overflows", "TCP connection requests dropped because the queue of a listening socket was full.", "",
     "TcpExt", (("ListenOverflows", ""),)),
    ("tcp_memory_pressures", "Times TCP went into memory pressure.", "", "TcpExt", (("TCPMemoryPressures", ""),)),
    ("tcp_aborts", "TCP connections given up, by reason.", "reason", "TcpExt",
     (("TCPAbortOnTimeout", "timeout"), ("TCPAbortOnMemory", "memory"), ("TCPAbortOnData", "data"),
      ("TCPAbortOnClose", "close"))),
    ("ip_packets", "IPv4 packets received and sent.", "direction", "Ip",
     (("InReceives", "received"), ("OutRequests", "transmitted"))),
    ("ip_forwarded_packets", "IPv4 packets passed on to another host.", "", "Ip", (("ForwDatagrams", ""),)),
    ("ip_discarded_packets", "IPv4 packets thrown away, by reason.", "reason", "Ip",
     (("InHdrErrors", "header"), ("InAddrErrors", "address"), ("InDiscards", "received"), ("OutDiscards", "transmitted"),
      ("OutNoRoutes", "no_route"))),
    ("ip_reassembly_failures", "IPv4 packets whose fragments did not all arrive.", "", "Ip", (("ReasmFails", ""),)),
    ("ip_ecn_packets", "IP packets received by ECN codepoint; ce means congestion was met.", "codepoint", "IpExt",
     (("InNoECTPkts", "not_ect"), ("InECT0Pkts", "ect0"), ("InECT1Pkts", "ect1"), ("InCEPkts", "ce"))),
    ("icmp_unreachables", "ICMP messages that a host, port or network cannot be reached, received and sent.", "direction",
     "Icmp", (("InDestUnreachs", "received"), ("OutDestUnreachs", "transmitted"))),
    ("udp_datagrams", "UDP datagrams received and sent over IPv4.", "direction", "Udp",
     (("InDatagrams", "received"), ("OutDatagrams", "transmitted"))),
    ("udp_receive_errors", "UDP datagrams not delivered, by reason.", "reason", "Udp",
     (("RcvbufErrors", "buffer"), ("InCsumErrors", "checksum"), ("NoPorts", "no_port"), ("MemErrors", "memory"))),
    ("udp_send_errors", "UDP datagrams not sent for want of buffer.", "", "Udp", (("SndbufErrors", ""),)),
)  # fmt: skip
_FILES = {"Tcp": "snmp", "Ip": "snmp", "Icmp": "snmp", "Udp": "snmp", "TcpExt": "netstat", "IpExt": "netstat"}

CONNECTIONS = _gauge(
    name="hwsonde_network_tcp_connections",
    help="TCP connections established.",
    source="/proc/1/net/snmp Tcp: CurrEstab",
)
SOCKETS = _gauge(
    name="hwsonde_network_sockets",
    help="Sockets by protocol and state; states overlap, so do not sum them.",
    labels=("protocol", "state"),
    source="/proc/1/net/sockstat TCP inuse, orphan, tw, alloc, UDP inuse; sockstat6 TCP6 and UDP6 inuse",
)
SOCKET_MEMORY = _gauge(
    name="hwsonde_network_socket_memory_bytes",
    help="Memory of the queues of all sockets of a protocol.",
    labels=("protocol",),
    unit="bytes",
    source="/proc/1/net/sockstat TCP and UDP mem (pages)",
)


def _metric(row: _Row) -> Metric:
    name, text, label, protocol, fields = row
    return _counter(
        name=f"hwsonde_network_{name}_total",
        help=text,
        labels=(label,) if label else (),
        source=f"/proc/1/net/{_FILES[protocol]} {protocol}: {', '.join(field for field, _ in fields)}",
    )


# (protocol, field) -> the series that it feeds.
_SERIES: tuple[tuple[bytes, bytes, Metric, tuple[str, ...]], ...] = tuple(
    (row[3].encode(), field.encode(), metric, (value,) if value else ())
    for row, metric in ((row, _metric(row)) for row in _COUNTERS)
    for field, value in row[4]
)
_SOCKET_STATES = {b"inuse": "used", b"orphan": "orphan", b"tw": "time_wait", b"alloc": "allocated"}
_SOCKET_PROTOCOLS = {b"TCP": "tcp", b"UDP": "udp", b"TCP6": "tcp6", b"UDP6": "udp6"}


def parse_sockstat(data: bytes) -> dict[bytes, dict[bytes, int]]:
    """Parse net/sockstat or net/sockstat6: protocol -> field -> number."""
    table: dict[bytes, dict[bytes, int]] = {}
    for line in parsing.lines(data):
        protocol, colon, rest = line.partition(b":")
        fields = rest.split()
        if colon:
            row = table.setdefault(protocol, {})
            for field, token in zip(fields[::2], fields[1::2], strict=False):
                if (value := parsing.number(token)) is not None:
                    row.setdefault(field, value)
    return table


@register
class TcpCollector:
    """TCP, UDP and IP statistics, and sockets."""

    name: ClassVar[str] = "tcp"
    help: ClassVar[str] = "TCP, UDP and IP statistics"
    metrics: ClassVar[tuple[Metric, ...]] = (
        *dict.fromkeys(metric for _, _, metric, _ in _SERIES), CONNECTIONS, SOCKETS, SOCKET_MEMORY,
    )  # fmt: skip
    period: ClassVar[float | None] = None
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host

    def probe(self) -> None:
        """Every Linux host has these files; what cannot be read shows at the first collection."""

    def collect(self) -> Iterable[Sample]:
        """Read four files; one that is missing loses only its own series."""
        tables = {**self._tables("snmp"), **self._tables("netstat")}
        samples = [
            Sample(metric, labels, tables[protocol][field])
            for protocol, field, metric, labels in _SERIES
            if field in tables.get(protocol, {})
        ]
        established = tables.get(b"Tcp", {}).get(b"CurrEstab")
        if established is not None:
            samples.append(Sample(CONNECTIONS, (), established))
        for name in ("sockstat", "sockstat6"):
            samples += self._socket_samples(name)
        if not samples:
            raise ReadError("net/snmp: no file of the network statistics can be read; is --path.procfs right?")
        return samples

    def _tables(self, name: str) -> dict[bytes, dict[bytes, int]]:
        try:
            return parsing.header_tables(read_net(self.host, name))
        except ReadError:
            return {}

    def _socket_samples(self, name: str) -> list[Sample]:
        try:
            table = parse_sockstat(read_net(self.host, name))
        except ReadError:
            return []  # a kernel without IPv6 has no sockstat6
        samples = []
        for protocol, row in table.items():
            label = _SOCKET_PROTOCOLS.get(protocol)
            if label is None:
                continue
            samples += [
                Sample(SOCKETS, (label, state), row[field]) for field, state in _SOCKET_STATES.items() if field in row
            ]
            if b"mem" in row:
                samples.append(Sample(SOCKET_MEMORY, (label,), row[b"mem"] * _PAGE_BYTES))
        return samples

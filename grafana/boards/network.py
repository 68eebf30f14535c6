"""The board of a host's network: links, congestion, losses and latency, of Ethernet and RDMA."""

from __future__ import annotations

from grafana.boards.anomaly import HOST
from grafana.boards.frame import NODE, Board
from grafana.boards.hardware import most, rate, slow_rate
from grafana.boards.kit import About, Columns, Panel, Query, graph, listing

NO_RDMA = "no RDMA device, or it does not tell"
NO_ETHTOOL = "no device whose driver tells this"
UP = {"0": "down", "1": "up"}
_PORT = "{{device}} port {{port}}"


def _hour(name: str, labels: str = "") -> str:
    return f"increase({name}{{{HOST}{labels}}}[1h])"


def _links() -> tuple[Panel, ...]:
    speed = f"hwsonde_network_rdma_speed_bytes_per_second{{{HOST}}}"
    return (
        listing(
            About("Devices", "Network devices, and whether each is up.", "none", width=8),
            Query(
                f"max by (device) (hwsonde_network_up{{{HOST}}})"
                f" * on (device) group_left (driver, pci_bus_id) max by (device, driver, pci_bus_id) (hwsonde_network_info{{{HOST}}})"
            ),
            Columns({"device": "Device", "driver": "Driver", "pci_bus_id": "Address", "Value": "Up"}, words=UP),
        ),
        listing(
            About("RDMA ports", "RDMA ports, and whether each is active.", "none", NO_RDMA, width=10),
            Query(
                f"max by (device, port) (hwsonde_network_rdma_up{{{HOST}}}) * on (device, port) group_left (hca_type, link_layer, netdev)"
                f" max by (device, port, hca_type, link_layer, netdev) (hwsonde_network_rdma_info{{{HOST}}})"
            ),
            Columns(
                {"device": "Device", "port": "Port", "netdev": "Network device", "hca_type": "Adapter", "link_layer": "Link", "Value": "Up"},
                words=UP,
            ),
        ),
        graph(
            About("Links lost", "Carrier changes and lost RDMA links within an hour; the six of each that changed most.", "none", width=6),
            Query(most(_hour("hwsonde_network_carrier_changes_total")), "{{device}}"),
            Query(most(_hour("hwsonde_network_rdma_link_downed_total")), _PORT),
            top=1,
        ),
        graph(
            About("Line rate", "Line rate of each port; one below its like has a bad cable or module.", "Bps", "no device tells its rate", width=12),
            Query(f"hwsonde_network_speed_bytes_per_second{{{HOST}}}", "{{device}}"),
            Query(speed, _PORT),
        ),
        graph(
            About("Use of RDMA links", "Bytes over the line rate, by port and direction.", "percentunit", NO_RDMA, width=12),
            Query(f"{slow_rate('hwsonde_network_rdma_bytes_total')} / on (device, port) group_left () ({speed} > 0)", f"{_PORT} {{{{direction}}}}"),
            top=1,
        ),
    )  # fmt: skip


def _traffic() -> tuple[Panel, ...]:
    return (
        graph(
            About("Ethernet", "Bytes by device and direction; the ten busiest.", "Bps"),
            Query(most(rate("hwsonde_network_bytes_total"), 10), "{{device}} {{direction}}"),
        ),
        graph(
            About("RDMA", "Bytes by port and direction.", "Bps", NO_RDMA),
            Query(slow_rate("hwsonde_network_rdma_bytes_total"), f"{_PORT} {{{{direction}}}}"),
        ),
    )


def _congestion() -> tuple[Panel, ...]:
    received = slow_rate("hwsonde_network_rdma_packets_total", ',direction="received"')
    return (
        graph(
            About("Paused by the peer", "Share of time in which a priority may not send.", "percentunit", NO_ETHTOOL, width=8),
            Query(slow_rate("hwsonde_network_pfc_pause_seconds_total", ',direction="received"'), "{{device}} priority {{priority}}"),
            top=0.01,
        ),
        graph(
            About(
                "Pause frames sent",
                "Pause frames by which this host stops its switch; the host that sends many is the cause.",
                "pps", NO_ETHTOOL, width=8,
            ),
            Query(slow_rate("hwsonde_network_pfc_frames_total", ',direction="transmitted"'), "{{device}} priority {{priority}}"),
            top=1,
        ),
        graph(
            About("Pause storms", "Storms within an hour, warned of or cut off; the six worst.", "none", NO_ETHTOOL, width=8),
            Query(most(_hour("hwsonde_network_pfc_storms_total")), "{{device}} {{level}}"),
            top=1,
        ),
        graph(
            About("Congestion marks", "Share of the received packets that carry a congestion mark.", "percentunit", NO_RDMA, width=8),
            Query(f"{slow_rate('hwsonde_network_rdma_ecn_marked_packets_total')} / ignoring (direction) ({received} > 0)", _PORT),
        ),
        graph(
            About("Told to slow down", "Congestion notifications, by what was done with them; the six most frequent.", "pps", NO_RDMA, width=8),
            Query(most(slow_rate("hwsonde_network_rdma_cnp_packets_total")), f"{_PORT} {{{{action}}}}"),
        ),
        graph(
            About("Without credits", "Ticks in which an InfiniBand port had to wait for its peer.", "ops", NO_RDMA, width=8),
            Query(slow_rate("hwsonde_network_rdma_transmit_wait_ticks_total"), _PORT),
        ),
    )  # fmt: skip


def _losses() -> tuple[Panel, ...]:
    failed = _hour("hwsonde_network_rdma_completion_errors_total", ',error!="flushed"')
    return (
        graph(
            About("RDMA sent again", "Requests that were sent again, by cause; the six most frequent.", "ops", NO_RDMA, width=8),
            Query(most(slow_rate("hwsonde_network_rdma_retries_total")), f"{_PORT} {{{{cause}}}}"),
        ),
        graph(
            About(
                "RDMA failed",
                "Work requests that ended with an error within an hour, those flushed left out; the six most frequent.",
                "none", NO_RDMA, width=8,
            ),
            Query(most(f"sum by (device, port, error) ({failed})"), f"{_PORT} {{{{error}}}}"),
            top=1,
        ),
        graph(
            About(
                "Out of order or buffers",
                "Packets out of sequence, and those for which no buffer was posted; the six ports of each that have most.",
                "pps", NO_RDMA, width=8,
            ),
            Query(most(slow_rate("hwsonde_network_rdma_out_of_sequence_total")), f"{_PORT} out of sequence"),
            Query(most(slow_rate("hwsonde_network_rdma_out_of_buffer_total")), f"{_PORT} out of buffers"),
            top=1,
        ),
        graph(
            About("Errors and drops", "Packets that a device or the kernel lost; the six of each that lost most.", "pps", width=8),
            Query(most(rate("hwsonde_network_errors_total")), "{{device}} {{direction}} errors"),
            Query(most(rate("hwsonde_network_dropped_packets_total")), "{{device}} {{direction}} dropped"),
        ),
        graph(
            About("Discards by reason", "Packets that a device or its driver dropped; the six most frequent.", "pps", NO_ETHTOOL, width=8),
            Query(most(slow_rate("hwsonde_network_discards_total")), "{{device}} {{direction}} {{reason}}"),
            top=1,
        ),
        graph(
            About("Damaged on the wire", "Physical errors and blocks that could not be repaired, within an hour.", "none", NO_ETHTOOL, width=8),
            Query(f"sum by (device) ({_hour('hwsonde_network_phy_errors_total')})", "{{device}} physical"),
            Query(_hour("hwsonde_network_fec_blocks_total", ',result="uncorrectable"'), "{{device}} uncorrectable"),
            Query(f"sum by (device, port) ({_hour('hwsonde_network_rdma_errors_total')})", _PORT),
            top=1,
        ),
    )  # fmt: skip


def _tcp() -> tuple[Panel, ...]:
    seconds, count = (slow_rate(f"hwsonde_network_tcp_rtt_seconds_{part}") for part in ("sum", "count"))
    sent = rate("hwsonde_network_tcp_segments_total", ',direction="transmitted"')
    asked, lost = (rate(f"hwsonde_network_probe_{part}_total") for part in ("sent", "lost"))
    return (
        graph(
            About("TCP sent again", "Share of sent segments that were sent before.", "percentunit", width=8),
            Query(f"sum({rate('hwsonde_network_tcp_retransmitted_segments_total')}) / clamp_min(sum({sent}), 1)", "retransmitted"),
        ),
        graph(
            About(
                "Round trips of TCP",
                "Mean round-trip time of connections to other hosts, by group of peers.",
                "s", "no connection to another host", width=8,
            ),
            Query(f"sum by (device, remote) ({seconds}) / (sum by (device, remote) ({count}) > 0)", "{{device}} {{remote}}"),
        ),
        graph(
            About("Probes lost", "Share of the probes that a peer did not answer.", "percentunit", "no peers are probed", width=8),
            Query(f"{lost} / ({asked} > 0)", "{{peer}}"),
            top=1,
        ),
    )  # fmt: skip


BOARD = Board(
    name="network",
    text="The network of one host, Ethernet and RDMA: links, congestion, losses and latency.",
    choices=(NODE,),
    rows=(
        ("Links", _links()),
        ("Traffic", _traffic()),
        ("Congestion", _congestion()),
        ("Losses", _losses()),
        ("TCP and latency", _tcp()),
    ),
)

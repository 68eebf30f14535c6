"""Cases of the alerts about the network."""

from __future__ import annotations

from tests.rules.table.row import HOST, LOOK, Row, grown, jumped, series, steady, turned

PORT = {"device": "mlx5_0", "port": "1"}
UP, PORT_UP = "hwsonde_network_up", "hwsonde_network_rdma_up"
SPEED, PORT_SPEED = "hwsonde_network_speed_bytes_per_second", "hwsonde_network_rdma_speed_bytes_per_second"
CARRIER, DOWNED = "hwsonde_network_carrier_changes_total", "hwsonde_network_rdma_link_downed_total"
BOOT = "hwsonde_host_boot_timestamp_seconds"
REAL = {series("hwsonde_network_info", device="eth0", driver="mlx5_core", pci_bus_id="0000:3b:00.0"): steady(1)}
VIRTUAL = {series("hwsonde_network_info", device="br0", driver="bridge", pci_bus_id=""): steady(1)}
PACKETS = "hwsonde_network_rdma_packets_total"
BUSY = {series(PACKETS, **PORT, direction=direction): grown(600_000) for direction in ("received", "transmitted")}
IDLE = {series(PACKETS, **PORT, direction=direction): grown(600) for direction in ("received", "transmitted")}
MARKED, CNP = "hwsonde_network_rdma_ecn_marked_packets_total", "hwsonde_network_rdma_cnp_packets_total"
PAUSED = "hwsonde_network_pfc_pause_seconds_total"
PHYSICAL, FEC = "hwsonde_network_phy_errors_total", "hwsonde_network_fec_blocks_total"
RETRIES, FAILED = "hwsonde_network_rdma_retries_total", "hwsonde_network_rdma_completion_errors_total"
SEGMENTS, AGAIN = "hwsonde_network_tcp_segments_total", "hwsonde_network_tcp_retransmitted_segments_total"

ROWS = (
    Row(
        "HwsondeNetworkRdmaDown",
        {series(PORT_UP, **PORT): turned(1, 0), series(PORT_UP, device="mlx5_9", port="1"): steady(0)},
        {series(PORT_UP, **PORT): steady(1), series(PORT_UP, device="mlx5_9", port="1"): steady(0)},
        {**HOST, **PORT},
        "a/n1: RDMA port mlx5_0 port 1 went down. Look at the cable, the switch port and the subnet manager.",
    ),
    Row(
        "HwsondeNetworkDown",
        {series(UP, device="eth0"): turned(1, 0), **REAL},
        {series(UP, device="br0"): turned(1, 0), series(UP, device="eth0"): steady(0), **REAL, **VIRTUAL},
        {**HOST, "device": "eth0"},
        "a/n1: network device eth0 went down. Look at the cable and the switch port.",
    ),
    Row(
        "HwsondeNetworkLinkFlapping",
        {series(CARRIER, device="eth0"): jumped(4), **REAL},
        {series(CARRIER, device="eth0"): jumped(2), series(CARRIER, device="br0"): jumped(40), **REAL, **VIRTUAL},
        {**HOST, "device": "eth0"},
        "a/n1: the link of eth0 was lost twice or more within an hour. Clean or replace the cable or the module.",
        also=({series(DOWNED, **PORT): jumped(2)},),
    ),
    Row(
        "HwsondeNetworkRdmaLinkDropped",
        {series(DOWNED, **PORT): jumped(1), series(PORT_UP, **PORT): steady(1), series(BOOT): steady(-90_000)},
        # Counted long ago, lost twice, still down, and a host that was started again.
        {
            series(DOWNED, **PORT): steady(7), series(PORT_UP, **PORT): steady(1), series(BOOT): steady(-90_000),
            series(DOWNED, device="mlx5_1", port="1"): jumped(2), series(PORT_UP, device="mlx5_1", port="1"): steady(1),
            series(DOWNED, device="mlx5_2", port="1"): jumped(1), series(PORT_UP, device="mlx5_2", port="1"): turned(1, 0),
            series(DOWNED, node="n2", **PORT): jumped(1), series(PORT_UP, node="n2", **PORT): steady(1),
            series(BOOT, node="n2"): steady(LOOK - 900),
        },
        {**HOST, **PORT},
        "a/n1: RDMA port mlx5_0 port 1 lost its link within the last hour and has it again. "
        "See which jobs ended then, and watch whether it comes back.",
    ),
    Row(
        "HwsondeNetworkLinkSlow",
        {series(PORT_SPEED, **PORT): turned(50e9, 25e9)},
        {series(PORT_SPEED, **PORT): turned(50e9, 0), series(PORT_SPEED, device="mlx5_1", port="1"): turned(25e9, 50e9)},
        {**HOST, **PORT},
        "a/n1: mlx5_0 port 1 runs at 25GB/s, slower than within the last day. Look at the cable, the module and the switch port.",
        also=({series(SPEED, device="eth0"): turned(50e9, 25e9), **REAL},),
    ),
    Row(
        "HwsondeNetworkBondDegraded",
        {
            series("hwsonde_network_bond_members", device="bond0"): steady(2),
            series("hwsonde_network_bond_active_members", device="bond0"): turned(2, 1),
        },
        {
            series("hwsonde_network_bond_members", device="bond0"): steady(2),
            series("hwsonde_network_bond_active_members", device="bond0"): steady(2),
        },
        {**HOST, "device": "bond0"},
        "a/n1: bond bond0 has only 1 members with a link. Look at the others.",
    ),
    Row(
        "HwsondeNetworkCableErrors",
        {series(PHYSICAL, device="eth0", error="symbol"): grown(10), series(FEC, device="eth0", result="corrected"): grown(0)},
        {
            series(PHYSICAL, device="eth0", error="symbol"): grown(1),
            series(PHYSICAL, device="eth0", error="receive_discard"): grown(100),
            series(FEC, device="eth0", result="corrected"): grown(10_000),
        },
        {**HOST, "device": "eth0"},
        "a/n1: eth0 receives damaged data. Clean or replace the cable or the module.",
        also=(
            {series(FEC, device="eth0", result="uncorrectable"): grown(1)},
            {series("hwsonde_network_rdma_errors_total", **PORT, error="symbol"): grown(10)},
        ),
    ),
    Row(
        "HwsondeNetworkRdmaStuck",
        {series("hwsonde_network_rdma_stuck", device="mlx5_0"): turned(0, 1)},
        {series("hwsonde_network_rdma_stuck", device="mlx5_0"): steady(0)},
        {**HOST, "device": "mlx5_0"},
        "a/n1: RDMA device mlx5_0 leaves its driver unanswered. Drain the host, then reset the device or reboot.",
    ),
    Row(
        "HwsondeNetworkPfcStorm",
        {series("hwsonde_network_pfc_storms_total", device="eth0", level="error"): jumped(1)},
        {
            series("hwsonde_network_pfc_storms_total", device="eth0", level="error"): steady(7),
            series("hwsonde_network_pfc_storms_total", device="eth0", level="warning"): grown(1),
        },
        {**HOST, "device": "eth0", "level": "error"},
        "a/n1: eth0 was paused for so long that it cut the pause off. Find who sends the pause frames, then drain that host.",
    ),
    Row(
        "HwsondeNetworkPfcPaused",
        {series(PAUSED, device="eth0", priority="3", direction="received"): grown(6)},
        {
            series(PAUSED, device="eth0", priority="3", direction="received"): grown(2.4),
            series(PAUSED, device="eth0", priority="3", direction="transmitted"): grown(30),
        },
        {**HOST, "device": "eth0", "priority": "3", "direction": "received"},
        "a/n1: eth0 is paused by its peer for 10% of the time in priority 3. Look for the receiver that is too slow.",
    ),
    Row(
        "HwsondeNetworkCongested",
        {**BUSY, series(MARKED, **PORT): grown(120_000), series(CNP, **PORT, action="handled"): grown(0)},
        # A tenth, and all packets of a port that carries next to nothing.
        {
            **BUSY,
            series(MARKED, **PORT): grown(30_000),
            series(CNP, **PORT, action="handled"): grown(600),
            series(MARKED, device="mlx5_1", port="1"): grown(600),
            **{name.replace("mlx5_0", "mlx5_1"): values for name, values in IDLE.items()},
        },
        {**HOST, **PORT},
        "a/n1: the way from or to mlx5_0 port 1 is congested. Look at load and balance of the switch's links, and at other jobs.",
        also=({**BUSY, series(CNP, **PORT, action="handled"): grown(6000)},),
    ),
    Row(
        "HwsondeNetworkRdmaTimeouts",
        {series(RETRIES, **PORT, cause="ack_timeout"): grown(2), series(FAILED, **PORT, side="requester", error="flushed"): grown(0)},
        {
            series(RETRIES, **PORT, cause="ack_timeout"): grown(0.2),
            series(RETRIES, **PORT, cause="receiver_not_ready"): grown(100),
            series(FAILED, **PORT, side="requester", error="flushed"): grown(10),
        },
        {**HOST, **PORT},
        "a/n1: peers of mlx5_0 port 1 do not answer in time, so RDMA requests are sent again or given up. "
        "Look at the fabric and at the peers.",
        also=({series(FAILED, **PORT, side="requester", error="retries_exceeded"): jumped(1)},),
    ),
    Row(
        "HwsondeNetworkRetransmits",
        {series(AGAIN): grown(1800), series(SEGMENTS, direction="transmitted"): grown(60_000)},
        {
            series(AGAIN): grown(300),
            series(SEGMENTS, direction="transmitted"): grown(60_000),
            # A host that sends little repeats a large share of it without any harm.
            series(AGAIN, node="n2"): grown(300),
            series(SEGMENTS, node="n2", direction="transmitted"): grown(3000),
        },
        HOST,
        "a/n1: 3% of the TCP segments are sent again. Look at drops here, at the switch port and at the peers.",
    ),
)  # fmt: skip

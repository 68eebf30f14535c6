"""Alerts about network devices, RDMA ports and TCP. No input, no output."""

from __future__ import annotations

from alert_rules.timing import Timing
from alert_rules.wording import words
from alert_rules.writing import CRITICAL, WARNING, Rule, Writer, record, was

PAUSED = "device_priority:hwsonde_network_pfc_pause_seconds:rate5m"
MARKED = "port:hwsonde_network_rdma_ecn_marked_packets:ratio_rate5m"
NOTIFIED = "port:hwsonde_network_rdma_cnp_packets:ratio_rate5m"
AGAIN = "entity:hwsonde_network_tcp_retransmitted_segments:ratio_rate5m"

# A bridge or a tunnel goes up and down with what uses it; only devices with an address on a bus are hardware.
_REAL = 'on (cluster, node, device) hwsonde_network_info{pci_bus_id!=""}'
_DEVICE = "{{ $labels.device }}{{ with $labels.port }} port {{ . }}{{ end }}"
_DOWNED = "increase(hwsonde_network_rdma_link_downed_total[1h])"
# A driver that starts may count the link that it brings up as one that went down; this is the hour, and time to start.
_BOOTED = "on (cluster, node) time() - hwsonde_host_boot_timestamp_seconds < 3900"
_RATE = "{{ $value | humanize }}B/s"


def recording_rules() -> list[Rule]:
    """Rates and shares that alerts and boards look at."""
    packets, segments = "hwsonde_network_rdma_packets_total", "hwsonde_network_tcp_segments_total"

    def busy(series: str, direction: str, least: int) -> str:
        return f'ignoring (direction) (rate({series}{{direction="{direction}"}}[5m]) > {least})'

    return [
        record(PAUSED, 'rate(hwsonde_network_pfc_pause_seconds_total{direction="received"}[5m])'),
        record(
            MARKED,
            f"rate(hwsonde_network_rdma_ecn_marked_packets_total[5m])\n/ {busy(packets, 'received', 1000)}\n",
        ),
        record(
            NOTIFIED,
            'sum without (action) (rate(hwsonde_network_rdma_cnp_packets_total{action="handled"}[5m]))\n'
            f"/ {busy(packets, 'transmitted', 1000)}\n",
        ),
        record(
            AGAIN,
            f"rate(hwsonde_network_tcp_retransmitted_segments_total[5m])\n/ {busy(segments, 'transmitted', 100)}\n",
        ),
    ]


def _down(timing: Timing, writer: Writer) -> list[Rule]:
    """Ports and devices whose link is gone."""
    up, port_up = "hwsonde_network_up", "hwsonde_network_rdma_up"
    return [
        writer.alert(
            "HwsondeNetworkRdmaDown",
            CRITICAL,
            f"{port_up} == 0\nand\n{was(port_up, 1)}\n",
            words(
                "network",
                f"RDMA port {_DEVICE} went down. Look at the cable, the switch port and the subnet manager.",
                "The port was up within the last day. A job that spans hosts has lost a rail: it fails, or runs at a fraction of its speed.",
            ),
            wait=timing.down,
        ),
        writer.alert(
            "HwsondeNetworkDown",
            WARNING,
            f"{up} == 0\nand\n{was(up, 1)}\nand {_REAL}\n",
            words(
                "network",
                f"network device {_DEVICE} went down. Look at the cable and the switch port.",
                "The device was up within the last day and nobody answers at the other end now.",
            ),
            wait=timing.down,
        ),
    ]


def _links(timing: Timing, writer: Writer) -> list[Rule]:
    """Links that go up and down, run slower than they did, or are missing in a bond."""
    speed, port_speed = "hwsonde_network_speed_bytes_per_second", "hwsonde_network_rdma_speed_bytes_per_second"

    def slower(series: str) -> str:
        return f"(\n  0 < {series} < max_over_time({series}[1d:5m])\n)"

    return [
        writer.alert(
            "HwsondeNetworkLinkFlapping",
            WARNING,
            f"increase(hwsonde_network_carrier_changes_total[1h]) > 3.5\nand {_REAL}\nor\n{_DOWNED} > 1.5\n",
            words(
                "network",
                f"the link of {_DEVICE} was lost twice or more within an hour. Clean or replace the cable or the module.",
                "Each loss costs the jobs on it seconds, or ends them. Links that are lost for a moment are soon lost for good.",
            ),
        ),
        writer.alert(
            "HwsondeNetworkRdmaLinkDropped",
            WARNING,
            # The range is for how long it is told. Two losses are HwsondeNetworkLinkFlapping, and a port that stays down is HwsondeNetworkRdmaDown.
            f"0.5 < {_DOWNED} <= 1.5\nunless hwsonde_network_rdma_up == 0\nunless {_BOOTED}\n",
            words(
                "network",
                f"RDMA port {_DEVICE} lost its link within the last hour and has it again. "
                "See which jobs ended then, and watch whether it comes back.",
                "A collective that ran over this rail has most likely failed, however short the loss was. A cable or module may be about to go.",
            ),
        ),
        writer.alert(
            "HwsondeNetworkLinkSlow",
            WARNING,
            f"{slower(port_speed)}\nor\n{slower(speed)}\nand {_REAL}\n",
            words(
                "network",
                f"{_DEVICE} runs at {_RATE}, slower than within the last day. Look at the cable, the module and the switch port.",
                "The link came up at a lower speed or with fewer lanes. A synchronous job is as slow as its slowest link.",
            ),
            wait=timing.state,
        ),
        writer.alert(
            "HwsondeNetworkBondDegraded",
            WARNING,
            "hwsonde_network_bond_active_members < hwsonde_network_bond_members",
            words(
                "network",
                f"bond {_DEVICE} has only {{{{ $value }}}} members with a link. Look at the others.",
                "The bond still carries traffic, with less throughput and without what should take over when the next member fails.",
            ),
            wait=timing.state,
        ),
    ]


def _hardware(timing: Timing, writer: Writer) -> list[Rule]:
    """Cables that damage data, and devices that hang."""
    return [
        writer.alert(
            "HwsondeNetworkCableErrors",
            WARNING,
            'sum without (error) (increase(hwsonde_network_phy_errors_total{error=~"crc|symbol|pcs_symbol"}[15m])) > 100\nor\n'
            'sum without (result) (increase(hwsonde_network_fec_blocks_total{result="uncorrectable"}[15m])) > 10\nor\n'
            'sum without (error) (increase(hwsonde_network_rdma_errors_total{error=~"symbol|local_link_integrity"}[15m])) > 100\n',
            words(
                "network",
                f"{_DEVICE} receives damaged data. Clean or replace the cable or the module.",
                "Bits are lost on the wire faster than they can be repaired, so packets are sent again and links are retrained.",
            ),
            wait=timing.state,
        ),
        writer.alert(
            "HwsondeNetworkRdmaStuck",
            CRITICAL,
            "hwsonde_network_rdma_stuck == 1",
            words(
                "network",
                f"RDMA device {_DEVICE} leaves its driver unanswered. Drain the host, then reset the device or reboot.",
                "Its firmware hangs. Connections over it stand still, and processes that ask it cannot be ended.",
            ),
            wait=timing.state,
        ),
    ]


def _pauses(timing: Timing, writer: Writer) -> list[Rule]:
    """What priority flow control holds back."""
    return [
        writer.alert(
            "HwsondeNetworkPfcStorm",
            CRITICAL,
            'increase(hwsonde_network_pfc_storms_total{level="error"}[15m]) > 0',
            words(
                "network",
                f"{_DEVICE} was paused for so long that it cut the pause off. Find who sends the pause frames, then drain that host.",
                "A pause storm: one receiver that takes nothing any more stops the ports before it, and with them the whole fabric of this priority.",
            ),
        ),
        writer.alert(
            "HwsondeNetworkPfcPaused",
            WARNING,
            f"{PAUSED} > 0.05",
            words(
                "network",
                f"{_DEVICE} is paused by its peer for {{{{ $value | humanizePercentage }}}} of the time in priority {{{{ $labels.priority }}}}. "
                "Look for the receiver that is too slow.",
                "Priority flow control holds this host's sending. Some pauses are usual in an incast; lasting ones come from one slow receiver.",
            ),
            wait=timing.lasting,
        ),
    ]


def _traffic(timing: Timing, writer: Writer) -> list[Rule]:
    """Congestion, and what is sent again or given up."""
    return [
        writer.alert(
            "HwsondeNetworkCongested",
            WARNING,
            f"{MARKED} > 0.1\nor\n{NOTIFIED} > 0.005\n",
            words(
                "network",
                f"the way from or to {_DEVICE} is congested. Look at load and balance of the switch's links, and at other jobs.",
                "Switches mark many of its RoCE packets, and senders are told to slow down all the time.",
            ),
            wait=timing.lasting,
        ),
        writer.alert(
            "HwsondeNetworkRdmaTimeouts",
            WARNING,
            'sum without (cause) (increase(hwsonde_network_rdma_retries_total{cause=~"ack_timeout|adaptive_timeout"}[15m])) > 10\nor\n'
            'sum without (side, error) (increase(hwsonde_network_rdma_completion_errors_total{error="retries_exceeded"}[15m])) > 0\n',
            words(
                "network",
                f"peers of {_DEVICE} do not answer in time, so RDMA requests are sent again or given up. Look at the fabric and at the peers.",
                "RDMA has no patience: where a request is given up, the collective and its job end.",
            ),
        ),
        writer.alert(
            "HwsondeNetworkRetransmits",
            WARNING,
            f"{AGAIN} > 0.01",
            words(
                "network",
                "{{ $value | humanizePercentage }} of the TCP segments are sent again. Look at drops here, at the switch port and at the peers.",
                "Packets are lost on the way. Checkpoints, data loading and the jobs' control connections are slowed down.",
            ),
            wait=timing.lasting,
        ),
    ]


def rules(timing: Timing, writer: Writer) -> list[Rule]:
    """Every rule of the group."""
    parts = (_down, _links, _hardware, _pauses, _traffic)
    return [*recording_rules(), *(rule for part in parts for rule in part(timing, writer))]

"""What the mesh probe has found so far, for whoever asks."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from functools import partial

from hwsonde_exporter.histogram import ROUND_TRIP_SECONDS, CumulativeMoments, deviation_metric
from hwsonde_exporter.metric import Kind, Metric, Sample

_SENT = "UDP echoes sent to the peers of --collector.network_probe.peers"
_counter = partial(Metric, kind=Kind.COUNTER, subsystem="network", labels=("peer",), source=_SENT)

RTT = Metric(
    "hwsonde_network_probe_rtt_seconds",
    Kind.HISTOGRAM,
    "Time that a small packet took to a peer and back, less the time that it lay at the peer.",
    ("peer",),
    "seconds",
    "network",
    f"{_SENT}; arrival by SO_TIMESTAMPNS",
    ROUND_TRIP_SECONDS,
)
RTT_REFERENCE = 0.0005
RTT_DEVIATION = deviation_metric(RTT, RTT_REFERENCE)
SENT = _counter(name="hwsonde_network_probe_sent_total", help="Probes sent to a peer.")
LOST = _counter(name="hwsonde_network_probe_lost_total", help="Probes that a peer did not answer within a second.")
ERRORS = _counter(
    name="hwsonde_network_probe_send_errors_total",
    help="Probes that could not be sent: no route, refused by a firewall here, or the peer's name has no address.",
)
ANSWERED = Metric(
    "hwsonde_network_probe_answered_total",
    Kind.COUNTER,
    "Probes of other hosts that were answered.",
    subsystem="network",
    source="UDP socket at --collector.network_probe.listen-address",
)
REFUSED = Metric(
    "hwsonde_network_probe_refused_total",
    Kind.COUNTER,
    "Packets that were not answered: no probes, or more than one source may send in a second.",
    ("reason",),
    subsystem="network",
    source="UDP socket at --collector.network_probe.listen-address",
)
LISTENING = Metric(
    "hwsonde_network_probe_listening",
    Kind.GAUGE,
    "Whether probes of other hosts can be answered (1), or the address to do so is not to be had (0).",
    subsystem="network",
    source="bind(2)",
)
METRICS = (RTT, RTT_DEVIATION, SENT, LOST, ERRORS, LISTENING, ANSWERED, REFUSED)
REASONS = ("malformed", "rate")


class _Peer:
    def __init__(self, name: str) -> None:
        self.name = name
        self.sent = self.lost = self.errors = 0
        self.rtt = CumulativeMoments(RTT, RTT_DEVIATION, RTT_REFERENCE, (name,))

    def samples(self) -> list[Sample]:
        labels = (self.name,)
        counts = ((SENT, self.sent), (LOST, self.lost), (ERRORS, self.errors))
        return [*self.rtt.samples(), *(Sample(metric, labels, count) for metric, count in counts)]


class Board:
    """Counts of all peers and of the answers given; safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._peers: dict[str, _Peer] = {}
        self._answering = False
        self._answered = 0
        self._refused: Counter[str] = Counter()

    def configure(self, peers: Iterable[str], *, answering: bool) -> None:
        """Show these peers from now on; those that stay keep their counts."""
        with self._lock:
            self._peers = {name: self._peers.get(name) or _Peer(name) for name in peers}
            self._answering = answering

    def sent(self, peer: str) -> None:
        """Count a probe that was sent."""
        with self._lock:
            if peer in self._peers:
                self._peers[peer].sent += 1

    def failed(self, peer: str) -> None:
        """Count a probe that could not be sent."""
        with self._lock:
            if peer in self._peers:
                self._peers[peer].errors += 1

    def lost(self, peer: str) -> None:
        """Count a probe that was not answered in time."""
        with self._lock:
            if peer in self._peers:
                self._peers[peer].lost += 1

    def observed(self, peer: str, seconds: float) -> None:
        """Take the time of a probe that was answered."""
        with self._lock:
            if peer in self._peers:
                self._peers[peer].rtt.observe(seconds)

    def answered(self) -> None:
        """Count a probe of another host that was answered."""
        with self._lock:
            self._answered += 1

    def refused(self, reason: str) -> None:
        """Count a packet that was not answered, for one of `REASONS`."""
        with self._lock:
            self._refused[reason] += 1

    def samples(self, *, listening: bool) -> list[Sample]:
        """Everything, all of one moment; ``listening`` says whether probes can be answered."""
        with self._lock:
            samples = [sample for peer in self._peers.values() for sample in peer.samples()]
            if self._answering:
                samples.append(Sample(LISTENING, (), int(listening)))
                samples.append(Sample(ANSWERED, (), self._answered))
                samples += [Sample(REFUSED, (reason,), self._refused[reason]) for reason in REASONS]
        return samples

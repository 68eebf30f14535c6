"""What the mesh probe knows of the way to other hosts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.mesh.board import METRICS
from hwsonde_exporter.metric import Metric, Sample
from hwsonde_exporter.registry import register


@register
class NetworkProbeCollector:
    """Time to configured peers and back, and losses, measured with small UDP echoes.

    The echoes are sent and answered by `hwsonde_exporter.mesh`, which the exporter starts where this collector is switched on;
    here only its board is read. Peers are shown by the names that the configuration gives them, never by address.
    """

    name: ClassVar[str] = "network_probe"
    help: ClassVar[str] = "Time to configured peers and back, by small UDP echoes"
    metrics: ClassVar[tuple[Metric, ...]] = METRICS
    period: ClassVar[float | None] = None
    enabled: ClassVar[bool] = False

    def __init__(self, host: Host) -> None:
        self.host = host

    def probe(self) -> None:
        """Raise `Unavailable` where nothing is to be probed or answered."""
        if self.host.mesh is None or self.host.mesh() is None:
            raise Unavailable(
                Reason.DISABLED,
                "no peers and no address to answer at; give --collector.network_probe.peers NAME=HOST:PORT or "
                "--collector.network_probe.listen-address (nothing is probed for a single exposition)",
            )

    def collect(self) -> Iterable[Sample]:
        """Read the board."""
        found = self.host.mesh() if self.host.mesh is not None else None
        return found or []

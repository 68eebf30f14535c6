"""Bonds of network devices: which members are up, and which carry traffic."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from hwsonde_exporter.collectors._files import sys_number, sys_text
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

_LACP = "802.3ad"
_BOND = "/sys/class/net/BOND/bonding"
_MEMBER = "/sys/class/net/DEV/bonding_slave"
_gauge = partial(Metric, kind=Kind.GAUGE, labels=("device",), subsystem="network")

INFO = _gauge(
    name="hwsonde_network_bond_info",
    help="Constant 1 labelled with the mode of a bond.",
    labels=("device", "mode"),
    source=f"{_BOND}/mode",
)
MEMBERS = _gauge(
    name="hwsonde_network_bond_members", help="Members that a bond has, up or down.", source=f"{_BOND}/slaves"
)
ACTIVE = _gauge(
    name="hwsonde_network_bond_active_members",
    help="Members of a bond whose link is up.",
    source=f"{_MEMBER}/mii_status",
)
MEMBER_UP = _gauge(
    name="hwsonde_network_bond_member_up",
    help="Whether the bond finds the link of a member up (1) or down (0).",
    labels=("device", "member"),
    source=f"{_MEMBER}/mii_status",
)
MEMBER_CARRIES = _gauge(
    name="hwsonde_network_bond_member_in_use",
    help="Whether a member may carry traffic (1) or not (0): up, no backup, and of the aggregator that the bond uses.",
    labels=("device", "member"),
    source=f"{_MEMBER}/{{mii_status,state,ad_aggregator_id}}, {_BOND}/ad_aggregator",
)
FAILURES = Metric(
    name="hwsonde_network_bond_member_failures_total",
    kind=Kind.COUNTER,
    help="Times the bond saw the link of a member fail.",
    labels=("device", "member"),
    subsystem="network",
    source=f"{_MEMBER}/link_failure_count",
)


@register
class BondingCollector:
    """Bonds and their members.

    A member whose link is up may still carry nothing: one that its switch has put into an aggregator of its own (a cable in
    the wrong port, a peer without LACP) looks healthy everywhere else.
    """

    name: ClassVar[str] = "bonding"
    help: ClassVar[str] = "Bonds: members, which are up and which carry traffic"
    metrics: ClassVar[tuple[Metric, ...]] = (INFO, MEMBERS, ACTIVE, MEMBER_UP, MEMBER_CARRIES, FAILURES)
    period: ClassVar[float | None] = 5.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._net = str(host.paths.sys("class/net"))

    def probe(self) -> None:
        """Raise `Unavailable` where there is no bond."""
        if not self._bonds():
            raise Unavailable(Reason.NO_HARDWARE, f"no bond: {self._net}/bonding_masters is missing or empty")

    def collect(self) -> Iterable[Sample]:
        """Read three small files a bond and four a member."""
        samples: list[Sample] = []
        for bond in self._bonds():
            base = f"{self._net}/{bond}/bonding"
            mode = sys_text(self.host, f"{base}/mode").partition(" ")[0]
            aggregator = sys_number(self.host, f"{base}/ad_aggregator") if mode == _LACP else None
            members = _names(sys_text(self.host, f"{base}/slaves"))
            if mode:
                samples.append(Sample(INFO, (bond, mode), 1))
            elif not members:
                continue  # it is gone
            samples.append(Sample(MEMBERS, (bond,), len(members)))
            active = 0
            for member in members:
                found = self._member(bond, member, aggregator)
                active += any(sample.metric is MEMBER_UP and sample.value for sample in found)
                samples += found
            samples.append(Sample(ACTIVE, (bond,), active))
        return samples

    def _bonds(self) -> list[str]:
        names = _names(sys_text(self.host, f"{self._net}/bonding_masters"))
        return [name for name in names if not self.host.ignored.devices.fullmatch(name)]

    def _member(self, bond: str, member: str, aggregator: int | None) -> list[Sample]:
        base = f"{self._net}/{member}/bonding_slave"
        labels = (bond, member)
        samples: list[Sample] = []
        status = sys_text(self.host, f"{base}/mii_status")
        if status:
            up = status == "up"
            in_use = up and sys_text(self.host, f"{base}/state") != "backup"
            if in_use and aggregator is not None:
                own = sys_number(self.host, f"{base}/ad_aggregator_id")
                in_use = own is None or own == aggregator
            samples += [Sample(MEMBER_UP, labels, int(up)), Sample(MEMBER_CARRIES, labels, int(in_use))]
        failures = sys_number(self.host, f"{base}/link_failure_count")
        if failures is not None:
            samples.append(Sample(FAILURES, labels, failures))
        return samples


def _names(line: str) -> list[str]:
    """Names of devices, each once; a slash would lead out of the folder."""
    return [name for name in dict.fromkeys(line.split()) if "/" not in name and name not in {".", ".."}]

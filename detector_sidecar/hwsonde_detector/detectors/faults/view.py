"""What of a target's layout is watched for data faults: physical parts, metrics of the whole host, and their columns. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hwsonde_detector.signals.layout import Indices, Layout, channel_name
from hwsonde_detector.signals.profiles.rules import Reading, Rule
from hwsonde_detector.types import Device, Series, Subsystem

Target = tuple[str, str]

METRIC, COLLECTOR, TARGET, HOST = "metric", "collector", "target", "host"
# What bears one of these labels comes and goes with programs, their connections or their mounts: nobody misses it.
_PASSING_LABELS = frozenset(
    {"workload", "cgroup", "container", "pod", "namespace", "process", "pid", "user", "remote", "peer"}
    | {"mountpoint", "export", "filesystem", "fstype", "xid", "sxid"}
)
_PASSING_KINDS = frozenset({"filesystem"})
_VIRTUAL = {
    "nic": re.compile(
        r"(lo|veth|docker|br-|virbr|cali|cni|flannel|vxlan|geneve|tap|tun|wg|lxc|nerdctl|podman|kube|dummy|ifb|gre|sit|ip6|vnet|macv|ipvl|tailscale).*"
    ),
    "disk": re.compile(r"(loop|ram|zram|dm-|nbd|rbd|sr|fd).*"),
}


class PartKey(NamedTuple):
    """What may be missed: something of a class, at a target. The identity of a GPU is its uuid, its number may change."""

    job: str
    instance: str
    kind: str
    identity: str

    @property
    def target(self) -> Target:
        """The scrape target."""
        return self.job, self.instance


@dataclass(frozen=True, slots=True, eq=False)
class TargetView:
    """Index arrays of one layout.

    Attributes
    ----------
    layout
        What it was made for.
    first
        int64 (s): first column of each watched series.
    part_of, metric_of
        int64 (s): numbers of the series' part (that of none: the number of parts) and metric.
    parts, metrics
        What they stand for, and ``names`` what people call the parts.
    columns
        int64 (m): columns of watched series that a rule reads.
    owner_of
        int64 (m): number of the part, or the metric, that a column belongs to, in ``owners``.
    gauges
        int64 (g): columns of plain values among them, all with their own ``owner_of`` in ``gauge_owner``; ``gauge_rule`` tells the same
        quantity of other parts, ``gauge_unit`` the same unit.
    marks
        Columns that tell of a restart.
    """

    layout: Layout
    first: Indices
    part_of: Indices
    metric_of: Indices
    parts: tuple[PartKey, ...]
    names: tuple[str, ...]
    metrics: tuple[PartKey, ...]
    columns: Indices
    owner_of: Indices
    owners: tuple[Device, ...]
    gauges: Indices
    gauge_owner: Indices
    gauge_rule: Indices
    gauge_unit: Indices
    marks: Indices

    def series_name(self, column: int) -> str:
        """What a column's series is called: name and labels, without those of its target."""
        one = self.layout.columns[column][0]
        labels = [pair for pair in one.labels if pair[0] not in {"job", "instance", "cluster", "node"}]
        return channel_name(one.name, labels)


def _part(one: Series, rule: Rule) -> tuple[str, str, str] | None:
    """Class, identity and name of what a series speaks of; class ``metric`` for the whole host, None for what may come and go."""
    labels = dict(one.labels)
    if rule.subsystem is Subsystem.WORKLOAD or rule.device_kind in _PASSING_KINDS or _PASSING_LABELS & labels.keys():
        return None
    name = labels.get(rule.device_label or "", "")
    if rule.device_kind is None or not name:
        return METRIC, one.name, one.name
    virtual = _VIRTUAL.get(rule.device_kind)
    if virtual is not None and virtual.fullmatch(name):
        return None
    identity = labels.get("uuid", "")
    return rule.device_kind, identity or name, f"{name} ({identity})" if identity else name


class _Numbers(dict[tuple[str, ...], int]):
    """Numbers things in the order in which they are met."""

    def of(self, key: tuple[str, ...]) -> int:
        return self.setdefault(key, len(self))


def view_of(layout: Layout, target: Target) -> TargetView:
    """Find what is watched in a layout."""
    parts, metrics, owners, units = _Numbers(), _Numbers(), _Numbers(), _Numbers()
    names: dict[tuple[str, ...], str] = {}
    seen: dict[Series, tuple[int, int, int]] = {}
    columns: list[tuple[int, int]] = []
    gauges: list[tuple[int, int, int, int]] = []
    for column, (one, number, place) in enumerate(layout.columns):
        if number < 0:
            continue
        rule = layout.book.rules[number]
        found = _part(one, rule)
        if found is None:
            continue
        kind, identity, name = found
        part = -1 if kind == METRIC else parts.of((kind, identity))
        if part >= 0:
            names[kind, identity] = name
        if one not in seen or seen[one][1] < 0:
            seen[one] = (column, part, metrics.of((METRIC, one.name)))
        owner = owners.of((kind, name))
        columns.append((column, owner))
        if rule.parts[place].reading is Reading.VALUE:
            gauges.append((column, owner, number, units.of((str(owner), rule.unit))))
    first = np.array(list(seen.values()), np.int64).reshape(-1, 3)
    watched = np.array(columns, np.int64).reshape(-1, 2)
    plain = np.array(gauges, np.int64).reshape(-1, 4)
    return TargetView(
        layout=layout,
        first=first[:, 0].copy(),
        part_of=np.where(first[:, 1] < 0, len(parts), first[:, 1]),
        metric_of=first[:, 2].copy(),
        parts=tuple(PartKey(*target, kind, identity) for kind, identity in parts),
        names=tuple(names[key] for key in parts),
        metrics=tuple(PartKey(*target, kind, identity) for kind, identity in metrics),
        columns=watched[:, 0].copy(),
        owner_of=watched[:, 1].copy(),
        owners=tuple(Device(kind, name) for kind, name in owners),
        gauges=plain[:, 0].copy(),
        gauge_owner=plain[:, 1].copy(),
        gauge_rule=plain[:, 2].copy(),
        gauge_unit=plain[:, 3].copy(),
        marks=np.arange(len(layout.columns) - layout.marks, len(layout.columns)),
    )

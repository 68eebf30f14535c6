"""What is read: series and samples, and what becomes of them: channels and frames."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Times: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Labels: TypeAlias = tuple[tuple[str, str], ...]


class Subsystem(StrEnum):
    """The parts of a host that a deviation is attributed to."""

    CPU = "cpu"
    GPU = "gpu"
    MEMORY = "memory"
    NETWORK = "network"
    STORAGE = "storage"
    POWER = "power"
    THERMAL = "thermal"
    PCIE = "pcie"
    WORKLOAD = "workload"


@dataclass(frozen=True, slots=True, order=True)
class Entity:
    """A host: the values of the configured entity labels, in the configured order, for example ``(("cluster", "a"), ("node", "n17"))``."""

    labels: Labels

    def __str__(self) -> str:
        """Give ``a/n17``: the values that are not empty, joined."""
        return "/".join(value for _, value in self.labels if value)


@dataclass(frozen=True, slots=True, order=True)
class Series:
    """Identity of one Prometheus series: its name, and all other labels in order of name."""

    name: str
    labels: Labels


@dataclass(frozen=True, slots=True)
class SampleBatch:
    """What a source hands over: raw samples of many series, in one pair of arrays.

    Series i owns ``times[offsets[i]:offsets[i + 1]]`` (ascending) and the values at the same places.
    Stale markers are left out by the source; NaN and Inf that an exporter really sent are kept.

    Attributes
    ----------
    series
        n identities, ascending and unique, so that an answer's order never changes a result.
    offsets
        int64 (n + 1).
    times
        int64 (m), milliseconds.
    values
        float64 (m).
    """

    series: tuple[Series, ...]
    offsets: Times
    times: Times
    values: Floats

    @staticmethod
    def empty() -> SampleBatch:
        """A batch without series."""
        return SampleBatch((), np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0))


class Role(StrEnum):
    """What a channel tells beside how its part of the host is doing."""

    SIGNAL = "signal"  # use, waiting, errors that a workload may cause
    MARK = "mark"  # a workload is here while the value is above 0; never judged
    FAULT = "fault"  # what no workload causes, whatever it does


@dataclass(frozen=True, slots=True, order=True)
class Device:
    """Class and stable identity of a part: ``Device("disk", "nvme0n1")``, ``Device("nic", "eth0")``."""

    kind: str
    name: str


SWING = "swing of "
"""What the title of a channel begins with that tells how much a sampled quantity moves about."""


@dataclass(frozen=True, slots=True)
class Channel:
    """One number over time for one entity.

    Attributes
    ----------
    name
        Stable and readable: ``cpu_seconds{mode=user}``; unique within an entity.
    subsystem
        Where a deviation is attributed to.
    device
        The part it belongs to, None where it speaks of the whole host.
    floor
        The smallest deviation that matters, in the channel's own unit: physical floor of its scale.
    logarithmic
        True: heavy-tailed (bytes, packets, pages a second); its deviations are judged on asinh(value / floor).
    weight
        Share in attribution: 1 for a cause, about a third or 0 for a symptom (context switches, interrupts, totals).
    unit
        For people: ``cores``, ``bytes/s``, ``ratio``.
    signed
        Whether healthy values may be below 0 (the change of a level per second).
    title
        What people call it, such as ``SM clock``; empty where its name must serve.
    address
        Where its device sits (PCI address or slot); empty where nothing tells.
    flow
        Whether it is the rate of a counter (work done, time waited, errors) or how much a quantity swings: less of it than usual is no cause.
    paced
        Whether its values are read at a pace of their own, and only shown at each scrape.
    role
        Whether it is judged at all, and whether a change of workloads explains it.
    """

    name: str
    subsystem: Subsystem
    device: Device | None = None
    floor: float = 1.0
    logarithmic: bool = False
    weight: float = 1.0
    unit: str = ""
    signed: bool = False
    title: str = ""
    address: str = ""
    flow: bool = False
    paced: bool = False
    role: Role = Role.SIGNAL


@dataclass(frozen=True, slots=True)
class Frame:
    """Rows of channel values of one entity.

    Attributes
    ----------
    entity
        The host.
    channels
        c channels, in order of name.
    times
        int64 (rows), ascending, milliseconds: when the row's samples were scraped.
    values
        float64 (rows, c); NaN where a value is missing, impossible or masked after a counter reset.
    """

    entity: Entity
    channels: tuple[Channel, ...]
    times: Times
    values: Floats

    @property
    def mask(self) -> Mask:
        """Where a value is known, bool (rows, c)."""
        return np.isfinite(self.values)

"""One sentence for a data fault: which host, which part, what is wrong with its data, since when. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hwsonde_detector.explain.titles import clock
from hwsonde_detector.types import DataFault, Device, Entity, FaultEvidence, FaultKind

_PLURALS = {
    "gpu": "GPUs",
    "nic": "NICs",
    "cpu": "CPUs",
    "rdma": "RDMA devices",
    "pcie": "PCIe devices",
    "numa_node": "NUMA nodes",
}


def fault_title(entity: Entity, fault: DataFault, now_ms: int) -> str:
    """Sentence for a page.

    For example ``n17 gpu 3 (GPU-5f1c) has sent nothing for 40 s; 7 of 8 GPUs still report``. The part named first is the one with the
    strongest evidence.

    Parameters
    ----------
    entity
        The host.
    fault
        With its evidence.
    now_ms
        The present, for how long it lasts.
    """
    host = str(entity) or "unnamed"
    if not fault.evidence:
        return f"{host}: data at fault ({fault.kind})"
    first = fault.evidence[0]
    told = _TELL.get(fault.kind, _anything)(first, f"{host}{_part(first.device)}", now_ms)
    more = fault.affected - 1
    return f"{told}; also {more} more" if more > 0 else told


def lasted(ms: float) -> str:
    """Length of time: ``40 s``, ``12 min``, ``3 h``."""
    seconds = max(ms, 0.0) / 1000.0
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def plural(kind: str) -> str:
    """Name of several parts of a class: ``GPUs``, ``disks``."""
    return _PLURALS.get(kind, f"{kind}s")


def _part(device: Device) -> str:
    return f" {device.kind} {device.name}" if device.name else ""


def _seconds(value: float | None) -> str:
    return f"{value or 0.0:.2g} s" if (value or 0.0) < 10 else f"{value or 0.0:.0f} s"


def _missing(one: FaultEvidence, subject: str, now_ms: int) -> str:
    kind, away = one.device.kind, lasted(now_ms - one.since_ms)
    if one.name == "series":
        return (
            f"{subject}: sends {one.value or 0:.0f} series, usually {one.usual or 0:.0f}, since {clock(one.since_ms)}"
        )
    if kind == "target":
        return f"{subject} cannot be scraped for {away}, other targets of the host can"
    still = ""
    if one.usual is not None and one.usual > 1:
        verb = {"collector": "work", "metric": "are sent"}.get(kind, "report")
        still = f"; {one.value or 0:.0f} of {one.usual:.0f} {plural(kind)} still {verb}"
    if kind == "collector":
        return f"{subject} has given nothing for {away} ({one.name}){still}"
    verb = "was not sent" if kind == "metric" else "has sent nothing"
    return f"{subject} {verb} for {away}{still}"


def _gap(one: FaultEvidence, subject: str, now_ms: int) -> str:
    if one.name == "silent":
        return f"{subject} has been silent for {lasted(now_ms - one.since_ms)}"
    uneven = f", {100 * (one.value or 0.0):.0f} % of the last came at uneven times" if (one.value or 0.0) > 0.25 else ""
    return f"{subject}: {one.count} scrapes lost since {clock(one.since_ms)}{uneven}"


def _impossible(one: FaultEvidence, subject: str, now_ms: int) -> str:
    return f"{subject}: {one.name} had {one.count} values that cannot be since {clock(one.since_ms)} ({lasted(now_ms - one.since_ms)})"


def _reset(one: FaultEvidence, subject: str, now_ms: int) -> str:
    return f"{subject}: counters began anew {one.count} times in {lasted(now_ms - one.since_ms)} without a restart"


def _stuck(one: FaultEvidence, subject: str, now_ms: int) -> str:
    since = f"for {lasted(now_ms - one.since_ms)}"
    return f"{subject}: {one.name} has repeated {one.value or 0.0:.6g} {since} ({one.count} readings) while {one.usual or 0:.0f} others move"


def _slow(one: FaultEvidence, subject: str, _now_ms: int) -> str:
    what = "" if one.device.name else ": a scrape"
    return f"{subject}{what} takes {_seconds(one.value)}, usually {_seconds(one.usual)}, since {clock(one.since_ms)}"


def _skew(one: FaultEvidence, subject: str, _now_ms: int) -> str:
    offset = one.value or 0.0
    if one.count > 1 and abs(offset) < 1.0:
        return f"{subject}: the clock was set {one.count} times since {clock(one.since_ms)}"
    side = "ahead of" if offset > 0 else "behind"
    stepped = f", set {one.count} times" if one.count > 1 else ""
    return f"{subject}: the clock is {_seconds(abs(offset))} {side} the server's{stepped}, since {clock(one.since_ms)}"


def _anything(one: FaultEvidence, subject: str, _now_ms: int) -> str:
    return f"{subject}: data at fault since {clock(one.since_ms)}"


_TELL: Mapping[FaultKind, Callable[[FaultEvidence, str, int], str]] = {
    FaultKind.MISSING: _missing,
    FaultKind.GAP: _gap,
    FaultKind.IMPOSSIBLE: _impossible,
    FaultKind.RESET: _reset,
    FaultKind.STUCK: _stuck,
    FaultKind.SLOW: _slow,
    FaultKind.SKEW: _skew,
}

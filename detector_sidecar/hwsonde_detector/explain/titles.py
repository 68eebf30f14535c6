"""One sentence that an operator can act on. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from hwsonde_detector.types import Contribution, Entity, Subsystem

_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def quantity(value: float, unit: str) -> str:
    """Value with its unit, as people write it: ``3.2 MB/s``, ``97 %``, ``12``."""
    if unit == "ratio":
        return f"{value * 100:.3g} %"
    # Bytes and hertz take a prefix in their symbol, other units keep their word behind the number.
    symbol = {"bytes": "B", "bytes/s": "B/s", "hertz": "Hz"}.get(unit)
    size = abs(value)
    number, prefix = next(((value / step, prefix) for step, prefix in _STEPS if size >= step), (value, ""))
    if symbol is not None:
        return f"{number:.3g} {prefix}{symbol}"
    return f"{number:.3g}{prefix} {unit}".rstrip()


def clock(ms: int) -> str:
    """Time of day in UTC, ``19:23:41Z``."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%H:%M:%SZ")


def identity(entity: Entity, start_ms: int) -> str:
    """Name of an episode: entity and start."""
    return f"{entity}@{datetime.fromtimestamp(start_ms / 1000, UTC).strftime('%Y-%m-%dT%H:%M:%SZ')}"


def title(entity: Entity, subsystem: Subsystem, top: Sequence[Contribution], onset_ms: int) -> str:
    """Sentence for a page.

    For example ``node17 cpu: cpu_sampled_busy_ratio 98 %, expected at most 31 %, since 19:23:41Z; also pressure_cpu{some}, ...``.
    The channel named first is the loudest one of the named subsystem.
    """
    own = [contribution for contribution in top if contribution.channel.subsystem is subsystem]
    if not own:
        return f"{entity} {subsystem}: unusual since {clock(onset_ms)}"
    first = own[0]
    device = first.channel.device
    part = f"{subsystem} {device.name}" if device is not None else str(subsystem)
    others = [
        contribution.channel.name
        for contribution in (*own[1:], *(c for c in top if c.channel.subsystem is not subsystem))
    ][:2]
    also = f"; also {', '.join(others)}" if others else ""
    return f"{entity} {part}: {first.channel.name} {_against(first)}, since {clock(onset_ms)}{also}"


def _against(contribution: Contribution) -> str:
    unit = contribution.channel.unit
    value = quantity(contribution.value, unit)
    if contribution.value > contribution.upper:
        return f"{value}, expected at most {quantity(contribution.upper, unit)}"
    if contribution.value < contribution.lower:
        return f"{value}, expected at least {quantity(contribution.lower, unit)}"
    return f"{value}, unsteady around {quantity((contribution.lower + contribution.upper) / 2, unit)}"

"""One sentence that an operator can act on. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from hwsonde_detector.types import Channel, Contribution, Device, Direction, Entity, Subsystem
from hwsonde_detector.types.samples import SWING

_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SMALL_STEPS = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
# Units that take a prefix in their symbol; others keep their word behind the number.
_SYMBOLS = {"bytes": "B", "bytes/s": "B/s", "hertz": "Hz", "watts": "W"}
# A name or a label's value may be as long as somebody made it.
_LONGEST = 120
_OTHERS = 2


@dataclass(frozen=True, slots=True)
class Order:
    """What can be told of who moved first.

    ``first`` are names of the channels that may have been the first, ``moved`` how many left their bands in all.
    """

    first: tuple[str, ...] = ()
    moved: int = 0


def quantity(value: float, unit: str) -> str:
    """Value with its unit, as people write it: ``3.2 MB/s``, ``97 %``, ``12``."""
    if unit == "ratio":
        return f"{_digits(value * 100)} %"
    if unit == "celsius":
        return f"{_digits(value)} °C"
    # Rounded first: 999.9 is a thousand, and takes that step's prefix.
    value = float(f"{value:.3g}")
    size = abs(value)
    if unit == "seconds" and 0 < size < 1:
        step, prefix = next(((step, prefix) for step, prefix in _SMALL_STEPS if size >= step), _SMALL_STEPS[-1])
        return f"{_digits(value / step)} {prefix}s"
    if unit == "seconds":
        return f"{_digits(value)} s"
    number, prefix = next(((value / step, prefix) for step, prefix in _STEPS if size >= step), (value, ""))
    symbol = _SYMBOLS.get(unit)
    if symbol is not None:
        return f"{_digits(number)} {prefix}{symbol}"
    return f"{_digits(number)}{prefix} {unit}".rstrip()


def _digits(value: float) -> str:
    return f"{float(f'{value:.3g}'):g}"


def clock(ms: int) -> str:
    """Time of day in UTC, ``19:23:41Z``."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%H:%M:%SZ")


def identity(entity: Entity, start_ms: int) -> str:
    """Name of an episode: entity and start."""
    return f"{entity}@{datetime.fromtimestamp(start_ms / 1000, UTC).strftime('%Y-%m-%dT%H:%M:%SZ')}"


def part_name(subsystem: Subsystem, device: Device | None, address: str = "", alike: int = 0) -> str:
    """Name of a part: ``gpu 3 (0000:8d:00.0)``, ``storage vda``, ``thermal gpu 0 and 7 more``, ``cpu``.

    Parameters
    ----------
    subsystem
        What is named where there is no device.
    device
        The one to blame, with its ``address``.
    alike
        How many more of its kind are in it as well.
    """
    if device is None:
        return str(subsystem)
    # A number says nothing without the kind of what it numbers.
    words = [str(subsystem)] if device.kind != str(subsystem) else []
    words += [device.kind] if device.name.isdigit() or device.kind == str(subsystem) else []
    words.append(_short(device.name))
    if address and address != device.name:
        words.append(f"({_short(address)})")
    return " ".join(words) + (f" and {alike} more" if alike else "")


def title(
    entity: Entity,
    subsystem: Subsystem,
    top: Sequence[Contribution],
    onset_ms: int,
    devices: Sequence[Device] = (),
    order: Order = Order(),
) -> str:
    """Sentence for a page.

    For example ``n17 gpu 3 (0000:8d:00.0): SM clock 1.2 GHz, expected at least 1.9 GHz, since 19:23:41Z; first of 4 channels, also power
    310 W (expected at least 650 W)``. The channel named first is the loudest one of the named part.

    Parameters
    ----------
    entity, subsystem
        The host, and what the deviation is attributed to.
    top
        Contributions, largest share first.
    onset_ms
        Since when.
    devices
        The device to blame and those that are like it; none where the host as a whole is.
    order
        Who moved first.
    """
    device = devices[0] if devices else None
    first = _first(subsystem, device, top)
    if first is None:
        return f"{entity} {part_name(subsystem, device)}: unusual since {clock(onset_ms)}"
    address = first.channel.address if first.channel.device == device else ""
    part = part_name(subsystem, device, address, max(len(devices) - 1, 0))
    tail = ", ".join(text for text in (_order(first.channel, order, top), _others(first, device, top)) if text)
    sentence = f"{entity} {part}: {channel_label(first.channel, device)} {_against(first)}, since {clock(onset_ms)}"
    return f"{sentence}; {tail}" if tail else sentence


def channel_label(channel: Channel, device: Device | None = None) -> str:
    """What people call a channel: ``SM clock``, ``SM clock of gpu 2``; its name where its profile gives no title.

    Parameters
    ----------
    channel
        Which one.
    device
        The device that the sentence speaks of anyway, which need not be named again.
    """
    if not channel.title:
        return _short(channel.name)
    own = channel.device
    if own is None or own == device:
        return _short(channel.title)
    return f"{_short(channel.title)} of {f'{own.kind} ' if own.name.isdigit() else ''}{_short(own.name)}"


def _first(subsystem: Subsystem, device: Device | None, top: Sequence[Contribution]) -> Contribution | None:
    own = [entry for entry in top if entry.channel.subsystem is subsystem]
    of_device = [entry for entry in own if device is not None and entry.channel.device == device]
    return next(iter(of_device or own), None)


def _others(first: Contribution, device: Device | None, top: Sequence[Contribution]) -> str:
    """The loudest other channels with their sizes, those of the named part before those of others; no quantity is told of twice."""
    told, other = {_quantity_of(first.channel)}, []
    for entry in top:
        if _quantity_of(entry.channel) not in told:
            told.add(_quantity_of(entry.channel))
            other.append(entry)
    near = [entry for entry in other if _near(entry.channel, first.channel, device)]
    far = [entry for entry in other if not _near(entry.channel, first.channel, device)]
    texts = [f"{channel_label(entry.channel, device)} {_briefly(entry)}" for entry in (*near, *far)[:_OTHERS]]
    return f"also {', '.join(texts)}" if texts else ""


def _quantity_of(channel: Channel) -> tuple[str, Device | None]:
    """What a channel is about: how much something moves about says little beside where it is."""
    return channel.title.removeprefix(SWING) or channel.name, channel.device


def _near(channel: Channel, first: Channel, device: Device | None) -> bool:
    return channel.subsystem is first.subsystem or (device is not None and channel.device == device)


def _order(channel: Channel, order: Order, top: Sequence[Contribution]) -> str:
    """Who moved first; nothing where the named channel is one of several that may have been it."""
    if order.moved < 2 or not order.first:
        return ""
    if order.first == (channel.name,):
        return f"first of {order.moved} channels"
    if channel.name in order.first:
        return ""
    leader = next((entry.channel for entry in top if entry.channel.name == order.first[0]), None)
    if leader is None:
        return ""
    more = f" and {len(order.first) - 1} more" if len(order.first) > 1 else ""
    return f"after {channel_label(leader, channel.device)}{more}"


def _against(contribution: Contribution) -> str:
    value, bound = _sizes(contribution)
    return f"{value}, {bound}"


def _briefly(contribution: Contribution) -> str:
    value, bound = _sizes(contribution)
    return f"{value} ({bound})"


def _sizes(contribution: Contribution) -> tuple[str, str]:
    """Value, and what was expected instead."""
    unit, direction = contribution.channel.unit, contribution.direction
    value = quantity(contribution.value, unit)
    if direction is Direction.NOISY:
        return value, f"unsteady around {quantity((contribution.lower + contribution.upper) / 2, unit)}"
    if direction is Direction.STUCK:
        return value, "which always moved and stands still"
    if contribution.value > contribution.upper:
        return value, f"expected at most {quantity(contribution.upper, unit)}"
    if contribution.value < contribution.lower:
        return value, f"expected at least {quantity(contribution.lower, unit)}"
    return value, f"unusually {direction}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"

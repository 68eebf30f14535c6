"""An episode that peers opened: what of a host is unlike the others. Pure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hwsonde_detector.decision.peering import Slot
from hwsonde_detector.decision.scaling import untransform
from hwsonde_detector.detectors.tails import KNEE
from hwsonde_detector.explain.attribution import by_subsystem
from hwsonde_detector.explain.titles import identity, title
from hwsonde_detector.types import Contribution, Device, Entity, Episode, Scope, Subsystem

_TOP = 10
# What the others have, in their spreads: a band for people, not a limit.
_BAND = 4.0


def peer_episode(entity: Entity, slot: Slot, device: Device | None, onset_ms: int) -> Episode:
    """Episode of a host that differs from its peers.

    Parameters
    ----------
    entity
        The host.
    slot
        The slot that it opens in.
    device
        The part that most of the difference belongs to, None where it is none.
    onset_ms
        End of the first slot in which it differed.
    """
    top = unlike(entity, slot)
    shares = by_subsystem(np.array([part.share for part in top]), [part.channel for part in top])
    subsystem = max(shares, key=lambda name: (shares[name], name)) if shares else Subsystem.CPU
    return Episode(
        identity=identity(entity, onset_ms),
        entity=entity,
        start_ms=slot.end_ms,
        onset_ms=onset_ms,
        end_ms=None,
        subsystem=subsystem,
        peak=slot.values[entity],
        title=f"{title(entity, subsystem, top, onset_ms)}; {_others(len(slot.values) - 1)} do not show it",
        top=top,
        scope=Scope.DEVICE if device is not None else Scope.HOST,
        device=device,
    )


def still_unlike(told: Episode, slot: Slot | None, peers: int) -> Episode:
    """An episode that goes on though the host's own past says nothing any more, because it differs from its peers.

    It stays what was paged: only why it goes on is added to the sentence, and its channels are those that differ now, where that is known.

    Parameters
    ----------
    told
        The episode as it was told.
    slot
        The newest slot, None where there is none since the start.
    peers
        How many peers the host has.
    """
    top = unlike(told.entity, slot) if slot is not None and told.entity in slot.values else ()
    return replace(told, title=f"{told.title}; still unlike {_others(peers)}", top=top or told.top)


def _others(peers: int) -> str:
    return f"its {peers} peers" if peers else "its other parts"


def unlike(entity: Entity, slot: Slot) -> tuple[Contribution, ...]:
    """The channels of a host that differ most from its peers, largest share first; the band is where the others lie."""
    cells = slot.cells
    place = cells.members.index(entity)
    loud: dict[int, tuple[float, int]] = {}
    for cell in range(int(cells.spans[place]), int(cells.spans[place + 1])):
        beyond = float(slot.strength[cell]) - KNEE * float(cells.weight[cell])
        column = int(cells.column[cell])
        if beyond > loud.get(column, (0.0, 0))[0]:
            loud[column] = beyond, cell
    total = sum(beyond for beyond, _ in loud.values())
    ordered = sorted(loud.values(), key=lambda pair: (-pair[0], cells.channel(pair[1]).name))
    return tuple(_contribution(slot, cell, beyond / total) for beyond, cell in ordered[:_TOP])


def _contribution(slot: Slot, cell: int, share: float) -> Contribution:
    channel, compared = slot.cells.channel(cell), slot.compared
    middle, spread = float(compared.middle[cell]), float(compared.spread[cell])
    bounds = untransform(np.array([middle - _BAND * spread, middle + _BAND * spread]), channel)
    lower, upper = float(bounds[0]), float(bounds[1])
    return Contribution(
        channel=channel,
        share=share,
        deviation=float(compared.deviation[cell]),
        value=float(slot.raw[cell]),
        lower=lower if channel.signed else max(lower, 0.0),
        upper=upper,
    )

"""What is known of hosts together, as a JSON document and arrays, and back."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.decision.calibration import Tail
from hwsonde_detector.decision.peering import Member, PeerGroup
from hwsonde_detector.detectors.peers import CellTails, History, lay_out
from hwsonde_detector.detectors.settings import HostSettings, KeptSetting
from hwsonde_detector.detectors.tails import ColumnTails
from hwsonde_detector.fleet import FleetState
from hwsonde_detector.host import HostState
from hwsonde_detector.hoststate import (
    episode_document,
    persistence_document,
    read_channel,
    read_entity,
    read_episode,
    read_persistence,
)
from hwsonde_detector.settings import Settings
from hwsonde_detector.standings import Ending, Muted
from hwsonde_detector.types import Channel, Device, Entity, EpisodeEvent, Phase

Arrays = dict[str, NDArray[Any]]


def snapshot_fleet(
    fleet: FleetState, settings: Settings, hosts: Mapping[Entity, HostState]
) -> tuple[dict[str, Any], Arrays]:
    """Document and arrays; what belongs to one host alone is saved with the host."""
    telling, groups = fleet.telling, []
    arrays: Arrays = {}
    for index, (key, group) in enumerate(sorted(fleet.groups.items())):
        document, own = _group(group, hosts)
        groups.append({**document, "key": [list(pair) for pair in key]})
        arrays |= {f"{index}/{name}": value for name, value in own.items()}
    return {
        "by": list(settings.peers.by),
        "minimum": settings.peers.minimum,
        "groups": groups,
        "home": _by_entity(fleet.home, lambda key: [list(pair) for pair in key]),
        "labels": _by_entity(fleet.labels, lambda pairs: [list(pair) for pair in pairs]),
        "facts": _by_entity(fleet.facts, lambda words: words),
        "settings": _by_entity(fleet.settings, _settings),
        "held": _by_entity(telling.held, lambda held: [held[0].at_ms, episode_document(held[0].episode), held[1]]),
        "muted": _by_entity(telling.muted, lambda muted: [_entity(muted.leader), muted.since_ms]),
        "peers": _by_entity(telling.peers, episode_document),
        "kept": [_entity(entity) for entity in sorted(telling.kept)],
        "ending": _by_entity(
            telling.ending, lambda one: [one.event.at_ms, episode_document(one.event.episode), one.shown_ms]
        ),
        "loud": _by_entity(telling.loud, lambda trail: [list(pair) for pair in trail]),
    }, arrays


def restore_fleet(
    document: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    hosts: Mapping[Entity, HostState],
    settings: Settings,
) -> FleetState:
    """Rebuild from `snapshot_fleet`; KeyError, ValueError or TypeError where something is missing or of another shape.

    Groups that other settings made are left out, and those learn anew.
    """
    fleet = FleetState()
    fleet.facts = {
        entity: {str(word): {str(value): int(at) for value, at in seen.items()} for word, seen in words.items()}
        for entity, words in _entities(document["facts"])
    }
    fleet.settings = {entity: _read_settings(part) for entity, part in _entities(document["settings"])}
    telling = fleet.telling
    telling.open = {entity: host.episode for entity, host in hosts.items() if host.episode is not None}
    telling.peers = {entity: read_episode(part) for entity, part in _entities(document["peers"])}
    # States of versions in which peers kept no episode open lack it.
    telling.kept = {read_entity(entity) for entity in document.get("kept", ())}
    telling.loud = {
        entity: deque((int(end), float(fused)) for end, fused in part) for entity, part in _entities(document["loud"])
    }
    for entity, (at_ms, episode, until_ms) in _entities(document["held"]):
        if entity in telling.open:
            telling.held[entity] = EpisodeEvent(Phase.OPENED, int(at_ms), read_episode(episode)), int(until_ms)
    for entity, (leader, since_ms) in _entities(document["muted"]):
        if entity in telling.open:
            telling.muted[entity] = Muted(read_entity(leader), int(since_ms))
    # States of versions in which every end was told at once lack it.
    for entity, (at_ms, episode, shown_ms) in _entities(document.get("ending", ())):
        event = EpisodeEvent(Phase.CLOSED, int(at_ms), read_episode(episode))
        telling.ending[entity] = Ending(event, shown_ms if shown_ms is None else int(shown_ms))
    if document["by"] != list(settings.peers.by) or document["minimum"] != settings.peers.minimum:
        return fleet
    fleet.labels = {entity: _key(pairs) for entity, pairs in _entities(document["labels"])}
    for index, part in enumerate(document["groups"]):
        prefix = f"{index}/"
        own = {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)}
        fleet.groups[_key(part["key"])] = _read_group(part, own, hosts, settings)
    fleet.home = {entity: _key(key) for entity, key in _entities(document["home"])}
    return fleet


def _entity(entity: Entity) -> list[list[str]]:
    return [list(pair) for pair in entity.labels]


def _by_entity(values: Mapping[Entity, Any], document: Any) -> list[list[Any]]:  # noqa: ANN401 - a function for each kind of value
    return [[_entity(entity), document(values[entity])] for entity in sorted(values)]


def _entities(part: Sequence[Any]) -> list[tuple[Entity, Any]]:
    return [(read_entity(entity), value) for entity, value in part]


def _key(pairs: Sequence[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((str(word), str(value)) for word, value in pairs)


def _settings(own: HostSettings) -> dict[str, Any]:
    return {
        "newest_ms": own.newest_ms,
        "kept": [[*key, *asdict(kept).values()] for key, kept in sorted(own.kept.items())],
    }


def _read_settings(part: Mapping[str, Any]) -> HostSettings:
    kept = {
        (str(setting), str(device)): KeptSetting(str(value), previous, changed_at_ms, int(changes))
        for setting, device, value, previous, changed_at_ms, changes in part["kept"]
    }
    changed = {key for key, one in kept.items() if one.changed_at_ms is not None}
    return HostSettings(kept, int(part["newest_ms"]), changed)


def _group(group: PeerGroup, hosts: Mapping[Entity, HostState]) -> tuple[dict[str, Any], Arrays]:
    cells, history = group.cells, group.history
    arrays: Arrays = {"history": history.rows, "usual": group.usual}
    channels = dict(zip(cells.members, cells.channels, strict=True))
    members = []
    for index, (entity, member) in enumerate(group.members.items()):
        document, own = _member(member)
        laid_out = channels.get(entity, ())
        document["channels"] = [channel.name for channel in laid_out]
        document["described"] = [asdict(channel) for channel in _unlearned(laid_out, member, hosts.get(entity))]
        members.append({**document, "entity": _entity(entity), "laid_out": entity in channels})
        arrays |= {f"{index}/{name}": value for name, value in own.items()}
    return {
        "interval_ms": group.interval_ms,
        "judged": group.judged,
        "stride": history.stride,
        "waited": history.waited,
        "members": members,
    }, arrays


def _unlearned(laid_out: Sequence[Channel], member: Member, host: HostState | None) -> list[Channel]:
    """Channels that the host itself has not learned, as while it learns a change or has an episode open: its memory cannot describe them."""
    used = {channel.name: channel for channels, _ in member.rows.values() for channel in channels}
    used |= {channel.name: channel for channel in laid_out}
    learned = {channel.name: channel for channel in host.memory.channels} if host is not None else {}
    return [channel for _, channel in sorted(used.items()) if learned.get(channel.name) != channel]


def _member(member: Member) -> tuple[dict[str, Any], Arrays]:
    document: dict[str, Any] = {
        "accepted": member.accepted,
        "fitted": member.fitted,
        "refused": member.refused,
        "persistence": persistence_document(member.persistence),
        "trail": [[end, value, device and [device.kind, device.name]] for end, value, device in member.trail],
        "rows": [[slot, [channel.name for channel in channels]] for slot, (channels, _) in sorted(member.rows.items())],
    }
    arrays: Arrays = {f"row{slot}": row for slot, (_, row) in member.rows.items()}
    if member.tails is not None:
        arrays["tails"] = np.concatenate([member.tails.own.array(), member.tails.far])
    if member.tail is not None:
        arrays |= {f"tail.{name}": value for name, value in member.tail.arrays().items()}
    return document, arrays


def _read_group(
    part: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], hosts: Mapping[Entity, HostState], settings: Settings
) -> PeerGroup:
    group = PeerGroup(interval_ms=int(part["interval_ms"]), judged=part["judged"])
    present: list[tuple[Entity, tuple[Channel, ...]]] = []
    for index, document in enumerate(part["members"]):
        entity = read_entity(document["entity"])
        known = _known(document, hosts.get(entity))
        prefix = f"{index}/"
        own = {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)}
        group.members[entity] = _read_member(document, own, known)
        if document["laid_out"]:
            channels = tuple(known[name] for name in document["channels"] if name in known)
            if len(channels) != len(document["channels"]):
                # Of versions that described none: a channel that the host has never learned cannot be placed, and the group learns anew.
                return PeerGroup(interval_ms=group.interval_ms)
            present.append((entity, channels))
    cells = lay_out(present, settings.peers.minimum)
    history = History.of(np.asarray(arrays["history"], np.float32), int(part["stride"]), int(part["waited"]))
    usual = np.asarray(arrays["usual"], np.float64)
    if history.rows.shape[1] != len(cells.names) or usual.shape != (len(cells.names),):
        raise ValueError("the kept history of peers does not match their channels")
    group.cells, group.history, group.usual = cells, history, usual
    return group


def _known(part: Mapping[str, Any], host: HostState | None) -> dict[str, Channel]:
    """Channels of a member by name. States of former versions described none; then what is kept apart of a change tells of most that are new."""
    known: dict[str, Channel] = {}
    if host is not None:
        known = {channel.name: channel for channel in (*host.regimes.pending.channels, *host.memory.channels)}
    return known | {channel.name: channel for channel in map(read_channel, part.get("described", ()))}


def _read_member(part: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], known: Mapping[str, Channel]) -> Member:
    member = Member(
        accepted=int(part["accepted"]),
        fitted=int(part["fitted"]),
        refused=int(part["refused"]),
        persistence=read_persistence(part["persistence"]),
        trail=deque(
            (int(end), float(value), Device(*device) if device is not None else None)
            for end, value, device in part["trail"]
        ),
    )
    if "tails" in arrays:
        centre, usual, excess, *far = np.asarray(arrays["tails"], np.float64)
        member.tails = CellTails(ColumnTails(centre, usual, excess), np.stack(far))
    if "tail.knots" in arrays:
        member.tail = Tail.restore({name.removeprefix("tail."): value for name, value in arrays.items()})
    for slot, names in part["rows"]:
        channels = tuple(known[name] for name in names if name in known)
        row = np.asarray(arrays[f"row{slot}"], np.float64)
        if len(channels) < len(names):
            kept = [place for place, name in enumerate(names) if name in known]
            row = row[kept]
        member.rows[int(slot)] = channels, row
    return member

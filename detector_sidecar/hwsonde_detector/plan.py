"""What is to be done with samples, and what of a state on disk still holds under it. Pure.

Two things are kept of a host: rows, which the rules of the profiles make of series, and models, which settings make of rows. A rule that reads
its series in another way makes its own columns worthless and no others; anything else that shapes a model makes it anew from the rows; words
for people change neither.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from hwsonde_detector.settings import DataFaultSettings, EpisodeSettings, PeerSettings, RegimeSettings, Settings
from hwsonde_detector.signals.layout import family
from hwsonde_detector.signals.profiles import Profile
from hwsonde_detector.types import Channel

_WORDS = frozenset({"title", "unit"})
# What a rule says of its channels, and not of how their values are made.
_DESCRIPTION = _WORDS | {"subsystem", "floor", "logarithmic", "weight", "device_kind", "device_label", "role"}
# Of a host with less than this part of its columns left there is not enough to judge by.
_ENOUGH = 0.5


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do with samples: the settings, and the profiles limited to the settings' subsystems."""

    settings: Settings
    profiles: tuple[Profile, ...]

    def __post_init__(self) -> None:
        limited = tuple(profile.limited_to(self.settings.subsystems) for profile in self.profiles)
        object.__setattr__(self, "profiles", limited)


def fingerprints(plan: Plan) -> dict[str, Any]:
    """Digests of what shapes rows, by name of the rule (``rules``), of what channels are (``channels``), and of what shapes models (``models``).

    Rules of episodes, of regimes and of data faults shape neither, apart from the risk that scores are divided by, nor does what hosts are
    compared by.
    """
    settings = asdict(shaping(plan).settings)
    del settings["peers"]
    rows: dict[str, list[Any]] = {}
    channels: list[Any] = []
    for profile in plan.profiles:
        whole = asdict(profile)
        for rule in whole.pop("rules"):
            rows.setdefault(rule["name"], []).append(_without(rule, _DESCRIPTION))
            channels.append(_without(rule, _WORDS))
        channels.append({key: whole[key] for key in ("restart", "places", "health")})
    made = {name: _digest(rules) for name, rules in rows.items()}
    return {"rules": made, "channels": _digest(channels), "models": _digest([settings, channels])}


def shaping(plan: Plan) -> Plan:
    """The plan with everything at its default that shapes neither rows nor models."""
    settings = replace(
        plan.settings,
        episodes=EpisodeSettings(risk=plan.settings.episodes.risk),
        regimes=RegimeSettings(),
        data_faults=DataFaultSettings(),
        peers=PeerSettings(),
    )
    return replace(plan, settings=settings)


def same_models(theirs: Mapping[str, Any], plan: Plan) -> bool:
    """Whether models fit that were made by what has the fingerprints ``theirs``."""
    return bool(theirs == fingerprints(plan))


def same_channels(theirs: Mapping[str, Any], plan: Plan) -> bool:
    """Whether channels are made and scaled as by what has the fingerprints ``theirs``."""
    return bool(theirs.get("channels") == fingerprints(plan)["channels"])


def stale(theirs: Mapping[str, Any], plan: Plan) -> frozenset[str]:
    """Names of rules whose columns no longer mean what they did when a state with the fingerprints ``theirs`` was made.

    Raises
    ------
    ValueError
        A version made it that did not yet note the rules one by one.
    """
    if "rules" not in theirs:
        raise ValueError("an earlier version made its rows, and they are learned anew")
    ours = fingerprints(plan)["rules"]
    return frozenset(name for name, digest in theirs["rules"].items() if ours.get(name) != digest)


def left(channels: Sequence[Channel], gone: frozenset[str]) -> tuple[str, ...] | None:
    """Names of the channels that lose what is kept of them as their rules are ``gone``; None if too few are left."""
    lost = tuple(channel.name for channel in channels if family(channel.name) in gone)
    return lost if len(lost) <= (1 - _ENOUGH) * len(channels) else None


def _without(rule: Mapping[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in rule.items() if key not in keys}


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, default=lambda pattern: pattern.pattern)
    return hashlib.sha256(text.encode()).hexdigest()

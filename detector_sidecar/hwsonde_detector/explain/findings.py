"""Evidence of single channels over the windows of an episode. Pure.

Evidence of a channel is the sum of share x fused score over the windows of its episode. A score counts up to 10, so that one wild window
does not outvote a minute, and the n-th window after the onset counts min(1, 10 / n): what a fault drags along gathers with time, what it
began with does not. Reveal (channel, share, deviation, direction) is where the form of the answer comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from hwsonde_detector.explain.series import between
from hwsonde_detector.types import Channel, Contribution, Device, Direction, Entity, Episode, Score

_SCORE_CAP = 10.0
_EARLY_WINDOWS = 10
# Windows below it belong to the end of an episode.
_QUIET = 0.7
# From this share on a channel is part of what happens, and no longer noise beside it.
_HEARD = 0.05
# A device is named when it has most of what devices have, and enough of everything.
_DEVICE_OF_DEVICES = 0.6
_DEVICE_OF_ALL = 0.25


class Role(StrEnum):
    """What a channel is to a cause."""

    CAUSE = "cause"
    SYMPTOM = "symptom"
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True)
class Finding:
    """One channel's evidence.

    Attributes
    ----------
    entity, channel
        Where.
    role
        ``cause``: a channel of the cause's subsystem with full weight; ``symptom``: one whose weight in its profile is below 1;
        ``elsewhere``: one of a subsystem that moved with it.
    share
        Part of the evidence of the cause and of what goes with it (0..1).
    direction
        That of the windows with most evidence.
    deviation, value, lower, upper
        At the window with most evidence: distance in spreads, value and expected band in the channel's own unit.
    first_ms
        First row outside of its band, plus or minus one scrape interval; None where it was not told.
    """

    entity: Entity
    channel: Channel
    role: Role
    share: float
    direction: Direction
    deviation: float
    value: float
    lower: float
    upper: float
    first_ms: int | None


@dataclass(slots=True)
class Tally:
    """Evidence of one channel over the windows of an episode.

    Attributes
    ----------
    best
        What it looked like in the window with most evidence.
    total
        Evidence.
    heard_ms
        End of the first window in which the channel had a share that counts; None before.
    """

    best: Contribution
    total: float = 0.0
    heard_ms: int | None = None
    _most: float = -1.0
    _votes: dict[Direction, float] = field(default_factory=dict)

    def add(self, part: Contribution, evidence: float, at_ms: int) -> None:
        """Take what one window said."""
        self.total += evidence
        if evidence > self._most:
            self.best, self._most = part, evidence
        self._votes[part.direction] = self._votes.get(part.direction, 0.0) + evidence
        if self.heard_ms is None and part.share >= _HEARD:
            self.heard_ms = at_ms

    def direction(self) -> Direction:
        """That of the windows with most evidence."""
        return max(sorted(self._votes), key=lambda direction: self._votes[direction], default=self.best.direction)


def loud(score: Score) -> bool:
    """Whether a window may say something of an episode."""
    return score.fused >= _QUIET and bool(score.top)


@dataclass(slots=True)
class Gathered:
    """Evidence of an episode's channels, taken window by window, so that no window need be kept.

    Attributes
    ----------
    found
        By name of the channel.
    windows
        How many windows said something.
    newest_ms
        End of the newest one that was taken.
    """

    found: dict[str, Tally] = field(default_factory=dict)
    windows: int = 0
    newest_ms: int = 0

    def take(self, score: Score) -> None:
        """Take the next window of the episode."""
        self.newest_ms = score.end_ms
        if not loud(score):
            return
        self.windows += 1
        weight = min(score.fused, _SCORE_CAP) * min(1.0, _EARLY_WINDOWS / self.windows)
        for part in score.top:
            name = part.channel.name
            if name not in self.found:
                self.found[name] = Tally(part)
            self.found[name].add(part, part.share * weight, score.end_ms)


def tallies(episode: Episode, scores: Sequence[Score], gathered: Gathered | None = None) -> list[Tally]:
    """Evidence of each channel of an episode, most first.

    Parameters
    ----------
    episode
        The episode.
    scores
        Windows of its host, ascending. Where none of them belongs to it, what the episode carries itself is taken.
    gathered
        What its windows said, where that was taken as they came: then ``scores`` are passed over.
    """
    if gathered is None:
        gathered = _gathered(episode, scores)
    found = gathered.found
    if not gathered.windows:
        found = {}
        for part in episode.top:
            evidence = part.share * min(episode.peak, _SCORE_CAP)
            found.setdefault(part.channel.name, Tally(part)).add(part, evidence, episode.onset_ms)
    return sorted(found.values(), key=lambda tally: (-tally.total, tally.best.channel.name))


def _gathered(episode: Episode, scores: Sequence[Score]) -> Gathered:
    gathered = Gathered()
    # Open ones last as long as there are windows.
    until_ms = episode.end_ms if episode.end_ms is not None else scores[-1].end_ms if scores else episode.onset_ms
    for score in between(scores, episode.onset_ms, until_ms):
        gathered.take(score)
    return gathered


def devices(own: Sequence[Tally]) -> tuple[Device | None, tuple[tuple[Device, float], ...]]:
    """The device that stands out (None where none does), and all of them with their parts of what devices have, largest first."""
    sums: dict[Device, float] = {}
    for tally in own:
        device = tally.best.channel.device
        if device is not None:
            sums[device] = sums.get(device, 0.0) + tally.total
    of_devices, of_all = sum(sums.values()), sum(tally.total for tally in own)
    if of_devices <= 0:
        return None, ()
    ranked = sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))
    device, most = ranked[0]
    stands_out = most >= _DEVICE_OF_DEVICES * of_devices and most >= _DEVICE_OF_ALL * of_all
    return device if stands_out else None, tuple((name, value / of_devices) for name, value in ranked)

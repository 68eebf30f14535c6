"""What happens while episodes are open: their windows, and the values of the channels that deviate. Pure.

The loop tells of every step; what is kept of an open episode is bounded, however long it lasts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from hwsonde_detector.incidents.lines import Line
from hwsonde_detector.types import (
    Entity,
    EntityReport,
    Episode,
    EpisodeEvent,
    Frame,
    Outputs,
    Phase,
    Score,
    SettingFinding,
)

# Windows kept of each host in case an episode opens: those that led to it are among them.
_BEFORE = 16
# Of an episode the first windows are all kept, of later ones as many as this allows.
_FIRST, _MOST = 120, 480
_CHANNELS = 24

Circle = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Watched:
    """One told episode.

    Attributes
    ----------
    episode, told_ms
        As last told, and when it first was.
    scores
        Its windows, ascending, thinned in the middle.
    lines
        Values over time by channel.
    interval_ms
        Scrape interval.
    circle, peers
        What the hosts are compared by, and who else has the same.
    settings
        What was last said of the host's settings.
    since_ms
        End of the first window that was heard: later than the onset where the detector was started meanwhile.
    windows
        How many were heard, those that were thinned out among them.
    normal
        Why nobody was told, because it counts as normal; empty once it is told.
    """

    episode: Episode
    told_ms: int
    scores: list[Score] = field(default_factory=list)
    lines: dict[str, Line] = field(default_factory=dict)
    interval_ms: int = 0
    circle: Circle = ()
    peers: tuple[Entity, ...] = ()
    settings: tuple[SettingFinding, ...] = ()
    since_ms: int | None = None
    windows: int = 0
    normal: str = ""
    _every: int = 1

    def hear(self, scores: Iterable[Score]) -> None:
        """Take windows; those seen before are passed over."""
        for score in scores:
            if self.scores and score.end_ms <= self.scores[-1].end_ms:
                continue
            self.since_ms = self.since_ms or score.end_ms
            self.windows += 1
            if len(self.scores) < _FIRST or self.windows % self._every == 0:
                self.scores.append(score)
            if len(self.scores) > _MOST:
                self.scores = self.scores[:_FIRST] + self.scores[_FIRST::2]
                self._every *= 2

    def see(self, frame: Frame | None) -> None:
        """Take rows of the host; those seen before are passed over."""
        if frame is None or not len(frame.times):
            return
        for part in self.episode.top:
            if len(self.lines) < _CHANNELS:
                self.lines.setdefault(part.channel.name, Line())
        for place, channel in enumerate(frame.channels):
            line = self.lines.get(channel.name)
            if line is None:
                continue
            first = int(frame.times.searchsorted(line.times[-1], side="right")) if line.times else 0
            for at_ms, value in zip(frame.times[first:].tolist(), frame.values[first:, place].tolist(), strict=True):
                line.add(at_ms, value)

    def copy(self, peers: tuple[Entity, ...]) -> Watched:
        """A copy that is not changed any more, for another thread."""
        lines = {
            name: replace(line, times=list(line.times), values=list(line.values)) for name, line in self.lines.items()
        }
        return replace(self, scores=list(self.scores), lines=lines, peers=peers)


@dataclass(slots=True)
class Watching:
    """All open episodes by identity, and the newest windows of every host."""

    open: dict[str, Watched] = field(default_factory=dict)
    before: dict[Entity, deque[Score]] = field(default_factory=dict)
    circles: dict[Entity, Circle] = field(default_factory=dict)

    def take(self, outputs: Outputs) -> tuple[list[Watched], list[Watched]]:
        """Take a step; give the episodes that opened and those that closed in it, in order of time."""
        reports = {report.entity: report for report in outputs.reports}
        for entity in outputs.gone:
            self.before.pop(entity, None)
            self.circles.pop(entity, None)
        for entity, report in reports.items():
            self.circles[entity] = report.circle
            self.before.setdefault(entity, deque(maxlen=_BEFORE)).extend(report.scores)
        opened: list[Watched] = []
        closed: list[Watched] = []
        for event in outputs.events:
            self._event(event, reports, opened, closed)
        for hushed in outputs.hushed:
            self._event(hushed.event, reports, opened, closed, hushed.reason)
        for report in reports.values():
            for episode in report.open_episodes:
                self._open(episode, report)
            for episode, reason in report.normal:
                self._open(episode, report, reason)
        return opened, closed

    def peers(self, watched: Watched) -> tuple[Entity, ...]:
        """Hosts that an episode's host is compared with."""
        if not watched.circle:
            return ()
        own = watched.episode.entity
        return tuple(
            sorted(entity for entity, circle in self.circles.items() if circle == watched.circle and entity != own)
        )

    def _event(
        self,
        event: EpisodeEvent,
        reports: Mapping[Entity, EntityReport],
        opened: list[Watched],
        closed: list[Watched],
        normal: str = "",
    ) -> None:
        episode = event.episode
        known = self.open.get(episode.identity)
        # One that was told, and counts as normal from now on, stays one that was told.
        normal = "" if any(one.episode.identity == episode.identity for one in closed) else normal
        watched = known or Watched(episode, event.at_ms, normal=normal)
        report = reports.get(episode.entity)
        watched.episode = episode
        if report is not None:
            self._follow(watched, report)
        self.open[episode.identity] = watched
        told_now = known is None or bool(known.normal and not normal)
        if event.phase is Phase.OPENED and told_now:
            watched.told_ms, watched.normal = event.at_ms, normal
            if not normal:
                opened.append(watched)
        if event.phase is Phase.CLOSED:
            del self.open[episode.identity]
            watched.peers = self.peers(watched)
            closed.append(watched)

    def _open(self, episode: Episode, report: EntityReport, normal: str = "") -> None:
        watched = self.open.get(episode.identity)
        if watched is None:
            watched = self.open[episode.identity] = Watched(episode, episode.start_ms, normal=normal)
        watched.episode = replace(episode, top=episode.top or watched.episode.top)
        self._follow(watched, report)

    def _follow(self, watched: Watched, report: EntityReport) -> None:
        episode = watched.episode
        if watched.scores:
            recent: Iterable[Score] = report.scores
        else:
            early = episode.onset_ms - 5 * (report.interval_ms or 0)
            recent = [score for score in self.before.get(report.entity, ()) if score.end_ms >= early]
        end_ms = episode.end_ms
        watched.hear(score for score in recent if end_ms is None or score.end_ms <= end_ms)
        watched.see(report.rows)
        watched.interval_ms = report.interval_ms or watched.interval_ms
        watched.settings = report.settings
        watched.circle = report.circle

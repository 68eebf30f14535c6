"""What the loop hands to the threads that answer HTTP: one immutable value behind one lock. Pure but for the lock."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from hwsonde_detector.telemetry import Sample
from hwsonde_detector.types import DataQuality, Entity, Episode, Learning, Score, SettingFinding

# A window that ended longer ago than this many holds speaks of the past.
_CURRENT_HOLDS = 5


@dataclass(frozen=True, slots=True)
class Held:
    """A score and when it became known (seconds of the monotonic clock)."""

    arrived: float
    score: Score


@dataclass(frozen=True, slots=True)
class PublishedHost:
    """What is known of one entity.

    ``recent`` are the windows of the trailing hold, oldest first; ``hold_s`` is how long a value must stay to be seen by every scrape:
    the scrape interval and one tick. ``named_by_instance`` says that the label of the host is missing and ``instance`` served.
    ``quality`` says how its data are, known since ``quality_arrived`` on the monotonic clock.
    ``settings``, ``follows``, ``normal`` and ``window`` are as in `hwsonde_detector.types.EntityReport`.
    """

    entity: Entity
    learning: Learning
    interval_ms: int | None
    open_episodes: tuple[Episode, ...] = ()
    recent: tuple[Held, ...] = ()
    hold_s: float = 2.0
    named_by_instance: bool = False
    quality: DataQuality | None = None
    quality_arrived: float = 0.0
    settings: tuple[SettingFinding, ...] = ()
    follows: Entity | None = None
    normal: tuple[tuple[Episode, str], ...] = ()
    window: tuple[int, float] | None = None

    @property
    def newest_ms(self) -> int | None:
        """End of the newest full window, judged or not: as long as such come the host is alive."""
        ends = [held.score.end_ms for held in self.recent[-1:]] + ([self.window[0]] if self.window is not None else [])
        return max(ends, default=None)

    @property
    def coverage(self) -> float | None:
        """Share of what the model looks at that the newest full window knew, also where that was too little to judge it."""
        if self.window is not None and self.window[0] == self.newest_ms:
            return self.window[1]
        return self.recent[-1].score.coverage if self.recent else None

    def data_quality(self, monotonic: float) -> DataQuality | None:
        """How the data are, None when nothing has renewed that for three holds."""
        return self.quality if monotonic - self.quality_arrived <= 3 * self.hold_s else None

    def held(self, monotonic: float) -> tuple[Score, ...]:
        """Scores of the trailing hold; when the newest is older than that it stays for two more holds, and is then withdrawn.

        One late tick must not tear a hole into the graph, and a score that nothing renews must not be repeated for ever.
        """
        if not self.recent or monotonic - self.recent[-1].arrived > 3 * self.hold_s:
            return ()
        oldest = min(monotonic - self.hold_s, self.recent[-1].arrived)
        return tuple(held.score for held in self.recent if held.arrived >= oldest)


@dataclass(frozen=True, slots=True)
class SourceState:
    """How reading goes: ``failing`` since ``since_ms``, with the last error's line; ``waiting`` before the first answer."""

    address: str = ""
    answered: bool = False
    failing: bool = False
    since_ms: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class Published:
    """Everything that /metrics, the page and the JSON interface speak from.

    Attributes
    ----------
    taken
        Monotonic seconds of this snapshot; its age says whether the loop still turns.
    now_ms, started_ms
        Wall clock of the snapshot and of the start.
    tick_ms
        Distance of two turns of the loop.
    shadow
        True: episodes are published as what would have paged.
    hosts
        In order of entity.
    past
        Closed episodes, newest first, bounded.
    own
        The detector's own counters.
    last_sample_ms
        Newest sample of any series; None before the first.
    catching_up
        True while stretches of the past are read.
    source_now_ms
        What time it was at ``taken`` by the clock that stamps the samples; None where only our own clock can tell.
    links
        Names and addresses of other programs, as an operator's browser reaches them.
    reload_ok, reloaded_ms
        Whether the last reading of the configuration succeeded, and when the one in force was read.
    partial
        Score of partial answers of the source: 1 when there have been no others for a minute.
    marks
        How many kept incidents people called useful, and how many noise.
    """

    taken: float
    now_ms: int
    started_ms: int
    tick_ms: int = 1000
    shadow: bool = False
    source: SourceState = field(default_factory=SourceState)
    hosts: tuple[PublishedHost, ...] = ()
    past: tuple[Episode, ...] = ()
    own: tuple[Sample, ...] = ()
    last_sample_ms: int | None = None
    catching_up: bool = False
    source_now_ms: int | None = None
    links: tuple[tuple[str, str], ...] = ()
    reload_ok: bool = True
    reloaded_ms: int = 0
    partial: float = 0.0
    marks: tuple[int, int] = (0, 0)

    def speaks_of_now(self, host: PublishedHost, monotonic: float, now_ms: int) -> bool:
        """Whether the newest window of a host, judged or not, is of the present, so that its score and its open episode may be told as such.

        What is read belatedly arrives now and yet is over. Age is measured by the source's clock where its samples come in step with time,
        so that a clock which differs from ours withdraws nothing.
        """
        newest_ms = host.newest_ms
        if self.catching_up or newest_ms is None:
            return False
        if self.source_now_ms is not None:
            now_ms = self.source_now_ms + round((monotonic - self.taken) * 1000)
        return now_ms - newest_ms <= _CURRENT_HOLDS * host.hold_s * 1000


class Noticeboard:
    """Holds the newest `Published`, and when the loop last gave a sign of life; written by the loop, read by any thread."""

    def __init__(self, first: Published) -> None:
        self._lock = threading.Lock()
        self._current = first
        self._alive = first.taken

    def put(self, value: Published) -> None:
        """Replace what is shown, which is a sign of life."""
        with self._lock:
            self._current, self._alive = value, value.taken

    def beat(self, monotonic: float) -> None:
        """The loop is at work, though it has nothing to show yet."""
        with self._lock:
            self._alive = monotonic

    def alive(self) -> float:
        """Monotonic seconds of the last sign of life."""
        with self._lock:
            return self._alive

    def get(self) -> Published:
        """What was put last."""
        with self._lock:
            return self._current

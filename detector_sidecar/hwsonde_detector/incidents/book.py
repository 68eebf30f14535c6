"""All incidents, open and closed: told of each step by the loop, asked by the threads that answer HTTP, written to disk by a thread of its own."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from hwsonde_detector.clock import Clock
from hwsonde_detector.errors import StateError
from hwsonde_detector.incidents.document import Surroundings, Trail, incident_document, lead_ms, peers_shown
from hwsonde_detector.incidents.entry import Entry, Mark, entry_of, marked
from hwsonde_detector.incidents.store import Store
from hwsonde_detector.incidents.watching import Watched, Watching
from hwsonde_detector.types import Entity, Episode, Outputs, Score, Subsystem, Times
from hwsonde_detector.types.naming import incident_id

log = logging.getLogger("hwsonde_detector.incidents")

_PAST = 200
_QUEUED = 1000
# Windows of each peer that an incident is compared with.
_PEER_WINDOWS = 120
# For how long the explanation of an open incident serves all who ask.
_FRESH_MS = 4000
_STOP_S = 5.0
# How often what is kept is looked through for what is too old, and what could not be written is tried again.
_FORGET_S = 60.0
_NAN = float("nan")


class Track(Protocol):
    """Scores of a host over time: ``times`` int64 (n), ``fused`` (n), ``parts`` (n, subsystems)."""

    @property
    def times(self) -> Times:
        """Ends of windows, ms, ascending."""

    @property
    def fused(self) -> Any:  # noqa: ANN401 - an array of floats
        """Fused scores."""

    @property
    def parts(self) -> Any:  # noqa: ANN401 - an array of floats
        """Parts by subsystem."""


class Tracks(Protocol):
    """Scores of the recent past of every host; may be asked by any thread."""

    def track(self, entity: Entity) -> Track:
        """Everything kept of a host."""


@dataclass(frozen=True, slots=True)
class Mode:
    """How is judged and told at present: whether nobody is paged, rows from window to window, and the program's version."""

    shadow: bool = False
    step: int = 1
    version: str = ""


Listener = Callable[[Entry, str], None]


class Book:
    """Everything known of incidents.

    Parameters
    ----------
    store
        Where closed ones are kept.
    tracks
        Scores of the recent past.
    clock
        Time.
    mode
        How is told at present; may be replaced.
    """

    def __init__(self, store: Store, tracks: Tracks, clock: Clock, mode: Mode) -> None:
        self.store = store
        self.mode = mode
        self._tracks = tracks
        self._clock = clock
        self._lock = threading.Lock()
        self._watching = Watching()
        self._closing: dict[str, Watched] = {}
        self._past: OrderedDict[str, Episode] = OrderedDict()
        self._shadow: dict[str, bool] = {}
        self._making = threading.Lock()
        self._made: dict[str, tuple[int, dict[str, Any]]] = {}
        self._queue: queue.Queue[Watched | None] = queue.Queue(_QUEUED)
        self._writer = threading.Thread(target=self._write_all, name="incidents", daemon=True)
        self._failing = ""
        self.listeners: list[Listener] = []

    def resume(self, past: Iterable[Episode]) -> None:
        """Read what is kept, and keep what only the state knows: ``past`` are its closed episodes, newest first."""
        past = list(past)
        self._past = OrderedDict((one.identity, one) for one in reversed(past[:_PAST]))
        try:
            for line in self.store.open(self._clock.now_ms()):
                log.warning("incidents: %s", line)
        except StateError as error:
            self._failed(str(error))
            return
        for episode in reversed(past):
            if self.store.get(incident_id(episode.identity, episode.onset_ms)) is None:
                self._write(Watched(episode, episode.start_ms))

    def start(self) -> None:
        """Write closed incidents from now on."""
        self._writer.start()

    def stop(self) -> None:
        """Write what is waiting; returns within seconds."""
        if self._writer.is_alive():
            with contextlib.suppress(queue.Full):
                self._queue.put(None, timeout=_STOP_S)
            self._writer.join(_STOP_S)

    def take(self, outputs: Outputs) -> None:
        """Take what one step said; called by the loop."""
        with self._lock:
            opened, closed = self._watching.take(outputs)
            for watched in opened:
                self._shadow[watched.episode.identity] = self.mode.shadow
            for watched in closed:
                episode = watched.episode
                self._closing[incident_id(episode.identity, episode.onset_ms)] = watched
                self._past[episode.identity] = episode
                while len(self._past) > _PAST:
                    self._past.popitem(last=False)
            told = [(self._entry(one), "opened") for one in opened]
            told += [(self._entry(one), "closed") for one in closed if not one.normal]
        for watched in closed:
            self._hand_over(watched)
        for entry, what in told:
            for listener in self.listeners:
                listener(entry, what)

    def _hand_over(self, watched: Watched) -> None:
        """Let the writer have an incident; where it is far behind, as with a disk that hangs, what was recorded of this one is let go."""
        try:
            self._queue.put_nowait(watched)
        except queue.Full:
            episode = watched.episode
            self._closing.pop(incident_id(episode.identity, episode.onset_ms), None)
            self._failed("more incidents close than can be written; the newest are not kept")

    def clear(self, lost: Container[Entity] | None = None) -> None:
        """Forget which episodes are open, of all hosts or of those that are ``lost``: they are learned anew; they are closed ones from now on."""
        with self._lock:
            now_ms = self._clock.now_ms()
            for identity, watched in list(self._watching.open.items()):
                if lost is not None and watched.episode.entity not in lost:
                    continue
                del self._watching.open[identity]
                watched.episode = replace(watched.episode, end_ms=now_ms, because="learned anew")
                self._closing[incident_id(watched.episode.identity, watched.episode.onset_ms)] = watched
                self._hand_over(watched)
            if lost is None:
                self._watching = Watching()

    def entries(self) -> list[Entry]:
        """All incidents: the open ones first, then the closed ones, each newest first."""
        with self._lock:
            fresh = [self._entry(one) for one in (*self._watching.open.values(), *self._closing.values())]
        fresh.sort(key=lambda entry: (entry.end_ms is not None, -entry.onset_ms, entry.id))
        known = {entry.id for entry in fresh}
        return [*fresh, *(entry for entry in self.store.entries() if entry.id not in known)]

    def get(self, name: str) -> Entry | None:
        """The entry of an id."""
        with self._lock:
            watched = self._find(name)
            if watched is not None:
                return self._entry(watched)
        return self.store.get(name)

    def document(self, name: str) -> dict[str, Any] | None:
        """What explains an incident, made anew while it is open; None where nothing is kept of it.

        Raises
        ------
        StateError
            What was kept is damaged.
        """
        # One at a time, and what was made lately for all who ask: many readers of one incident must cost the loop no more than one.
        with self._making:
            now_ms = self._clock.now_ms()
            made = self._made.get(name)
            if made is not None and 0 <= now_ms - made[0] < _FRESH_MS:
                return made[1]
            with self._lock:
                found = self._find(name)
                watched = found.copy(self._watching.peers(found) or found.peers) if found is not None else None
            self._made = {key: one for key, one in self._made.items() if 0 <= now_ms - one[0] < _FRESH_MS}
            if watched is not None:
                document = self._explain(watched)
                self._made[name] = now_ms, document
                return document
        # What is closed costs a file to read, and nobody waits for it but who asked.
        return self.store.document(name)

    def mark(self, name: str, mark: Mark, by: str) -> Entry | None:
        """Keep what a person said; None where there is no such incident.

        Raises
        ------
        StateError
            It could not be written; it holds until the end of the process, and is written as soon as that can be done.
        """
        if self.get(name) is None:
            return None
        self.store.mark(name, mark, self._clock.now_ms(), by)
        return self.get(name)

    def marks(self) -> tuple[int, int]:
        """How many kept incidents were called useful, and how many noise."""
        return self.store.marks()

    def _find(self, name: str) -> Watched | None:
        if name in self._closing:
            return self._closing[name]
        for watched in self._watching.open.values():
            if incident_id(watched.episode.identity, watched.episode.onset_ms) == name:
                return watched
        return None

    def _entry(self, watched: Watched) -> Entry:
        episode = watched.episode
        shadow = self._shadow.get(episode.identity, self.mode.shadow)
        entry = entry_of(episode, watched.told_ms, shadow=shadow, normal=watched.normal)
        early = self.store.marked_early(entry.id)
        return marked(entry, *early) if early is not None else entry

    def _write_all(self) -> None:
        while True:
            try:
                watched = self._queue.get(timeout=_FORGET_S)
            except queue.Empty:
                # Where nothing closes, what was kept grows old all the same.
                self.store.forget_old(self._clock.now_ms())
                self._write_again()
                continue
            if watched is None:
                self._write_again()
                return
            self._write(watched)

    def _write(self, watched: Watched) -> None:
        with self._lock:
            entry = self._entry(watched)
        try:
            document = self._explain(watched)
        except Exception as error:  # noqa: BLE001 - a defect in explaining must not lose the incident
            log.error("incident %s cannot be explained, a defect: %s: %s", entry.id, type(error).__name__, error)  # noqa: TRY400
            document = {}
        try:
            self.store.add(entry, document, self._clock.now_ms())
        except StateError as error:
            self._failed(str(error))
        else:
            self._write_again(worked=True)
        with self._lock:
            self._closing.pop(entry.id, None)
            self._shadow.pop(entry.identity, None)

    def _write_again(self, *, worked: bool = False) -> None:
        """Try again what a full disk kept from being written; ``worked``: one was written just now."""
        try:
            late = self.store.write_again()
        except StateError as error:
            self._failed(str(error))
            return
        if late or (worked and self._failing):
            log.info("incidents: are written again%s", f", with {late} that could not be before" if late else "")
        if late or worked:
            self._failing = ""

    def _failed(self, message: str) -> None:
        if message.partition(":")[0] != self._failing:
            log.warning("incidents: %s", message)
        self._failing = message.partition(":")[0]

    def _explain(self, watched: Watched) -> dict[str, Any]:
        episode = watched.episode
        now_ms = self._clock.now_ms()
        end_ms = episode.end_ms if episode.end_ms is not None else now_ms
        begin_ms = episode.onset_ms - lead_ms(watched)
        with self._lock:
            open_ones = [one.episode for one in self._watching.open.values()]
            others = [one for one in (*open_ones, *self._past.values()) if one.identity != episode.identity]
        around = Surroundings(
            own=_trail(self._tracks.track(episode.entity), begin_ms, end_ms + lead_ms(watched)),
            peers={peer: self._windows(peer, episode.onset_ms, end_ms) for peer in peers_shown(watched)},
            others=tuple(others),
            version=self.mode.version,
            step=self.mode.step,
            now_ms=now_ms,
        )
        return incident_document(watched, around)

    def _windows(self, entity: Entity, start_ms: int, end_ms: int) -> tuple[Score, ...]:
        trail = _trail(self._tracks.track(entity), start_ms, end_ms, _PEER_WINDOWS)
        return tuple(
            Score(
                entity, at_ms, fused, {}, {}, (), calibrated=True, threshold=1.0, coverage=_NAN, anomalous_channels=_NAN
            )
            for at_ms, fused in zip(trail.times, trail.fused, strict=True)
        )


def _trail(track: Track, start_ms: int, end_ms: int, most: int = 600) -> Trail:
    """Scores of a stretch of time, the largest of each run of neighbours where there are too many."""
    first, last = track.times.searchsorted(start_ms), track.times.searchsorted(end_ms, side="right")
    places: Sequence[int] = range(int(first), int(last))
    if len(places) > most:
        size = -(-len(places) // most)
        runs = (places[start : start + size] for start in range(0, len(places), size))
        places = [max(run, key=lambda place: float(track.fused[place])) for run in runs]
    kept = [place for place in places if track.fused[place] == track.fused[place]]
    parts = {
        subsystem: tuple(float(track.parts[place, index]) for place in kept)
        for index, subsystem in enumerate(Subsystem)
        if any(track.parts[place, index] for place in kept)
    }
    return Trail(
        tuple(int(track.times[place]) for place in kept), tuple(float(track.fused[place]) for place in kept), parts
    )

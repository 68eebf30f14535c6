"""Methods that follow a recording tick by tick: the shipped detector under some configuration, and plain ones beside it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from benchmarks.faults import rules
from benchmarks.faults.alarms import GAP_MS, Alarm, Runs, Voice
from benchmarks.faults.labels import DATA, Span, inside
from benchmarks.faults.silence import Silence, down_ms
from hwsonde_detector.decision.learning import align
from hwsonde_detector.engines.local import LocalEngine
from hwsonde_detector.plan import Plan
from hwsonde_detector.signals.channels import ChannelState, advance
from hwsonde_detector.signals.entities import Split, plan_split
from hwsonde_detector.signals.profiles import Profile
from hwsonde_detector.signals.windows import transform
from hwsonde_detector.types import Channel, Entity, Floats, Frame, Outputs, Phase, SampleBatch

ENTITY_LABELS = ("cluster", "node")
_QUANTILE = 0.999
_LEAST_ROWS = 60
# Of a logarithmic channel, as the detector's own scales have it.
_LOGARITHMIC_FLOOR = 0.3


class Follower(Protocol):
    """A method."""

    def take(self, batch: SampleBatch, now_ms: int) -> None:
        """Take the samples of one tick."""

    def voices(self) -> dict[str, Voice]:
        """What it said, by host."""


def node_of(entity: Entity) -> str:
    """Name of a host."""
    labels = dict(entity.labels)
    return labels.get("node") or str(entity)


class Shipped:
    """The detector as it runs live; its alarms are its episodes, and the subsystem is the one that an episode opens with.

    Beside it works the shipped rule for an exporter that does not answer: the detector leaves silence to it.

    Parameters
    ----------
    plan
        Settings and profiles.
    every_ms
        Scrape interval.
    """

    def __init__(self, plan: Plan, every_ms: int = 1000) -> None:
        self._engine = LocalEngine(plan)
        self._silence = Silence(down_ms(every_ms))
        self._voices: dict[str, Voice] = {}
        self._open: dict[str, Alarm] = {}
        self._differing: dict[str, set[str]] = {}

    def take(self, batch: SampleBatch, now_ms: int) -> None:
        """Score a tick."""
        self._silence.take(batch)
        outputs = self._engine.step(batch, now_ms)
        for report in outputs.reports:
            voice = self._voices.setdefault(node_of(report.entity), Voice())
            if voice.ready_ms is None:
                voice.ready_ms = next((score.end_ms for score in report.scores if score.calibrated), None)
        for event in outputs.events:
            episode = event.episode
            if event.phase is Phase.OPENED:
                node = node_of(episode.entity)
                alarm = Alarm(node, event.at_ms, event.at_ms, str(episode.subsystem))
                self._open[episode.identity] = alarm
                self._voices.setdefault(node, Voice()).alarms.append(alarm)
            elif episode.identity in self._open:
                self._open[episode.identity].end_ms = event.at_ms
                if event.phase is Phase.CLOSED:
                    del self._open[episode.identity]
        self._data(outputs)
        self._settings(outputs, now_ms)
        for alarm in self._open.values():
            alarm.end_ms = max(alarm.end_ms, now_ms)

    def _data(self, outputs: Outputs) -> None:
        """Episodes of data faults page as well."""
        for event in getattr(outputs, "fault_events", ()):
            episode = event.episode
            if event.phase is Phase.OPENED:
                node = node_of(episode.entity)
                self._open[episode.identity] = alarm = Alarm(node, event.at_ms, event.at_ms, DATA)
                self._voices.setdefault(node, Voice()).alarms.append(alarm)
            elif event.phase is Phase.CLOSED and (known := self._open.pop(episode.identity, None)) is not None:
                known.end_ms = event.at_ms

    def _settings(self, outputs: Outputs, now_ms: int) -> None:
        """Settings in which a host differs from its peers are told and page nobody; the first part of a name is its subsystem."""
        for report in outputs.reports:
            node = node_of(report.entity)
            differing = {one.setting for one in getattr(report, "settings", ()) if one.usual is not None}
            for setting in sorted(differing - self._differing.get(node, set())):
                finding = Alarm(node, now_ms, now_ms, setting.partition(".")[0])
                self._voices.setdefault(node, Voice()).findings.append(finding)
            self._differing[node] = differing

    def voices(self) -> dict[str, Voice]:
        """What it and the rule said."""
        found = dict(self._voices)
        for node, alarms in self._silence.alarms.items():
            own = found.get(node, Voice())
            found[node] = replace(own, alarms=sorted([*own.alarms, *alarms], key=lambda alarm: alarm.start_ms))
        return found


class _Rows:
    """Rows of channels of some hosts (None: all), as the detector makes them."""

    def __init__(self, profiles: tuple[Profile, ...], nodes: Collection[str] | None) -> None:
        self._profiles, self._nodes = profiles, nodes
        self._split: Split | None = None
        self._states: dict[Entity, ChannelState] = {}

    def take(self, batch: SampleBatch) -> list[Frame]:
        """New rows of each host that has some."""
        if self._split is None or not self._split.fits(batch, ENTITY_LABELS):
            self._split = plan_split(batch.series, ENTITY_LABELS)
        frames = []
        for entity, part in self._split.apply(batch).items():
            if self._nodes is not None and node_of(entity) not in self._nodes:
                continue
            state = self._states.get(entity) or ChannelState(entity)
            self._states[entity], news = advance(state, part, self._profiles)
            if len(news.frame.times):
                frames.append(news.frame)
        return frames


class Rules:
    """Plain alert rules (`rules.BOUNDS`), and one for an exporter that is silent.

    Parameters
    ----------
    profile
        `rules.yaml`.
    every_ms
        Scrape interval.
    nodes
        Hosts that are looked at; None: all.
    """

    def __init__(self, profile: Profile, every_ms: int = 1000, nodes: Collection[str] | None = None) -> None:
        self._rows = _Rows((profile,), nodes)
        self._gap_ms, self._silent_ms = _gap(every_ms), max(rules.SILENT_MS, 5 * every_ms // 2)
        self._runs: dict[str, Runs] = {}
        self._heard: dict[str, int] = {}
        self._ready: dict[str, int] = {}

    def take(self, batch: SampleBatch, now_ms: int) -> None:
        """Look at a tick's rows."""
        for frame in self._rows.take(batch):
            node = node_of(frame.entity)
            runs = self._runs.setdefault(node, Runs(node, self._gap_ms))
            names = [channel.name for channel in frame.channels]
            for at_ms, values in zip(frame.times.tolist(), frame.values.tolist(), strict=True):
                self._silent(node, at_ms)
                self._heard[node] = at_ms
                self._ready.setdefault(node, at_ms)
                if found := rules.votes(dict(zip(names, values, strict=True))):
                    runs.see(at_ms, found)
        for node in self._heard:
            # What is stored late was not silence.
            self._silent(node, now_ms - self._gap_ms)

    def _silent(self, node: str, until_ms: int) -> None:
        since = self._heard.get(node)
        if since is None or until_ms - since <= self._silent_ms:
            return
        runs = self._runs[node]
        begin = since + self._silent_ms
        if not runs.alarms or runs.alarms[-1].end_ms < begin:
            runs.see(begin, {DATA: 1.0})
        runs.see(max(until_ms, begin), {})

    def voices(self) -> dict[str, Voice]:
        """What they said."""
        return {node: Voice(runs.alarms, self._ready.get(node)) for node, runs in self._runs.items()}


class MeanZ:
    """The plain mean of |z| over all channels against what was learned, with a threshold at its 99.9th percentile.

    Parameters
    ----------
    profiles
        Those of the shipped detector.
    learning
        Stretches that are learned from, one a session; each replaces what was learned before.
    every_ms, nodes
        As above.
    """

    def __init__(
        self,
        profiles: tuple[Profile, ...],
        learning: Sequence[Span],
        every_ms: int = 1000,
        nodes: Collection[str] | None = None,
    ) -> None:
        self._rows = _Rows(profiles, nodes)
        self._learning = tuple(learning)
        self._gap_ms = _gap(every_ms)
        self._kept: dict[str, list[Frame]] = {}
        self._models: dict[str, _Normal] = {}
        self._runs: dict[str, Runs] = {}
        self._ready: dict[str, int] = {}

    def take(self, batch: SampleBatch, now_ms: int) -> None:
        """Learn or judge a tick's rows."""
        del now_ms
        for frame in self._rows.take(batch):
            node = node_of(frame.entity)
            learned = np.array([inside(at_ms, self._learning) for at_ms in frame.times.tolist()])
            if learned.any():
                self._kept.setdefault(node, []).append(_selected(frame, learned))
            if not learned.all():
                self._fit(node)
                self._judge(node, _selected(frame, ~learned))

    def _fit(self, node: str) -> None:
        kept = self._kept.pop(node, [])
        if kept:
            model = _Normal.of(kept)
            if model is not None:
                self._models[node] = model

    def _judge(self, node: str, frame: Frame) -> None:
        model = self._models.get(node)
        if model is None:
            return
        runs = self._runs.setdefault(node, Runs(node, self._gap_ms))
        self._ready.setdefault(node, int(frame.times[0]))
        deviations = model.deviations(frame)
        scores = _mean(deviations)
        for row in np.flatnonzero(scores > model.threshold).tolist():
            votes: dict[str, float] = {}
            for channel, value in zip(model.channels, np.nan_to_num(deviations[row]).tolist(), strict=True):
                votes[str(channel.subsystem)] = votes.get(str(channel.subsystem), 0.0) + value
            runs.see(int(frame.times[row]), votes)

    def voices(self) -> dict[str, Voice]:
        """What it said."""
        return {node: Voice(runs.alarms, self._ready.get(node)) for node, runs in self._runs.items()}


class _Normal:
    """Mean and deviation of c channels, on the axis on which the detector judges them, and the threshold of the mean |z|."""

    def __init__(self, channels: tuple[Channel, ...], centre: Floats, spread: Floats) -> None:
        self.channels, self.centre, self.spread = channels, centre, spread
        self.threshold = float("inf")

    @staticmethod
    def of(frames: Sequence[Frame]) -> _Normal | None:
        """What rows say is normal; None where they are too few."""
        channels = frames[-1].channels
        values = transform(np.concatenate([align(one.values, one.channels, channels) for one in frames]), channels)
        if len(values) < _LEAST_ROWS:
            return None
        floors = np.array([_LOGARITHMIC_FLOOR if one.logarithmic else one.floor for one in channels])
        known = np.isfinite(values).sum(axis=0)
        filled = np.nan_to_num(values)
        centre = filled.sum(axis=0) / np.maximum(known, 1)
        squares = np.where(np.isfinite(values), filled - centre, 0.0) ** 2
        spread = np.maximum(np.sqrt(squares.sum(axis=0) / np.maximum(known, 1)), floors)
        model = _Normal(channels, centre, spread)
        model.threshold = float(np.quantile(_mean(np.abs(values - centre) / spread), _QUANTILE))
        return model

    def deviations(self, frame: Frame) -> Floats:
        """|z| (rows, c); NaN where nothing is known."""
        moved = transform(align(frame.values, frame.channels, self.channels), self.channels)
        return np.asarray(np.abs(moved - self.centre) / self.spread, np.float64)


def _mean(deviations: Floats) -> Floats:
    """Mean over the known channels (rows); 0 where none is known."""
    known = np.isfinite(deviations).sum(axis=1)
    return np.asarray(np.nan_to_num(deviations).sum(axis=1) / np.maximum(known, 1), np.float64)


def _selected(frame: Frame, rows: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Frame:
    return Frame(frame.entity, frame.channels, frame.times[rows], frame.values[rows])


def _gap(every_ms: int) -> int:
    return max(GAP_MS, 5 * every_ms // 2)

"""The loop: read, step, publish, save. One thread; time, samples and disk come in as parameters."""

from __future__ import annotations

import logging
from collections.abc import Container, Sequence
from contextlib import nullcontext
from typing import Any

from hwsonde_detector import telemetry
from hwsonde_detector.clock import Clock
from hwsonde_detector.errors import SourceError, SourcePartial, StateError, shortage
from hwsonde_detector.hoststate import episode_document, read_episode
from hwsonde_detector.incidents.watchtime import WatchTime
from hwsonde_detector.published import Noticeboard, Published, SourceState
from hwsonde_detector.service.hosts import Hosts
from hwsonde_detector.service.pace import Cursor, Pace, Slowest, SourceClock, Timeline
from hwsonde_detector.service.partial import PartialAnswers
from hwsonde_detector.service.parts import Adviser, Interruptible, Observer, Parts
from hwsonde_detector.service.saving import Saver
from hwsonde_detector.service.trouble import Trouble
from hwsonde_detector.sources.base import Read
from hwsonde_detector.telemetry import Counters
from hwsonde_detector.types import Entity, EntityReport, Outputs, SampleBatch
from hwsonde_detector.types.guidance import UNGUIDED

log = logging.getLogger("hwsonde_detector.service")


class Loop:
    """Turns samples into what is published.

    Parameters
    ----------
    parts
        Source, engine and what else the configuration decides.
    clock
        Time.
    counters
        The detector's own counters.
    saver
        Keeps the state on disk.
    observers
        Told of the outputs of every step, in this thread.
    interruptible
        Wraps each read, so that a signal may end it.
    adviser
        Gives what people told since it was asked last, and what counts as normal at a time; it never waits.
    """

    def __init__(
        self,
        parts: Parts,
        clock: Clock,
        counters: Counters,
        saver: Saver,
        *,
        observers: Sequence[Observer] = (),
        interruptible: Interruptible = nullcontext,
        adviser: Adviser = lambda _: UNGUIDED,
    ) -> None:
        self._adviser = adviser
        self.parts = parts
        self.counters = counters
        self.saver = saver
        self.reload_ok = True
        self._clock = clock
        self._observers = observers
        self._interruptible = interruptible
        self._hosts = Hosts()
        self._watch_time = WatchTime(parts.keep_ms)
        self._pace = Pace(parts.fixed_ms)
        self._timeline = Timeline()
        self._slowest = Slowest()
        self._partial = PartialAnswers()
        self._source_clock = SourceClock()
        self._source = Trouble("source", "answers again")
        self._defect = Trouble("step", "works again")
        self._future = Trouble("answers", "hold no sample of the future any more")
        self._answered = False
        self._behind = False
        self._newest_ms: int | None = None
        self._longest_ms = self._pace.interval_ms
        self._started_ms = self.reloaded_ms = clock.now_ms()
        self._cursor = Cursor(self._started_ms - parts.history_ms, parts.longest_ms)
        self.board = Noticeboard(self._published())

    def resume(self) -> None:
        """Continue from the state on disk, where there is one that fits."""
        self.saver.prepare(self._clock.now_ms(), self._clock.monotonic())
        saved = self.saver.load()
        if saved is None:
            return
        document, arrays = saved
        try:
            own = document["service"]
            self._hosts = Hosts(read_episode(part) for part in own["past"])
            self._pace.interval_ms = int(own["interval_ms"])
            self._longest_ms = int(own["longest_interval_ms"])
            # States of versions that did not keep this by day lack it: what they knew cannot be told from one day to another.
            self._watch_time.restore(own.get("watched", ()))
            self.parts.engine.restore(document["engine"], arrays)
        except (KeyError, TypeError, ValueError) as error:
            self.saver.reject(f"what was saved lacks something ({type(error).__name__}: {error})")
        except StateError as error:
            self.saver.reject(str(error))
        else:
            self._rewind("models are back")

    def adopt(self, parts: Parts, *, keep_models: bool, lost: Container[Entity] = ()) -> None:
        """Go on with another configuration; without ``keep_models`` all hosts are learned anew from the past, else the ``lost`` ones from now on."""
        old, self.parts = self.parts, parts
        if old.source is not parts.source:
            old.source.close()
            self._answered = False
        if old.recorder is not None and old.recorder is not parts.recorder:
            old.recorder.close()
        self._pace = Pace(parts.fixed_ms, self._pace.interval_ms)
        self._watch_time.keep_ms = parts.keep_ms
        self._cursor = Cursor(self._cursor.position_ms, parts.longest_ms)
        self._hosts.clear(self._clock.now_ms(), lost if keep_models else None)
        if not keep_models:
            self._cursor = Cursor(self._clock.now_ms() - parts.history_ms, parts.longest_ms)
        elif parts.engine is not old.engine:
            self._rewind("what was learned goes on")

    def turn(self) -> float:
        """Read and score once; give the seconds to wait before the next turn."""
        monotonic = self._clock.monotonic()
        now_ms, jump_ms = self._timeline.now_ms(self._clock.now_ms(), monotonic)
        if jump_ms:
            log.warning(
                "the clock went back by %.1f s; reading goes on from the newest sample, nothing is scored twice",
                jump_ms / 1000,
            )
            self._pace.rest()
        self.counters.add(telemetry.TICKS)
        self._cursor.forget_before(now_ms - max(self.parts.history_ms, self._pace.interval_ms))
        since_ms, until_ms = self._cursor.span(now_ms, self._pace.interval_ms, self._slowest_ms())
        read = self._read(since_ms, until_ms)
        if read is None:
            self._pace.rest()
            self.publish()
            return self._source.pause(self._pace.tick_ms / 1000)
        behind = until_ms < now_ms
        if behind and not self._behind:
            log.info("catching up: the last %.0f s are read first", (now_ms - since_ms) / 1000)
        outputs = self._step(read, until_ms)
        self._slowest.observe(read.batch, until_ms)
        self._cursor.advance(read.batch, since_ms, until_ms, behind=behind)
        self._take(outputs, read.batch, until_ms, behind=behind)
        if self._behind and not behind:
            log.info("caught up: %d windows scored so far", self.counters.value(telemetry.WINDOWS_SCORED))
        self._behind = behind
        self.publish()
        self._save_if_due(at_once=bool(outputs.events or outputs.hushed))
        if self._behind:
            self._pace.rest()
            return 0.0
        self._pace.observe(self._newest_ms, self._hosts.interval_ms(), now_ms)
        return self._wait()

    def publish(self) -> None:
        """Put what is known on the board."""
        self.board.put(self._published())

    def save(self) -> None:
        """Write models and episodes to disk now."""
        engine, arrays = self.parts.engine.snapshot()
        document: dict[str, Any] = {
            "engine": engine,
            "service": {
                "past": [episode_document(episode) for episode in self._hosts.past()],
                "interval_ms": self._pace.interval_ms,
                "longest_interval_ms": self._slowest_ms(),
                "watched": self._watch_time.saved(),
            },
        }
        self.saver.save(document, arrays, self._clock.now_ms(), self._clock.monotonic())

    def close(self) -> None:
        """Save, and give back what the configuration opened."""
        self.save()
        self.parts.source.close()
        if self.parts.recorder is not None:
            self.parts.recorder.close()

    def _read(self, since_ms: int, until_ms: int) -> Read | None:
        began = self._clock.monotonic()
        try:
            with self._interruptible():
                read = self.parts.source.read(since_ms, until_ms)
        except SourceError as error:
            self._failed(error.reason, str(error), error.shown)
            # A server that is not there at all does not mind how much is asked for.
            if error.reason != "unreachable" or self._clock.monotonic() - began > 1.0:
                self._cursor.shrink()
            return None
        except Exception as error:  # noqa: BLE001 - a defect in a source must not end the service; it is named and counted
            if line := shortage(error):
                self._failed("defect", line)
                return None
            name = f"{type(error).__name__} while reading, a defect of the detector"
            self._failed("defect", f"{name}: {error}", f"{name}; its log says more")
            return None
        finally:
            self.counters.observe(telemetry.READ_SECONDS, self._clock.monotonic() - began)
        self._source.worked(self._clock.now_ms(), self._clock.monotonic())
        self._partial.observe(partial=False, monotonic=self._clock.monotonic())
        self._answered = True
        self.counters.add(telemetry.READS)
        self.counters.add(telemetry.READ_SAMPLES, read.batch.times.size)
        self._tell_future(read.future)
        return read

    def _slowest_ms(self) -> int:
        return max(self._hosts.longest_interval_ms() or self._longest_ms, self._slowest.interval_ms)

    def _tell_future(self, count: int) -> None:
        now_ms, monotonic = self._clock.now_ms(), self._clock.monotonic()
        if not count:
            self._future.worked(now_ms, monotonic)
            return
        self.counters.add(telemetry.VALUES_DROPPED, count, "future")
        self._future.failed(
            "samples later than the time that was asked for are left out; no Prometheus gives such: check what answers at source.url",
            now_ms,
            monotonic,
        )

    def _failed(self, reason: str, message: str, shown: str | None = None) -> None:
        self.counters.add(telemetry.READ_ERRORS, 1, reason)
        if reason == SourcePartial.reason:
            self._partial.observe(partial=True, monotonic=self._clock.monotonic())
        self._source.failed(message, self._clock.now_ms(), self._clock.monotonic(), shown)

    def _step(self, read: Read, now_ms: int) -> Outputs:
        began = self._clock.monotonic()
        guidance = self._adviser(now_ms)
        if self.parts.recorder is not None:
            self.parts.recorder.record_guidance(guidance)
            self.parts.recorder.record(now_ms, read)
        try:
            outputs = self.parts.engine.step(read.batch, now_ms, guidance, self._beat)
        except Exception as error:
            self.counters.add(telemetry.STEP_ERRORS)
            self._defect.failed(
                shortage(error) or f"{type(error).__name__} while scoring, a defect of the detector: {error}",
                self._clock.now_ms(),
                self._clock.monotonic(),
            )
            log.debug("step failed", exc_info=True)
            return Outputs()
        self._defect.worked(self._clock.now_ms(), self._clock.monotonic())
        self.counters.observe(telemetry.STEP_SECONDS, self._clock.monotonic() - began)
        return outputs

    def _beat(self) -> None:
        self.board.beat(self._clock.monotonic())

    def _take(self, outputs: Outputs, batch: SampleBatch, until_ms: int, *, behind: bool) -> None:
        monotonic = self._clock.monotonic()
        if batch.times.size:
            newest = min(int(batch.times.max()), until_ms)
            self._newest_ms = newest if self._newest_ms is None else max(self._newest_ms, newest)
            self._timeline.observe(newest, monotonic)
            # A late scrape and a late tick may fall together.
            tolerance = 2.0 * (self._pace.interval_ms + self._pace.tick_ms)
            self._source_clock.observe(newest, monotonic, tolerance)
        if behind:
            self._source_clock.rest()
        self._hosts.take(outputs, monotonic, self._pace.tick_ms)
        self._watch_time.take(outputs, self.parts.step, shadow=self.parts.shadow)
        for report in outputs.reports:
            self._count(report)
        self._count_opened(outputs)
        for observe in self._observers:
            observe(outputs)

    def _count_opened(self, outputs: Outputs) -> None:
        for event in outputs.events:
            if event.phase == "opened":
                self.counters.add(telemetry.EPISODES, 1, str(event.episode.subsystem))
        for hushed in outputs.hushed:
            if hushed.event.phase == "opened":
                self.counters.add(telemetry.EPISODES_NORMAL, 1, hushed.kind)
        for fault in outputs.fault_events:
            if fault.phase == "opened":
                self.counters.add(telemetry.DATA_FAULTS, 1, str(fault.episode.kind))

    def _count(self, report: EntityReport) -> None:
        self.counters.add(telemetry.WINDOWS_SCORED, len(report.scores))
        for reason, count in report.skipped.items():
            family = telemetry.VALUES_DROPPED if reason in telemetry.DROP_REASONS else telemetry.WINDOWS_SKIPPED
            self.counters.add(family, count, reason)
        for reason, count in report.excused.items():
            self.counters.add(telemetry.WINDOWS_EXCUSED, count, reason)
        for change, count in report.changes.items():
            self.counters.add(telemetry.REGIMES, count, change)

    def _wait(self) -> float:
        now_ms, _ = self._timeline.now_ms(self._clock.now_ms(), self._clock.monotonic())
        due_ms, skipped = self._pace.plan(now_ms)
        self.counters.add(telemetry.LATE_TICKS, skipped)
        # Bounded, because a clock that is set while we plan must not put the loop to sleep.
        return min(max((due_ms - now_ms) / 1000, 0.0), 2.0 * self._pace.tick_ms / 1000)

    def _save_if_due(self, *, at_once: bool) -> None:
        if at_once or self.saver.due(self._clock.monotonic()):
            self.save()

    def _rewind(self, what: str) -> None:
        """Begin a few intervals before the last row: rates need the samples before it.

        The last row of a host that is scraped less often than the others is up to one of its own intervals older than the newest of all.
        """
        last = self.parts.engine.last_row_ms()
        if last is not None:
            self._cursor.position_ms = last - min(3 * self._longest_ms, self.parts.longest_ms)
            log.info("state: %s; reading goes on from %.0f s ago", what, (self._clock.now_ms() - last) / 1000)

    def _published(self) -> Published:
        return Published(
            taken=self._clock.monotonic(),
            now_ms=self._clock.now_ms(),
            started_ms=self._started_ms,
            tick_ms=self._pace.tick_ms,
            shadow=self.parts.shadow,
            source=SourceState(
                self.parts.address, self._answered, self._source.failing, self._source.since_ms, self._source.shown
            ),
            hosts=self._hosts.published(self._pace.tick_ms),
            past=self._hosts.past(),
            own=self.counters.samples(),
            last_sample_ms=self._newest_ms,
            catching_up=self._behind,
            source_now_ms=self._source_clock.now_ms(self._clock.monotonic()),
            links=self.parts.links,
            reload_ok=self.reload_ok,
            reloaded_ms=self.reloaded_ms,
            partial=self._partial.score,
        )

"""The program: puts the parts together, runs the loop, obeys signals, ends in order."""

from __future__ import annotations

import gc
import logging
from dataclasses import replace
from pathlib import Path

from threadpoolctl import threadpool_limits

from hwsonde_detector import __version__, logs, telemetry
from hwsonde_detector.clock import Clock, SystemClock
from hwsonde_detector.config import Config, reload_config
from hwsonde_detector.config.web_file import read_web_file
from hwsonde_detector.errors import ArchiveError, ConfigError, StateError
from hwsonde_detector.keys import load_key
from hwsonde_detector.protection import Keeper
from hwsonde_detector.published import Published
from hwsonde_detector.service.desk import Desk
from hwsonde_detector.service.locking import Locks
from hwsonde_detector.service.loop import Loop
from hwsonde_detector.service.parts import Parts
from hwsonde_detector.service.saving import Saver
from hwsonde_detector.service.signals import Signals, Stopped
from hwsonde_detector.service.wiring import build, rebuild
from hwsonde_detector.telemetry import Counters
from hwsonde_detector.web.app import App, Metrics
from hwsonde_detector.web.guard import Guard
from hwsonde_detector.web.history import History
from hwsonde_detector.web.server import WebServer
from hwsonde_detector.writers.exposition import exposition
from hwsonde_detector.writers.text import CONTENT_TYPE

log = logging.getLogger("hwsonde_detector.service")


def run(config: Config, *, config_path: Path | None = None) -> int:
    """Read, score and publish until the process is told to end.

    Parameters
    ----------
    config
        The configuration; SIGHUP reads it again from where it came.
    config_path
        Its file, for the log.

    Returns
    -------
    int
        0 after SIGTERM or SIGINT.

    Raises
    ------
    DetectorError
        Something that only the operator can mend: the address is taken, a profile is wrong, another detector has the folder of the state.
    """
    clock = SystemClock()
    signals = Signals(clock.wake)
    # Before anything is written: from here on a signal ends the program in order.
    signals.install()
    try:
        program = Program(config, clock, signals, config_path)
        return 0 if signals.stop else program.run()
    finally:
        clock.close()
        # The interpreter's last collection walks everything that was ever imported: half a second, and more on a busy host.
        gc.freeze()
        gc.disable()


class Program:
    """One run of the service.

    Parameters
    ----------
    config, clock, signals, config_path
        As in `run`; a test gives its own.
    """

    def __init__(self, config: Config, clock: Clock, signals: Signals, config_path: Path | None = None) -> None:
        self.config = config
        self._clock = clock
        self._signals = signals
        self._path = config_path
        self._counters = Counters()
        self._history = History()
        # Before anything is looked for or made in the folder.
        self._locks = Locks(config.state.dir)
        try:
            self._desk = Desk(config, clock, self._counters, self._history, load_key(config.state.dir))
            self._loop = self._make_loop(build(config))
            # Bound before anything is read, so that a taken port is told at once.
            self._web = self._make_web()
        except BaseException:
            self._locks.release()
            raise

    @property
    def port(self) -> int:
        """The port of the page."""
        return self._web.port

    def run(self) -> int:
        """Turn the loop until told to stop."""
        # One loop, small matrices: more threads in the linear algebra only steal time from the jobs beside us.
        with self._locks, threadpool_limits(limits=1):
            log.info(
                "hwsonde-detector %s: page at port %d, reading %s", __version__, self.port, self._loop.parts.address
            )
            self._loop.resume()
            self._loop.publish()
            self._desk.start(self._loop.board.get().past)
            self._record_start()
            self._web.start()
            try:
                self._turn_until_stopped()
            except Stopped:
                pass
            finally:
                log.info("ending: saving models and episodes")
                self._loop.close()
                self._desk.stop()
                self._web.stop()
        return 0

    def _turn_until_stopped(self) -> None:
        while not self._signals.stop:
            pause = self._loop.turn()
            if self._signals.reload:
                self._signals.reload = False
                self.reload()
            if pause > 0 and not self._signals.stop:
                self._clock.wait(pause)

    def reload(self) -> None:
        """Read the configuration again; a wrong one changes nothing."""
        try:
            config = reload_config(self.config)
            if config.state.dir != self.config.state.dir:
                self._locks.take(config.state.dir)
            change = rebuild(config, self._loop.parts, self.config)
        except (ConfigError, ArchiveError, StateError) as error:
            self._locks.keep(self.config.state.dir)
            self._counters.add(telemetry.RELOADS, 1, "failed")
            self._loop.reload_ok = False
            for line in str(error).splitlines():
                log.error("reload: the old configuration stays: %s", line)  # noqa: TRY400 - one line
            self._loop.publish()
            return
        self._counters.add(telemetry.RELOADS, 1, "ok")
        if config.web != self.config.web:
            log.warning("reload: the section web changes at the next start")
        self._desk.adopt(config, self.config, keep_models=change.keep, lost=change.lost)
        if config.state != self.config.state:
            self._loop.saver = self._make_saver(config)
            self._loop.saver.prepare(self._clock.now_ms(), self._clock.monotonic())
            self._locks.keep(config.state.dir)
        logs.set_up(config.log.level, config.log.format)
        self.config = config
        self._loop.reload_ok, self._loop.reloaded_ms = True, self._clock.now_ms()
        change.parts.engine.plan = change.plan
        old = self._loop.parts
        self._loop.adopt(change.parts, keep_models=change.keep, lost=change.lost)
        if not change.keep:
            self._history.clear()
        if change.parts.engine is not old.engine or change.parts.recorder is not old.recorder:
            # A replay begins with what the engine knows at that moment.
            self._record_start()
        how = "made anew of what was learned" if change.renewed else "kept" if change.keep else "learned anew"
        log.info("reload: the new configuration is in force, models are %s", how)

    def _make_loop(self, parts: Parts) -> Loop:
        return Loop(
            parts,
            self._clock,
            self._counters,
            self._make_saver(self.config),
            observers=(self._history.take, self._desk.book.take),
            interruptible=self._signals.interruptible,
            adviser=self._desk.advice,
        )

    def _make_saver(self, config: Config) -> Saver:
        return Saver(config.state.dir, config.state.save_interval / 1000, self._counters)

    def _make_web(self) -> WebServer:
        web = self.config.web
        pages = self._desk.pages(self._loop.board)
        keeper = Keeper(web.config_file, read_web_file)
        guard = Guard(keeper.refresh, web.without_password)
        metrics = Metrics(CONTENT_TYPE, self._exposition)
        app = App(self._loop.board, self._history, self._clock, metrics, (pages,), guard, self._desk.redactor)
        return WebServer(web.listen.host, web.listen.port, app, keeper.refresh)

    def _exposition(self, published: Published, monotonic: float, now_ms: int) -> bytes:
        return exposition(replace(published, marks=self._desk.book.marks()), monotonic, now_ms)

    def _record_start(self) -> None:
        parts = self._loop.parts
        if parts.recorder is not None:
            if parts.engine.last_row_ms() is None:
                parts.recorder.record_start(None, {})
            else:
                parts.recorder.record_start(*parts.engine.snapshot())

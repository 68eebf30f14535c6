"""Looks at a running stack once a second and says how it is, for people and for programs."""

from __future__ import annotations

import json
import shutil
import time
from contextlib import suppress
from typing import TextIO

from quickstart import pages, readings
from quickstart.fetch import FetchError
from quickstart.layout import url
from quickstart.notes import Notes
from quickstart.pages import Event, PageBook
from quickstart.readings import Health, Monitor
from quickstart.stack import TITLES, Stack
from quickstart.storage import Storage

LINE_SECONDS = 10.0


class Watch:
    """Health of a stack since it was started; `look` is called about once a second.

    Parameters
    ----------
    stack
        A stack that was started.
    """

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.health = Health()
        self.book = PageBook()
        self.storage = Storage(stack.options.data, time.monotonic())
        self._monitor = Monitor(stack.started, stack.settled, stack.options.scrape_timeout_ms / 1000)
        self._notes = Notes()
        self._pages = 0

    def look(self) -> list[Event]:
        """Tend the stack, read it, name what went wrong, and give the events that reached the stand-in since the last look."""
        self.stack.tend()
        now = time.time()
        try:
            found = readings.read(self.stack.options.ports.prometheus)
        except FetchError:
            # Prometheus is away; the supervisor counts it when the program died, the storage when it does not come back.
            found = []
        self.health = self._monitor.update(found, now)
        ticks, held = time.monotonic(), self.stack.holds("prometheus")
        lines = self._notes.take(self.health.news, ticks) + self.storage.look(self._monitor.newest, ticks, held=held)
        for line in lines:
            self.stack.notify(line)
        return self.take_events()

    def take_events(self) -> list[Event]:
        """Give the events that reached the stand-in since the last look."""
        events = self.stack.events.new()
        self.book.add(events)
        return events

    @property
    def errors(self) -> int:
        """Everything that went wrong since the start."""
        stack = self.stack
        return self.health.errors + stack.restarts + stack.failed_starts + self.storage.errors

    def close(self) -> None:
        """Name the errors that were gathered for a later line."""
        for line in self._notes.rest():
            self.stack.notify(line)

    def pages_sent(self) -> int:
        """Pages since the start; with PagerDuty itself, notifications that it took."""
        if self.stack.options.key_file is None:
            return self.book.sent
        with suppress(FetchError):
            self._pages = pages.notifications(self.stack.options.ports.alertmanager)
        return self._pages

    def report(self) -> str:
        """One line of JSON."""
        health = self.health
        return json.dumps(
            {
                "exporter_series": health.exporter_series,
                "collectors_ok": health.collectors_ok,
                "windows_scored": health.windows_scored,
                "max_score": health.max_score,
                "calibrated": health.calibrated,
                "alerts_firing": health.alerts_firing,
                "pages_sent": self.pages_sent(),
                "errors": self.errors,
            }
        )


def addresses(stack: Stack) -> list[str]:
    """One line for each program: what it is and where."""
    ports = stack.options.ports.named()
    return [f"  {url(ports[name], '/'):<26} {TITLES[name]}" for name in TITLES if name in stack.children]


def live_line(watch: Watch) -> str:
    """The state of everything on one line."""
    health = watch.health
    progress = "Prometheus stores nothing" if watch.storage.silent else learning(health)
    parts = [f"{health.exporter_series} series, {health.collectors_ok} collectors", progress]
    if health.score is not None:
        named = f" ({health.subsystem})" if health.score > 1 and health.subsystem else ""
        parts.append(f"score {health.score:.2f}{named}, highest {health.max_score:.2f}")
    parts.append(f"alerts {health.alerts_firing}, pages {watch.pages_sent()}, errors {watch.errors}")
    return " | ".join(parts)


def learning(health: Health) -> str:
    """How far the detector has come."""
    if health.calibrated:
        return "calibrated"
    if not health.learning_needed:
        return "waiting for the first rows"
    if health.learning_rows >= health.learning_needed:
        # Kept ones are told before the first score is.
        return f"{health.learning_rows} rows are learned, waiting for scores"
    return f"learning {health.learning_rows} of {health.learning_needed} rows"


class LiveLine:
    """Shows one line that changes: rewritten in place on a terminal, every ten seconds elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._shown_at = float("-inf")
        self._open = False

    def show(self, text: str, now: float) -> None:
        """Show the line as it is ``now`` (seconds of a monotonic clock)."""
        if self._terminal:
            columns = shutil.get_terminal_size().columns - 1
            self._stream.write(f"\r\x1b[K{text[:columns]}")
            self._open = True
        elif now - self._shown_at >= LINE_SECONDS:
            self._shown_at = now
            self._stream.write(f"{time.strftime('%H:%M:%S')}  {text}\n")
        self._stream.flush()

    def say(self, text: str) -> None:
        """Write a line that stays."""
        self._stream.write(f"\r\x1b[K{text}\n" if self._open else f"{text}\n")
        self._open = False
        self._stream.flush()

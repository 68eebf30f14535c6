"""How far a long run is, in one line on a terminal or a line now and then in a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

from hwsonde_detector.config import format_duration
from hwsonde_detector.past.instants import format_instant

TERMINAL_S = 0.5
LOG_S = 30.0


class Progress:
    """Tells how far a run is.

    Parameters
    ----------
    stream
        Where to; on a terminal one line is written over and over.
    since_ms, end_ms
        The stretch of history that is worked through from now on.
    monotonic
        Seconds.
    word
        What the run is called.
    """

    def __init__(self, stream: TextIO, since_ms: int, end_ms: int, monotonic: Callable[[], float], word: str) -> None:
        self._word = word
        self._stream = stream
        self._since_ms = since_ms
        self._end_ms = end_ms
        self._monotonic = monotonic
        self._terminal = stream.isatty()
        self._began = self._told = monotonic()
        self._width = 0

    def show(self, now_ms: int) -> None:
        """Tell, if it is time, that the run has come to this time of the history."""
        at = self._monotonic()
        if at - self._told < (TERMINAL_S if self._terminal else LOG_S):
            return
        self._told = at
        text = self._text(now_ms, at - self._began)
        if not self._terminal:
            self._stream.write(f"{text}\n")
        else:
            # Blanks over what the last line had more.
            self._stream.write(f"\r{text.ljust(self._width)}")
            self._width = len(text)
        self._stream.flush()

    def close(self) -> None:
        """Take the line off the terminal."""
        if self._width:
            self._stream.write(f"\r{' ' * self._width}\r")
            self._stream.flush()
            self._width = 0

    def _text(self, now_ms: int, seconds: float) -> str:
        done = min(max((now_ms - self._since_ms) / max(self._end_ms - self._since_ms, 1), 0.0), 1.0)
        left = f", about {format_duration(round(seconds * (1 - done) / done) * 1000)} left" if done > 0.01 else ""
        return f"{self._word}: {int(done * 100)} %, at {format_instant(now_ms // 1000 * 1000)}{left}"

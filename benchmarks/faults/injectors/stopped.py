"""Processes that are stopped by a signal: the training, and the exporter itself."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from benchmarks.faults.injectors.base import WORKLOAD, Effect, Injector, Room
from benchmarks.faults.labels import DATA


class Stopped(Injector):
    """The training is stopped: no resource of the host is to blame."""

    kind = "stopped_process"
    subsystems = WORKLOAD
    part = "training"

    def __init__(self) -> None:
        self._pid = 0

    def start(self, room: Room) -> None:
        """Stop it."""
        self._pid = room.pid_of(self.part)
        os.kill(self._pid, signal.SIGSTOP)

    def effect(self, room: Room) -> Effect:
        """Its state."""
        return Effect("stopped processes", float(room.kernel.state(self._pid) == "T"), 1.0)

    def stop(self, room: Room) -> None:
        """Let it go on."""
        del room
        if self._pid:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGCONT)
            self._pid = 0


class ExporterHang(Injector):
    """The bench's own exporter hangs: nothing of the host is wrong, but nothing is known of it."""

    kind = "exporter_hang"
    subsystems = frozenset({DATA})
    # A restart by hand takes half a minute, and is no fault.
    least_seconds = 75.0

    def __init__(self) -> None:
        self._pid = 0

    def missing(self, room: Room) -> str | None:
        """Needs the exporter."""
        return None if room.exporter_pid() else "no exporter runs here"

    def start(self, room: Room) -> None:
        """Stop it."""
        self._pid = room.exporter_pid()
        os.kill(self._pid, signal.SIGSTOP)

    def effect(self, room: Room) -> Effect:
        """Scrapes that are not answered."""
        return Effect("scrapes unanswered", float(not room.exporter_answers()), 1.0)

    def stop(self, room: Room) -> None:
        """Let it go on."""
        del room
        if self._pid:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGCONT)
            self._pid = 0

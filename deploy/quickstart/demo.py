"""`./run demo`: learns this host, makes a real fault on it, and shows score, alert, page and resolve as they happen."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from quickstart import faults, readings
from quickstart.errors import QuickstartError
from quickstart.faults import Fault, Plan
from quickstart.fetch import FetchError
from quickstart.stack import Stack
from quickstart.timeline import Timeline
from quickstart.watch import LiveLine, Watch, learning, live_line

POLL_SECONDS = 0.25
QUIET_LOOKS = 5
QUIET_WINDOWS = 12
RESOLVE_SECONDS = 120.0
PATIENCE = 3.0
BUSY_LOAD = 0.9


def run(stack: Stack, what: Plan, seconds: float, live: LiveLine, say: Callable[[str], None]) -> int:
    """The demo on a stack that runs; status 0 only if the fault was paged, named rightly and resolved.

    Parameters
    ----------
    stack
        Started, with the stand-in for PagerDuty.
    what, seconds
        The fault and how long it lasts.
    live
        Shows progress.
    say
        Gets the lines of the time line.
    """
    watch = Watch(stack)
    wait_calibrated(watch, live)
    wait_quiet(watch, live)
    if what.kind == "cpu" and os.getloadavg()[0] > BUSY_LOAD * faults.cores():
        live.say("This host is busy already; that a few more busy processes stand out is not certain.")
    try:
        line = watch_fault(watch, what, seconds, stack.options.data, say)
    finally:
        watch.close()
    problems = line.problems()
    for problem in problems:
        say(f"demo failed: {problem}")
    if not problems and line.page is not None and line.resolve is not None:
        say(
            f"demo passed: page after {line.page.received - line.onset:.1f} s, {what.subsystem} named, resolved with the same key"
        )
    return 1 if problems else 0


def wait_calibrated(watch: Watch, live: LiveLine) -> None:
    """Wait until the detector has learned enough to page; says how long that takes.

    Raises
    ------
    QuickstartError
        If it takes several times as long.
    """
    watch.look()
    said, end = False, time.monotonic() + 60.0
    while not watch.health.calibrated:
        health, now = watch.health, time.monotonic()
        left = (health.learning_needed - health.learning_rows) * watch.stack.options.scrape_ms / 1000
        # Kept rows are known before the first score says that they suffice.
        if left > 0 and not said:
            said = True
            live.say(
                f"The detector learns what is normal here first: about {left:.0f} s. Leave the machine as it usually is."
            )
            end = now + PATIENCE * left + 60.0
        if now > end:
            raise QuickstartError(f"still {learning(health)}: see {watch.stack.options.logs}/detector.log")
        live.show(live_line(watch), now)
        time.sleep(1.0)
        watch.look()
    if not said:
        live.say("The detector still knows what is normal here: nothing to learn.")


def wait_quiet(watch: Watch, live: LiveLine, patience: float = 180.0) -> None:
    """Wait until scores flow, no episode is open and the host is quiet.

    Raises
    ------
    QuickstartError
        If the host stays busy.
    """
    quiet, end = 0, time.monotonic() + patience
    while quiet < QUIET_LOOKS:
        health = watch.health
        calm = health.score is not None and health.score < 1 and not health.incidents and not health.alerts_firing
        # Nothing is raised in the first rows after a start, which costs the host a little itself.
        quiet = quiet + 1 if calm and not watch.book.open and health.windows_scored >= QUIET_WINDOWS else 0
        if time.monotonic() > end:
            raise QuickstartError(
                "this host does not come to rest, so a fault could not be told apart: try again later"
            )
        live.show(live_line(watch), time.monotonic())
        time.sleep(1.0)
        watch.look()


def watch_fault(watch: Watch, what: Plan, seconds: float, directory: Path, say: Callable[[str], None]) -> Timeline:
    """Make the fault and follow it until its page is resolved, or for two minutes after its end."""
    ports = watch.stack.options.ports
    with Fault(what, seconds, directory) as fault:
        line = Timeline(fault.began, what.subsystem)
        say(line.line(fault.began, f"fault: {what.words}, for {seconds:.0f} s"))
        tended = 0.0
        while line.resolve is None:
            if line.fault_end is None and fault.over() and fault.ended is not None:
                line.fault_end = fault.ended
                say(line.line(line.fault_end, "fault over"))
            if line.fault_end is not None and time.time() > line.fault_end + (RESOLVE_SECONDS if line.page else 15.0):
                break
            events = []
            if time.monotonic() - tended >= 1.0:
                tended = time.monotonic()
                events = watch.look()
            events += watch.take_events()
            try:
                found = readings.read(ports.prometheus)
            except FetchError:
                found = []
            for text in line.see(found, events):
                say(text)
            time.sleep(POLL_SECONDS)
    return line

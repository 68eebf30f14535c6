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
SAY_SECONDS = 20.0
RESOLVE_SECONDS = 120.0
PATIENCE = 3.0
BUSY_LOAD = 0.9
MISSED = (
    "A fault stands out only from what the host did while the detector learned. Where others kept it busy then, or during the fault: "
    "wait until it is quiet, and let it learn anew with `./run demo --data DIR`, DIR being a new folder."
)


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
    if line.page is None:
        say(MISSED)
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
    """Wait until scores flow, nothing of an earlier fault is left and the host is quiet; says what it waits for when that takes long.

    Raises
    ------
    QuickstartError
        If the host stays busy: what it is that does not end.
    """
    quiet, begin, said = 0, time.monotonic(), False
    while quiet < QUIET_LOOKS:
        why, now = unrest(watch), time.monotonic()
        quiet = 0 if why else quiet + 1
        if now - begin > patience:
            raise QuickstartError(
                f"a fault could not be told apart, as this host does not come to rest: {why or 'never for long'}: try again later"
            )
        if why and not said and now - begin > SAY_SECONDS:
            said = True
            live.say(f"Before a fault is made: {why}. Waiting for its end, at most {patience:.0f} s in all.")
        live.show(live_line(watch), now)
        time.sleep(1.0)
        watch.look()


def unrest(watch: Watch) -> str:
    """What would make a fault of now hard to tell apart, in words; empty if nothing."""
    health = watch.health
    # Nothing is raised in the first rows after a start, which costs the host a little itself.
    if health.score is None or health.windows_scored < QUIET_WINDOWS:
        return f"{health.windows_scored} of {QUIET_WINDOWS} windows are scored since the start"
    if health.incidents:
        return f"an incident is open ({', '.join(health.incidents)}), score {health.score:.2f}"
    if health.alerts_firing:
        return "an alert of something earlier is still firing"
    if watch.book.open:
        return "a page of something earlier is not resolved yet"
    return f"the score is {health.score:.2f}, not below 1" if health.score >= 1 else ""


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

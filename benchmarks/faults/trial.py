"""Trying faults one after the other: which of them act on this host."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.faults.errors import BenchError
from benchmarks.faults.injectors.base import Injector
from benchmarks.faults.record import Clock, Host, Recorder

WARM_SECONDS = 5.0
PREPARED_SECONDS = 3.0


def trial(
    host: Host,
    kinds: Mapping[str, Callable[[], Injector]],
    seconds: float,
    clock: Clock,
    say: Callable[[str], None],
) -> int:
    """Make each fault for some seconds; say what was measured.

    Returns
    -------
    int
        0 if every fault that can be made here acted, else 1.
    """
    clock.sleep(WARM_SECONDS)
    idle = 0
    for kind, make in kinds.items():
        injector = make()
        if why := injector.missing(host):
            say(f"{kind:18s} skipped: {why}")
            continue
        try:
            injector.prepare(host)
            clock.sleep(PREPARED_SECONDS)
            injector.start(host)
            clock.sleep(seconds)
            effect = injector.effect(host)
        except (BenchError, OSError) as error:
            idle += 1
            say(f"{kind:18s} failed: {error}")
            continue
        finally:
            Recorder.end(injector, host)
        idle += not effect.acted
        say(f"{kind:18s} {'acted' if effect.acted else 'no effect'}: {effect.words}")
        for words in host.tend():
            say(f"{kind:18s} {words}")
    return int(idle > 0)

"""Signals end what the main thread waits for, whichever thread they reach and whenever they come."""

from __future__ import annotations

import subprocess
import sys

import pytest

# The signal reaches another thread, so no system call of the main thread ends by it: as when it comes a moment before the call.
SCRIPT = """
import signal, socket, sys, threading, time
from hwsonde_detector.service.signals import Signals, Stopped

number = int(sys.argv[1])
woken = []
signals = Signals(lambda: woken.append(True))
signals.install()
reading, writing = socket.socketpair()
reading.settimeout(20)

def tell():
    time.sleep(0.3)
    signal.pthread_kill(threading.get_ident(), number)

threading.Thread(target=tell).start()
began = time.monotonic()
try:
    with signals.interruptible():
        reading.recv(1)
except Stopped:
    print("stopped", time.monotonic() - began < 10, signals.stop, signals.reload, bool(woken))
except TimeoutError:
    print("waited")
"""


@pytest.mark.parametrize("number", [15, 2])
def test_a_signal_to_end_that_another_thread_gets_ends_a_blocking_read(number: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(number)], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("stopped True True False True\n", "")

"""``./run up`` and ``./run demo`` behind the bash script."""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import stat
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from quickstart import demo, faults
from quickstart.errors import QuickstartError
from quickstart.layout import PORT_BASE, Options, Ports, default_data
from quickstart.stack import Stack
from quickstart.watch import LiveLine, Watch, addresses, live_line

KEY_FILE = "HWSONDE_PAGERDUTY_KEY_FILE"
# More than any key with blanks around it.
KEY_BYTES = 4096
KEY = re.compile(rb"[A-Za-z0-9]{32}")
FIRST_SCRAPE_SECONDS = 15.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(BaseException):
    """Somebody asked this program to end; not an error, so that no handler of errors swallows it."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="./run", description="Start hwsonde on loopback, beside its own Prometheus.")
    commands = top.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start everything and show its health")
    up.add_argument("--for", dest="seconds", type=seconds, help="end by itself after so many seconds")
    show = commands.add_parser("demo", help="start everything, make a real fault, show how it is found")
    show.add_argument(
        "--fault", default="cpu", choices=("cpu", "disk", "memory"), help="kind of fault (default: %(default)s)"
    )
    show.add_argument("--seconds", type=seconds, default=25.0, help="how long it lasts (default: 25)")
    for command in (up, show):
        command.add_argument(
            "--port-base", type=int, default=PORT_BASE, help="first of five ports (default: %(default)s)"
        )
        command.add_argument(
            "--data", type=Path, default=default_data(), help="where data is kept (default: %(default)s)"
        )
        command.add_argument(
            "--record", type=Path, help="file that the detector records what it reads to, for a replay"
        )
    return top


def seconds(text: str) -> float:
    """A positive number of seconds."""
    value = float(text)
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text}: give a number of seconds above 0")
    return value


def options(given: argparse.Namespace, key_file: str | None, node: str) -> Options:
    """Options of a stack from the command line and the environment.

    Raises
    ------
    QuickstartError
        If the ports or the file with the key cannot be used.
    """
    key = None
    if key_file and given.command == "up":
        key = Path(key_file).absolute()
        check_key(key)
    record = {"archive": {"record": str(given.record.absolute())}} if given.record else {}
    return Options(
        data=given.data.absolute(),
        ports=Ports.from_base(given.port_base),
        node=node,
        key_file=key,
        detector=record,
    )


def check_key(path: Path) -> None:
    """Refuse a file that cannot hold an integration key; what it holds is never shown.

    Raises
    ------
    QuickstartError
        Naming the file and what is wrong with it.
    """
    try:
        # Without waiting for the other end of a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            content = os.read(descriptor, KEY_BYTES + 1) if regular else b""
        finally:
            os.close(descriptor)
    except OSError as error:
        raise QuickstartError(f"{KEY_FILE}: {path} cannot be read: {error.strerror}") from error
    if not regular:
        raise QuickstartError(f"{KEY_FILE}: {path} is not a file: put the integration key of PagerDuty into one")
    if not content.strip():
        raise QuickstartError(f"{KEY_FILE}: {path} is empty: put the integration key of PagerDuty there")
    if len(content) > KEY_BYTES or not KEY.fullmatch(content.strip()):
        raise QuickstartError(
            f"{KEY_FILE}: {path} holds no integration key of PagerDuty: it is one line of 32 letters and digits"
        )


def introduce(stack: Stack, live: LiveLine) -> None:
    """Say where everything is."""
    live.say(f"hwsonde runs on this host ({stack.options.node}); all of it listens on loopback only:")
    for line in addresses(stack):
        live.say(line)
    if stack.options.key_file is None:
        live.say(f"Pages go to the stand-in, to nobody's phone. To page for real, set {KEY_FILE} and start `up` again.")
    else:
        live.say("Pages go to PagerDuty, with the key that was configured.")
    live.say(f"Data and logs: {stack.options.data}")


def watch_until(stack: Stack, duration: float | None, live: LiveLine) -> None:
    """Show health until the time is over, then print one line of JSON; without a time, until somebody ends it."""
    watch = Watch(stack)
    try:
        # Prometheus begins to scrape up to five seconds after it is ready; the time counts from what it scraped first.
        patience = time.monotonic() + FIRST_SCRAPE_SECONDS
        while not watch.health.exporter_series and time.monotonic() < patience:
            time.sleep(0.25)
            watch.look()
        end = time.monotonic() + duration if duration else float("inf")
        while (left := end - time.monotonic()) > 0:
            watch.look()
            live.show(live_line(watch), time.monotonic())
            time.sleep(min(1.0, max(left, 0.0)))
        watch.look()
    finally:
        watch.close()
    live.say(live_line(watch))
    print(watch.report(), flush=True)


def stop_here(number: int, frame: FrameType | None) -> NoReturn:
    """Leave by an exception once; while everything ends, further signals change nothing."""
    del frame
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise Ended(number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; errors of the tree are one line and status 1."""
    given = parser().parse_args(arguments)
    live = LiveLine(sys.stderr)
    for each in SIGNALS:
        signal.signal(each, stop_here)
    try:
        chosen = options(given, os.environ.get(KEY_FILE), socket.gethostname() or "localhost")
        what = None
        if given.command == "demo":
            meminfo = Path("/proc/meminfo").read_text(encoding="ascii")
            what = faults.plan(given.fault, faults.cores(), faults.available_memory(meminfo))
        with Stack(chosen, live.say) as stack:
            introduce(stack, live)
            if what is not None:
                return demo.run(stack, what, given.seconds, live, print_line)
            watch_until(stack, given.seconds, live)
    except QuickstartError as error:
        live.say(f"run: {error}")
        return 1
    except Ended:
        live.say("ended")
        return 130 if given.command == "demo" else 0
    return 0


def print_line(text: str) -> None:
    """A line of the demo's time line, on standard output at once."""
    print(text, flush=True)

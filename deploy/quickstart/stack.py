"""The supervisor: starts the programs in order, keeps them running, ends them together."""

from __future__ import annotations

import fcntl
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import IO, Self

from quickstart import configs, storage
from quickstart.child import BackOff, Child, Program, bound_log
from quickstart.errors import QuickstartError
from quickstart.fetch import answers
from quickstart.layout import LOOPBACK, ROOT, Options, url
from quickstart.pages import EventLog

OLDEST_PROMETHEUS = (2, 42)
READY_SECONDS = 60.0
STOP_SECONDS = 6.0
TITLES = {
    "exporter": "exporter",
    "detector": "detector, the page to look at",
    "prometheus": "Prometheus",
    "alertmanager": "Alertmanager",
    "events": "stand-in for PagerDuty",
}


def find_tool(names: tuple[str, ...], package: str) -> str:
    """Path of the first of some names of a program that is installed.

    Raises
    ------
    QuickstartError
        If there is none.
    """
    for name in names:
        if path := shutil.which(name):
            return path
    raise QuickstartError(f"{names[0]} is not installed: install the package {package}, or start by ./run up")


def check_prometheus(version: str) -> None:
    """Refuse a Prometheus that does not know the rules' ``keep_firing_for``.

    Raises
    ------
    QuickstartError
        Naming the version found and the one needed.
    """
    found = re.search(r"version (\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) < OLDEST_PROMETHEUS:
        raise QuickstartError(f"Prometheus {found[1]}.{found[2]} is too old: 2.42 or newer is needed")


def programs(options: Options) -> list[Program]:
    """The programs in the order in which they start.

    Raises
    ------
    QuickstartError
        If Prometheus or Alertmanager is not installed, or too old.
    """
    prometheus = find_tool(("prometheus",), "prometheus")
    alertmanager = find_tool(("prometheus-alertmanager", "alertmanager"), "prometheus-alertmanager")
    try:
        version = subprocess.run([prometheus, "--version"], capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise QuickstartError(f"{prometheus} does not run: {error}") from error
    check_prometheus(version.stdout + version.stderr)
    ports, config, data = options.ports, options.config, options.data
    python = {"PYTHONPATH": f"{ROOT / 'exporter'}:{ROOT / 'detector_sidecar'}", "PYTHONUNBUFFERED": "1"}
    found = [
        Program(
            "exporter",
            (
                sys.executable,
                "-P",
                "-m",
                "hwsonde_exporter",
                f"--web.listen-address={LOOPBACK}:{ports.exporter}",
                *options.exporter,
            ),
            ports.exporter,
            "/-/ready",
            python,
        ),
        Program(
            "alertmanager",
            (
                alertmanager,
                f"--config.file={config / 'alertmanager.yml'}",
                f"--storage.path={data / 'alertmanager'}",
                f"--web.listen-address={LOOPBACK}:{ports.alertmanager}",
                f"--web.external-url={url(ports.alertmanager)}",
                "--cluster.listen-address=",
                # Whom it has paged it writes down this often: killed before, it would never tell that it is over.
                "--data.maintenance-interval=5s",
                "--log.level=warn",
            ),
            ports.alertmanager,
            "/-/ready",
        ),
        Program(
            "prometheus",
            (
                prometheus,
                f"--config.file={config / 'prometheus.yml'}",
                f"--storage.tsdb.path={data / 'prometheus'}",
                "--storage.tsdb.retention.time=6h",
                "--storage.tsdb.retention.size=1GB",
                f"--web.listen-address={LOOPBACK}:{ports.prometheus}",
                f"--web.external-url={url(ports.prometheus)}",
                "--log.level=warn",
            ),
            ports.prometheus,
            "/-/ready",
        ),
        # Last: its first read finds a Prometheus that answers.
        Program(
            "detector",
            (sys.executable, "-P", "-m", "hwsonde_detector", "run", f"--config.file={config / 'detector.yml'}"),
            ports.detector,
            "/-/healthy",
            python,
        ),
    ]
    if options.key_file is None:
        receiver = ("-m", "tests.fakes.events", f"--port={ports.events}", f"--log={options.events_log}")
        found.insert(
            1,
            Program("events", (sys.executable, "-P", *receiver), ports.events, "/-/healthy", {"PYTHONPATH": str(ROOT)}),
        )
    return found


def port_is_free(port: int) -> bool:
    """Whether a program could listen on this loopback port now."""
    with socket.socket() as probe:
        # As the programs themselves do: connections that are only winding down do not hold a port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


class Stack:
    """Exporter, Prometheus, Alertmanager, detector and, without a PagerDuty key, the stand-in for PagerDuty.

    A context manager: entering starts all and waits until they work, leaving ends all.

    Parameters
    ----------
    options
        Ports, directories, configuration.
    notify
        Gets one line for every event that a user should know of.
    """

    def __init__(self, options: Options, notify: Callable[[str], None]) -> None:
        self.options = options
        self.notify = notify
        self.children: dict[str, Child] = {}
        self.restarts = self.failed_starts = 0
        self.started = self.settled = 0.0
        self.events = EventLog(options.events_log)
        self._held: set[str] = set()
        self._backoff: dict[str, BackOff] = {}
        self._since: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self._lock: IO[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything and wait until it works.

        Raises
        ------
        QuickstartError
            If the data directory is in use or cannot be written, a port is taken, or a program does not come up; nothing is left running.
        """
        try:
            self._prepare()
            for program in programs(self.options):
                self.children[program.name] = Child(program, self.options.logs / f"{program.name}.log", ROOT)
            bound_log(self.options.events_log)
            self.events = EventLog(self.options.events_log)
            self.started = time.time()
            for name in self.children:
                # The detector reads from Prometheus at once; all others come up side by side.
                if name == "detector":
                    self.wait_ready([other for other in self.children if other != "detector"])
                self.run(name)
            self.wait_ready(list(self.children))
            # A scrape that began before may still fail.
            self.settled = time.time()
        except BaseException:
            self.stop()
            raise

    def _prepare(self) -> None:
        options = self.options
        try:
            storage.check_places(options, TITLES)
            options.logs.mkdir(parents=True, exist_ok=True)
            self._lock = (options.data / "lock").open("ab")
        except OSError as error:
            raise QuickstartError(
                f"{options.data} cannot be written ({error.strerror}): give another place with --data DIR"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise QuickstartError(
                f"another hwsonde runs on {options.data}: end it, or give another place with --data DIR"
            ) from None
        for name, port in options.ports.named().items():
            if (name != "events" or options.key_file is None) and not port_is_free(port):
                raise QuickstartError(f"port {port} ({name}) is taken: choose others with --port-base N")
        if line := storage.lack(options.data):
            raise QuickstartError(line)
        try:
            configs.write(options)
        except OSError as error:
            place = error.filename2 or error.filename or options.config
            raise QuickstartError(f"{place}: {error.strerror}: mend that, {storage.ELSEWHERE}") from error

    def run(self, name: str) -> None:
        """Start one program, also one that `hold` stopped.

        Raises
        ------
        QuickstartError
            If its log cannot be written, or the system gives no process.
        """
        self._held.discard(name)
        self._due.pop(name, None)
        self._since[name] = time.monotonic()
        child = self.children[name]
        child.bound_log()
        try:
            child.start()
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            raise QuickstartError(f"{name} cannot be started: {place}{error.strerror}") from error

    def hold(self, name: str) -> None:
        """Stop one program and leave it stopped."""
        self._held.add(name)
        self.children[name].stop(STOP_SECONDS)

    def holds(self, name: str) -> bool:
        """Whether a program is stopped on purpose."""
        return name in self._held

    def restart(self, name: str) -> None:
        """Stop one program, start it again and wait until it works."""
        self.hold(name)
        self.run(name)
        self.wait_ready([name])

    def wait_ready(self, names: list[str], seconds: float = READY_SECONDS) -> None:
        """Wait until these programs work.

        Raises
        ------
        QuickstartError
            If one of them ended or is not ready in time; with its last words.
        """
        end = time.monotonic() + seconds
        for name in names:
            child = self.children[name]
            while not answers(child.program.port, child.program.ready):
                if child.status() is not None:
                    said = child.last_words() or f"it said nothing, status {child.status()}"
                    raise QuickstartError(f"{name} ended at its start: {said} (log: {child.log})")
                if time.monotonic() > end:
                    raise QuickstartError(f"{name} is not ready after {seconds:.0f} s: see {child.log}")
                time.sleep(0.05)

    def tend(self) -> None:
        """Start again what died, keep logs small; call it about once a second. What cannot be started is tried again later."""
        now = time.monotonic()
        for name, child in self.children.items():
            child.bound_log()
            if name in self._held:
                continue
            if name in self._due:
                if now >= self._due[name]:
                    self._start_again(name)
                continue
            status = child.status()
            if status is None:
                continue
            self.restarts += 1
            delay = self._delay(name)
            ended = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
            said = f": {words}" if (words := child.last_words()) else ""
            self.notify(f"{name} {ended}, starting it again in {delay:.0f} s{said} (log: {child.log})")

    def _start_again(self, name: str) -> None:
        try:
            self.run(name)
        except QuickstartError as error:
            self.failed_starts += 1
            self.notify(f"{error}; trying again in {self._delay(name):.0f} s")

    def _delay(self, name: str) -> float:
        """Plan the next start of a program that is down; give the seconds until then."""
        now = time.monotonic()
        delay = self._backoff.setdefault(name, BackOff()).next_delay(now - self._since[name])
        self._due[name] = now + delay
        return delay

    def stop(self) -> None:
        """End everything: ask all at once, kill what does not end in time."""
        self._held.update(self.children)
        end = time.monotonic() + STOP_SECONDS
        for child in self.children.values():
            child.signal(signal.SIGTERM)
        for name, child in self.children.items():
            if not child.wait(end - time.monotonic()):
                self.notify(f"{name} did not end in {STOP_SECONDS:.0f} s and is killed (log: {child.log})")
                child.kill()
                child.wait(STOP_SECONDS)
        if self._lock is not None:
            with suppress(OSError):
                self._lock.close()
            self._lock = None

"""Tells a program of incidents: a command or a webhook, within what `policy` allows, with a line for every decision."""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import urlsplit

import requests
import urllib3.exceptions

from hwsonde_detector.clock import Clock
from hwsonde_detector.errors import DetectorError
from hwsonde_detector.incidents.audit import append_record, read_audit, read_unfinished
from hwsonde_detector.incidents.entry import Entry
from hwsonde_detector.incidents.policy import Act, Budget, Policy, Why

log = logging.getLogger("hwsonde_detector.automation")

FILE_NAME = "automation.log"
_QUEUED = 1000
_STOP_S = 2.0
_SAID = 200
_READ = 4096
# Incidents that nothing was to be done for in any case: a line in the log each, so that nobody wonders, and no more.
_PASSED_OVER = {
    Why.NOT_PAGED: "nobody was paged",
    Why.SCOPE: "automation.scopes leaves out what reaches so far",
    Why.SUBSYSTEM: "automation.subsystems leaves out its part",
    Why.PEAK: "its score is below automation.least_peak",
    Why.OLD: "it was told of more than ten minutes ago",
}
_REMEMBERED = 1000


class ActionError(Exception):
    """An action failed; one line."""


class Action(Protocol):
    """What is done."""

    @property
    def words(self) -> str:
        """What it is, for people; no secret in it."""

    def run(self, told: Mapping[str, Any]) -> None:
        """Do it; raises `ActionError`."""


@dataclass(frozen=True, slots=True)
class Command:
    """Runs a program: the incident as JSON on its standard input and in its environment, no shell, bounded in time.

    It is over when the program itself ends. What it left in the background goes on.

    ``arguments`` begin with the program's path; of what they hold ``{host}``, ``{node}`` and other entity labels in braces, ``{id}``, ``{subsystem}``
    and ``{device}`` are replaced, each within its own argument.
    """

    arguments: tuple[str, ...]
    timeout_s: float

    @property
    def words(self) -> str:
        """The program; its arguments may hold what is secret."""
        return self.arguments[0]

    def run(self, told: Mapping[str, Any]) -> None:
        """Run it and wait."""
        known = {**told["labels"], "host": told["host"], "id": told["id"], "subsystem": told["subsystem"]}
        known["device"] = told["device"]["name"] if told["device"] else ""
        arguments = [filled(part, known) for part in self.arguments]
        places = {f"HWSONDE_{name.upper()}": value.replace("\0", "") for name, value in known.items()}
        try:
            # Files and no pipes: whatever goes on in the background may hold them for as long as it likes.
            with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
                given.write(json.dumps(told).encode())
                given.seek(0)
                child = subprocess.Popen(  # noqa: S603 - the operator's own program, without a shell
                    arguments,
                    env={**os.environ, **places},
                    stdin=given,
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                    start_new_session=True,
                )
                with child:
                    self._wait(child)
                err = _tail(said) if child.returncode else ""
        except (OSError, ValueError) as error:
            raise ActionError(f"it cannot be run: {getattr(error, 'strerror', None) or error}") from None
        if child.returncode:
            raise ActionError(f"it ended with {child.returncode}{f': {err}' if err else ''}")

    def _wait(self, child: subprocess.Popen[bytes]) -> None:
        """Wait for the program itself, and for nothing that it left in the background; end it, with all that it started, where it takes too long."""
        try:
            child.wait(self.timeout_s)
        except subprocess.TimeoutExpired:
            if child.poll() is not None:
                return
            with suppress(OSError):
                os.killpg(child.pid, signal.SIGKILL)
            raise ActionError(f"it did not end within {self.timeout_s:g} s and was ended") from None


def _tail(said: IO[bytes]) -> str:
    """The end of what a program said, on one line; what is still running may go on writing."""
    size = os.fstat(said.fileno()).st_size
    # Not by seeking: the place in the file is that of the writers, too.
    text = os.pread(said.fileno(), _READ, max(size - _READ, 0)).decode("utf-8", "replace")
    return " ".join(text.split())[-_SAID:]


@dataclass(frozen=True, slots=True)
class Webhook:
    """Sends the incident as JSON by POST; ``token`` gives what stands behind ``Authorization: Bearer``, None: nothing."""

    url: str
    timeout_s: float
    token: Callable[[], str] | None = None

    @property
    def words(self) -> str:
        """Whom it is sent to; the path of the address may hold what is secret."""
        parts = urlsplit(self.url)
        return f"POST {parts.scheme}://{parts.hostname}"

    def run(self, told: Mapping[str, Any]) -> None:
        """Send it and wait for the answer."""
        try:
            headers = {"Authorization": f"Bearer {self.token()}"} if self.token is not None else {}
            with requests.Session() as session:
                session.trust_env = False
                answer = session.post(
                    self.url,
                    json=dict(told),
                    headers=headers,
                    timeout=self.timeout_s,
                    allow_redirects=False,
                    stream=True,
                )
                status = answer.status_code
        except DetectorError as error:
            raise ActionError(str(error)) from None
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise ActionError(f"nobody takes it ({type(error).__name__})") from None
        if not 200 <= status < 300:
            raise ActionError(f"it was answered by {status}")


def filled(text: str, known: Mapping[str, str]) -> str:
    """A text with ``{name}`` replaced where the name is known; what is put in is not looked at again."""
    parts: list[str] = []
    while (start := text.find("{")) >= 0:
        end = text.find("}", start)
        name = text[start + 1 : end] if end > start else ""
        if name not in known:
            parts.append(text[: start + 1])
            text = text[start + 1 :]
            continue
        parts += [text[:start], known[name]]
        text = text[end + 1 :]
    return "".join([*parts, text])


class Automation:
    """Decides on incidents as they are told of, and acts in a thread of its own.

    Parameters
    ----------
    actions
        What is done, in order.
    policy
        What is allowed.
    clock
        Time.
    audit
        File to append every decision to, as JSON lines; None: the log alone has them.
    tell
        Gives what a program is told of an incident.
    count
        Told what became of each: done, failed, dry_run, refused.
    """

    def __init__(
        self,
        actions: Sequence[Action],
        policy: Policy,
        clock: Clock,
        audit: Path | None,
        tell: Callable[[Entry], Mapping[str, Any]],
        count: Callable[[str], None],
    ) -> None:
        self._actions = tuple(actions)
        self._policy = policy
        self._clock = clock
        self._audit = audit
        self._tell = tell
        self._count = count
        self._budget = Budget()
        self._passed_over: OrderedDict[str, None] = OrderedDict()
        self._begun: Entry | None = None
        self._over = False
        self._queue: queue.Queue[Entry | None] = queue.Queue(_QUEUED)
        self._thread = threading.Thread(target=self._run, name="automation", daemon=True)

    def start(self) -> None:
        """Read what was done before, and act from now on."""
        if self._audit is not None:
            self._budget.remember(read_audit(self._audit, dry_run=self._policy.dry_run))
            for act in read_unfinished(self._audit):
                self._tell_unfinished(act)
        self._thread.start()

    def stop(self) -> None:
        """Act no more; what is under way is not waited for beyond a moment."""
        if not self._thread.is_alive():
            return
        with suppress(queue.Full):
            self._queue.put_nowait(None)
        self._thread.join(_STOP_S)
        self._over = True
        entry = self._begun
        if entry is not None:
            # Not ended with us: a drain may be what ends us.
            log.warning(
                "begun %s (%s) and not over: it is not waited for, and nobody ends it after automation.timeout",
                entry.host,
                entry.id,
            )

    def hear(self, entry: Entry, what: str) -> None:
        """An incident was opened or closed; called by the loop, never waits."""
        if what != "opened":
            return
        try:
            self._queue.put_nowait(entry)
        except queue.Full:
            log.warning("incident %s is passed over: too many wait", entry.id)

    def handle(self, entry: Entry) -> None:
        """Decide on one incident and act."""
        now_ms = self._clock.now_ms()
        why = self._budget.decide(entry, self._policy, now_ms)
        if why in _PASSED_OVER:
            self._pass_over(entry, _PASSED_OVER[why])
            return
        if why not in (Why.ACT, Why.DRY_RUN):
            self._note(entry, now_ms, "refused", f"nothing is done: {why}")
            return
        told = self._tell(entry)
        if why is Why.DRY_RUN:
            for action in self._actions:
                self._note(entry, now_ms, "dry_run", f"dry run, would do: {action.words}")
            return
        if not self._begin(entry, now_ms):
            return
        self._begun = entry
        try:
            self._act(entry, now_ms, told)
        finally:
            self._begun = None

    def _act(self, entry: Entry, now_ms: int, told: Mapping[str, Any]) -> None:
        for action in self._actions:
            if self._over:
                # The next start tells that this has no end.
                return
            try:
                action.run(told)
            except ActionError as error:
                self._note(entry, now_ms, "failed", f"{action.words}: {error}")
            else:
                self._note(entry, now_ms, "done", action.words)

    def _begin(self, entry: Entry, now_ms: int) -> bool:
        """Write that it is acted on before it is, so that it counts whatever becomes of this process; False where that cannot be written."""
        words = ", ".join(action.words for action in self._actions)
        try:
            self._record(now_ms, "begun", Act(now_ms, entry.host, entry.id), words)
        except OSError as error:
            self._budget.take_back(entry.id)
            self._count("refused")
            log.error(  # noqa: TRY400 - one line
                "refused %s (%s): nothing is done: %s cannot be written (%s), by which the limits are kept after a restart; make room there",
                entry.host,
                entry.id,
                self._audit,
                error.strerror or error,
            )
            return False
        log.info("begun %s (%s): %s", entry.host, entry.id, words)
        return True

    def _tell_unfinished(self, act: Act) -> None:
        """Say once that the end of something will never be known."""
        text = "no end of it was written: whether it worked is not known, and it is not tried again"
        log.warning("begun %s (%s): %s", act.host, act.incident, text)
        with suppress(OSError):
            self._record(self._clock.now_ms(), "unknown", act, text)

    def _pass_over(self, entry: Entry, reason: str) -> None:
        if entry.id in self._passed_over:
            return
        self._passed_over[entry.id] = None
        while len(self._passed_over) > _REMEMBERED:
            self._passed_over.popitem(last=False)
        log.info("passed over %s (%s): %s", entry.host, entry.id, reason)

    def _note(self, entry: Entry, now_ms: int, result: str, text: str) -> None:
        self._count(result)
        level = logging.ERROR if result == "failed" else logging.WARNING if result == "refused" else logging.INFO
        log.log(level, "%s %s (%s): %s", result, entry.host, entry.id, text)
        try:
            self._record(now_ms, result, Act(now_ms, entry.host, entry.id), text)
        except OSError as error:
            log.warning("%s: not written (%s)", self._audit, error.strerror or error)

    def _record(self, now_ms: int, result: str, act: Act, text: str) -> None:
        """Append to the audit file, on the disk when this returns; raises OSError."""
        if self._audit is not None:
            append_record(self._audit, now_ms, result, act, text, len(self._actions))

    def _run(self) -> None:
        while (entry := self._queue.get()) is not None:
            if self._over:
                return
            try:
                self.handle(entry)
            except Exception as error:  # noqa: BLE001 - a defect here must not end the acting
                log.error("incident %s: %s: %s, a defect", entry.id, type(error).__name__, error)  # noqa: TRY400

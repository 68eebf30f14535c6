"""What protects the listeners now: the file of ``--web.config.file`` and what it names, read again when they change."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from hwsonde_exporter.errors import ConfigError
from hwsonde_exporter.passwords import Passwords, bcrypt_check
from hwsonde_exporter.tls import make_context, notes
from hwsonde_exporter.web_config import RateLimit, TlsConfig, WebConfig, load_web_config

_LOG = logging.getLogger(__name__)

# A connection looks for changed files no more often than this.
_LOOK_SECONDS = 1.0
_RESTART = "that would open the exporter to all, so it takes a restart"

Stamp = tuple[int, int, int, int] | None


@dataclass(frozen=True, slots=True)
class Protection:
    """What holds at one moment; None stands for what is not asked for."""

    context: ssl.SSLContext | None = field(default=None, repr=False)
    allowed_sans: frozenset[str] | None = None
    passwords: Passwords | None = field(default=None, repr=False)
    limiter: Limiter | None = None
    headers: tuple[tuple[str, str], ...] = ()


OPEN = Protection()


class Limiter:
    """A bucket of ``burst`` tokens, one more each ``interval`` seconds; a request takes one."""

    def __init__(self, rate: RateLimit, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens = float(rate.burst)
        self._then = clock()

    def admits(self) -> bool:
        """Whether there is a token; takes it."""
        with self._lock:
            now = self._clock()
            self._tokens = min(self._rate.burst, self._tokens + (now - self._then) / self._rate.interval)
            self._then = now
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True


class Keeper:
    """Holds the present protection and takes over changed files; a broken one changes nothing.

    Parameters
    ----------
    path
        The file; None keeps the exporter open to all.
    clock
        Monotonic seconds.

    Raises
    ------
    ConfigError
        If the file or one that it names is wrong at the start.
    """

    def __init__(self, path: Path | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._config = WebConfig()
        self._stamps: dict[Path, Stamp] = {}
        self._looked = clock()
        self._complaint = ""
        self.current = OPEN
        if path is not None:
            self._take_over(path)

    @property
    def success(self) -> bool:
        """Whether what holds is what the files say."""
        return not self._complaint

    def refresh(self) -> Protection:
        """Give the present protection, after a look at the files if the last one is a second old."""
        path = self._path
        if path is not None and self._clock() - self._looked >= _LOOK_SECONDS and self._lock.acquire(blocking=False):
            try:
                self._looked = self._clock()
                if any(_stamp(file) != stamp for file, stamp in self._stamps.items()):
                    self._try(path)
            finally:
                self._lock.release()
        return self.current

    def reload(self) -> bool:
        """Read everything again, changed or not; gives whether it was sound."""
        if self._path is not None:
            with self._lock:
                self._looked = self._clock()
                self._try(self._path)
        return self.success

    def _try(self, path: Path) -> None:
        try:
            self._take_over(path)
        except ConfigError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                _LOG.error("TLS and users stay as they were: %s", error)
        else:
            self._complaint = ""
            _LOG.info("TLS and users read again from %s", path)

    def _take_over(self, path: Path) -> None:
        # Taken before reading: a file that changes meanwhile is read once more.
        self._stamps = _stamps((path, *_files(self._config.tls)))
        config = load_web_config(path)
        self._stamps |= {file: self._stamps.get(file, _stamp(file)) for file in _files(config.tls)}
        if self._config.tls is not None and config.tls is None:
            raise ConfigError(f"{path}: tls_server_config is gone; {_RESTART}")
        if self._config.users and not config.users:
            raise ConfigError(f"{path}: basic_auth_users are gone; {_RESTART}")
        context = make_context(config.tls) if config.tls is not None else None
        self._note(config)
        sans = config.tls.allowed_sans if config.tls is not None else None
        self.current = Protection(
            context,
            frozenset(sans) if sans is not None else None,
            self._passwords(config),
            self._limiter(config),
            config.headers,
        )
        self._config = config
        self._stamps = {file: self._stamps[file] for file in (path, *_files(config.tls))}

    def _passwords(self, config: WebConfig) -> Passwords | None:
        """Keep what is remembered where the users are the same; a changed hash forgets it."""
        if not config.users:
            return None
        if config.users == self._config.users:
            return self.current.passwords
        return Passwords(config.users, bcrypt_check(), self._clock)

    def _limiter(self, config: WebConfig) -> Limiter | None:
        if config.rate is None:
            return None
        return self.current.limiter if config.rate == self._config.rate else Limiter(config.rate, self._clock)

    def _note(self, config: WebConfig) -> None:
        found = [*config.notes, *(notes(config.tls) if config.tls is not None else ())]
        before = [*self._config.notes, *(notes(self._config.tls) if self._config.tls is not None else ())]
        for line in found:
            if line not in before:
                _LOG.warning("%s: %s", self._path, line)


def _files(tls: TlsConfig | None) -> tuple[Path, ...]:
    return tls.files if tls is not None else ()


def _stamps(paths: Iterable[Path]) -> dict[Path, Stamp]:
    return {path: _stamp(path) for path in paths}


def _stamp(path: Path) -> Stamp:
    """What changes when a file does, also where only a link to it is turned, as mounted secrets are."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino

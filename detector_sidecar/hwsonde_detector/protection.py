"""Who may read the page, and how the connection is protected: TLS and passwords, taken over again when their files change."""

from __future__ import annotations

import logging
import os
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hwsonde_detector.errors import ConfigError
from hwsonde_detector.passwords import Passwords

log = logging.getLogger("hwsonde_detector.web")

_VERSIONS = {
    "TLS10": ssl.TLSVersion.TLSv1,
    "TLS11": ssl.TLSVersion.TLSv1_1,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}
VERSIONS = tuple(_VERSIONS)
CLIENT_AUTH = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
# Files are looked at no more often than this.
_LOOK_S = 1.0

Stamp = tuple[int, int, int, int] | None


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """``tls_server_config``: certificate, key, and what is asked of clients.

    ``sans`` are names of which a client's certificate must have one; None: any.
    """

    cert: Path
    key: Path
    client_ca: Path | None = None
    client_auth: str = "NoClientCert"
    sans: frozenset[str] | None = None
    minimum: str = "TLS12"
    maximum: str = "TLS13"

    @property
    def files(self) -> tuple[Path, ...]:
        """All files."""
        return tuple(file for file in (self.cert, self.key, self.client_ca) if file is not None)


@dataclass(frozen=True, slots=True)
class WebFile:
    """The whole file: TLS, bcrypt hashes by user, and headers of every answer."""

    tls: TlsFiles | None = None
    users: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Protection:
    """What holds at one moment; None stands for what is not asked for."""

    context: ssl.SSLContext | None = field(default=None, repr=False)
    sans: frozenset[str] | None = None
    passwords: Passwords | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = ()


OPEN = Protection()


class Keeper:
    """Holds the present protection and takes over changed files; a broken one changes nothing.

    Parameters
    ----------
    path
        The file; None: everything is open.
    read
        Reads it; raises `ConfigError`.
    clock
        Monotonic seconds.

    Raises
    ------
    ConfigError
        The file or one that it names is wrong at the start.
    """

    def __init__(
        self, path: Path | None, read: Callable[[Path], WebFile], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._file = WebFile()
        self._stamps: dict[Path, Stamp] = {}
        self._looked = clock()
        self._complaint = ""
        self.current = OPEN
        if path is not None:
            self._take_over(path)

    def refresh(self) -> Protection:
        """Give the present protection, after a look at the files if the last one is a second old."""
        path = self._path
        if path is not None and self._clock() - self._looked >= _LOOK_S and self._lock.acquire(blocking=False):
            try:
                self._looked = self._clock()
                if any(_stamp(file) != stamp for file, stamp in self._stamps.items()):
                    self._try(path)
            finally:
                self._lock.release()
        return self.current

    def _try(self, path: Path) -> None:
        try:
            self._take_over(path)
        except ConfigError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.error("TLS and users stay as they were: %s", error)  # noqa: TRY400 - one line
        else:
            self._complaint = ""
            log.info("TLS and users are read again from %s", path)

    def _take_over(self, path: Path) -> None:
        # Taken before reading: a file that changes meanwhile is read once more.
        stamps = {file: _stamp(file) for file in (path, *(self._file.tls.files if self._file.tls else ()))}
        file = self._read(path)
        files = (path, *(file.tls.files if file.tls else ()))
        self._stamps = {one: stamps.get(one, _stamp(one)) for one in files}
        if (self._file.tls and not file.tls) or (self._file.users and not file.users):
            raise ConfigError(
                f"{path}: TLS or the users are gone; that would open the page to all, so it takes a restart"
            )
        passwords = self.current.passwords
        if file.users != self._file.users:
            passwords = Passwords(file.users, self._clock) if file.users else None
        context = make_context(file.tls) if file.tls else None
        self.current = Protection(context, file.tls.sans if file.tls else None, passwords, file.headers)
        self._file = file


def make_context(tls: TlsFiles) -> ssl.SSLContext:
    """Context of the server's side, with the files as they are now.

    Raises
    ------
    ConfigError
        One line that names the file; it holds nothing of a file's content.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[tls.minimum]
    context.maximum_version = _VERSIONS[tls.maximum]
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols(["http/1.1"])
    for file in tls.files:
        if not os.access(file, os.R_OK):
            raise ConfigError(f"{file}: cannot be read; check the path and its permissions")
    try:
        # Without a function that gives a password OpenSSL might ask for one on the terminal.
        context.load_cert_chain(tls.cert, tls.key, password=lambda: "")
    except (ssl.SSLError, OSError, ValueError) as error:
        why = getattr(error, "reason", None) or type(error).__name__
        raise ConfigError(
            f"{tls.cert}, {tls.key}: no certificate with its key, unencrypted and in PEM ({str(why).replace('_', ' ').lower()})"
        ) from None
    if tls.client_ca is not None:
        try:
            context.load_verify_locations(tls.client_ca)
        except (ssl.SSLError, OSError) as error:
            raise ConfigError(f"{tls.client_ca}: holds no CA certificates in PEM ({type(error).__name__})") from None
    context.verify_mode = CLIENT_AUTH[tls.client_auth]
    return context


def peer_names(certificate: Mapping[str, object] | None) -> set[str]:
    """Alternative names of a client's certificate, as `ssl.SSLSocket.getpeercert` gives it."""
    found = (certificate or {}).get("subjectAltName", ())
    return {str(name) for kind, name in found if kind in {"DNS", "email", "URI", "IP Address"}}  # type: ignore[attr-defined]


def _stamp(path: Path) -> Stamp:
    """What changes when a file does, also where only a link to it is turned, as mounted secrets are."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino

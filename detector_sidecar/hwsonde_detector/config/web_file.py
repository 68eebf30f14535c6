"""The file of ``web.config_file``: TLS and users, with the keys of Prometheus's exporter-toolkit, so that one file serves the exporter too.

https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md describes the keys. What cannot be kept here is refused,
never passed over in silence where it would weaken the protection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hwsonde_detector.config.tree import MAX_BYTES, Tree, dotted, read_tree
from hwsonde_detector.config.tree import Path as KeyPath
from hwsonde_detector.config.values import shown
from hwsonde_detector.errors import ConfigError
from hwsonde_detector.files import read_regular
from hwsonde_detector.protection import CLIENT_AUTH, VERSIONS, TlsFiles, WebFile

_BCRYPT = re.compile(r"\$2[abxy]\$(\d\d)\$[./A-Za-z0-9]{53}", re.ASCII)
# A check of a hash of a higher cost takes several seconds.
_MOST_COST = 16
_LEAST_COST = 4
_HEADERS = (
    "Content-Security-Policy",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-XSS-Protection",
)
# Ours are at least as strict.
_OURS = ("Content-Security-Policy", "X-Content-Type-Options")
_TLS = {
    "cert_file", "key_file", "client_ca_file", "client_auth_type", "client_allowed_sans", "min_version", "max_version",
    "prefer_server_cipher_suites",
}  # fmt: skip
_SECTIONS = ("tls_server_config", "http_server_config", "basic_auth_users")


def read_web_file(path: Path) -> WebFile:
    """Read the file; raises `ConfigError`, one line that names file, line and key."""
    try:
        data = read_regular(path, MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"{path}: the file of web.config_file cannot be read: {error.strerror or error}; check the path and its permissions"
        ) from None
    return parse_web_file(data, path)


def parse_web_file(data: bytes, path: Path) -> WebFile:
    """What the content of a file says; relative paths start from its folder. Raises `ConfigError`."""
    return _Reader(read_tree(data), path).read()


class _Reader:
    """Reads one file; everything that is wrong is raised with its place."""

    def __init__(self, tree: Tree, path: Path) -> None:
        self._tree = tree
        self._path = path

    def read(self) -> WebFile:
        if self._tree.problems:
            problem = self._tree.problems[0]
            raise ConfigError(f"{self._path}:{problem.line}: {problem.text}")
        root = self._section(() if self._tree.value is not None else None, _SECTIONS)
        tls = self._tls(self._section(("tls_server_config",), _TLS)) if "tls_server_config" in root else None
        users = self._users(self._section(("basic_auth_users",), None)) if "basic_auth_users" in root else {}
        headers = (
            self._http(self._section(("http_server_config",), ("http2", "headers")))
            if "http_server_config" in root
            else ()
        )
        return WebFile(tls, users, headers)

    def _section(self, path: KeyPath | None, keys: Any) -> Mapping[str, Any]:  # noqa: ANN401 - any collection of names
        if path is None:
            return {}
        value = self._tree.value
        for part in path:
            value = value[part]
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._wrong(path, "a single value or a list is no section")
        for name in value:
            if keys is not None and name not in keys:
                raise self._wrong((*path, name), f"not kept by the detector; allowed: {', '.join(sorted(keys))}")
        return value

    def _wrong(self, path: KeyPath, text: str) -> ConfigError:
        where = f"{dotted(path)}: " if path else ""
        return ConfigError(f"{self._path}:{self._tree.line(path)}: {where}{text}")

    def _tls(self, given: Mapping[str, Any]) -> TlsFiles | None:
        if not given:
            return None
        here: KeyPath = ("tls_server_config",)
        files = {name: self._file(given, name) for name in ("cert_file", "key_file", "client_ca_file")}
        cert, key, authority = files["cert_file"], files["key_file"], files["client_ca_file"]
        if cert is None or key is None:
            raise self._wrong(here, "TLS needs cert_file and key_file")
        auth = self._choice(given, "client_auth_type", tuple(CLIENT_AUTH), "NoClientCert")
        if authority is not None and auth == "NoClientCert":
            raise self._wrong(
                here,
                "client_ca_file without client_auth_type checks nobody; add client_auth_type: RequireAndVerifyClientCert",
            )
        if authority is None and auth != "NoClientCert":
            raise self._wrong(here, f"client_auth_type {auth} needs client_ca_file")
        names = given.get("client_allowed_sans")
        if names is not None and (not isinstance(names, list) or not all(isinstance(name, str) for name in names)):
            raise self._wrong((*here, "client_allowed_sans"), "allowed: a list of names")
        if names is not None and auth != "RequireAndVerifyClientCert":
            raise self._wrong(here, "client_allowed_sans needs client_auth_type RequireAndVerifyClientCert")
        low = self._choice(given, "min_version", VERSIONS, "TLS12")
        high = self._choice(given, "max_version", VERSIONS, "TLS13")
        if VERSIONS.index(low) > VERSIONS.index(high):
            raise self._wrong(here, f"min_version {low} is above max_version {high}")
        return TlsFiles(cert, key, authority, auth, frozenset(names) if names is not None else None, low, high)

    def _file(self, given: Mapping[str, Any], name: str) -> Path | None:
        value = given.get(name)
        if value is None or value == "":
            return None
        if not isinstance(value, str) or "\0" in value:
            raise self._wrong(("tls_server_config", name), "allowed: a path")
        return self._path.parent / value

    def _choice(self, given: Mapping[str, Any], name: str, words: tuple[str, ...], default: str) -> str:
        value = given.get(name)
        if value is None or value == "":
            return default
        if value not in words:
            raise self._wrong(
                ("tls_server_config", name), f"{shown(value)} is not kept by the detector; allowed: {', '.join(words)}"
            )
        return str(value)

    def _users(self, given: Mapping[str, Any]) -> dict[str, bytes]:
        users: dict[str, bytes] = {}
        for name, value in given.items():
            here: KeyPath = ("basic_auth_users", name)
            if not name or ":" in name or not name.isprintable():
                raise self._wrong(("basic_auth_users",), "a user's name must be printable text without a colon")
            # What stands there, perhaps a plain password, is never shown.
            found = _BCRYPT.fullmatch(value) if isinstance(value, str) else None
            if found is None:
                raise self._wrong(
                    here, "no bcrypt hash; allowed: what `htpasswd -nBC 10 USER` prints behind the colon, in quotes"
                )
            if not _LEAST_COST <= int(found[1]) <= _MOST_COST:
                raise self._wrong(here, f"a hash of cost {int(found[1])}; allowed: {_LEAST_COST} to {_MOST_COST}")
            users[name] = value.encode()
        return users

    def _http(self, given: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
        headers = given.get("headers") or {}
        here: KeyPath = ("http_server_config", "headers")
        if not isinstance(headers, dict):
            raise self._wrong(here, "a single value or a list is no section")
        for name, value in headers.items():
            if name not in _HEADERS:
                raise self._wrong((*here, name), f"not allowed; allowed: {', '.join(_HEADERS)}")
            if not isinstance(value, str) or not (value.isascii() and value.isprintable()):
                raise self._wrong((*here, name), "allowed: printable ASCII text on one line")
        return tuple((name, value) for name, value in headers.items() if value and name not in _OURS)

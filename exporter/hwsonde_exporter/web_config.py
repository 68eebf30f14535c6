"""The file of ``--web.config.file``: who may read, and how the connection is protected.

The keys are those of Prometheus's exporter-toolkit, so that one file serves all exporters of a host
(https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md). What cannot be kept here is refused,
never passed over in silence where it would weaken the protection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwsonde_exporter.errors import ConfigError
from hwsonde_exporter.yaml_file import compose, entries, read_bytes, shortened

if TYPE_CHECKING:
    from yaml import Node

FLAG = "--web.config.file"
VERSIONS = ("TLS10", "TLS11", "TLS12", "TLS13")
# Go's names of curves.
CURVES = ("CurveP256", "CurveP384", "CurveP521", "X25519")
# Headers that may be set, with their allowed values; none means any text on one line.
HEADERS: Mapping[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
# A check of a hash of this cost takes several seconds.
_MAX_COST = 16
_BCRYPT = re.compile(r"\$2[abxy]\$(\d\d)\$[./A-Za-z0-9]{53}\Z")
_DURATION = re.compile(r"(?:(\d+(?:\.\d*)?)(ns|us|µs|ms|s|m|h))+?\Z")
_DURATION_PART = re.compile(r"(\d+(?:\.\d*)?)(ns|us|µs|ms|s|m|h)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class ClientAuth(StrEnum):
    """What is asked of a client's certificate; Go's names."""

    NONE = "NoClientCert"
    REQUEST = "RequestClientCert"  # asked for, not needed, not looked at
    REQUIRE_ANY = "RequireAnyClientCert"  # needed, whoever signed it
    VERIFY_IF_GIVEN = "VerifyClientCertIfGiven"
    REQUIRE_AND_VERIFY = "RequireAndVerifyClientCert"


@dataclass(frozen=True, slots=True)
class Pem:
    """Certificates or a key: the path of a file, or the text itself."""

    path: Path | None = None
    text: bytes = field(default=b"", repr=False)

    def read(self, key: str) -> bytes:
        """Content; raises `ConfigError` that names the ``key``."""
        return self.text if self.path is None else read_bytes(self.path, f"{key} of {FLAG}")


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """``tls_server_config``, as it stands in the file."""

    cert: Pem
    key: Pem
    client_ca: Pem | None = None
    client_auth: ClientAuth = ClientAuth.NONE
    allowed_sans: tuple[str, ...] | None = None
    minimum: str = "TLS12"
    maximum: str = "TLS13"
    ciphers: tuple[str, ...] = ()
    prefer_server_ciphers: bool = True
    curves: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """Files that it names."""
        found = (self.cert, self.key, self.client_ca)
        return tuple(pem.path for pem in found if pem is not None and pem.path is not None)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """``rate_limit``: one request each ``interval`` seconds, and ``burst`` of them at once."""

    interval: float
    burst: int


@dataclass(frozen=True, slots=True)
class WebConfig:
    """The whole file.

    Attributes
    ----------
    tls
        None for plain HTTP.
    users
        bcrypt hash by user name; empty where no password is asked for.
    headers
        Headers of every answer.
    rate
        None where requests are not limited.
    notes
        What is accepted and has no effect here, one line each, for the log.
    """

    tls: TlsConfig | None = None
    users: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    headers: tuple[tuple[str, str], ...] = ()
    rate: RateLimit | None = None
    notes: tuple[str, ...] = ()


def load_web_config(path: Path) -> WebConfig:
    """Read the file; raises `ConfigError` with file, line and key."""
    return parse_web_config(read_bytes(path, FLAG), str(path), path.parent)


def parse_web_config(text: bytes, name: str, folder: Path) -> WebConfig:
    """What the text of a file called ``name`` says; relative paths start in ``folder``. Raises `ConfigError`."""
    root = compose(text, name)
    parts: dict[str, Any] = {"notes": []}
    if root is not None:
        sections: dict[str, Callable[[Node, str, Path], dict[str, Any]]] = {
            "tls_server_config": _tls,
            "http_server_config": _http,
            "basic_auth_users": _users,
            "rate_limit": _rate_limit,
        }
        for section, node, _ in entries(root, name, "", sorted(sections)):
            found = sections[section](node, name, folder)
            parts["notes"] += found.pop("notes", ())
            parts.update(found)
    return WebConfig(**{**parts, "notes": tuple(parts["notes"])})


def _tls(node: Node, name: str, folder: Path) -> dict[str, Any]:
    place = f"{name}:{node.start_mark.line + 1}: tls_server_config"
    given: dict[str, Any] = {}
    for key, value, line in entries(node, name, "tls_server_config.", sorted(_TLS_KEYS)):
        given[key] = _TLS_KEYS[key](value, f"{name}:{line}: tls_server_config.{key}")
    if not given:
        return {}
    pems = {}
    for key in ("cert", "key", "client_ca"):
        text, file = given.get(key), given.get(f"{key}_file")
        if text and file:
            raise ConfigError(f"{place}: {key} and {key}_file exclude each other; allowed: one of them")
        pems[key] = Pem(folder / file) if file else Pem(text=text.encode("utf-8", "replace")) if text else None
    cert, private = pems["cert"], pems["key"]
    if cert is None or private is None:
        missing = "cert_file" if cert is None else "key_file"
        raise ConfigError(f"{place}: {missing} is missing; TLS needs cert_file and key_file")
    config = TlsConfig(
        cert,
        private,
        pems["client_ca"],
        given.get("client_auth_type", ClientAuth.NONE),
        given.get("client_allowed_sans"),
        given.get("min_version", "TLS12"),
        given.get("max_version", "TLS13"),
        given.get("cipher_suites", ()),
        given.get("prefer_server_cipher_suites", True),
        given.get("curve_preferences", ()),
    )
    _check_tls(config, place)
    return {"tls": config}


def _check_tls(config: TlsConfig, place: str) -> None:
    """Refuse what would leave a client unchecked though the file seems to ask for it."""
    auth = config.client_auth
    if config.client_ca is not None and auth is ClientAuth.NONE:
        raise ConfigError(
            f"{place}: client_ca_file without client_auth_type checks nobody; add client_auth_type: {ClientAuth.REQUIRE_AND_VERIFY}"
        )
    if config.client_ca is None and auth in {ClientAuth.VERIFY_IF_GIVEN, ClientAuth.REQUIRE_AND_VERIFY}:
        raise ConfigError(f"{place}: client_auth_type {auth} needs client_ca_file")
    if config.allowed_sans is not None and auth not in {ClientAuth.REQUIRE_ANY, ClientAuth.REQUIRE_AND_VERIFY}:
        raise ConfigError(
            f"{place}: client_allowed_sans needs client_auth_type {ClientAuth.REQUIRE_AND_VERIFY}: a client without a certificate has no name"
        )
    if VERSIONS.index(config.minimum) > VERSIONS.index(config.maximum):
        raise ConfigError(f"{place}: min_version {config.minimum} is above max_version {config.maximum}")


def _http(node: Node, name: str, folder: Path) -> dict[str, Any]:  # noqa: ARG001  (sections share a signature)
    headers: list[tuple[str, str]] = []
    notes = []
    for key, value, line in entries(node, name, "http_server_config.", ("headers", "http2")):
        if key == "http2":
            if _switch(value, f"{name}:{line}: http_server_config.http2"):
                notes.append(
                    "http_server_config.http2 has no effect: HTTP/1.1 is spoken, which Prometheus reads as well"
                )
            continue
        for header, content, at in entries(value, name, "http_server_config.headers.", tuple(HEADERS)):
            place = f"{name}:{at}: http_server_config.headers.{header}"
            text = _text(content, place, "text on one line")
            allowed = HEADERS[header]
            if text and allowed and text not in allowed:
                raise ConfigError(f"{place}: {shortened(text)!r} is not allowed; allowed: {' or '.join(allowed)}")
            if not (text.isascii() and text.isprintable()):
                raise ConfigError(f"{place}: allowed: printable ASCII text on one line")
            if text:
                headers.append((header, text))
    return {"headers": tuple(headers), "notes": notes}


def _users(node: Node, name: str, folder: Path) -> dict[str, Any]:  # noqa: ARG001
    users: dict[str, bytes] = {}
    for user, value, line in entries(node, name, "basic_auth_users.", None):
        place = f"{name}:{line}: basic_auth_users"
        if not user or ":" in user or not user.isprintable():
            raise ConfigError(f"{place}: a user's name must be printable text without a colon")
        # Neither the hash nor what stands in its place, perhaps a plain password, is ever shown.
        text = _text(value, f"{place}: {shortened(user)}", "a bcrypt hash")
        found = _BCRYPT.match(text)
        if found is None:
            raise ConfigError(
                f"{place}: {shortened(user)}: no bcrypt hash; allowed: what `htpasswd -nBC 10 USER` prints behind the colon, in quotes"
            )
        if not 4 <= int(found[1]) <= _MAX_COST:
            raise ConfigError(f"{place}: {shortened(user)}: a hash of cost {int(found[1])}; allowed: 4 to {_MAX_COST}")
        users[user] = text.encode()
    return {"users": users}


def _rate_limit(node: Node, name: str, folder: Path) -> dict[str, Any]:  # noqa: ARG001
    interval, burst = 0.0, 0
    for key, value, line in entries(node, name, "rate_limit.", ("burst", "interval")):
        place = f"{name}:{line}: rate_limit.{key}"
        if key == "interval":
            text = _text(value, place, "a duration")
            seconds = 0.0 if text == "0" else _seconds(text)
            if seconds is None:
                raise ConfigError(
                    f"{place}: {shortened(text)!r} is not allowed; allowed: a duration such as 1s or 250ms, 0 for no limit"
                )
            interval = seconds
        else:
            text = _text(value, place, "an integer")
            if not (text.isascii() and text.isdigit() and len(text) < 7):
                raise ConfigError(f"{place}: {shortened(text)!r} is not allowed; allowed: an integer from 0 to 999999")
            burst = int(text)
    if interval == 0:
        return {}
    if burst == 0:
        raise ConfigError(
            f"{name}:{node.start_mark.line + 1}: rate_limit: burst 0 refuses every request; allowed: 1 or more"
        )
    return {"rate": RateLimit(interval, burst)}


def _seconds(text: str) -> float | None:
    if not _DURATION.match(text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION_PART.findall(text))


def _text(node: Node, place: str, allowed: str) -> str:
    import yaml  # noqa: PLC0415

    if not isinstance(node, yaml.ScalarNode):
        raise ConfigError(f"{place}: must be {allowed}")
    return "" if node.tag == "tag:yaml.org,2002:null" else str(node.value)


def _plain(node: Node, place: str) -> str:
    return _text(node, place, "text")


def _switch(node: Node, place: str) -> bool:
    text = _text(node, place, "true or false").lower()
    if text not in {"true", "false", "yes", "no", "on", "off"}:
        raise ConfigError(f"{place}: {shortened(text)!r} is not allowed; allowed: true or false")
    return text in {"true", "yes", "on"}


def _one_of(*allowed: str) -> Callable[[Node, str], str]:
    def parse(node: Node, place: str) -> str:
        text = _text(node, place, "text")
        if text not in allowed:
            raise ConfigError(f"{place}: {shortened(text)!r} is not allowed; allowed: {' or '.join(allowed)}")
        return text

    return parse


def _list_of(parse: Callable[[Node, str], str]) -> Callable[[Node, str], tuple[str, ...]]:
    def parse_all(node: Node, place: str) -> tuple[str, ...]:
        import yaml  # noqa: PLC0415

        if not isinstance(node, yaml.SequenceNode):
            raise ConfigError(f"{place}: must be a list")
        return tuple(parse(item, place) for item in node.value)

    return parse_all


def _client_auth(node: Node, place: str) -> ClientAuth:
    text = _text(node, place, "text")
    # RequireClientCert is the older name of the toolkit.
    names = {
        **{auth.value: auth for auth in ClientAuth},
        "": ClientAuth.NONE,
        "RequireClientCert": ClientAuth.REQUIRE_ANY,
    }
    if text not in names:
        allowed = " or ".join(auth.value for auth in ClientAuth)
        raise ConfigError(f"{place}: {shortened(text)!r} is not allowed; allowed: {allowed}")
    return names[text]


_TLS_KEYS: Mapping[str, Callable[[Node, str], Any]] = {
    "cert": _plain,
    "key": _plain,
    "client_ca": _plain,
    "cert_file": _plain,
    "key_file": _plain,
    "client_ca_file": _plain,
    "client_auth_type": _client_auth,
    "client_allowed_sans": _list_of(_plain),
    "min_version": _one_of(*VERSIONS),
    "max_version": _one_of(*VERSIONS),
    "cipher_suites": _list_of(_plain),
    "prefer_server_cipher_suites": _switch,
    "curve_preferences": _list_of(_one_of(*CURVES)),
}

"""Rules for addresses and selectors, as `values` has them for plainer values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from hwsonde_detector.config.values import RefusedError, Rule, shown

_LABEL = r"[a-zA-Z_][a-zA-Z0-9_]*"
_MATCHER = rf'{_LABEL}\s*(?:=~|!~|!=|=)\s*"(?:[^"\\\n]|\\.)*"'
_SELECTOR = re.compile(rf"\s*(?:{_MATCHER}(?:\s*,\s*{_MATCHER})*\s*,?\s*)?", re.ASCII)
_MAX_NAME = 253  # of a host, in the domain name system


def is_host(text: str) -> bool:
    """Whether a name or an address can be looked up at all: no empty or endless part between its dots."""
    try:
        return bool(text) and len(text.encode("idna")) <= _MAX_NAME and text.isprintable()
    except UnicodeError:
        return False


@dataclass(frozen=True, slots=True)
class Url(Rule):
    """An address of a web server, without a user or a password in it."""

    @property
    def allowed(self) -> str:
        """The form."""
        return "http://HOST:PORT/PATH or https://HOST:PORT/PATH, without user, password, query or fragment"

    def parse(self, value: object, base: Path) -> str:
        """Check the parts; the text of a refused address is not repeated, it may hold a password."""
        del base
        if not isinstance(value, str):
            raise RefusedError(f"{shown(value)} is no address")
        try:
            parts = urlsplit(value)
            port_known = parts.port is None or parts.port > 0
        except ValueError:
            raise RefusedError("the address cannot be read") from None
        if parts.username is not None or parts.password is not None or "@" in parts.netloc:
            raise RefusedError("the address holds a user or a password, which belong in a file or in the environment")
        if (
            parts.scheme not in {"http", "https"}
            or not is_host(parts.hostname or "")
            or not port_known
            or re.search(r"\s", value)
        ):
            raise RefusedError(f"{shown(value)} is no address of a web server")
        if parts.query or parts.fragment:
            raise RefusedError("the address has a query or a fragment")
        return value.rstrip("/")


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where to listen: an empty host never occurs, ``0.0.0.0`` and ``::`` mean all interfaces."""

    host: str
    port: int

    def __str__(self) -> str:
        """Give ``0.0.0.0:9881`` or ``[::]:9881``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Listen(Rule):
    """An address to listen on."""

    @property
    def allowed(self) -> str:
        """The form."""
        return "HOST:PORT, [IPV6]:PORT or :PORT with a port from 0 to 65535 (0: any free one)"

    def parse(self, value: object, base: Path) -> ListenAddress:
        """Split host and port."""
        del base
        found = (
            re.fullmatch(r"(?:\[([0-9a-fA-F:.%\w]+)\]|([^\s:\[\]/]*)):(\d{1,5})", value)
            if isinstance(value, str)
            else None
        )
        host = (found[1] or found[2] or "0.0.0.0") if found else ""  # noqa: S104 - what ":PORT" means
        if found is None or int(found[3]) > 65535 or not is_host(host):
            raise RefusedError(f"{shown(value)} is no address to listen on")
        return ListenAddress(host, int(found[3]))


@dataclass(frozen=True, slots=True)
class Selector(Rule):
    """PromQL label matchers, without the braces."""

    @property
    def allowed(self) -> str:
        """The form, with an example."""
        return 'label matchers without braces, such as job="node",cluster=~"a|b"'

    def parse(self, value: object, base: Path) -> str:
        """Check the form; what a regular expression means is left to the server."""
        del base
        if not isinstance(value, str) or not _SELECTOR.fullmatch(value):
            raise RefusedError(f"{shown(value)} are no label matchers")
        if re.search(r"__name__\s*[=!]", value):
            raise RefusedError("the name of metrics comes from the profiles")
        return value.strip().rstrip(",").strip()

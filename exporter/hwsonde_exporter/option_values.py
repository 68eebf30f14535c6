"""From the text of an option to its value: each gives the value, or raises ValueError with what is allowed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address, ip_network
from pathlib import Path

from hwsonde_exporter.host import RemoteGroup
from hwsonde_exporter.mesh.sender import Peer
from hwsonde_exporter.patterns import compiled
from hwsonde_exporter.registry import Collector

_TRUE, _FALSE = frozenset({"true", "yes", "on"}), frozenset({"false", "no", "off"})
_MAX_HERTZ = 100.0
_MAX_NAME = 253  # of a host, in the domain name system
_LABEL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of a listen address; an empty host stands for all interfaces."""
    allowed = "HOST:PORT, [IPV6]:PORT or :PORT, port 0 to 65535"
    host, colon, port = text.strip().rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not (port.isascii() and port.isdigit()) or len(port) > 5 or int(port) > 65535:
        raise ValueError(allowed)
    if ":" in host and not bracketed:
        raise ValueError(allowed)
    host = host[1:-1] if bracketed else host
    if any(character.isspace() or character in "/[]@" for character in host) or not _is_name(host):
        raise ValueError(allowed)
    return host, int(port)


def port_address(text: str) -> tuple[str, int]:
    """Address with a port that is not 0."""
    host, port = parse_address(text)
    if port == 0:
        raise ValueError("HOST:PORT, [IPV6]:PORT or :PORT, port 1 to 65535")
    return host, port


def _named(text: str, allowed: str) -> tuple[str, str]:
    """Name and value of ``NAME=VALUE``; a name that is an address would show in labels what is kept out of them."""
    name, equals, value = text.strip().partition("=")
    if not equals or not _LABEL_NAME.fullmatch(name):
        raise ValueError(allowed)
    try:
        ip_address(name)
    except ValueError:
        return name, value
    raise ValueError(allowed)


def remote_group(text: str) -> RemoteGroup:
    """A name and the networks that it stands for."""
    allowed = "NAME=PREFIX such as rack-a=10.1.0.0/16; a name has letters, digits, _, - and ., and is no address; host bits are 0"
    name, prefix = _named(text, allowed)
    try:
        return name, ip_network(prefix)
    except ValueError:
        raise ValueError(allowed) from None


def peer(text: str) -> Peer:
    """A peer of the mesh probe: its name and where it listens."""
    allowed = (
        "NAME=HOST:PORT or NAME=[IPV6]:PORT, port 1 to 65535; a name has letters, digits, _, - and ., and is no address"
    )
    name, address = _named(text, allowed)
    try:
        host, port = port_address(address)
    except ValueError:
        raise ValueError(allowed) from None
    if not host:
        raise ValueError(allowed)
    return Peer(name, host, port)


def _is_name(host: str) -> bool:
    """Whether it can be looked up at all: no empty or endless part between its dots."""
    try:
        return len(host.encode("idna")) <= _MAX_NAME and host.isprintable()
    except UnicodeError:
        return False


def parse_switch(text: str) -> bool:
    """Truth of a word."""
    word = text.strip().lower()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise ValueError("true or false")


def integer(least: int, greatest: int) -> Callable[[str], int]:
    """Integers within bounds."""

    def parse(text: str) -> int:
        allowed = f"an integer from {least} to {greatest}"
        if not (text.strip().isascii() and text.strip().isdigit()) or len(text) > 12:
            raise ValueError(allowed)
        value = int(text)
        if not least <= value <= greatest:
            raise ValueError(allowed)
        return value

    return parse


def series_limit(kinds: Mapping[str, type[Collector]]) -> Callable[[str], tuple[str, int]]:
    """Give (collector, limit) of ``rdma=5000`` and ("", limit) of a limit for all."""
    limit = integer(10, 1_000_000)

    def parse(text: str) -> tuple[str, int]:
        name, equals, number = text.strip().rpartition("=")
        allowed = "an integer from 10 to 1000000, alone or behind COLLECTOR="
        if equals and name not in kinds:
            raise ValueError(allowed)
        try:
            return name, limit(number)
        except ValueError:
            raise ValueError(allowed) from None

    return parse


def number(least: float, greatest: float) -> Callable[[str], float]:
    """Numbers within bounds."""

    def parse(text: str) -> float:
        allowed = f"a number from {least:g} to {greatest:g}"
        try:
            value = float(text)
        except ValueError:
            raise ValueError(allowed) from None
        if not least <= value <= greatest:
            raise ValueError(allowed)
        return value

    return parse


def rate(text: str) -> float:
    """Ticks a second; 0 is never."""
    allowed = f"0, or ticks a second from 0.1 to {_MAX_HERTZ:g}"
    try:
        value = float(text)
    except ValueError:
        raise ValueError(allowed) from None
    if value != 0 and not 0.1 <= value <= _MAX_HERTZ:
        raise ValueError(allowed)
    return value


def pattern(text: str) -> re.Pattern[str]:
    """A regular expression of whole names."""
    return _compiled(text, 'a regular expression of whole names, such as "veth.*|tap[0-9]+"; "(?!)" leaves nothing out')


def metric_pattern(kinds: Mapping[str, type[Collector]]) -> Callable[[str], re.Pattern[str]]:
    """The same, tried on the names of all metrics."""
    names = [metric.name for kind in kinds.values() for metric in kind.metrics]
    return lambda text: _compiled(text, 'a regular expression of whole names, such as "hwsonde_(cpu|memory)_.*"', names)


def _compiled(text: str, allowed: str, names: Iterable[str] = ()) -> re.Pattern[str]:
    try:
        return compiled(text, names)
    except ValueError as error:
        raise ValueError(f"{allowed}; {error}" if str(error) else allowed) from None


def folder(text: str) -> Path:
    """A folder that exists."""
    path = Path(text)
    if not text or "\0" in text or not path.is_dir():
        raise ValueError("a folder that exists")
    return path


def absolute(text: str) -> Path:
    """A path from the root."""
    if not text.startswith("/") or "\0" in text:
        raise ValueError("the path of a directory, from the root")
    return Path(text)


def file(text: str) -> Path:
    """The path of a file."""
    if not text or "\0" in text:
        raise ValueError("the path of a file")
    return Path(text)


def choice(*words: str) -> Callable[[str], str]:
    """One of some words."""

    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(" or ".join(words))
        return text

    return parse

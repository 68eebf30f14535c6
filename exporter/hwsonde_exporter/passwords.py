"""Basic authentication: names and bcrypt hashes, checked so that a scrape costs nothing and guessing costs the guesser.

A bcrypt check takes about 50 ms at cost 10. So a right password is remembered, as a digest under a key that exists only in
this process, and later scrapes are compared with it. Others are checked one at a time, at most two at once for each address
and none for a second after a wrong one, and never make a scrape wait whose password is remembered.
"""

from __future__ import annotations

import binascii
import hmac
import ipaddress
import os
import threading
import time
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from hwsonde_exporter.errors import ConfigError

# Addresses and right passwords that are remembered; the oldest are forgotten.
_REMEMBERED = 256
# An address may try another password so many seconds after a wrong one.
_PENALTY_SECONDS = 1.0
# For so long the same wrong password is refused without a check.
_WRONG_SECONDS = 60.0
# Checks that may be under way or wait for their turn, together and for one address.
_MOST_CHECKS = 4
_MOST_CHECKS_OF_ONE = 2
_WAIT_SECONDS = 10.0
# bcrypt looks at no more, and the library refuses longer ones.
_PASSWORD_BYTES = 72

Check = Callable[[bytes, bytes], bool]
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Verdict(Enum):
    """What becomes of a request."""

    GRANTED = "granted"
    DENIED = "denied"
    LATER = "later"  # too many tries; to be asked again in a second


@dataclass(slots=True)
class _Check:
    """A check that is under way, for the address that asked first; others who give the same wait for ``done`` too."""

    address: str
    done: threading.Event = field(default_factory=threading.Event)
    verdict: Verdict = Verdict.DENIED


def bcrypt_check() -> Check:
    """Give the function that compares a password with a hash; raises `ConfigError` where the library is missing."""
    try:
        import bcrypt  # noqa: PLC0415  (only who has users needs it)
    except ImportError:
        raise ConfigError(
            "basic_auth_users needs the Python package bcrypt: pip install bcrypt, or remove the users"
        ) from None

    def check(password: bytes, hashed: bytes) -> bool:
        try:
            return bool(bcrypt.checkpw(password[:_PASSWORD_BYTES], hashed))
        except ValueError:
            return False

    return check


class Passwords:
    """Decides on the Authorization header of a request.

    Parameters
    ----------
    users
        bcrypt hash by user name; at least one.
    check
        Compares a password with a hash; slow.
    clock
        Monotonic seconds.
    """

    def __init__(self, users: Mapping[str, bytes], check: Check, clock: Callable[[], float] = time.monotonic) -> None:
        self._users = {name.encode(): hashed for name, hashed in users.items()}
        self._hashes = sorted(self._users.values())
        self._check = check
        self._clock = clock
        self._key = os.urandom(32)
        self._lock = threading.Lock()
        self._one_at_a_time = threading.Lock()
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._wrong: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._under_way: dict[bytes, _Check] = {}

    def verdict(self, header: str | None, address: str) -> Verdict:
        """Decide on a request with this Authorization header from this address."""
        credentials = parse_basic(header)
        if credentials is None:
            return Verdict.DENIED
        user, password = credentials
        digest = hmac.digest(self._key, b"%d:%b%b" % (len(user), user, password), "sha256")
        address = network_of(address)
        with self._lock:
            if digest in self._right:
                self._right.move_to_end(digest)
                return Verdict.GRANTED
            early = self._without_check(digest, address)
            if early is not None:
                return early
            under_way = self._under_way.get(digest)
            if under_way is None:
                mine = self._under_way[digest] = _Check(address)
        if under_way is None:
            return self._verdict_of_check(user, password, digest, mine)
        # The same name and password are being checked for another request: one check answers both.
        if not under_way.done.wait(_WAIT_SECONDS):
            return Verdict.LATER
        with self._lock:
            self._note(address, digest, under_way.verdict)
        return under_way.verdict

    def _without_check(self, digest: bytes, address: str) -> Verdict | None:
        now = self._clock()
        when, which = self._wrong.get(address, (float("-inf"), b""))
        if which == digest and now - when < _WRONG_SECONDS:
            return Verdict.DENIED
        if now - when < _PENALTY_SECONDS:
            return Verdict.LATER
        if digest in self._under_way:
            return None
        of_this = sum(check.address == address for check in self._under_way.values())
        if of_this >= _MOST_CHECKS_OF_ONE or len(self._under_way) >= _MOST_CHECKS:
            return Verdict.LATER
        return None

    def _verdict_of_check(self, user: bytes, password: bytes, digest: bytes, mine: _Check) -> Verdict:
        try:
            with self._one_at_a_time:
                hashed = self._users.get(user)
                # An unknown name takes as long as a known one: it is compared with a hash that is always the same for it.
                same = self._check(password, hashed or self._stand_in(user))
            if same and hashed is not None:
                mine.verdict = Verdict.GRANTED
        finally:
            with self._lock:
                self._under_way.pop(digest, None)
                if mine.verdict is Verdict.GRANTED:
                    _remember(self._right, digest, None)
                self._note(mine.address, digest, mine.verdict)
            mine.done.set()
        return mine.verdict

    def _note(self, address: str, digest: bytes, verdict: Verdict) -> None:
        """Keep in mind what came of it, for each address that gave it: who joined another one's check waits as long after a wrong one."""
        if verdict is Verdict.GRANTED:
            self._wrong.pop(address, None)
        else:
            _remember(self._wrong, address, (self._clock(), digest))

    def _stand_in(self, user: bytes) -> bytes:
        number = int.from_bytes(hmac.digest(self._key, user, "sha256")[:8], "big")
        return self._hashes[number % len(self._hashes)]


def parse_basic(header: str | None) -> tuple[bytes, bytes] | None:
    """Name and password of an Authorization header; None if it is none of the Basic scheme."""
    scheme, _, rest = (header or "").strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        text = b64decode(rest.strip().encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        return None
    user, colon, password = text.partition(b":")
    return (user, password) if colon else None


def network_of(address: str) -> str:
    """The address, or its /64 for IPv6: who has one of these addresses has them all. A mapped IPv4 address counts as such."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def _remember(table: OrderedDict[_Key, _Value], key: _Key, value: _Value) -> None:
    table[key] = value
    table.move_to_end(key)
    while len(table) > _REMEMBERED:
        table.popitem(last=False)

"""Basic authentication: names and bcrypt hashes, checked so that a scrape costs nothing and guessing costs the guesser.

A check takes about 50 ms at cost 10, so a right password is remembered, as a digest under a key of this process. Others are checked one at a
time, few of them may wait, and who was wrong waits a second before another one is looked at.
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

import bcrypt

# Networks and right passwords that are remembered; the oldest are forgotten.
_REMEMBERED = 256
# A network may try another password so many seconds after a wrong one.
_PENALTY_S = 1.0
# For so long the same wrong password is refused without a check.
_WRONG_S = 60.0
# So many requests may wait for checks, one fewer than the server has threads: guessing never keeps from it whose password is remembered.
_MOST_WAITING = 3
# Checks of one network that may be under way or wait for their turn.
_MOST_CHECKS_OF_ONE = 2
_WAIT_S = 10.0
# bcrypt looks at no more.
_PASSWORD_BYTES = 72

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Verdict(Enum):
    """What becomes of a request."""

    GRANTED = "granted"
    DENIED = "denied"
    LATER = "later"


@dataclass(slots=True)
class _Check:
    """A check that is under way, for the network that asked first; others who give the same wait for ``done`` too."""

    network: str
    done: threading.Event = field(default_factory=threading.Event)
    verdict: Verdict = Verdict.DENIED
    waiting: int = 1


class Passwords:
    """Decides on the Authorization header of a request; may be asked by any thread.

    Parameters
    ----------
    users
        bcrypt hash by user name; at least one.
    clock
        Monotonic seconds.
    check
        Compares a password with a hash; slow.
    """

    def __init__(
        self,
        users: Mapping[str, bytes],
        clock: Callable[[], float] = time.monotonic,
        check: Callable[[bytes, bytes], bool] = bcrypt.checkpw,
    ) -> None:
        self._users = {name.encode(): hashed for name, hashed in users.items()}
        self._hashes = sorted(self._users.values())
        self._clock = clock
        self._check = check
        self._key = os.urandom(32)
        self._lock = threading.Lock()
        self._one_at_a_time = threading.Lock()
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._wrong: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._under_way: dict[bytes, _Check] = {}

    def verdict(self, header: str | None, address: str) -> tuple[Verdict, str]:
        """Decide on a request with this header from this address; give the user's name where it is granted."""
        given = parse_basic(header)
        if given is None:
            return Verdict.DENIED, ""
        user, password = given
        found = self._decide(user, password, network_of(address))
        return found, user.decode("utf-8", "replace") if found is Verdict.GRANTED else ""

    def _decide(self, user: bytes, password: bytes, network: str) -> Verdict:
        digest = hmac.digest(self._key, b"%d:%b%b" % (len(user), user, password), "sha256")
        with self._lock:
            if digest in self._right:
                self._right.move_to_end(digest)
                return Verdict.GRANTED
            early = self._without_check(digest, network)
            if early is not None:
                return early
            under_way = self._under_way.get(digest)
            if under_way is None:
                mine = self._under_way[digest] = _Check(network)
            else:
                under_way.waiting += 1
        if under_way is None:
            return self._decide_by_check(user, password, digest, mine)
        # The same name and password are being checked for another request: one check answers both.
        if not under_way.done.wait(_WAIT_S):
            return Verdict.LATER
        with self._lock:
            self._note(network, digest, under_way.verdict)
        return under_way.verdict

    def _without_check(self, digest: bytes, network: str) -> Verdict | None:
        now = self._clock()
        when, which = self._wrong.get(network, (float("-inf"), b""))
        if which == digest and now - when < _WRONG_S:
            return Verdict.DENIED
        if now - when < _PENALTY_S:
            return Verdict.LATER
        if sum(check.waiting for check in self._under_way.values()) >= _MOST_WAITING:
            return Verdict.LATER
        of_this = sum(check.network == network for check in self._under_way.values())
        return Verdict.LATER if digest not in self._under_way and of_this >= _MOST_CHECKS_OF_ONE else None

    def _decide_by_check(self, user: bytes, password: bytes, digest: bytes, mine: _Check) -> Verdict:
        try:
            with self._one_at_a_time:
                right = self._is_right(user, password)
            if right:
                mine.verdict = Verdict.GRANTED
        finally:
            with self._lock:
                self._under_way.pop(digest, None)
                if mine.verdict is Verdict.GRANTED:
                    _remember(self._right, digest, None)
                self._note(mine.network, digest, mine.verdict)
            mine.done.set()
        return mine.verdict

    def _note(self, network: str, digest: bytes, verdict: Verdict) -> None:
        """Keep in mind what came of it, for each network that gave it: who joined another one's check waits as long after a wrong one."""
        if verdict is Verdict.GRANTED:
            self._wrong.pop(network, None)
        else:
            _remember(self._wrong, network, (self._clock(), digest))

    def _is_right(self, user: bytes, password: bytes) -> bool:
        hashed = self._users.get(user)
        try:
            # An unknown name takes as long as a known one: it is compared with a hash that is always the same for it.
            same = self._check(password[:_PASSWORD_BYTES], hashed or self._stand_in(user))
        except ValueError:
            return False
        return same and hashed is not None

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

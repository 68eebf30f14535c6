"""Signed words: who holds one may mark one incident until some time. Pure."""

from __future__ import annotations

import hmac

_DIGITS = 32


def sign(key: bytes, name: str, until_ms: int) -> str:
    """A word that allows to mark an incident."""
    return f"{until_ms}.{_digest(key, name, until_ms)}"


def holds(key: bytes, name: str, token: str, now_ms: int) -> bool:
    """Whether a word allows to mark this incident now."""
    until, _, digest = token.partition(".")
    if not (until.isascii() and until.isdigit() and len(until) < 16) or not digest.isascii():
        return False
    return hmac.compare_digest(digest, _digest(key, name, int(until))) and now_ms < int(until)


def _digest(key: bytes, name: str, until_ms: int) -> str:
    return hmac.digest(key, f"{name}\0{until_ms}".encode(), "sha256").hex()[:_DIGITS]

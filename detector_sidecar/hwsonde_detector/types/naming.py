"""What incidents are called in addresses and file names."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from functools import lru_cache

INCIDENT_FORM = r"\d{8}T\d{6}Z-[0-9a-f]{12}"
_DIGITS = 12


@lru_cache(20_000)
def incident_id(identity: str, onset_ms: int) -> str:
    """Name of an incident as it stands in addresses and file names: sortable by time, the same after every restart.

    It follows from the episode's identity, which is its host and its onset.

    Examples
    --------
    >>> incident_id("a/n17@2026-11-29T19:23:41Z", 1795980221000)
    '20261129T192341Z-01fe440f9511'
    """
    at = datetime.fromtimestamp(onset_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"{at}-{hashlib.sha256(identity.encode('utf-8', 'surrogatepass')).hexdigest()[:_DIGITS]}"

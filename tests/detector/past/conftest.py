"""The server that history is read from."""

from __future__ import annotations

from tests.detector.sources.conftest import server

__all__ = ["server"]

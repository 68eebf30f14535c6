"""The service: the loop that reads, scores, publishes and saves, and everything at its edges."""

from __future__ import annotations

from hwsonde_detector.service.program import run

__all__ = ["run"]

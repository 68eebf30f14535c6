"""What a source over HTTP needs to know."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hwsonde_detector.sources.auth import Credentials


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Address, bounds and identity.

    Attributes
    ----------
    url
        Address of the server without credentials, with its path prefix.
    backend
        One of `prometheus.BACKENDS`.
    selector
        Label matchers without braces; empty: all targets.
    connect_timeout_ms, read_timeout_ms
        Bounds of one request: until the connection is accepted, and for the whole answer.
    max_range_ms
        Longest stretch of one live read.
    max_answer
        Bytes of one answer.
    max_samples
        About as many samples are asked for at once when history is read.
    slow_every_ms
        How often settings and their like are asked for, in the time of the samples.
    credentials
        Who asks.
    ca_file, cert_file, key_file
        Certificates; the server's is always checked.
    proxy_url, proxy_from_environment
        The way there.
    """

    url: str
    backend: str = "prometheus"
    selector: str = ""
    connect_timeout_ms: int = 2000
    read_timeout_ms: int = 10_000
    max_range_ms: int = 600_000
    max_answer: int = 1 << 28
    max_samples: int = 500_000
    slow_every_ms: int = 30_000
    credentials: Credentials = field(default_factory=Credentials)
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    proxy_url: str | None = None
    proxy_from_environment: bool = False

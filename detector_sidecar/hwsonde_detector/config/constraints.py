"""What must hold between keys of the configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hwsonde_detector.config.identity import Basic, Bearer, Tls
from hwsonde_detector.config.models import Config
from hwsonde_detector.config.source import Source
from hwsonde_detector.config.tree import Path as KeyPath
from hwsonde_detector.config.tree import dotted
from hwsonde_detector.config.values import format_duration

_HEADER = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_SECRET = {"authorization", "proxy-authorization", "cookie"}
_OURS = {
    "host",
    "content-length",
    "content-type",
    "transfer-encoding",
    "accept-encoding",
    "x-scope-orgid",
    "connection",
}


def constraints(config: Config) -> Iterator[tuple[KeyPath, str]]:
    """What must hold between keys; gives path and sentence of each that does not."""
    learning, window, source = config.learning, config.window, config.source
    if window.step > window.rows:
        yield (
            ("window", "step"),
            f"{window.step} would leave rows between windows out; allowed: at most window.rows ({window.rows})",
        )
    if learning.calibrated_rows < learning.first_rows:
        yield (
            ("learning", "calibrated_rows"),
            f"{learning.calibrated_rows} is less than learning.first_rows; allowed: at least {learning.first_rows}",
        )
    if learning.memory_rows < learning.calibrated_rows:
        yield (
            ("learning", "memory_rows"),
            f"{learning.memory_rows} is less than learning.calibrated_rows; allowed: at least {learning.calibrated_rows}",
        )
    if window.rows >= learning.first_rows:
        yield (
            ("window", "rows"),
            f"{window.rows} is not less than learning.first_rows; allowed: at most {learning.first_rows - 1}",
        )
    yield from _deciding(config)
    if isinstance(config.tick, int) and config.tick > source.max_range:
        yield (
            ("tick",),
            f"{format_duration(config.tick)} is longer than source.max_range; allowed: at most {format_duration(source.max_range)}",
        )
    yield from _redacted(config)
    yield from _alerting(config)
    yield from _credentials(source)
    yield from _headers(source)


def _deciding(config: Config) -> Iterator[tuple[KeyPath, str]]:
    """Who must agree, and for how long."""
    episodes = config.episodes
    voters = [name for name in config.detectors.members if name not in config.detectors.alone]
    if config.detectors.fusion == "agreement" and voters and config.detectors.agreement > len(voters):
        yield (
            ("detectors", "agreement"),
            f"{config.detectors.agreement} of {len(voters)} members that vote (those of detectors.alone do not); allowed: at most that many",
        )
    if episodes.clear_at >= episodes.raise_at:
        yield (
            ("episodes", "clear_at"),
            f"{episodes.clear_at:g} is not below episodes.raise_at; allowed: less than {episodes.raise_at:g}",
        )
    if episodes.raise_windows > episodes.raise_of:
        yield (
            ("episodes", "raise_windows"),
            f"{episodes.raise_windows} of {episodes.raise_of}; allowed: at most episodes.raise_of",
        )


def _alerting(config: Config) -> Iterator[tuple[KeyPath, str]]:
    alertmanager = config.alertmanager
    yield from _identity(("alertmanager",), alertmanager.basic, alertmanager.bearer, alertmanager.tls)
    for name, window in config.maintenance.items():
        for matcher in window.matchers:
            if matcher.name not in config.entity_labels:
                text = f"{matcher.name!r} names no host; allowed: matchers of {', '.join(config.entity_labels)}"
                yield ("maintenance", name), text


def _redacted(config: Config) -> Iterator[tuple[KeyPath, str]]:
    for place, name in enumerate(config.web.redact):
        if name not in config.entity_labels:
            yield ("web", "redact", place), f"{name!r} names no host; allowed: {', '.join(config.entity_labels)}"


def _credentials(source: Source) -> Iterator[tuple[KeyPath, str]]:
    yield from _identity(("source",), source.basic, source.bearer, source.tls)
    if source.proxy.url and source.proxy.from_environment:
        yield ("source", "proxy", "from_environment"), "given besides source.proxy.url; allowed: one of the two"


def _identity(at: KeyPath, basic: Basic | None, bearer: Bearer | None, tls: Tls) -> Iterator[tuple[KeyPath, str]]:
    where = dotted(at)
    if basic and bearer:
        yield (*at, "bearer"), f"given besides {where}.basic; allowed: one of the two"
    if basic and (basic.password_file is None) == (basic.password_env is None):
        yield (*at, "basic"), "no password, or two; allowed: one of password_file and password_env"
    if bearer and (bearer.token_file is None) == (bearer.token_env is None):
        yield (*at, "bearer"), "no token, or two; allowed: one of token_file and token_env"
    if tls.key_file and not tls.cert_file:
        yield (*at, "tls", "key_file"), f"a key without a certificate; allowed: with {where}.tls.cert_file"


def _headers(source: Source) -> Iterator[tuple[KeyPath, str]]:
    for section, names in (("headers", source.headers), ("header_files", source.header_files)):
        for name in names:
            if not _HEADER.fullmatch(name):
                yield ("source", section, name), "no name of a header; allowed: letters, digits, - and _"
            elif name.lower() in _SECRET and section == "headers":
                yield (
                    ("source", section, name),
                    "its value is a secret; allowed: source.basic, source.bearer or source.header_files",
                )
            elif name.lower() in _OURS:
                yield ("source", section, name), "set by the detector itself; allowed: other names"

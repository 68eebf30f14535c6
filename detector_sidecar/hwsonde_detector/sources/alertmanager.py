"""What an Alertmanager knows: alerts, and silences that say what is normal. Version 2 of its interface, read only."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from re import _parser  # type: ignore[attr-defined]
from time import monotonic as _monotonic
from typing import Any

import orjson
import requests
import urllib3.exceptions

from hwsonde_detector.errors import SourceError, SourceGarbled, SourceRefused, SourceUnreachable
from hwsonde_detector.sources.auth import Credentials
from hwsonde_detector.types.alerts import Alert
from hwsonde_detector.types.guidance import Matcher, Normal
from hwsonde_detector.types.patterns import compiled

_MOST_BYTES = 1 << 25
_CHUNK = 1 << 16
_MOST_PATTERN = 1000
# Unbounded repeats in a pattern; the time to match a name of a host grows with the power of their number. Up to so many characters count as bounded.
_MOST_REPEATS, _FEW = 3, 10
_REPEATS = {_parser.MAX_REPEAT, _parser.MIN_REPEAT, _parser.POSSESSIVE_REPEAT}

log = logging.getLogger("hwsonde_detector.sources")
_COMMENT = 80
_SLOW = "one of its patterns may take long to match; use fewer * and +, and none within another"
_UNREADABLE = "one of its patterns cannot be read here; write it without classes such as [[:lower:]], without \\p, \\z and \\Q, and flags first"


@dataclass(frozen=True, slots=True)
class AlertmanagerOptions:
    """Address, bound of an answer, identity and certificates."""

    url: str
    timeout_ms: int = 5000
    credentials: Credentials = field(default_factory=Credentials)
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None


class Alertmanager:
    """Asks one Alertmanager.

    Parameters
    ----------
    options
        Where and how.
    monotonic
        Clock of the bound on a whole answer, in seconds.
    """

    def __init__(self, options: AlertmanagerOptions, monotonic: Callable[[], float] = _monotonic) -> None:
        self._options = options
        self._monotonic = monotonic
        session = requests.Session()
        # The environment would otherwise send secrets elsewhere.
        session.trust_env = False
        session.headers.update({"User-Agent": "hwsonde-detector", "Accept": "application/json"})
        session.verify = str(options.ca_file) if options.ca_file else True
        if options.cert_file:
            cert = str(options.cert_file)
            session.cert = (cert, str(options.key_file)) if options.key_file else cert
        self._session = session

    def alerts(self) -> tuple[Alert, ...]:
        """Everything that fires, silenced or not; raises `SourceError`."""
        return parse_alerts(self._get("/api/v2/alerts"))

    def silences(self, marker: Sequence[Matcher], labels: Collection[str]) -> tuple[Normal, ...]:
        """Silences that say what is normal; see `parse_silences`. Raises `SourceError`."""
        return parse_silences(self._get("/api/v2/silences"), marker, labels)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _get(self, path: str) -> bytes:
        options = self._options
        seconds = options.timeout_ms / 1000
        deadline = self._monotonic() + seconds
        try:
            with self._session.get(
                options.url.rstrip("/") + path,
                headers=options.credentials.fresh(),
                timeout=(seconds, seconds),
                stream=True,
                allow_redirects=False,
            ) as response:
                if response.status_code != 200:
                    raise SourceRefused(
                        f"Alertmanager answers {response.status_code} to {path}; check the section alertmanager"
                    )
                body = bytearray()
                while chunk := response.raw.read1(_CHUNK, decode_content=True):
                    body += chunk
                    if len(body) > _MOST_BYTES or self._monotonic() > deadline:
                        raise SourceUnreachable(
                            f"Alertmanager's answer to {path} is too large or too slow; see alertmanager.timeout"
                        )
                return bytes(body)
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise SourceUnreachable(
                f"Alertmanager cannot be asked ({type(error).__name__}); check alertmanager.url"
            ) from None


def parse_alerts(body: bytes) -> tuple[Alert, ...]:
    """Alerts of an answer.

    Raises
    ------
    SourceGarbled
        It is no list of alerts.
    """
    return tuple(_parsed(body, _alert))


def parse_silences(body: bytes, marker: Sequence[Matcher], labels: Collection[str]) -> tuple[Normal, ...]:
    """Silences of an answer that say what is normal, in order of their ids.

    Such a silence has the matchers of ``marker``, at least one other, and of these none on anything but ``labels``: whoever names an alert or a
    part silences less than a host. Those that are over are left out.

    Raises
    ------
    SourceGarbled
        It is no list of silences.
    """
    found = [one for one in _parsed(body, lambda part: _silence(part, marker, labels)) if one is not None]
    return tuple(normal for _, normal in sorted(found, key=lambda pair: pair[0]))


def _parsed(body: bytes, read: Callable[[Mapping[str, Any]], Any]) -> list[Any]:
    try:
        parts = orjson.loads(body)
        if not isinstance(parts, list):
            raise TypeError("no list")  # noqa: TRY301 - told with every other garbled answer
        return [read(part) for part in parts]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise SourceGarbled(
            f"Alertmanager's answer is not what version 2 of its interface promises ({type(error).__name__}); check alertmanager.url"
        ) from None


def _alert(part: Mapping[str, Any]) -> Alert:
    status = part["status"]
    return Alert(
        labels=tuple(sorted((str(name), str(value)) for name, value in part["labels"].items())),
        state=str(status["state"]),
        since_ms=_instant(part["startsAt"]),
        summary=str(part.get("annotations", {}).get("summary", "")),
        silenced=bool(status.get("silencedBy")),
        inhibited=bool(status.get("inhibitedBy")),
    )


def _silence(part: Mapping[str, Any], marker: Sequence[Matcher], labels: Collection[str]) -> tuple[str, Normal] | None:
    matchers = [
        Matcher(str(one["name"]), str(one["value"]), bool(one["isRegex"]), bool(one.get("isEqual", True)))
        for one in part["matchers"]
    ]
    rest = [one for one in matchers if one not in marker]
    marked = all(one in matchers for one in marker)
    if part["status"]["state"] == "expired" or not marked or not rest or any(one.name not in labels for one in rest):
        return None
    name = str(part["id"])
    if why := next(filter(None, (_unusable(one.value) for one in rest if one.regex)), ""):
        _say_once(name, why)
        return None
    comment = " ".join(str(part.get("comment", "")).split())
    if len(comment) > _COMMENT:
        # With the mark whoever replaces names knows that the last word may be part of one.
        comment = f"{comment[: _COMMENT - 1]}\N{HORIZONTAL ELLIPSIS}"
    reason = f"silence {name[:8]}{f' ({comment})' if comment else ''}"
    return name, Normal(tuple(rest), _instant(part["startsAt"]), _instant(part["endsAt"]), "silence", reason)


def _unusable(pattern: str) -> str:
    """Why a pattern is not used; empty where it is."""
    if len(pattern) > _MOST_PATTERN:
        return _SLOW
    if compiled(pattern) is None:
        return _UNREADABLE
    return _SLOW if _repeats(_parser.parse(pattern)) > _MOST_REPEATS else ""


def _repeats(parsed: Iterable[tuple[object, Any]]) -> int:
    """Unbounded repeats in a parsed pattern; one within another counts as too many.

    Alertmanager matches in linear time whatever the pattern, Python tries again: its time grows with the power of the number of
    repeats, and without bound where they are nested.
    """
    count = 0
    for operator, argument in parsed:
        inner = 0
        if operator in _REPEATS:
            low, high, part = argument
            inner = _repeats(part)
            unbounded = high - low > _FEW
            count += (1 + inner * _MOST_REPEATS) if unbounded else inner * max(int(high), 1)
        elif operator is _parser.BRANCH:
            count += sum(_repeats(part) for part in argument[1])
        elif operator is _parser.SUBPATTERN:
            count += _repeats(argument[-1])
        elif operator in {_parser.LITERAL, _parser.NOT_LITERAL, _parser.ANY, _parser.IN, _parser.AT, _parser.CATEGORY}:
            continue
        else:
            # What looks around or back, and Alertmanager's patterns cannot.
            return _MOST_REPEATS + 1
    return count


@lru_cache(1000)
def _say_once(name: str, why: str) -> None:
    log.warning("silence %s says nothing here: %s", name[:8], why)


def _instant(text: str) -> int:
    at = datetime.fromisoformat(text)
    return round(at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1000)


__all__ = ["Alertmanager", "AlertmanagerOptions", "SourceError", "parse_alerts", "parse_silences"]

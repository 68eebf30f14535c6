"""What a failed request means: the library's exception -> one `SourceError` with the server's name and what to do."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import TypeAlias

import requests
from requests.exceptions import ProxyError
from urllib3.exceptions import DecodeError, HTTPError, IncompleteRead, NewConnectionError, ReadTimeoutError

from hwsonde_detector.errors import SourceError, SourceGarbled, SourceUnreachable
from hwsonde_detector.sources.decode import one_line
from hwsonde_detector.sources.options import SourceOptions

_Kinds: TypeAlias = tuple[type[BaseException], ...]


class DroppedError(SourceUnreachable):
    """The connection ended before an answer began: a kept connection may just have been old."""


_TABLE: tuple[tuple[_Kinds, type[SourceError], Callable[[str, SourceOptions], str]], ...] = (
    (
        (requests.ConnectTimeout,),
        SourceUnreachable,
        lambda _, options: (
            f"no connection within {options.connect_timeout_ms / 1000:g} s; check source.url and firewalls"
        ),
    ),
    (
        (requests.Timeout, ReadTimeoutError, TimeoutError),
        SourceUnreachable,
        lambda _, options: (
            f"no answer within {options.read_timeout_ms / 1000:g} s; it may be overloaded, source.read_timeout gives it longer"
        ),
    ),
    (
        (ProxyError,),
        SourceUnreachable,
        lambda reason, _: f"the proxy does not let us through: {reason}; check source.proxy",
    ),
    ((ssl.SSLError,), SourceUnreachable, lambda reason, _: f"TLS failed: {reason}; check source.url and source.tls"),
    (
        (IncompleteRead, http.client.IncompleteRead),
        SourceGarbled,
        lambda *_: "the answer is truncated: the connection ended early; check the server's log and what lies between",
    ),
    ((DecodeError,), SourceGarbled, lambda *_: "the answer cannot be unpacked; check what lies between"),
    ((NewConnectionError,), SourceUnreachable, lambda reason, _: f"{reason}; start it or check source.url"),
    (
        (ConnectionError,),
        DroppedError,
        lambda *_: "the connection was closed without an answer; check that it runs and speaks HTTP there",
    ),
    ((HTTPError,), SourceGarbled, lambda reason, _: f"the answer is no HTTP: {reason}; check source.url"),
)
"""First fitting row counts: kinds of exception anywhere in the chain, the error that is raised, its sentence."""


def failure(error: Exception, where: str, options: SourceOptions) -> SourceError:
    """Give the error to raise for one that a request raised.

    Parameters
    ----------
    error
        What the HTTP library raised.
    where
        Host and port, for the line.
    options
        Its time limits are named.
    """
    causes = list(_causes(error))
    for kinds, result, sentence in _TABLE:
        if any(isinstance(cause, kinds) for cause in causes):
            return result(f"{where}: {sentence(_reason(causes), options)}")
    # What no row fits may name files, as that a certificate is not where it should be.
    return SourceError(
        f"{where}: the request failed: {_reason(causes)}; check the section source",
        shown=f"{where}: the request failed; the detector's log says why",
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Walk over an error and all that it wraps: by cause, by context, as an argument, as ``reason``."""
    waiting: list[object] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, BaseException) and id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [one.__cause__, one.__context__, getattr(one, "reason", None), *one.args]


def _reason(causes: list[BaseException]) -> str:
    """Give the shortest honest words: those of the resolver, of TLS, of the operating system."""
    for cause in causes:
        if isinstance(cause, socket.gaierror):
            return f"the name is not known ({one_line(cause.strerror or cause, 80)})"
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"the certificate is not trusted ({one_line(cause.verify_message, 80)})"
        if isinstance(cause, ssl.SSLError):
            return one_line(cause.reason.replace("_", " ").lower() if cause.reason else cause.args[-1], 80)
    for cause in causes:
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused"
        if isinstance(cause, OSError) and not isinstance(cause, requests.RequestException) and cause.strerror:
            return one_line(cause.strerror, 80)
    return one_line(causes[-1], 120) or type(causes[-1]).__name__

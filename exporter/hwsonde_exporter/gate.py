"""Stands before every page: password, rate limit and the headers that the operator wants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hwsonde_exporter.passwords import Verdict
from hwsonde_exporter.protection import Keeper
from hwsonde_exporter.refusals import Refusals

Headers = list[tuple[str, str]]
StartResponse = Callable[[str, Headers], Any]
Application = Callable[[Mapping[str, Any], StartResponse], Iterable[bytes]]

_WITHOUT_PASSWORD = frozenset({"/-/healthy", "/-/ready"})


class Gate:
    """WSGI application that lets through what the present protection admits.

    Whether the program lives and is ready is told without a password, as the detector does by default: probes of Kubernetes have none, and
    an answer of one word says no more than an open port. A password that is sent there is looked at all the same.

    Parameters
    ----------
    application
        What is behind.
    keeper
        Knows the present protection.
    refusals
        Counts what was refused.
    """

    def __init__(self, application: Application, keeper: Keeper, refusals: Refusals) -> None:
        self._application = application
        self._keeper = keeper
        self._refusals = refusals

    def __call__(self, environ: Mapping[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        protection = self._keeper.refresh()
        address = str(environ.get("REMOTE_ADDR") or "")
        if protection.headers:
            start_response = _with_headers(start_response, protection.headers)
        if protection.limiter is not None and not protection.limiter.admits():
            self._refusals.note("rate", address, "more requests than rate_limit admits")
            return _refuse(environ, start_response, "429 Too Many Requests", "more requests than rate_limit admits\n")
        header = environ.get("HTTP_AUTHORIZATION")
        if protection.passwords is not None and (
            header is not None or environ.get("PATH_INFO") not in _WITHOUT_PASSWORD
        ):
            verdict = protection.passwords.verdict(header, address)
            if verdict is Verdict.LATER:
                self._refusals.note("tries", address, "too many passwords tried")
                return _refuse(environ, start_response, "429 Too Many Requests", "too many passwords tried\n")
            if verdict is Verdict.DENIED:
                self._refusals.note("password", address, "no password, or a wrong one")
                return _refuse(environ, start_response, "401 Unauthorized", "user name and password are needed\n")
        return self._application(environ, start_response)


def _refuse(environ: Mapping[str, Any], start_response: StartResponse, status: str, text: str) -> Iterable[bytes]:
    headers = [
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Length", str(len(text))),
        ("X-Content-Type-Options", "nosniff"),
        ("WWW-Authenticate", 'Basic realm="hwsonde-exporter"') if status.startswith("401") else ("Retry-After", "1"),
    ]
    start_response(status, headers)
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [text.encode()]


def _with_headers(start_response: StartResponse, wanted: Iterable[tuple[str, str]]) -> StartResponse:
    chosen = list(wanted)
    names = {name.lower() for name, _ in chosen}

    def start(status: str, headers: Headers) -> object:
        return start_response(status, [*(pair for pair in headers if pair[0].lower() not in names), *chosen])

    return start

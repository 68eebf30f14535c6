"""Requests and answers, as the parts of the HTTP interface hand them to each other."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

import orjson


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked.

    Attributes
    ----------
    method, path, query
        The path is decoded, the query is as it stands behind the question mark.
    body
        What was sent, bounded.
    user
        Who is signed in; empty where nobody is.
    """

    method: str
    path: str
    query: str = ""
    body: bytes = b""
    user: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, type and body of a response.

    ``forms`` allows the page to send its forms back to this server.
    """

    status: HTTPStatus
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = (("Cache-Control", "no-store"),)
    forms: bool = False


class Pages(Protocol):
    """A further part of the interface."""

    def answer(self, request: Request) -> Answer | None:
        """Answer to a path of its own; None for any other."""


def line(status: HTTPStatus, text: str, *headers: tuple[str, str]) -> Answer:
    """One line for people."""
    return Answer(status, "text/plain; charset=utf-8", f"{text}\n".encode(), (("Cache-Control", "no-store"), *headers))


def json_answer(document: object) -> Answer:
    """JSON."""
    try:
        body = orjson.dumps(document)
    except TypeError:
        # Label values may hold lone surrogates, which no JSON text can; they are shown as a replacement character.
        body = orjson.dumps(_clean(document))
    return Answer(HTTPStatus.OK, "application/json", body)


def _clean(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_clean(key): _clean(inner) for key, inner in value.items()}
    return [_clean(inner) for inner in value] if isinstance(value, list | tuple) else value

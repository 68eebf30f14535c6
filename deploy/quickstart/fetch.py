"""Small HTTP requests to programs on loopback, past any proxy that the environment names."""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlencode

from quickstart.layout import LOOPBACK


class FetchError(Exception):
    """Nobody answered, or not as promised."""


def get(port: int, path: str, *, timeout: float = 2.0) -> bytes:
    """Body of a GET that was answered with 200.

    Raises
    ------
    FetchError
        If nobody answers in ``timeout`` seconds, or with another status.
    """
    connection = HTTPConnection(LOOPBACK, port, timeout=timeout)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
    except (OSError, HTTPException) as error:
        raise FetchError(f"port {port}: {error}") from error
    finally:
        connection.close()
    if response.status != 200:
        raise FetchError(f"port {port}: {path} answers {response.status}")
    return body


def get_json(port: int, path: str, *, timeout: float = 2.0) -> Any:  # noqa: ANN401  # whatever the answer holds
    """Like `get`, decoded."""
    try:
        return json.loads(get(port, path, timeout=timeout))
    except ValueError as error:
        raise FetchError(f"port {port}: {path} does not answer with JSON") from error


def answers(port: int, path: str) -> bool:
    """Whether a GET is answered with 200 now."""
    try:
        get(port, path, timeout=1.0)
    except FetchError:
        return False
    return True


def query(port: int, expression: str) -> list[dict[str, Any]]:
    """Result of an instant query of Prometheus.

    Raises
    ------
    FetchError
        If Prometheus does not answer, or says no.
    """
    answer = get_json(port, "/api/v1/query?" + urlencode({"query": expression}))
    try:
        result: list[dict[str, Any]] = answer["data"]["result"]
    except (KeyError, TypeError) as error:
        raise FetchError(f"port {port}: an answer without a result to {expression}") from error
    return result

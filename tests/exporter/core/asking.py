"""Asking a served exporter, with and without an HTTP library."""

import http.client
import socket
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from hwsonde_exporter.exporter import Exporter, ExporterSettings
from hwsonde_exporter.host import Paths
from hwsonde_exporter.runner import RunnerSettings
from tests.exporter.core.fakes import REAL_CLOCKS

Port = int


def exporter_of(*kinds: Any, disabled: str = "off") -> Exporter:
    enabled = frozenset(kind.name for kind in kinds) - {disabled}
    settings = ExporterSettings(RunnerSettings(enabled, 0.5, 100), 0.0)
    return Exporter({kind.name: kind for kind in kinds}, Paths(), settings, REAL_CLOCKS)


def ask(port: Port, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def raw(port: Port, request: bytes, patience: float = 5.0) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=patience) as connection:
        connection.sendall(request)
        answer = b""
        try:
            while piece := connection.recv(65536):
                answer += piece
        except (TimeoutError, ConnectionResetError):
            pass
        return answer


def names_in(body: bytes) -> set[str]:
    return {sample.name for family in text_string_to_metric_families(body.decode()) for sample in family.samples}

import gzip
import socket
import time
from typing import Any

import pytest

from hwsonde_exporter.errors import ListenError
from hwsonde_exporter.exporter import Exporter
from hwsonde_exporter.server import Listeners
from hwsonde_exporter.state import State
from hwsonde_exporter.web import Application
from tests.exporter.core.asking import Port, ask, names_in, raw


def test_metrics_in_the_format_that_is_asked_for(port: Port) -> None:
    status, headers, body = ask(port, "/metrics?collect[]=heat&collect[]=exporter")
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert {"hwsonde_heat_celsius", "hwsonde_exporter_build_info"} <= names_in(body)
    status, headers, body = ask(port, "/metrics?collect[]=heat", Accept="application/openmetrics-text;version=1.0.0")
    assert headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert body.endswith(b"# EOF\n")


def test_gzip_only_when_asked_for(port: Port) -> None:
    _, headers, plain = ask(port, "/metrics?collect[]=heat")
    assert "Content-Encoding" not in headers
    _, headers, packed = ask(port, "/metrics?collect[]=heat", Accept_Encoding="gzip")
    assert headers["Content-Encoding"] == "gzip"
    assert int(headers["Content-Length"]) == len(packed)
    assert gzip.decompress(packed) == plain


def test_a_hanging_collector_costs_only_its_own_series_and_the_header_sets_the_wait(port: Port) -> None:
    began = time.monotonic()
    status, _, body = ask(port, "/metrics", X_Prometheus_Scrape_Timeout_Seconds="0.6")
    assert time.monotonic() - began < 2.0
    assert status == 200
    assert "hwsonde_heat_celsius" in names_in(body)
    assert "hwsonde_slow" not in names_in(body)


def test_collect_and_exclude(port: Port) -> None:
    assert names_in(ask(port, "/metrics?collect[]=heat")[2]) == {"hwsonde_heat_celsius"}
    assert names_in(ask(port, "/metrics?collect%5B%5D=heat")[2]) == {"hwsonde_heat_celsius"}
    assert "hwsonde_heat_celsius" not in names_in(ask(port, "/metrics?exclude[]=heat&exclude[]=slow")[2])


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("collect[]=hat", b"no collector is called 'hat'; there are exporter, heat, off, slow\n"),
        ("collect[]=heat&exclude[]=slow", b"collect[] and exclude[] exclude each other; use one of them\n"),
        ("exclude[]=", b"no collector is called ''; there are exporter, heat, off, slow\n"),
        ("collect[]=off", b"collector off is switched off; --collector.off switches it on\n"),
        ("&".join(["collect[]=heat"] * 300), b"the query has more than 200 fields\n"),
        (
            "collect[]=" + "x" * 3000,
            b"no collector is called '" + b"x" * 59 + b"...; there are exporter, heat, off, slow\n",
        ),
    ],
)
def test_a_query_for_what_there_is_not_is_one_line(port: Port, query: str, text: bytes) -> None:
    status, _, body = ask(port, f"/metrics?{query}")
    assert (status, body) == (400, text)


def test_pages_health_and_readiness(port: Port, exporter: Exporter) -> None:
    assert ask(port, "/-/healthy")[::2] == (200, b"healthy\n")
    assert ask(port, "/-/ready")[0] == 503
    exporter.ready = True
    assert ask(port, "/-/ready")[::2] == (200, b"ready\n")
    ask(port, "/metrics?collect[]=heat")
    status, headers, body = ask(port, "/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b"node&lt;1&gt;" in body
    assert b"disabled: switched off" in body


def test_head_not_found_and_wrong_method(port: Port) -> None:
    for path in ("/", "/metrics?collect[]=heat", "/-/healthy"):
        status, headers, body = ask(port, path, "HEAD")
        assert (status, body) == (200, b"")
        assert int(headers["Content-Length"]) > 0
    assert ask(port, "/nothing")[0] == 404
    status, headers, _ = ask(port, "/metrics", "POST")
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


GARBLED = [
    b"\r\n\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200,
    b"GET\r\n\r\n",
    b"GET /metrics HTTP/9.9\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: x\r\nno colon here\r\n\r\n",
    b"GET /%ff%00%fe HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 40000 + b"\r\n\r\n",
    b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
    b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\nConnection: close\r\n\r\n",
    b"POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n",
    b"GET http://[::1/metrics HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /metrics?%zz&collect[]=%ff HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
]


@pytest.mark.parametrize("request_bytes", GARBLED, ids=range(len(GARBLED)))
def test_garbled_and_oversized_requests_are_harmless(port: Port, request_bytes: bytes) -> None:
    answer = raw(port, request_bytes, patience=0.5)
    assert b"Traceback" not in answer
    assert b" 200 OK" not in answer
    assert ask(port, "/-/healthy")[0] == 200


def test_no_traceback_reaches_a_client(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        ready, names, enabled = True, frozenset({"x"}), frozenset({"x"})

        def scrape(self, names: Any, timeout: Any) -> Any:
            raise RuntimeError("secret place /root/x.py")

        def refused(self) -> None: ...

        def states(self) -> list[State]:
            return []

    listeners = Listeners([("127.0.0.1", 0)], Application(Broken(), "x"), threads=2)
    listeners.start()
    try:
        for _ in range(9):  # more than there are slots: each is given back
            assert ask(listeners.addresses[0][1], "/metrics")[::2] == (
                500,
                b"internal error; the exporter's log says more\n",
            )
    finally:
        listeners.stop()
    assert "secret place" in caplog.text


def test_a_taken_port_is_one_line_that_says_what_to_do(exporter: Exporter) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError) as caught:
            Listeners([("127.0.0.1", 0), ("127.0.0.1", port)], Application(exporter, "x"), threads=1)
    assert str(caught.value) == (
        f"cannot listen on 127.0.0.1:{port}: another program has the port; stop it or choose another with --web.listen-address"
    )


def test_an_address_that_is_not_ours_is_one_line(exporter: Exporter) -> None:
    with pytest.raises(ListenError, match=r"this host has no such address; correct --web\.listen-address"):
        Listeners([("192.0.2.7", 0)], Application(exporter, "x"), threads=1)


def test_several_addresses_and_all_interfaces(exporter: Exporter) -> None:
    listeners = Listeners([("127.0.0.1", 0), ("", 0)], Application(exporter, "x"), threads=1)
    listeners.start()
    try:
        for _, port in listeners.addresses:
            assert ask(port, "/-/healthy")[0] == 200
    finally:
        listeners.stop()


def test_a_scrape_that_cannot_wait_is_counted(port: Port) -> None:
    for header in ("0.2", "0.2"):
        ask(port, "/metrics", X_Prometheus_Scrape_Timeout_Seconds=header)
    text = ask(port, "/metrics?collect[]=exporter")[2].decode()
    found = [line for line in text.splitlines() if line.startswith("hwsonde_exporter_scrapes_incomplete_total")]
    assert len(found) == 1
    assert 1 <= float(found[0].split()[1]) <= 2

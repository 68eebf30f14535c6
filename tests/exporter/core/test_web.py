import gzip
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from hwsonde_exporter import server as server_module
from hwsonde_exporter.compression import gzip_compressor
from hwsonde_exporter.errors import ListenError
from hwsonde_exporter.exporter import Exporter, ExporterSettings
from hwsonde_exporter.host import Paths
from hwsonde_exporter.metric import Sample
from hwsonde_exporter.runner import RunnerSettings
from hwsonde_exporter.server import Listeners
from hwsonde_exporter.state import State
from hwsonde_exporter.web import (
    MAX_SCRAPE_SECONDS,
    Application,
    BadQueryError,
    accepts_gzip,
    chosen_names,
    scrape_timeout,
)
from tests.exporter.core.fakes import REAL_CLOCKS, Gate, collector_kind, gauge, heat_of

Port = int


def exporter_of(*kinds: Any, disabled: str = "off") -> Exporter:
    enabled = frozenset(kind.name for kind in kinds) - {disabled}
    settings = ExporterSettings(RunnerSettings(enabled, 0.5, 100), 0.0)
    return Exporter({kind.name: kind for kind in kinds}, Paths(), settings, REAL_CLOCKS)


@pytest.fixture
def gate() -> Iterator[Gate]:
    found = Gate([Sample(gauge("slow"), (), 1)])
    yield found
    found.event.set()


@pytest.fixture
def exporter(gate: Gate) -> Iterator[Exporter]:
    made = exporter_of(
        collector_kind("heat", heat_of(21.5)),
        collector_kind("slow", gate, metrics=(gauge("slow"),)),
        collector_kind("off", list, metrics=()),
    )
    yield made
    made.stop()


@pytest.fixture
def port(exporter: Exporter) -> Iterator[Port]:
    listeners = Listeners([("127.0.0.1", 0)], Application(exporter, "node<1>", 2, gzip_compressor()), threads=4)
    listeners.start()
    yield listeners.addresses[0][1]
    listeners.stop()


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


class Blocked:
    """An exporter whose scrapes last until they are let go."""

    ready, names, enabled = True, frozenset({"x"}), frozenset({"x"})

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.let_go = threading.Event()
        self.turned_away = 0

    def scrape(self, names: Any, timeout: Any) -> list[Any]:
        self.entered.release()
        self.let_go.wait(20)
        return []

    def refused(self) -> None:
        self.turned_away += 1

    def states(self) -> list[State]:
        return []


def test_too_many_scrapes_at_once_are_refused_and_counted() -> None:
    blocked = Blocked()
    listeners = Listeners([("127.0.0.1", 0)], Application(blocked, "x", max_scrapes=2), threads=4)
    listeners.start()
    port = listeners.addresses[0][1]
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(ask(port, "/metrics")[0])) for _ in range(2)]
    try:
        for thread in threads:
            thread.start()
            assert blocked.entered.acquire(timeout=10)
        status, headers, body = ask(port, "/metrics")
        assert (status, headers["Retry-After"]) == (503, "1")
        assert body.startswith(b"2 scrapes are under way already;")
        assert blocked.turned_away == 1
        assert ask(port, "/-/healthy")[0] == 200
        blocked.let_go.set()
        for thread in threads:
            thread.join(10)
        assert answers == [200, 200]
        assert ask(port, "/metrics")[0] == 200
    finally:
        blocked.let_go.set()
        listeners.stop()


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


def test_silent_connections_hold_no_worker_up(port: Port) -> None:
    """There are four workers; a connection takes one only when it says something."""
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
    try:
        began = time.monotonic()
        assert ask(port, "/-/healthy")[0] == 200
        assert time.monotonic() - began < 2
    finally:
        for connection in silent:
            connection.close()


def test_requests_that_never_end_are_cut_off(exporter: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_REQUEST_SECONDS", 0.2)
    listeners = Listeners([("127.0.0.1", 0)], Application(exporter, "x"), threads=2)
    listeners.start()
    port = listeners.addresses[0][1]
    slow = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(3)]
    slow[0].sendall(b"GET /met")
    slow[1].sendall(b"GET / HTTP/1.1\r\nHost")
    try:
        deadline = time.monotonic() + 5
        closed = set()
        while len(closed) < 3 and time.monotonic() < deadline:
            listeners.reap()
            slow[1].settimeout(0.05)
            for place, connection in enumerate(slow):
                connection.settimeout(0.05)
                try:
                    if not connection.recv(65536):
                        closed.add(place)
                except TimeoutError:
                    pass
                except OSError:
                    closed.add(place)
        assert closed == {0, 1, 2}
        assert ask(port, "/-/healthy")[0] == 200
    finally:
        listeners.stop()


def healthy(connection: socket.socket) -> bool:
    """Ask over a connection that stays open."""
    connection.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = b""
    while not answer.endswith(b"healthy\n"):
        piece = connection.recv(65536)
        if not piece:
            return False
        answer += piece
    return True


def test_beyond_the_bound_the_connection_idle_for_longest_makes_room(
    exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever keeps all connections open locks nobody out."""
    monkeypatch.setattr(server_module, "_MAX_CONNECTIONS", 3)
    listeners = Listeners([("127.0.0.1", 0)], Application(exporter, "x"), threads=2)
    listeners.start()
    kept = [socket.create_connection(listeners.addresses[0], timeout=5) for _ in range(3)]
    try:
        for connection in (kept[1], kept[0], kept[2], kept[0]):
            assert healthy(connection)
            time.sleep(0.02)
        for _ in range(2):
            with socket.create_connection(listeners.addresses[0], timeout=5) as scraper:
                assert healthy(scraper)
        assert healthy(kept[0])
        assert kept[1].recv(1) == b""
    finally:
        for connection in kept:
            connection.close()
        listeners.stop()


def test_beyond_the_bound_connections_are_closed_while_all_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_MAX_CONNECTIONS", 2)
    blocked = Blocked()
    listeners = Listeners([("127.0.0.1", 0)], Application(blocked, "x"), threads=2)
    listeners.start()
    port = listeners.addresses[0][1]
    threads = [threading.Thread(target=ask, args=(port, "/metrics")) for _ in range(2)]
    try:
        for thread in threads:
            thread.start()
            assert blocked.entered.acquire(timeout=10)
        assert raw(port, b"GET /-/healthy HTTP/1.0\r\n\r\n") == b""
        blocked.let_go.set()
        for thread in threads:
            thread.join(10)
        assert b"healthy" in raw(port, b"GET /-/healthy HTTP/1.0\r\n\r\n")
    finally:
        blocked.let_go.set()
        listeners.stop()


def test_the_oldest_silent_connection_makes_room(exporter: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_MAX_CONNECTIONS", 3)
    listeners = Listeners([("127.0.0.1", 0)], Application(exporter, "x"), threads=2)
    listeners.start()
    address = listeners.addresses[0]
    asking = socket.create_connection(address, timeout=5)
    silent = []
    try:
        assert healthy(asking)
        silent += [socket.create_connection(address, timeout=5) for _ in range(2)]
        for _ in range(2):
            with socket.create_connection(address, timeout=5) as scraper:
                assert healthy(scraper)
        assert silent[0].recv(1) == b""
        assert healthy(asking)
    finally:
        for connection in (asking, *silent):
            connection.close()
        listeners.stop()


def test_whoever_has_most_connections_gives_up_one_even_if_it_is_being_served(
    exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that ask and do not read the answers lock nobody else out, nor cost him the connection that he has."""
    monkeypatch.setattr(server_module, "_MAX_CONNECTIONS", 6)
    monkeypatch.setattr(server_module, "_SLOW_SECONDS", 0.1)
    listeners = Listeners([("127.0.0.1", 0)], Application(exporter, "x"), threads=2)
    listeners.start()
    address = listeners.addresses[0]
    scraper = socket.create_connection(address, timeout=5)
    crowd = []
    try:
        assert healthy(scraper)
        for _ in range(5):
            slow = socket.socket()
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            slow.bind(("127.0.0.2", 0))
            slow.connect(address)
            slow.settimeout(0.2)
            with suppress(TimeoutError):
                while True:
                    slow.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)
            crowd.append(slow)
        for _ in range(2):
            with socket.create_connection(address, timeout=5) as another:
                assert healthy(another)
        assert healthy(scraper)
    finally:
        for connection in (scraper, *crowd):
            connection.close()
        listeners.stop()


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


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("1", 0.8),
        ("0.5", 0.4),
        ("10", 9.5),
        (None, None),
        ("", None),
        ("x", None),
        ("-1", None),
        ("0", None),
        ("nan", None),
        ("inf", None),
    ],
)
def test_scrape_timeout_leaves_a_margin(header: str | None, seconds: float | None) -> None:
    assert scrape_timeout(header) == (None if seconds is None else pytest.approx(seconds))


def test_the_margin_may_be_set() -> None:
    assert scrape_timeout("10", 2.0) == pytest.approx(8.0)
    assert scrape_timeout("1", 2.0) == pytest.approx(0.8), "a fifth at most"
    assert scrape_timeout("10", 0.0) == pytest.approx(10.0)


@given(st.text(max_size=60))
def test_any_header_is_understood_or_not(header: str) -> None:
    assert accepts_gzip(header) in {True, False}
    seconds = scrape_timeout(header)
    assert seconds is None or 0 < seconds <= MAX_SCRAPE_SECONDS


@pytest.mark.parametrize("header", ["60", "1e300", "99999999999999999999"])
def test_nobody_holds_a_place_for_as_long_as_he_says(header: str) -> None:
    assert scrape_timeout(header) == MAX_SCRAPE_SECONDS < server_module._REQUEST_SECONDS


TEXT = "text/plain; version=0.0.4; charset=utf-8"
# What Prometheus 3 sends, and Prometheus 2 before it.
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (PROMETHEUS_3, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        (PROMETHEUS_2, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        ("text/plain;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", TEXT),
        ("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,text/plain;version=0.0.4;q=0.3", TEXT),
        ("text/html,application/xhtml+xml,*/*;q=0.8", TEXT),
    ],
)  # fmt: skip
def test_scrapers_get_what_they_like_best_with_a_strict_content_type(
    port: Port, accept: str, content_type: str
) -> None:
    status, headers, body = ask(port, "/metrics?collect[]=heat", Accept=accept, Accept_Encoding="gzip")
    assert (status, headers["Content-Type"], headers["Content-Encoding"]) == (200, content_type, "gzip")
    assert gzip.decompress(body).endswith(b"# EOF\n") == content_type.startswith("application/openmetrics")


def test_a_scrape_that_cannot_wait_is_counted(port: Port) -> None:
    for header in ("0.2", "0.2"):
        ask(port, "/metrics", X_Prometheus_Scrape_Timeout_Seconds=header)
    text = ask(port, "/metrics?collect[]=exporter")[2].decode()
    found = [line for line in text.splitlines() if line.startswith("hwsonde_exporter_scrapes_incomplete_total")]
    assert len(found) == 1
    assert 1 <= float(found[0].split()[1]) <= 2


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, False),
        ("gzip", True),
        ("deflate, gzip;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0", False),
        ("identity", False),
        ("gzip;q=x", False),
        ("br;q=1.0, X-GZIP", True),
        ("*", True),
        ("*;q=0", False),
        ("gzip;q=0, *", False),
        ("gzip;q=0.5, identity", False),
        ("gzip;q=0.5, identity;q=0.5", True),
        ("identity;q=0.1, gzip;q=0.2", True),
        ("gzip;q=1.5", False),
        ("gzip;q=-1", False),
        ("gzip;q=nan", False),
        ("gzip;x=y", True),
        ("gzip , deflate", True),
        (",,;q=1", False),
    ],
)
def test_gzip_is_accepted_when_the_header_says_so(header: str | None, expected: bool) -> None:
    assert accepts_gzip(header) is expected


@given(st.text(max_size=100))
def test_any_query_is_read_or_refused_in_one_line(query: str) -> None:
    names, message, found = frozenset({"a", "b", "c"}), "", None
    try:
        found = chosen_names(query, names, names - {"c"})
    except BadQueryError as error:
        message = str(error)
    assert "\n" not in message
    assert found is None or found <= names

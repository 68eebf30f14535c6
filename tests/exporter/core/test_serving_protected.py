"""TLS, client certificates and passwords, asked for by real curl and real Prometheus."""

import logging
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hwsonde_exporter import server as server_module
from hwsonde_exporter.errors import ConfigError
from hwsonde_exporter.exporter import Exporter
from hwsonde_exporter.protection import Keeper
from tests.exporter.core.certificates import Authority
from tests.exporter.core.fakes import Clock, collector_kind, heat_of
from tests.exporter.core.protected import PASSWORD, Place, Prometheus, curl, hashed, served
from tests.exporter.core.test_cli import COMMAND, ENVIRONMENT
from tests.exporter.core.test_web import exporter_of, names_in


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    made = exporter_of(collector_kind("heat", heat_of(21.5)))
    yield made
    made.stop()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def eventually(work: object, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not work():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.05)


def test_curl_over_tls(exporter: Exporter, place: Place) -> None:
    place.write()
    with served(exporter, place) as (port, _, refusals):
        assert curl(port, "--cacert", place.authority.cert) == (0, 200, "healthy")
        assert "hwsonde_heat_celsius" in names_in(
            curl(port, "--cacert", place.authority.cert, path="/metrics")[2].encode() + b"\n"
        )
        for version in ("--tlsv1.2", "--tlsv1.3"):
            assert curl(port, "--cacert", place.authority.cert, version)[1] == 200
        assert curl(port, "--cacert", place.authority.cert, "--http2")[1] == 200
        wrong = Authority(place.folder / "wrong", "wrong")
        assert curl(port, "--cacert", wrong.cert)[0] == 60, "curl does not trust another CA"
        assert curl(port, scheme="http") == (0, 400, "this port speaks HTTPS only")
        assert curl(port, "--tls-max", "1.1", "--cacert", place.authority.cert)[0] == 35
        eventually(lambda: refusals.counts["tls"] == 3)


def test_client_certificates(exporter: Exporter, place: Place) -> None:
    place.write("  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem")
    good = place.authority.sign("client", "DNS:prometheus.example")
    bad = Authority(place.folder / "wrong", "wrong").sign("client", "DNS:prometheus.example")
    with served(exporter, place) as (port, _, refusals):
        trusted = ("--cacert", place.authority.cert)
        assert curl(port, *trusted, "--cert", good[0], "--key", good[1])[1] == 200
        assert curl(port, *trusted)[0] != 0
        assert curl(port, *trusted, "--tlsv1.2", "--tls-max", "1.2")[0] != 0
        assert curl(port, *trusted, "--cert", bad[0], "--key", bad[1])[0] != 0
        eventually(lambda: refusals.counts["tls"] == 3)


@pytest.mark.parametrize(
    ("auth", "none", "foreign", "good"),
    [
        ("NoClientCert", True, True, True),
        ("RequestClientCert", True, True, True),
        ("RequireAnyClientCert", False, True, True),
        ("VerifyClientCertIfGiven", True, False, True),
        ("RequireAndVerifyClientCert", False, False, True),
    ],
)
@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_each_way_of_asking_for_a_certificate(
    exporter: Exporter, place: Place, auth: str, none: bool, foreign: bool, good: bool, version: str
) -> None:
    ca = "" if auth == "NoClientCert" else "\n  client_ca_file: ca.pem"
    place.write(f"  client_auth_type: {auth}{ca}")
    ours = place.authority.sign("client", "DNS:a")
    theirs = Authority(place.folder / "wrong", "wrong").sign("client", "DNS:a")
    options = ("--cacert", place.authority.cert, f"--tlsv{version}", "--tls-max", version)
    with served(exporter, place) as (port, _, _):
        assert (curl(port, *options)[1] == 200) is none
        assert (curl(port, *options, "--cert", theirs[0], "--key", theirs[1])[1] == 200) is foreign
        assert (curl(port, *options, "--cert", ours[0], "--key", ours[1])[1] == 200) is good


@pytest.mark.parametrize(
    ("names", "admitted"),
    [
        ("DNS:prometheus.example", True),
        ("DNS:x,IP:10.1.2.3", True),
        ("URI:spiffe://cluster/prometheus", True),
        ("email:ops@example.org", True),
        ("IP:2001:db8::7", True),
        ("DNS:prometheus.example.evil", False),
        ("DNS:*.example", False),
        ("IP:10.1.2.4", False),
    ],
)
def test_names_of_client_certificates(exporter: Exporter, place: Place, names: str, admitted: bool) -> None:
    allowed = "[prometheus.example, 10.1.2.3, 'spiffe://cluster/prometheus', ops@example.org, '2001:db8::7']"
    place.write(
        f"  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n  client_allowed_sans: {allowed}"
    )
    cert, key = place.authority.sign("client", names)
    with served(exporter, place) as (port, _, refusals):
        answer = curl(port, "--cacert", place.authority.cert, "--cert", cert, "--key", key)
        assert (answer[1] == 200) is admitted
        assert refusals.counts["tls"] == (0 if admitted else 1)


def test_passwords_over_tls(exporter: Exporter, place: Place) -> None:
    place.write("", {"prometheus": hashed(PASSWORD), "zoë": hashed("pässword")})
    with served(exporter, place) as (port, _, refusals):
        trusted = ("--cacert", place.authority.cert)
        assert curl(port, *trusted, "-u", f"prometheus:{PASSWORD}")[1] == 200
        assert curl(port, *trusted, "-u", "zoë:pässword")[1] == 200
        assert curl(port, *trusted)[1:] == (401, "user name and password are needed")
        assert curl(port, *trusted, "-u", f"Prometheus:{PASSWORD}")[1] == 401
        assert curl(port, *trusted, "-u", "prometheus:guess")[1:] == (429, "too many passwords tried")
        assert curl(port, *trusted, "-u", f"prometheus:{PASSWORD}", path="/metrics")[1] == 200
        assert curl(port, *trusted, "-I")[2].count("WWW-Authenticate: Basic realm=") == 1
        for path in ("/", "/metrics", "/-/ready", "/nothing"):
            assert curl(port, *trusted, path=path)[1] == 401
        assert refusals.counts == {"tls": 0, "password": 7, "tries": 1, "rate": 0}


def test_a_remembered_password_costs_nothing_and_waits_for_nobody(exporter: Exporter, place: Place) -> None:
    place.write(None, {"prometheus": hashed(PASSWORD, 13)})
    with served(exporter, place) as (port, _, _):
        right = ("-u", f"prometheus:{PASSWORD}")
        began = time.monotonic()
        assert curl(port, *right, scheme="http")[1] == 200
        first = time.monotonic() - began
        guessing = threading.Thread(target=curl, args=(port, "-u", "prometheus:guess"), kwargs={"scheme": "http"})
        guessing.start()
        time.sleep(0.1)
        began = time.monotonic()
        for _ in range(5):
            assert curl(port, *right, scheme="http")[1] == 200
        assert time.monotonic() - began < first, "five scrapes with a remembered password take less than one check"
        guessing.join(20)


def test_a_changed_password_counts_and_the_old_one_is_forgotten(exporter: Exporter, place: Place) -> None:
    place.write(None, {"prometheus": hashed("outworn")})
    clock = Clock()
    with served(exporter, place, clock) as (port, _, _):
        assert curl(port, "-u", "prometheus:outworn", scheme="http")[1] == 200
        place.write(None, {"prometheus": hashed("renewed")})
        clock.now += 2
        assert curl(port, "-u", "prometheus:outworn", scheme="http")[1] == 401
        clock.now += 2
        assert curl(port, "-u", "prometheus:renewed", scheme="http")[1] == 200


def test_headers_and_rate(exporter: Exporter, place: Place) -> None:
    place.write(
        None,
        None,
        "http_server_config: {headers: {X-Frame-Options: deny, Content-Security-Policy: default-src 'none'}}",
    )
    clock = Clock()
    with served(exporter, place, clock) as (port, keeper, refusals):
        head = curl(port, "-I", scheme="http", path="/")[2]
        assert "X-Frame-Options: deny" in head
        assert head.count("Content-Security-Policy:") == 1
        place.write(None, None, "rate_limit: {interval: 1s, burst: 2}")
        assert keeper.reload()
        assert [curl(port, scheme="http")[1] for _ in range(4)] == [200, 200, 429, 429]
        clock.now += 1
        assert [curl(port, scheme="http")[1] for _ in range(2)] == [200, 429]
        assert refusals.counts["rate"] == 3


# ---- changed files -------------------------------------------------------------------------------------------------


def test_a_renewed_certificate_is_taken_over_and_a_broken_one_is_not(
    exporter: Exporter, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.write()
    clock = Clock()
    caplog.set_level(logging.INFO)
    with served(exporter, place, clock) as (port, keeper, _):
        old = place.authority.cert
        assert curl(port, "--cacert", old)[1] == 200
        fresh = Authority(place.folder / "fresh", "fresh")
        place.renew(fresh)
        assert curl(port, "--cacert", old)[1] == 200, "within a second nobody looks"
        clock.now += 1.1
        assert curl(port, "--cacert", fresh.cert)[1] == 200
        assert curl(port, "--cacert", old)[0] == 60
        assert keeper.success
        place.key.write_text("half a ke")
        for _ in range(3):
            clock.now += 1.1
            assert curl(port, "--cacert", fresh.cert)[1] == 200
        assert not keeper.success
        complaints = [record for record in caplog.records if "stay as they were" in record.message]
        assert len(complaints) == 1
        assert "half a ke" not in caplog.text
        place.renew(fresh)
        clock.now += 1.1
        assert curl(port, "--cacert", fresh.cert)[1] == 200
        assert keeper.success


def test_a_certificate_that_is_swapped_by_a_link_is_seen(exporter: Exporter, place: Place) -> None:
    """As mounted secrets of Kubernetes change: a link to the folder is turned, in one step."""
    fresh = Authority(place.folder / "fresh", "fresh")
    for name, authority in (("one", place.authority), ("two", fresh)):
        (place.folder / name).mkdir()
        for made, target in zip(authority.sign("server"), ("tls.crt", "tls.key"), strict=True):
            made.replace(place.folder / name / target)
    (place.folder / "data").symlink_to("one")
    place.file.write_text("tls_server_config: {cert_file: data/tls.crt, key_file: data/tls.key}\n")
    clock = Clock()
    with served(exporter, place, clock) as (port, _, _):
        assert curl(port, "--cacert", place.authority.cert)[1] == 200
        (place.folder / "new").symlink_to("two")
        (place.folder / "new").replace(place.folder / "data")
        clock.now += 1.1
        assert curl(port, "--cacert", fresh.cert)[1] == 200


def test_protection_is_never_taken_away_by_a_changed_file(exporter: Exporter, place: Place) -> None:
    place.write("", {"prometheus": hashed(PASSWORD)})
    clock = Clock()
    with served(exporter, place, clock) as (port, keeper, _):
        for text in ("", "tls_server_config: {}", "rate_limit: {interval: 0}", "::: [", "unknown: 1"):
            place.file.write_text(text)
            clock.now += 1.1
            assert curl(port, "--cacert", place.authority.cert)[1] == 401, text
            assert not keeper.success
        place.file.unlink()
        clock.now += 1.1
        assert curl(port, "--cacert", place.authority.cert)[1] == 401
        place.write("")
        clock.now += 1.1
        assert curl(port, "--cacert", place.authority.cert)[1] == 401, "users do not vanish either"
        place.write("", {"prometheus": hashed(PASSWORD)})
        clock.now += 1.1
        assert curl(port, "--cacert", place.authority.cert, "-u", f"prometheus:{PASSWORD}")[1] == 200
        assert keeper.success


def test_files_are_looked_at_no_more_than_once_a_second(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write()
    clock = Clock()
    keeper = Keeper(place.file, clock)
    looked: list[Path] = []
    original = Path.stat
    monkeypatch.setattr(Path, "stat", lambda self, **how: looked.append(self) or original(self, **how))
    for _ in range(1000):
        keeper.refresh()
    assert looked == []
    clock.now += 1.1
    for _ in range(1000):
        keeper.refresh()
    assert len(looked) == 3


def test_changes_under_load_lose_no_scrape(exporter: Exporter, place: Place) -> None:
    place.write("", {"prometheus": hashed(PASSWORD)})
    both = place.folder / "both.pem"
    fresh = Authority(place.folder / "fresh", "fresh")
    both.write_text(place.authority.cert.read_text() + fresh.cert.read_text())
    clock = Clock()
    ended = threading.Event()
    statuses: list[tuple[int, int]] = []

    def ask(port: int) -> None:
        while not ended.is_set():
            statuses.append(curl(port, "--cacert", both, "-u", f"prometheus:{PASSWORD}", path="/metrics")[:2])

    with served(exporter, place, clock) as (port, keeper, _), ThreadPoolExecutor(3) as pool:
        for _ in range(3):
            pool.submit(ask, port)
        for number in range(8):
            place.renew(fresh if number % 2 else place.authority)
            clock.now += 1.1
            time.sleep(0.1)
        ended.set()
    assert len(statuses) > 10
    assert set(statuses) == {(0, 200)}
    assert keeper.success


# ---- slow, silent and many clients ---------------------------------------------------------------------------------


def test_slow_and_half_open_clients_hold_nobody_up(exporter: Exporter, place: Place) -> None:
    """Far more of them than there are threads while all is quiet."""
    place.write()
    with served(exporter, place, threads=2) as (port, _, _):
        held = []
        for number in range(40):
            connection = socket.create_connection(("127.0.0.1", port))
            if number % 4 == 1:
                connection.sendall(b"\x16")  # a handshake that never goes on
            elif number % 4 == 2:
                connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc")
            elif number % 4 == 3:
                context = ssl._create_unverified_context()
                connection = context.wrap_socket(connection)
                connection.sendall(b"GET /metrics HTTP/1.1\r\nHos")
            held.append(connection)
        began = time.monotonic()
        for _ in range(3):
            assert curl(port, "--cacert", place.authority.cert)[1] == 200
        assert time.monotonic() - began < 5
        for connection in held:
            connection.close()


def test_a_client_that_reads_slowly_holds_nobody_up(place: Place) -> None:
    many = exporter_of(collector_kind("heat", heat_of(1)))
    place.write()
    with served(many, place, threads=1) as (port, _, _):
        context = ssl._create_unverified_context()
        slow = []
        for _ in range(6):
            connection = socket.create_connection(("127.0.0.1", port))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            wrapped = context.wrap_socket(connection)
            wrapped.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
            slow.append(wrapped)
        assert curl(port, "--cacert", place.authority.cert)[1] == 200
        for connection in slow:
            connection.close()
    many.stop()


def test_two_hundred_connections_at_once(exporter: Exporter, place: Place) -> None:
    place.write("", {"prometheus": hashed(PASSWORD, 10)})
    context = ssl.create_default_context(cafile=str(place.authority.cert))
    request = (
        b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic "
        + b64encode(f"prometheus:{PASSWORD}".encode())
        + b"\r\nConnection: close\r\n\r\n"
    )
    ready = threading.Barrier(200)

    def ask(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            ready.wait(60)
            with context.wrap_socket(connection, server_hostname="localhost") as wrapped:
                wrapped.sendall(request)
                answer = b""
                while piece := wrapped.recv(65536):
                    answer += piece
                return answer

    with served(exporter, place) as (port, _, _), ThreadPoolExecutor(200) as pool:
        answers = list(pool.map(ask, [port] * 200))
    assert {answer[:15] for answer in answers} == {b"HTTP/1.1 200 OK"}


def test_requests_that_never_end_are_cut_off_over_tls(
    exporter: Exporter, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "_REQUEST_SECONDS", 0.3)
    place.write()
    with served(exporter, place) as (port, _, _):
        silent, half = (socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(2))
        with silent, half:
            half.sendall(b"\x16\x03")
            assert silent.recv(1) == b""
            assert half.recv(100)[:1] in {b"", b"\x15"}
        assert curl(port, "--cacert", place.authority.cert)[1] == 200


def test_those_without_an_answer_make_room(exporter: Exporter, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half requests on every connection do not lock out who asks properly."""
    monkeypatch.setattr(server_module, "_MAX_CONNECTIONS", 5)
    place.write()
    with served(exporter, place) as (port, _, _):
        half = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
        for connection in half:
            connection.sendall(b"\x16\x03\x01")
        time.sleep(0.1)
        for _ in range(3):
            assert curl(port, "--cacert", place.authority.cert)[1] == 200
        for connection in half:
            connection.close()


# ---- the program and Prometheus ------------------------------------------------------------------------------------


HTTPS = "  scheme: https\n  tls_config:"
AUTH = "  basic_auth: {username: prometheus, password:"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


WAYS = {
    "right": f"{HTTPS} {{ca_file: CA, cert_file: CERT, key_file: KEY}}\n{AUTH} PASSWORD}}\n",
    "wrong-password": f"{HTTPS} {{ca_file: CA, cert_file: CERT, key_file: KEY}}\n{AUTH} wrong}}\n",
    "no-certificate": f"{HTTPS} {{ca_file: CA}}\n{AUTH} PASSWORD}}\n",
    "wrong-ca": f"{HTTPS} {{ca_file: CERT, cert_file: CERT, key_file: KEY}}\n",
    "plain-http": "",
}


def test_prometheus(exporter: Exporter, place: Place) -> None:
    """One Prometheus asks rightly and in four wrong ways; the wrong ones do not disturb the right one."""
    place.write(
        "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem", {"prometheus": hashed(PASSWORD, 10)}
    )
    cert, key = place.authority.sign("prometheus", "DNS:prometheus")
    jobs = dict(WAYS)
    for word, value in (("CA", place.authority.cert), ("CERT", cert), ("KEY", key), ("PASSWORD", PASSWORD)):
        jobs = {name: settings.replace(f" {word}", f" {value}") for name, settings in jobs.items()}
    with served(exporter, place) as (port, _, _):
        prometheus = Prometheus(place.folder, free_port(), port, jobs)
        try:
            errors = prometheus.health({**dict.fromkeys(jobs, "down"), "right": "up"})
            time.sleep(2)
            prometheus.health({**dict.fromkeys(jobs, "down"), "right": "up"}, 5)
        finally:
            prometheus.stop()
    assert errors["right"] == ""
    assert "certificate required" in errors["no-certificate"]
    assert "401" in errors["wrong-password"] or "429" in errors["wrong-password"]
    assert "certificate" in errors["wrong-ca"]
    assert "400" in errors["plain-http"]


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *flags], env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)


def test_a_wrong_file_at_the_start_is_one_line_and_status_2(place: Place) -> None:
    place.write("", {"prometheus": "hunter2"})
    done = run("--web.listen-address", "127.0.0.1:0", "--web.config.file", str(place.file))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"hwsonde-exporter: {place.file}:")
    assert done.stderr.count("\n") == 1
    assert "hunter2" not in done.stderr
    with pytest.raises(ConfigError):
        Keeper(place.file)


def test_the_program_serves_https_and_reads_anew_on_sighup(place: Place) -> None:
    place.write("", {"prometheus": hashed("outworn")})
    port = free_port()
    log = place.folder / "log"
    flags = ["--web.listen-address", f"127.0.0.1:{port}", "--web.config.file", str(place.file), "--sampler.hertz=0"]
    with log.open("wb") as output:
        process = subprocess.Popen([*COMMAND, *flags], env=ENVIRONMENT, stderr=output)
    trusted = ("--cacert", place.authority.cert)
    try:
        eventually(lambda: "serves https://" in log.read_text(), 30)
        assert curl(port, *trusted, "-u", "prometheus:outworn", path="/metrics?collect[]=exporter")[1] == 200
        place.write("", {"prometheus": hashed("renewed")})
        process.send_signal(signal.SIGHUP)
        eventually(lambda: "TLS and users read again" in log.read_text())
        assert curl(port, *trusted, "-u", "prometheus:renewed")[1] == 200
        place.file.write_text("basic_auth_users: {}")
        process.send_signal(signal.SIGHUP)
        eventually(lambda: "TLS and users stay as they were" in log.read_text())
        text = curl(port, *trusted, "-u", "prometheus:renewed", path="/metrics?collect[]=exporter")[2]
        assert "hwsonde_exporter_config_last_reload_successful 0" in text
        assert 'hwsonde_exporter_requests_refused_total{reason="password"} 0' in text
    finally:
        process.terminate()
        assert process.wait(20) == 0
    for secret in ("outworn", "renewed", "$2"):
        assert secret not in log.read_text()


def test_bcrypt_and_tls_are_loaded_only_where_they_are_wanted() -> None:
    code = "import sys, hwsonde_exporter.cli; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"bcrypt", "cheroot"}

"""TLS and passwords over real connections: what who is not signed in gets, and what changed files do."""

from __future__ import annotations

import re
import shutil
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import bcrypt
import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.config.web_file import parse_web_file, read_web_file
from hwsonde_detector.errors import ConfigError
from hwsonde_detector.protection import Keeper, WebFile
from hwsonde_detector.web.app import App, Metrics
from hwsonde_detector.web.guard import Guard
from hwsonde_detector.web.server import WebServer

from .data import StillClock, fleet

TLS = Path(__file__).parents[1] / "sources" / "tls"
# A fixed salt: the names of tests hold the hash, and every process must give them the same names.
HASH = bcrypt.hashpw(b"right", b"$2b$04$03FCZNLLyun3dlyiVLTlXe").decode()
USERS = f'basic_auth_users: {{ann: "{HASH}"}}\n'
SECURE = "tls_server_config: {cert_file: server.pem, key_file: server.pem}\n"
MUTUAL = "tls_server_config: {cert_file: server.pem, key_file: server.pem, client_ca_file: ca.pem, client_auth_type: RequireAndVerifyClientCert}\n"
# Whatever may tell of the fleet.
PATHS = (
    "/", "/metrics", "/api/v1/hosts", "/api/v1/hosts/a/node17", "/api/v1/episodes", "/static/page.js", "/incidents", "/nothing", "//", "/-/healthy/x",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("server.pem", "ca.pem"):
        shutil.copy(TLS / name, tmp_path / name)
    return tmp_path


class Page:
    """A served page, protected by the file ``web.yml``."""

    def __init__(self, folder: Path, text: str, openings: tuple[str, ...] = ("health",)) -> None:
        self.file = folder / "web.yml"
        self.file.write_text(text)
        self.now = 0.0
        self.keeper = Keeper(self.file, read_web_file, lambda: self.now)
        board, history = fleet()
        guard = Guard(self.keeper.refresh, openings)
        app = App(board, history, StillClock(), Metrics("text/plain", lambda *_: b"x 1\n"), (), guard)
        self.server = WebServer("127.0.0.1", 0, app, self.keeper.refresh)
        self.server.start()

    def get(self, path: str, scheme: str = "http", **more) -> requests.Response:
        with requests.Session() as session:
            session.trust_env = False
            return session.get(f"{scheme}://127.0.0.1:{self.server.port}{path}", timeout=10, **more)

    def change(self, text: str) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(text)
        new.replace(self.file)
        self.now += 2


@pytest.fixture
def serve(folder: Path) -> Iterator:
    pages: list[Page] = []

    def start(*given, **more) -> Page:
        pages.append(Page(folder, *given, **more))
        return pages[-1]

    yield start
    for page in pages:
        page.server.stop()


def test_who_is_not_signed_in_learns_nothing(serve) -> None:
    page = serve(USERS)
    for path in PATHS:
        for auth in (None, ("ann", "")):
            answer = page.get(path, auth=auth)
            if answer.status_code == 429:
                continue
            assert answer.status_code == 401, path
            assert answer.headers["WWW-Authenticate"].startswith("Basic ")
            assert answer.text == "a name and a password are asked for here\n"
            assert not re.search(r"node|9090|hwsonde/\d", answer.text + str(answer.headers)), answer.headers
    assert page.get("/-/healthy").text == "healthy\n"
    assert page.get("/-/ready").status_code == 200
    assert requests.post(f"http://127.0.0.1:{page.server.port}/", data=b"x" * 50, timeout=10).status_code == 401


def test_who_is_signed_in_sees_everything(serve) -> None:
    page = serve(USERS)
    for path in ("/", "/metrics", "/api/v1/hosts"):
        assert page.get(path, auth=("ann", "right")).status_code == 200


def test_what_is_open_is_chosen(serve) -> None:
    page = serve(USERS, openings=("metrics",))
    assert page.get("/metrics").status_code == 200
    assert page.get("/-/healthy").status_code == 401
    closed = serve(USERS, openings=())
    assert {closed.get(path).status_code for path in ("/metrics", "/-/healthy", "/-/ready")} == {401}


def test_tls_is_spoken_with_the_given_certificate_and_plain_http_is_told_so(serve) -> None:
    page = serve(SECURE + USERS)
    answer = page.get("/", "https", verify=TLS / "ca.pem", auth=("ann", "right"))
    assert answer.status_code == 200
    assert page.get("/", "https", verify=TLS / "ca.pem").status_code == 401
    assert page.get("/", "http").text == "this port speaks HTTPS only\n"


def test_a_client_certificate_is_asked_for(serve) -> None:
    page = serve(MUTUAL)
    assert page.get("/", "https", verify=TLS / "ca.pem", cert=str(TLS / "client.pem")).status_code == 200
    with pytest.raises(requests.ConnectionError):
        page.get("/", "https", verify=TLS / "ca.pem")


def test_who_begins_tls_and_says_nothing_keeps_nobody_else(serve) -> None:
    page = serve(SECURE)
    silent = [socket.create_connection(("127.0.0.1", page.server.port)) for _ in range(20)]
    try:
        for one in silent:
            one.sendall(b"")
        assert page.get("/-/healthy", "https", verify=TLS / "ca.pem").status_code == 200
    finally:
        for one in silent:
            one.close()


def test_a_large_answer_crosses_tls_whole_from_several_threads(serve) -> None:
    page = serve(SECURE)
    whole = page.get("/static/uPlot.iife.min.js", "https", verify=TLS / "ca.pem").content
    found: list[bytes] = []

    def ask() -> None:
        found.extend(page.get("/static/uPlot.iife.min.js", "https", verify=TLS / "ca.pem").content for _ in range(5))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(whole) > 30_000
    assert found == [whole] * 15


def test_changed_files_are_taken_over_and_broken_ones_are_not(serve, caplog) -> None:
    page = serve(USERS)
    other = bcrypt.hashpw(b"new", bcrypt.gensalt(4)).decode()
    page.change(f'basic_auth_users: {{ann: "{other}"}}\n')
    assert page.get("/", auth=("ann", "new")).status_code == 200
    page.now += 2
    assert page.get("/", auth=("ann", "right")).status_code == 401
    for text in ("basic_auth_users: [", "basic_auth_users: {ann: plain}", "{}"):
        page.change(text)
        assert page.get("/").status_code == 401
    assert "plain" not in caplog.text.replace("plain password", "")
    assert page.get("/", auth=("ann", "new")).status_code == 200
    page.change(SECURE + f'basic_auth_users: {{ann: "{other}"}}\n')
    assert page.get("/", "https", verify=TLS / "ca.pem", auth=("ann", "new")).status_code == 200


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("basic_auth_users: {ann: secret}", r":1: basic_auth_users\.ann: no bcrypt hash"),
        ("basic_auth_users: {'a:b': x}", "without a colon"),
        (f"basic_auth_users: {{ann: '{HASH.replace('$04$', '$31$')}'}}", "cost 31"),
        ("tls_server_config: {cert_file: a.pem}", "cert_file and key_file"),
        ("a: 1\ntls_server_config: {}", "allowed: basic_auth_users"),
        ("tls_server_config: {cert_file: a, key_file: b, cipher_suites: [X]}", "not kept by the detector"),
        ("tls_server_config: {cert_file: a, key_file: b, client_ca_file: c}", "checks nobody"),
        ("tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequireAndVerifyClientCert}", "needs client_ca_file"),
        ("tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequireAnyClientCert}", "not kept by the detector"),
        ("tls_server_config: {cert_file: a, key_file: b, client_allowed_sans: [x]}", "client_allowed_sans needs"),
        ("tls_server_config: {cert_file: a, key_file: b, min_version: TLS13, max_version: TLS12}", "is above"),
        ("http_server_config: {headers: {X-Thing: a}}", "X-Thing: not allowed"),
        ('http_server_config: {headers: {X-Frame-Options: "a\\nb"}}', "on one line"),
        ("rate_limit: {burst: 1}", "not kept by the detector"),
        ("[1]", "no section"),
        ("basic_auth_users: 7", "no section"),
        ("basic_auth_users: {a: [", ":1: "),
    ],
)  # fmt: skip
def test_a_wrong_file_is_one_line_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        parse_web_file(text.encode(), Path("/etc/web.yml"))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("/etc/web.yml:")
    assert "secret" not in str(caught.value)


def test_what_needs_no_protection_changes_nothing() -> None:
    for text in ("", "{}", "tls_server_config:\nbasic_auth_users:\n", "http_server_config: {http2: true, headers: {}}"):
        assert parse_web_file(text.encode(), Path("w")) == WebFile()


@given(st.binary(max_size=200))
def test_any_file_is_read_or_refused_in_one_line(data: bytes) -> None:
    said = ""
    try:
        parse_web_file(data, Path("w"))
    except ConfigError as error:
        said = str(error)
    assert "\n" not in said


def test_certificates_that_are_none_are_one_line(folder: Path) -> None:
    (folder / "bad.pem").write_text("-----BEGIN PRIVATE KEY-----\nsecret\n")
    for cert, key in (
        ("bad.pem", "server.pem"),
        ("server.pem", "bad.pem"),
        ("none.pem", "server.pem"),
        ("ca.pem", "server.pem"),
    ):
        (folder / "web.yml").write_text(f"tls_server_config: {{cert_file: {cert}, key_file: {key}}}")
        with pytest.raises(ConfigError) as caught:
            Keeper(folder / "web.yml", read_web_file)
        assert "\n" not in str(caught.value)
        assert "secret" not in str(caught.value)
    with pytest.raises(ConfigError, match=r"web\.config_file cannot be read"):
        Keeper(folder / "none.yml", read_web_file)


def test_old_versions_of_tls_are_refused(serve) -> None:
    page = serve(SECURE.replace("}", ", min_version: TLS13}"))
    context = ssl.create_default_context(cafile=TLS / "ca.pem")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        socket.create_connection(("127.0.0.1", page.server.port), timeout=10) as plain,
        pytest.raises((ssl.SSLError, OSError)),
    ):
        context.wrap_socket(plain, server_hostname="127.0.0.1").do_handshake()


def test_a_turned_link_is_seen(folder: Path, serve) -> None:
    """As secrets are mounted into containers: the file stays the same, what it points to changes."""
    page = serve(USERS)
    other = bcrypt.hashpw(b"linked", bcrypt.gensalt(4)).decode()
    (folder / "b.yml").write_text(f'basic_auth_users: {{ann: "{other}"}}\n')
    page.file.unlink()
    page.file.symlink_to(folder / "b.yml")
    page.now += 2
    assert page.get("/", auth=("ann", "linked")).status_code == 200


@pytest.mark.parametrize("sent", [b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b""])
def test_a_client_that_breaks_off_a_handshake_ends_nothing(serve, folder: Path, sent: bytes) -> None:
    page = serve(SECURE)
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", page.server.port), timeout=10) as client:
            # Reset instead of an orderly end.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(sent)
    for _ in range(3):
        assert page.get("/-/healthy", "https", verify=folder / "ca.pem").status_code == 200

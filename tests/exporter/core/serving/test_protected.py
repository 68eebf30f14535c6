"""TLS, client certificates and passwords, asked for by real curl and real Prometheus."""

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hwsonde_exporter.exporter import Exporter
from hwsonde_exporter.protection import Keeper
from tests.exporter.core.asking import names_in
from tests.exporter.core.fakes import Clock
from tests.exporter.core.serving.certificates import Authority
from tests.exporter.core.serving.protected import PASSWORD, Place, curl, hashed, served
from tests.exporter.core.serving.waiting import eventually


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
        assert curl(port, *trusted, path="/")[1:] == (401, "user name and password are needed")
        assert curl(port, *trusted, "-u", f"Prometheus:{PASSWORD}")[1] == 401
        assert curl(port, *trusted, "-u", "prometheus:guess")[1:] == (429, "too many passwords tried")
        assert curl(port, *trusted, "-u", f"prometheus:{PASSWORD}", path="/metrics")[1] == 200
        assert curl(port, *trusted, "-I", path="/")[2].count("WWW-Authenticate: Basic realm=") == 1
        for path in ("/", "/metrics", "/-/ready/", "/nothing"):
            assert curl(port, *trusted, path=path)[1] == 401
        assert refusals.counts == {"tls": 0, "password": 7, "tries": 1, "rate": 0}


def test_health_is_told_without_a_password_and_nothing_is_counted(exporter: Exporter, place: Place) -> None:
    place.write("", {"prometheus": hashed(PASSWORD)})
    with served(exporter, place) as (port, _, refusals):
        trusted = ("--cacert", place.authority.cert)
        assert curl(port, *trusted) == (0, 200, "healthy")
        assert curl(port, *trusted, path="/-/ready")[2] in {"ready", "not ready"}
        assert set(refusals.counts.values()) == {0}
        assert curl(port, *trusted, "-u", "prometheus:guess")[1] == 401, "a password that is sent is looked at"


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
            assert curl(port, "--cacert", place.authority.cert, path="/")[1] == 401, text
            assert not keeper.success
        place.file.unlink()
        clock.now += 1.1
        assert curl(port, "--cacert", place.authority.cert, path="/")[1] == 401
        place.write("")
        clock.now += 1.1
        assert curl(port, "--cacert", place.authority.cert, path="/")[1] == 401, "users do not vanish either"
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

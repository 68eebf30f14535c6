"""The source against a real HTTP server that behaves well, badly and very badly."""

from __future__ import annotations

import re
import socket
import time
import zlib

import pytest

from hwsonde_detector.errors import (
    ConfigError,
    SourceError,
    SourceGarbled,
    SourcePartial,
    SourceRefused,
    SourceUnreachable,
)
from hwsonde_detector.sources.auth import Credentials, FileSecret
from hwsonde_detector.sources.decode import SEPARATOR
from hwsonde_detector.sources.http import is_loopback
from hwsonde_detector.sources.options import SourceOptions
from hwsonde_detector.sources.prometheus import BACKENDS, PrometheusSource, selectors
from tests.detector.sources import server as fake
from tests.detector.sources.answers import EMPTY, answer, identity
from tests.detector.sources.server import source

BODY = answer([(identity("up", node="a"), [(1_000_000, 1.0), (1_001_000, 0.0)])])


def failure(server, *behaviours, **options):
    server.play(*behaviours)
    with pytest.raises(SourceError) as caught:
        source(server, **options).read(999_000, 1_002_000)
    text = str(caught.value)
    assert "\n" not in text
    assert f"127.0.0.1:{server.server_port}: " in text
    return caught.value


def test_one_instant_query_with_a_range(server):
    server.play(fake.good(BODY))
    read = source(server, selector='job=~"hwsonde-exporter"').read(1_000_000, 1_002_345)
    (asked,) = server.asked
    assert asked.path == "/api/v1/query"
    asked_for = {"query": '{__name__=~"up",job=~"hwsonde-exporter"}[3s]', "time": "1002.345"}
    assert asked.form == {**asked_for, **BACKENDS["prometheus"]}
    assert asked.headers["accept-encoding"] == "identity"
    assert read.batch.times.tolist() == [1_001_000]
    assert read.raw == BODY
    assert read.since_ms == 1_000_000


def test_samples_later_than_the_time_asked_for_are_left_out_and_counted(server):
    body = answer(
        [
            (identity("up", node="a"), [(1_001_000, 1.0), (1_002_900, 1.0), (1_003_100, 0.0)]),
            (identity("up", node="b"), [(4_600_000, 1.0)]),
        ]
    )
    server.play(fake.good(body))
    read = source(server).read(1_000_000, 1_002_000)
    assert read.batch.times.tolist() == [1_001_000, 1_002_900]
    assert [dict(one.labels) for one in read.batch.series] == [{"node": "a"}]
    assert (read.future, read.raw) == (2, body)
    assert source(server).read(1_000_000, 4_600_000).future == 0


def test_a_long_gap_is_bounded_and_no_time_asks_nothing(server):
    server.play(fake.good(EMPTY))
    one = source(server, max_range_ms=60_000)
    assert one.read(0, 1_000_000).since_ms == 940_000
    assert server.asked[0].form["query"].endswith("[60s]")
    assert one.read(2_000_000, 1_000_000).raw is None
    assert len(server.asked) == 1


def test_a_path_prefix_and_backend_fields(server):
    server.play(fake.good(EMPTY))
    source(server, url=f"{server.url}/prom/", backend="thanos").read(0, 1000)
    assert server.asked[0].path == "/prom/api/v1/query"
    assert server.asked[0].form["partial_response"] == "false"
    source(server, backend="victoriametrics").read(0, 1000)
    assert server.asked[1].form["nocache"] == "1"
    # Taken for a Prometheus, VictoriaMetrics would hold back half a minute.
    source(server).read(0, 1000)
    assert {"partial_response": "false", "nocache": "1", "latency_offset": "1ms"}.items() <= server.asked[
        2
    ].form.items()


def test_connections_are_kept_and_a_stale_one_is_replaced(server):
    ports = []

    def noting(handler):
        ports.append(handler.client_address[1])
        handler.reply(EMPTY)

    server.play(noting)
    one = source(server)
    one.read(0, 1000)
    one.read(0, 1000)
    assert ports[0] == ports[1]
    server.play(fake.hangs_up, noting)
    one.read(0, 1000)
    assert ports[2] != ports[0]


def test_secrets_are_sent_and_never_shown(server, tmp_path):
    (tmp_path / "token").write_text("s3cr3t\n")
    server.play(fake.good(EMPTY), fake.status(401))
    credentials = Credentials(
        bearer=FileSecret(tmp_path / "token"),
        tenant="blue",
        headers={"X-A": "b"},
        secret_headers={"X-C": FileSecret(tmp_path / "token")},
    )
    one = source(server, credentials=credentials)
    one.read(0, 1000)
    headers = server.asked[0].headers
    assert (headers["authorization"], headers["x-scope-orgid"], headers["x-a"], headers["x-c"]) == (
        "Bearer s3cr3t",
        "blue",
        "b",
        "s3cr3t",
    )
    with pytest.raises(SourceRefused) as caught:
        one.read(0, 1000)
    assert "s3cr3t" not in str(caught.value) + repr(one.options) + repr(vars(one))


def test_the_environment_does_not_redirect_loopback(server, monkeypatch, tmp_path):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login u password p\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    server.play(fake.good(EMPTY))
    for from_environment in (False, True):
        source(server, proxy_from_environment=from_environment).read(0, 1000)
    assert all("authorization" not in asked.headers for asked in server.asked)


def test_a_configured_proxy_is_used(server):
    server.play(fake.good(EMPTY))
    source(server, url="http://prometheus.invalid:9090", proxy_url=server.url).read(0, 1000)
    assert server.asked[0].path == "http://prometheus.invalid:9090/api/v1/query"


def test_a_dead_proxy_is_named(server):
    with pytest.raises(SourceUnreachable, match=r"source\.proxy"):
        source(server, url="http://prometheus.invalid:9090", proxy_url="http://127.0.0.1:1").read(0, 1000)


def test_nobody_listens():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(SourceUnreachable, match=rf"127\.0\.0\.1:{port}: connection refused; start it"):
        PrometheusSource(SourceOptions(f"http://127.0.0.1:{port}"), ["up"]).read(0, 1000)


def test_an_unknown_name():
    with pytest.raises(SourceUnreachable, match="the name is not known"):
        PrometheusSource(SourceOptions("http://prometheus.invalid:9090"), ["up"]).read(0, 1000)


def test_a_server_that_accepts_and_never_answers_ends_at_the_timeout(server):
    began = time.monotonic()
    error = failure(server, fake.silent, read_timeout_ms=300)
    assert isinstance(error, SourceUnreachable)
    assert "no answer within 0.3 s" in str(error)
    assert time.monotonic() - began < 10


def test_a_server_that_trickles_ends_at_the_timeout(server):
    error = failure(server, fake.chunks([b" "] * 100, pause=0.1), connect_timeout_ms=100, read_timeout_ms=300)
    assert isinstance(error, SourceUnreachable)
    assert "did not end in time" in str(error)


def test_a_server_that_stalls_in_the_middle_ends_at_the_timeout(server):
    error = failure(server, fake.stalls(BODY), read_timeout_ms=300)
    assert isinstance(error, SourceUnreachable)
    assert "no answer within 0.3 s" in str(error)


def test_a_huge_error_is_cut(server):
    error = failure(server, fake.status(500, b"x" * 1_000_000))
    assert isinstance(error, SourceRefused)
    assert len(str(error)) < 300


def test_a_server_that_hangs_up_twice(server):
    error = failure(server, fake.hangs_up)
    assert isinstance(error, SourceUnreachable)
    assert "closed without an answer" in str(error)
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("behaviour", "kind", "says"),
    [
        (fake.status(500), SourceRefused, "answers 500: with nothing at all; it may be starting"),
        (
            fake.status(503, b"Service Unavailable"),
            SourceRefused,
            "answers 503: Service Unavailable; it may be starting",
        ),
        (fake.status(401, b"Unauthorized"), SourceRefused, "source.basic, source.bearer"),
        (fake.status(403, b"<html>no</html>"), SourceRefused, "with HTML"),
        (fake.status(404, b"404 page not found"), SourceRefused, "check the path in source.url"),
        (
            fake.status(422, b'{"status":"error","errorType":"execution","error":"expanding series: too\\nlong"}'),
            SourceRefused,
            "execution: expanding series: too long",
        ),
        (
            fake.status(302, b"", Location="https://user:pw@login.example.org/x?token=abc"),
            SourceRefused,
            "sends elsewhere to https://login.example.org; set source.url",
        ),
        (fake.status(307, b"", Location="/other"), SourceRefused, "sends elsewhere; set source.url"),
        (fake.status(204), SourceGarbled, "answers 204"),
        (fake.good(b"<html><body>Welcome</body></html>"), SourceGarbled, "HTML"),
        (fake.good(BODY[:-20]), SourceGarbled, "truncated"),
        (fake.good(b""), SourceGarbled, "nothing at all"),
        (fake.truncated(BODY, len(BODY) // 2), SourceGarbled, "truncated"),
        (fake.chunks([BODY[:30]], whole=False), SourceGarbled, "truncated"),
        (fake.not_http, SourceError, "no HTTP|closed"),
        (fake.status(200, b"\x00garbage", Content_Encoding="gzip"), SourceGarbled, "cannot be unpacked"),
        (fake.good(answer([], warnings=["fetch series for a: context deadline exceeded"])), SourcePartial, "partial"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_answers(server, behaviour, kind, says):
    error = failure(server, behaviour)
    assert isinstance(error, kind)
    assert re.search(says, str(error)), str(error)
    assert "pw" not in str(error)
    assert "abc" not in str(error)


def test_an_answer_that_is_too_large_is_not_read_to_its_end(server):
    error = failure(server, fake.chunks([b" " * 65536] * 200), max_answer=1 << 20)
    assert isinstance(error, SourceGarbled)
    assert "larger than 1048576 bytes" in str(error)


def test_a_packed_answer_is_bounded_by_what_it_unpacks_to(server):
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = packer.compress(b" " * (8 << 20)) + packer.flush()
    error = failure(server, fake.status(200, bomb, Content_Encoding="gzip"), max_answer=1 << 20)
    assert isinstance(error, SourceGarbled)


def test_an_empty_answer_is_no_error(server):
    server.play(fake.good(EMPTY))
    read = source(server).read(0, 1000)
    assert read.batch.series == ()


def test_it_recovers_by_itself(server):
    one = source(server)
    server.play(fake.status(500))
    with pytest.raises(SourceRefused):
        one.read(999_000, 1_002_000)
    server.play(fake.good(BODY))
    assert one.read(999_000, 1_002_000).batch.times.size == 2


def test_many_names_are_asked_for_in_several_queries(server):
    names = [f"metric_{number:04d}_{'x' * 100}" for number in range(700)]
    one = source(server, names)
    assert len(one.selectors) > 1
    server.play(
        *(fake.good(answer([(identity(f"m{number}"), [(1_000_500, 1.0)])])) for number in range(len(one.selectors)))
    )
    read = one.read(1_000_000, 1_001_000)
    assert [one.name for one in read.batch.series] == [f"m{number}" for number in range(len(one.selectors))]
    assert read.raw.count(SEPARATOR) == len(one.selectors) - 1
    asked = "|".join(asked.form["query"].split('"')[1] for asked in server.asked)
    assert asked.split("|") == names


def test_selectors_match_each_name_once():
    assert selectors(["b", "a", "b"], "", longest=1) == ('{__name__=~"a"}', '{__name__=~"b"}')
    assert selectors(["a", "bb"], 'x="y"', longest=4) == ('{__name__=~"a|bb",x="y"}',)


@pytest.mark.parametrize("names", [[], ["a b"], ["hwsonde_anomaly_score"], ["hwsonde_detector_ticks_total"], ['x"}']])
def test_bad_names_are_refused(names):
    with pytest.raises(ConfigError, match="profiles"):
        selectors(names, "")


def test_an_unknown_backend_is_refused():
    with pytest.raises(ConfigError, match="allowed: one of prometheus"):
        PrometheusSource(SourceOptions("http://x", backend="influx"), ["up"])


@pytest.mark.parametrize(
    ("host", "is_it"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("10.0.0.1", False), ("localhost.example.org", False)],
)
def test_loopback(host, is_it):
    assert is_loopback(host) == is_it


def test_ipv6_addresses_are_named_in_brackets():
    with pytest.raises(SourceUnreachable, match=r"\[::1\]:1: "):
        PrometheusSource(SourceOptions("http://[::1]:1"), ["up"]).read(0, 1000)


def test_a_plain_server_behind_https_is_told(server):
    with pytest.raises(SourceUnreachable, match="TLS failed"):
        source(server, url=server.url.replace("http:", "https:")).read(0, 1000)


def test_a_missing_certificate_file_is_told(server, tmp_path):
    with pytest.raises(SourceError, match="source") as caught:
        source(server, url=server.url.replace("http:", "https:"), ca_file=tmp_path / "none.pem").read(0, 1000)
    assert "\n" not in str(caught.value)

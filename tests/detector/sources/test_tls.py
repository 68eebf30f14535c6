"""Certificates are always checked, with an authority and a client certificate of one's own if wanted."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from hwsonde_detector.errors import SourceError, SourceUnreachable
from hwsonde_detector.sources.options import SourceOptions
from hwsonde_detector.sources.prometheus import PrometheusSource
from tests.detector.sources import server as fake
from tests.detector.sources.answers import EMPTY

TLS = Path(__file__).parent / "tls"


@pytest.fixture(params=[False, True], ids=["server", "mutual"])
def server(request):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "server.pem")
    if request.param:
        context.load_verify_locations(TLS / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
    with fake.serving(context) as one:
        one.mutual = request.param
        one.play(fake.good(EMPTY))
        yield one


def source(server, host: str = "127.0.0.1", **options) -> PrometheusSource:
    url = f"https://{host}:{server.server_port}"
    return PrometheusSource(SourceOptions(url, connect_timeout_ms=2000, read_timeout_ms=2000, **options), ["up"])


def test_an_unknown_authority_is_refused(server):
    with pytest.raises(SourceUnreachable, match="TLS failed: the certificate is not trusted") as caught:
        source(server).read(0, 1000)
    assert "source.tls" in str(caught.value)
    assert not server.asked


def test_another_name_than_the_certificates_is_refused(server):
    with pytest.raises(SourceUnreachable, match="TLS failed: the certificate is not trusted"):
        # Another way to write the same address, which needs no table of names and is not what the certificate says.
        source(server, "127.1", ca_file=TLS / "ca.pem").read(0, 1000)


def test_an_authority_and_a_client_certificate(server):
    source(server, ca_file=TLS / "ca.pem", cert_file=TLS / "client.pem").read(0, 1000)
    assert len(server.asked) == 1


def test_a_client_certificate_that_is_missing(server):
    plain = source(server, ca_file=TLS / "ca.pem")
    if server.mutual:
        with pytest.raises(SourceUnreachable) as caught:
            plain.read(0, 1000)
        assert "\n" not in str(caught.value)
        assert not server.asked
    else:
        plain.read(0, 1000)
        assert len(server.asked) == 1


def test_the_environment_cannot_replace_the_authority(server, monkeypatch):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(TLS / "ca.pem"))
    monkeypatch.setenv("CURL_CA_BUNDLE", str(TLS / "ca.pem"))
    with pytest.raises(SourceUnreachable, match="not trusted"):
        source(server).read(0, 1000)


@pytest.mark.parametrize("key", ["ca_file", "cert_file"])
def test_files_that_are_missing_or_wrong(server, tmp_path, key):
    (tmp_path / "wrong.pem").write_text("no certificate\n")
    for path in (tmp_path / "none.pem", tmp_path / "wrong.pem"):
        with pytest.raises(SourceError) as caught:
            source(server, **{"ca_file": TLS / "ca.pem", key: path}).read(0, 1000)
        text = str(caught.value)
        assert text.startswith(f"127.0.0.1:{server.server_port}: ")
        assert "\n" not in text
        assert str(tmp_path) not in caught.value.shown
    assert not server.asked

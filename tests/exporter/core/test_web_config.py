# ruff: noqa: E501  (messages are compared as a whole)
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwsonde_exporter.config_reference import WEB_KEYS
from hwsonde_exporter.errors import ConfigError
from hwsonde_exporter.tls import CIPHERS, CIPHERS_13, make_context, notes, peer_names
from hwsonde_exporter.web_config import _TLS_KEYS, ClientAuth, Pem, TlsConfig, load_web_config, parse_web_config
from tests.exporter.core.serving.certificates import Authority

HASH = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"
TLS = "tls_server_config:\n  cert_file: c\n  key_file: k\n"
AUTHS = (
    "NoClientCert or RequestClientCert or RequireAnyClientCert or VerifyClientCertIfGiven or RequireAndVerifyClientCert"
)


def parsed(text: str):
    return parse_web_config(text.encode(), "web.yml", Path("/etc/x"))


def message_of(work: Callable[[], object]) -> str:
    """What a ConfigError says; empty if there is none."""
    try:
        work()
    except ConfigError as error:
        return str(error)
    return ""


def test_everything_at_once() -> None:
    found = parsed(f"""
tls_server_config:
  cert_file: server.pem
  key_file: /keys/server.key
  client_ca: "PEM"
  client_auth_type: RequireAndVerifyClientCert
  client_allowed_sans: [prometheus, 10.0.0.1]
  min_version: TLS12
  max_version: TLS13
  cipher_suites: [TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]
  curve_preferences: [CurveP256]
  prefer_server_cipher_suites: false
http_server_config:
  http2: true
  headers: {{X-Frame-Options: deny, Strict-Transport-Security: max-age=60, X-XSS-Protection: ""}}
basic_auth_users:
  alice: "{HASH}"
rate_limit: {{interval: 1m1.5s, burst: 20}}
""")
    tls = found.tls
    assert tls is not None
    assert tls.files == (Path("/etc/x/server.pem"), Path("/keys/server.key"))
    assert tls.client_ca == Pem(text=b"PEM")
    assert tls.client_auth is ClientAuth.REQUIRE_AND_VERIFY
    assert tls.allowed_sans == ("prometheus", "10.0.0.1")
    assert not tls.prefer_server_ciphers
    assert found.users == {"alice": HASH.encode()}
    assert found.headers == (("X-Frame-Options", "deny"), ("Strict-Transport-Security", "max-age=60"))
    assert found.rate is not None
    assert (found.rate.interval, found.rate.burst) == (61.5, 20)
    assert len(found.notes) == 1
    assert "http2" in found.notes[0]
    assert HASH not in repr(found)
    assert "PEM" not in repr(found)


@pytest.mark.parametrize(
    "text", ["", "tls_server_config:\n", "{}", "basic_auth_users: {}", "rate_limit: {interval: 0}"]
)
def test_nothing_is_asked_for(text: str) -> None:
    found = parsed(text)
    assert (found.tls, found.users, found.headers, found.rate, found.notes) == (None, {}, (), None, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tls: {}", "web.yml:1: tls: unknown key; allowed: basic_auth_users, http_server_config, rate_limit, tls_server_config"),
        ("tls_server_config:\n  cert_fil: x", "web.yml:2: tls_server_config.cert_fil: unknown key; did you mean tls_server_config.cert_file?"),
        ("tls_server_config: {cert_file: a}", "web.yml:1: tls_server_config: key_file is missing; TLS needs cert_file and key_file"),
        ("tls_server_config: {client_auth_type: NoClientCert}", "web.yml:1: tls_server_config: cert_file is missing; TLS needs cert_file and key_file"),
        ("tls_server_config: {cert_file: a, cert: b}", "web.yml:1: tls_server_config: cert and cert_file exclude each other; allowed: one of them"),
        ("tls_server_config: {cert_file: [a]}", "web.yml:1: tls_server_config.cert_file: must be text"),
        (TLS + "  client_auth_type: Any", f"web.yml:4: tls_server_config.client_auth_type: 'Any' is not allowed; allowed: {AUTHS}"),
        (TLS + "  client_ca_file: x", "web.yml:2: tls_server_config: client_ca_file without client_auth_type checks nobody; add client_auth_type: RequireAndVerifyClientCert"),
        (TLS + "  client_auth_type: VerifyClientCertIfGiven", "web.yml:2: tls_server_config: client_auth_type VerifyClientCertIfGiven needs client_ca_file"),
        (
            TLS + "  client_ca_file: x\n  client_auth_type: VerifyClientCertIfGiven\n  client_allowed_sans: [a]",
            "web.yml:2: tls_server_config: client_allowed_sans needs client_auth_type RequireAndVerifyClientCert: a client without a certificate has no name",
        ),
        (TLS + "  min_version: TLS9", "web.yml:4: tls_server_config.min_version: 'TLS9' is not allowed; allowed: TLS10 or TLS11 or TLS12 or TLS13"),
        (TLS + "  max_version: TLS11", "web.yml:2: tls_server_config: min_version TLS12 is above max_version TLS11"),
        (TLS + "  curve_preferences: [P1]", "web.yml:4: tls_server_config.curve_preferences: 'P1' is not allowed; allowed: CurveP256 or CurveP384 or CurveP521 or X25519"),
        (TLS + "  cipher_suites: x", "web.yml:4: tls_server_config.cipher_suites: must be a list"),
        (TLS + "  prefer_server_cipher_suites: maybe", "web.yml:4: tls_server_config.prefer_server_cipher_suites: 'maybe' is not allowed; allowed: true or false"),
        ("http_server_config: {headers: {Server: x}}", "web.yml:1: http_server_config.headers.Server: unknown key; allowed: Content-Security-Policy, Strict-Transport-Security, X-Content-Type-Options, X-Frame-Options, X-XSS-Protection"),
        ("http_server_config: {headers: {X-Frame-Options: no}}", "web.yml:1: http_server_config.headers.X-Frame-Options: 'no' is not allowed; allowed: deny or sameorigin"),
        ('http_server_config: {headers: {X-XSS-Protection: "a\\r\\nb: c"}}', "web.yml:1: http_server_config.headers.X-XSS-Protection: allowed: printable ASCII text on one line"),
        ("basic_auth_users: [a]", "web.yml:1: basic_auth_users: must be a mapping"),
        ("basic_auth_users: {'a:b': x}", "web.yml:1: basic_auth_users: a user's name must be printable text without a colon"),
        ("basic_auth_users:\n  a: x\n  a: y", "web.yml:3: basic_auth_users.a: given twice; allowed: once"),
        ("basic_auth_users:\n  a: x", "web.yml:2: basic_auth_users: a: no bcrypt hash; allowed: what `htpasswd -nBC 10 USER` prints behind the colon, in quotes"),
        ("basic_auth_users:\n  a: " + HASH.replace("$10$", "$31$"), "web.yml:2: basic_auth_users: a: a hash of cost 31; allowed: 4 to 16"),
        ("rate_limit: {interval: soon}", "web.yml:1: rate_limit.interval: 'soon' is not allowed; allowed: a duration such as 1s or 250ms, 0 for no limit"),
        ("rate_limit: {interval: 1s}", "web.yml:1: rate_limit: burst 0 refuses every request; allowed: 1 or more"),
        ("rate_limit: {burst: -1}", "web.yml:1: rate_limit.burst: '-1' is not allowed; allowed: an integer from 0 to 999999"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(text)
    assert str(caught.value) == message


def test_what_stands_in_a_hashs_place_is_never_shown() -> None:
    for text in (
        "basic_auth_users: {alice: hunter2}",
        "basic_auth_users: {alice: [hunter2]}",
        "basic_auth_users: {alice: {hunter2: x}}",
    ):
        with pytest.raises(ConfigError) as caught:
            parsed(text)
        assert "hunter2" not in str(caught.value)


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"web\.yml: cannot be read: No such file or directory; see --web\.config\.file"
    ):
        load_web_config(tmp_path / "web.yml")


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
@settings(max_examples=300, deadline=None)
def test_any_file_is_read_or_refused_in_one_line(text: bytes) -> None:
    assert "\n" not in message_of(lambda: parse_web_config(text, "web.yml", Path("/etc")))


_NODES = st.recursive(
    st.sampled_from(["a", "true", "1s", "TLS12", "RequireAnyClientCert", HASH, "", '"\\ud800"', "-1"]),
    lambda inner: st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
    | st.dictionaries(st.sampled_from([*_TLS_KEYS, "headers", "http2", "X-Frame-Options", "interval", "burst", "a:b"]), inner, max_size=4).map(
        lambda items: "{" + ", ".join(f"{key!r}: {value}" for key, value in items.items()) + "}"
    ),
    max_leaves=12,
)  # fmt: skip


@given(
    st.dictionaries(
        st.sampled_from(["tls_server_config", "http_server_config", "basic_auth_users", "rate_limit"]),
        _NODES,
        max_size=4,
    )
)
@settings(max_examples=300, deadline=None)
def test_any_values_under_the_keys_are_read_or_refused_in_one_line(sections: dict[str, str]) -> None:
    text = "\n".join(f"{key}: {value}" for key, value in sections.items())
    assert "\n" not in message_of(lambda: parsed(text))


def test_every_key_is_documented() -> None:
    documented = {key for keys, _, _ in WEB_KEYS for key in keys.replace("tls_server_config.", "").split(", ")}
    assert set(_TLS_KEYS) <= documented | {"client_ca"}


# ---- contexts ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"), "ca")


@pytest.fixture(scope="module")
def config(authority: Authority) -> TlsConfig:
    cert, key = authority.sign("server")
    return TlsConfig(Pem(cert), Pem(key), Pem(authority.cert))


def changed(config: TlsConfig, **values: object) -> TlsConfig:
    fields = {name: getattr(config, name) for name in TlsConfig.__dataclass_fields__}
    return TlsConfig(**{**fields, **values})  # type: ignore[arg-type]


def test_versions_and_suites(config: TlsConfig) -> None:
    context = make_context(
        changed(config, minimum="TLS12", maximum="TLS12", ciphers=("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",))
    )
    assert context.maximum_version == ssl.TLSVersion.TLSv1_2
    assert "ECDHE-RSA-AES128-GCM-SHA256" in {cipher["name"] for cipher in context.get_ciphers()}
    assert "ECDHE-RSA-AES256-GCM-SHA384" not in {cipher["name"] for cipher in context.get_ciphers()}
    only_new = make_context(changed(config, ciphers=CIPHERS_13))
    assert only_new.minimum_version == ssl.TLSVersion.TLSv1_3
    assert not make_context(changed(config, prefer_server_ciphers=False)).options & ssl.OP_CIPHER_SERVER_PREFERENCE
    assert make_context(config).options & ssl.OP_CIPHER_SERVER_PREFERENCE


@pytest.mark.parametrize("name", CIPHERS)
def test_openssl_knows_every_suite(config: TlsConfig, name: str) -> None:
    names = {cipher["name"] for cipher in make_context(changed(config, ciphers=(name,))).get_ciphers()}
    assert CIPHERS[name] in names


@pytest.mark.parametrize(
    ("auth", "mode"),
    [
        (ClientAuth.NONE, ssl.CERT_NONE),
        (ClientAuth.REQUEST, ssl.CERT_OPTIONAL),
        (ClientAuth.REQUIRE_ANY, ssl.CERT_REQUIRED),
        (ClientAuth.VERIFY_IF_GIVEN, ssl.CERT_OPTIONAL),
        (ClientAuth.REQUIRE_AND_VERIFY, ssl.CERT_REQUIRED),
    ],
)
def test_client_certificates_are_asked_for(config: TlsConfig, auth: ClientAuth, mode: ssl.VerifyMode) -> None:
    assert make_context(changed(config, client_auth=auth)).verify_mode is mode


def test_texts_in_the_file_serve_as_well_as_files(config: TlsConfig) -> None:
    texts = (Pem(text=config.cert.read("cert_file")), Pem(text=config.key.read("key_file")))
    make_context(changed(config, cert=texts[0], key=texts[1], client_ca=None))


def test_what_is_wrong_with_the_files_is_one_line(config: TlsConfig, authority: Authority, tmp_path: Path) -> None:
    other, _ = authority.sign("other")
    encrypted, garbled = tmp_path / "encrypted.pem", tmp_path / "garbled.pem"
    encrypted.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n")
    garbled.write_text("secret-looking rubbish")
    expected = [
        (changed(config, cert=Pem(other)), f"{config.key.path}: the key does not belong to the certificate in {other}"),
        (changed(config, cert=Pem(garbled)), f"{garbled}, {config.key.path}: no certificate with its key in PEM"),
        (changed(config, key=Pem(garbled)), f"{config.cert.path}, {garbled}: no certificate with its key in PEM"),
        (changed(config, client_ca=Pem(garbled)), f"{garbled}: holds no CA certificates in PEM"),
        (changed(config, cert=Pem(tmp_path / "gone")), f"{tmp_path}/gone: cannot be read: No such file or directory; see cert_file of --web.config.file"),
        (changed(config, ciphers=("TLS_X",)), "tls_server_config.cipher_suites: 'TLS_X' is not allowed; allowed: "),
        (changed(config, ciphers=CIPHERS_13, maximum="TLS12"), "tls_server_config.cipher_suites: none of them is for TLS12, which max_version asks for"),
    ]  # fmt: skip
    for wrong, message in expected:
        with pytest.raises(ConfigError) as caught:
            make_context(wrong)
        assert str(caught.value).startswith(message)
        assert "\n" not in str(caught.value)
        assert "rubbish" not in str(caught.value)
    with pytest.raises(ConfigError):
        make_context(changed(config, key=Pem(encrypted)))


def test_an_encrypted_key_is_named_as_such(config: TlsConfig, tmp_path: Path) -> None:
    path = tmp_path / "locked.pem"
    subprocess.run(
        ["openssl", "pkey", "-in", str(config.key.path), "-aes256", "-passout", "pass:x", "-out", str(path)],
        check=True,
        timeout=60,
    )
    with pytest.raises(ConfigError, match=r"locked\.pem: the key is encrypted; write it without a passphrase"):
        make_context(changed(config, key=Pem(path)))


def test_what_has_no_effect_is_said(config: TlsConfig) -> None:
    assert notes(config) == []
    assert notes(changed(config, curves=("CurveP256",))) == []
    assert "no effect" in notes(changed(config, curves=("X25519", "CurveP256")))[0]
    assert "lets everybody in" in notes(changed(config, client_auth=ClientAuth.REQUIRE_ANY))[0]
    assert "keeps nobody out" in notes(changed(config, client_auth=ClientAuth.REQUIRE_ANY, allowed_sans=("a",)))[0]


def test_names_of_a_certificate() -> None:
    certificate = {
        "subjectAltName": (
            ("DNS", "a.example"), ("IP Address", "2001:DB8:0:0:0:0:0:1"), ("IP Address", "10.0.0.1"), ("email", "a@b"), ("URI", "spiffe://x/y"),
            ("DirName", "z"), ("IP Address", "rubbish"),
        )
    }  # fmt: skip
    assert peer_names(certificate) == {"a.example", "2001:db8::1", "10.0.0.1", "a@b", "spiffe://x/y"}
    assert peer_names(None) == peer_names({}) == set()

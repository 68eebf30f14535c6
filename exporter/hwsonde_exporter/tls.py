"""TLS for the listeners: what ``tls_server_config`` says, as a context of the standard library."""

from __future__ import annotations

import ctypes
import ipaddress
import os
import ssl
from functools import cache
from pathlib import Path
from typing import Any

from hwsonde_exporter.errors import ConfigError
from hwsonde_exporter.web_config import ClientAuth, Pem, TlsConfig

_VERSIONS = {
    "TLS10": ssl.TLSVersion.TLSv1,
    "TLS11": ssl.TLSVersion.TLSv1_1,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}
# Go's names of the suites that it offers for TLS 1.2 and older, and OpenSSL's.
CIPHERS = {
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
}
# Those of TLS 1.3 cannot be chosen, in Go as here.
CIPHERS_13 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
_CURVES = {"CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1"}

_SSL_VERIFY_PEER = 1
_SSL_VERIFY_FAIL_IF_NO_PEER_CERT = 2


def notes(config: TlsConfig) -> list[str]:
    """What has no full effect here, one line each, for the log."""
    found = []
    if config.curves and not _single_curve(config):
        found.append(
            "tls_server_config.curve_preferences has no effect: OpenSSL can be told one curve or its own order"
        )
    if config.client_auth in {ClientAuth.REQUEST, ClientAuth.REQUIRE_ANY} and config.allowed_sans is None:
        found.append(
            f"client_auth_type {config.client_auth} lets everybody in: only {ClientAuth.REQUIRE_AND_VERIFY} checks who signed"
        )
    if config.client_auth is ClientAuth.REQUIRE_ANY and config.allowed_sans is not None:
        found.append(
            f"client_allowed_sans with {ClientAuth.REQUIRE_ANY} keeps nobody out: anybody can sign a certificate with these names"
        )
    return found


def make_context(config: TlsConfig) -> ssl.SSLContext:
    """Context for the server's side of connections, with certificate, key and CA as they are in their files now.

    Raises
    ------
    ConfigError
        One line, with the key of the file that is wrong. It holds nothing of a file's content.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[config.minimum]
    context.maximum_version = _VERSIONS[config.maximum]
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    if config.prefer_server_ciphers:
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    else:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols(["http/1.1"])
    _set_ciphers(context, config)
    curve = _single_curve(config)
    if curve:
        context.set_ecdh_curve(curve)
    _load_chain(context, config)
    _set_client_auth(context, config)
    return context


def peer_names(certificate: dict[str, Any] | None) -> set[str]:
    """Alternative names of a client's certificate, as `ssl.SSLSocket.getpeercert` gives it: DNS, IP address, e-mail, URI."""
    names = set()
    for kind, value in (certificate or {}).get("subjectAltName", ()):
        if kind == "IP Address":
            try:
                names.add(str(ipaddress.ip_address(value.strip())))
            except ValueError:
                continue
        elif kind in {"DNS", "email", "URI"}:
            names.add(value)
    return names


def _single_curve(config: TlsConfig) -> str:
    return _CURVES.get(config.curves[0], "") if len(config.curves) == 1 else ""


def _set_ciphers(context: ssl.SSLContext, config: TlsConfig) -> None:
    unknown = [name for name in config.ciphers if name not in CIPHERS and name not in CIPHERS_13]
    if unknown:
        known = ", ".join((*CIPHERS, *CIPHERS_13))
        raise ConfigError(f"tls_server_config.cipher_suites: {unknown[0][:60]!r} is not allowed; allowed: {known}")
    older = [CIPHERS[name] for name in config.ciphers if name in CIPHERS]
    if older:
        try:
            context.set_ciphers(":".join(older))
        except ssl.SSLError:
            raise ConfigError("tls_server_config.cipher_suites: OpenSSL offers none of these suites here") from None
    elif config.ciphers:
        if config.maximum != "TLS13":
            raise ConfigError(
                f"tls_server_config.cipher_suites: none of them is for {config.maximum}, which max_version asks for"
            )
        # Only suites of TLS 1.3 are named, so no older version has one.
        context.minimum_version = ssl.TLSVersion.TLSv1_3


def _load_chain(context: ssl.SSLContext, config: TlsConfig) -> None:
    chain, key = config.cert.read("cert_file"), config.key.read("key_file")
    if b"ENCRYPTED" in key:
        raise ConfigError(
            f"{_where(config.key, 'key')}: the key is encrypted; write it without a passphrase (openssl pkey -in KEY -out PLAIN)"
        )
    with _Shown(chain) as cert_path, _Shown(key) as key_path:
        try:
            # Without a function that gives a password OpenSSL might ask for one on the terminal.
            context.load_cert_chain(cert_path, key_path, password=lambda: "")
        except ssl.SSLError as error:
            raise ConfigError(_chain_problem(config, error)) from None
        except (OSError, ValueError) as error:
            raise ConfigError(f"{_where(config.cert, 'cert')}: cannot be used: {type(error).__name__}") from None


def _chain_problem(config: TlsConfig, error: ssl.SSLError) -> str:
    reason = (error.reason or "").replace("_", " ").lower()
    if error.reason == "KEY_VALUES_MISMATCH":
        return (
            f"{_where(config.key, 'key')}: the key does not belong to the certificate in {_where(config.cert, 'cert')}"
        )
    return (
        f"{_where(config.cert, 'cert')}, {_where(config.key, 'key')}: no certificate with its key in PEM"
        f"{f' ({reason})' if reason else ''}"
    )


def _where(pem: Pem, key: str) -> str:
    return str(pem.path) if pem.path is not None else f"tls_server_config.{key}"


def _set_client_auth(context: ssl.SSLContext, config: TlsConfig) -> None:
    auth = config.client_auth
    if config.client_ca is not None:
        text = config.client_ca.read("client_ca_file")
        try:
            context.load_verify_locations(cadata=text.decode("ascii", "replace"))
        except (ssl.SSLError, ValueError):
            raise ConfigError(f"{_where(config.client_ca, 'client_ca')}: holds no CA certificates in PEM") from None
    if auth is ClientAuth.VERIFY_IF_GIVEN:
        context.verify_mode = ssl.CERT_OPTIONAL
    elif auth is ClientAuth.REQUIRE_AND_VERIFY:
        context.verify_mode = ssl.CERT_REQUIRED
    elif auth in {ClientAuth.REQUEST, ClientAuth.REQUIRE_ANY}:
        _take_any_certificate(context, needed=auth is ClientAuth.REQUIRE_ANY)


class _Shown:
    """Bytes under a path, for `ssl.SSLContext.load_cert_chain`, which reads files only; they never reach a disk."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._descriptor = -1

    def __enter__(self) -> str:
        self._descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
        with open(self._descriptor, "wb", closefd=False) as file:
            file.write(self._content)
        return str(Path("/proc/self/fd") / str(self._descriptor))

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


_Verify = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)


@cache
def _content_with_any() -> Any:  # noqa: ANN401  (a function that C can call)
    """Give OpenSSL's question for a certificate the answer yes; kept for ever, since it is asked in every handshake.

    Made only where it is needed: it takes memory that can be written and run, which hardened systems may refuse.
    """
    return _Verify(lambda _, __: 1)


def _take_any_certificate(context: ssl.SSLContext, *, needed: bool) -> None:
    """Ask clients for a certificate without looking who signed it.

    The standard library can ask only together with a check, so OpenSSL itself is told. The pointer to its context is the first
    field behind the head of Python's object; that it is the right one is seen from the modes that Python has set.
    """
    library = _loaded_openssl()
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__)
    if library is None or not pointer.value:
        raise ConfigError(
            f"client_auth_type {ClientAuth.REQUIRE_ANY} and {ClientAuth.REQUEST} are not possible with this Python's OpenSSL; "
            f"use {ClientAuth.REQUIRE_AND_VERIFY}"
        )
    for mode in (ssl.CERT_OPTIONAL, ssl.CERT_REQUIRED, ssl.CERT_NONE):
        context.verify_mode = mode
        expected = {ssl.CERT_NONE: 0, ssl.CERT_OPTIONAL: 1, ssl.CERT_REQUIRED: 3}[mode]
        if library.SSL_CTX_get_verify_mode(pointer) != expected:
            raise ConfigError(
                f"client_auth_type: this Python's OpenSSL is not understood; use {ClientAuth.REQUIRE_AND_VERIFY}"
            )
    flags = _SSL_VERIFY_PEER | (_SSL_VERIFY_FAIL_IF_NO_PEER_CERT if needed else 0)
    library.SSL_CTX_set_verify(pointer, flags, _content_with_any())


def _loaded_openssl() -> ctypes.CDLL | None:
    """The libssl that the ssl module itself uses; None where it is linked into it."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    paths = {line.split(None, 5)[5] for line in maps.splitlines() if "/libssl" in line}
    if len(paths) != 1:
        return None
    try:
        library = ctypes.CDLL(paths.pop())
        library.SSL_CTX_get_verify_mode.argtypes = [ctypes.c_void_p]
        library.SSL_CTX_set_verify.argtypes = [ctypes.c_void_p, ctypes.c_int, _Verify]
        library.SSL_CTX_set_verify.restype = None
    except (OSError, AttributeError):
        return None
    return library

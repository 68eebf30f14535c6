"""The program with its protection, and Prometheus that scrapes it."""

import signal
import socket
import subprocess
import sys
import time

import pytest

from hwsonde_exporter.errors import ConfigError
from hwsonde_exporter.exporter import Exporter
from hwsonde_exporter.protection import Keeper
from tests.exporter.core.serving.protected import PASSWORD, Place, Prometheus, curl, hashed, served
from tests.exporter.core.serving.waiting import eventually
from tests.exporter.core.test_cli import COMMAND, ENVIRONMENT

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

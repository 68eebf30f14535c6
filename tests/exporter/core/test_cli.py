import errno
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import hwsonde_exporter
from hwsonde_exporter import cli, server
from hwsonde_exporter.errors import ConfigError, ListenError, ThreadError

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(hwsonde_exporter.__file__).parents[1])}
COMMAND = [sys.executable, "-m", "hwsonde_exporter"]


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *flags], env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)


class Served:
    """A running exporter with its log in a file."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*COMMAND, "--web.listen-address", "127.0.0.1:0", *flags], env=ENVIRONMENT, stderr=log
            )
        self.port = int(self.wait_for(r"http://127\.0\.0\.1:(\d+)/metrics").group(1))

    def wait_for(self, pattern: str, seconds: float = 20.0) -> re.Match[str]:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if found := re.search(pattern, self.log.read_text()):
                return found
            time.sleep(0.02)
        pytest.fail(f"no {pattern!r} in {self.log.read_text()!r}")

    def metrics(self) -> dict[str, float]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        families = text_string_to_metric_families(text)
        return {f"{s.name}{sorted(s.labels.items()) or ''}": s.value for family in families for s in family.samples}

    def end(self, number: int) -> tuple[int, float]:
        began = time.monotonic()
        self.process.send_signal(number)
        return self.process.wait(20), time.monotonic() - began


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_and_ends_soon_with_status_0(tmp_path: Path, number: int) -> None:
    served = Served(tmp_path)
    idle = socket.create_connection(("127.0.0.1", served.port))
    half = socket.create_connection(("127.0.0.1", served.port))
    half.sendall(b"GET /met")
    try:
        assert served.metrics()["hwsonde_exporter_config_last_reload_successful"] == 1
        time.sleep(0.1)
    finally:
        status, seconds = served.end(number)
        idle.close()
        half.close()
    assert status == 0
    # Within a second on a quiet machine; this one may be busy.
    assert seconds < 3
    assert "Traceback" not in served.log.read_text()


def test_sighup_reads_the_configuration_again_and_keeps_the_old_one_when_it_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "exporter.yaml"
    file.write_text("sampler: {hertz: 0}\n")
    served = Served(tmp_path, "--config.file", str(file))
    try:
        assert "hwsonde_exporter_sampler_ticks_total" not in served.metrics()
        file.write_text("sampler: {hertz: 20}\nlog: {format: json}\n")
        served.process.send_signal(signal.SIGHUP)
        served.wait_for("configuration read again")
        assert "hwsonde_exporter_sampler_ticks_total" in served.metrics()
        file.write_text("sampler: {hertz: 20}\nsampler.hertz: fast\n")
        served.process.send_signal(signal.SIGHUP)
        served.wait_for(r"the old one stays in force: .*exporter\.yaml:2: sampler\.hertz: unknown key")
        found = served.metrics()
        assert found["hwsonde_exporter_config_last_reload_successful"] == 0
        assert "hwsonde_exporter_sampler_ticks_total" in found
        file.write_text("sampler: {hertz: 10}\ncollector: {network.ignored-devices: 'eth.*'}\n")
        served.process.send_signal(signal.SIGHUP)
        served.wait_for(
            "configuration read again(.|\n)*what is ignored[^\n]*take effect(.|\n)*configuration read again"
        )
        assert served.metrics()["hwsonde_exporter_config_last_reload_successful"] == 1
    finally:
        assert served.end(signal.SIGTERM)[0] == 0
    assert "Traceback" not in served.log.read_text()


def test_strict_privacy_keeps_the_hosts_name_off_the_landing_page(tmp_path: Path) -> None:
    file = tmp_path / "exporter.yaml"
    file.write_text("sampler: {hertz: 0}\n")
    served = Served(tmp_path, "--config.file", str(file))

    def title() -> str:
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
        connection.request("GET", "/")
        text = connection.getresponse().read().decode()
        connection.close()
        return text.partition("<title>")[2].partition("</title>")[0]

    try:
        assert title() == f"hwsonde exporter on {socket.gethostname()}"
        file.write_text("privacy: strict\n")
        served.process.send_signal(signal.SIGHUP)
        served.wait_for("configuration read again")
        assert title() == "hwsonde exporter"
    finally:
        served.end(signal.SIGTERM)


def test_once_prints_one_exposition() -> None:
    done = run("--once")
    assert done.returncode == 0
    names = {family.name for family in text_string_to_metric_families(done.stdout)}
    assert "hwsonde_exporter_build_info" in names
    assert len(names) > 5


def test_what_is_ignored_is_left_out() -> None:
    assert 'device="lo"' in run("--once").stdout
    ignoring = run(
        "--once", "--collector.network.ignored-devices=lo", "--collector.filesystem.ignored-mounts=/.*"
    ).stdout
    assert 'device="lo"' not in ignoring
    assert 'mountpoint="' not in ignoring


def test_once_into_a_pipe_that_is_closed_is_no_error() -> None:
    command = f"{' '.join(COMMAND)} --once | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.strip(), "Traceback" in done.stderr) == ("0", False)


def test_version_and_help_name_every_flag() -> None:
    assert run("--version").stdout == f"hwsonde-exporter {hwsonde_exporter.__version__}\n"
    text = run("--help").stdout
    for flag in (
        "--web.listen-address",
        "--config.file",
        "--path.procfs",
        "--sampler.hertz",
        "--collector.timeout",
        "--once",
        "--log.format",
    ):
        assert flag in text


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (
            ["--sampler.hertz", "x"],
            "hwsonde-exporter: --sampler.hertz: 'x' is not allowed; allowed: 0, or ticks a second from 0.1 to 100\n",
        ),
        (
            ["--config.file", "/no/such.yaml"],
            "hwsonde-exporter: /no/such.yaml: cannot be read: No such file or directory; see --config.file\n",
        ),
        (["--nonsense"], "hwsonde-exporter: unrecognized arguments: --nonsense; see --help\n"),
    ],
)
def test_what_is_wrong_is_one_line_and_status_2(flags: list[str], line: str) -> None:
    done = run(*flags)
    assert (done.returncode, done.stderr, done.stdout) == (2, line, "")


def test_a_taken_port_is_one_line_and_status_1() -> None:
    """Not 2, upon which a service is never started again: the port may become free."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("--web.listen-address", f"127.0.0.1:{port}")
    assert done.returncode == 1
    assert done.stderr == (
        f"hwsonde-exporter: cannot listen on 127.0.0.1:{port}: another program has the port; "
        "stop it or choose another with --web.listen-address\n"
    )


def test_an_address_that_is_not_there_yet_is_one_line_and_status_1() -> None:
    """As at boot, when the program is started before the network is up."""
    done = run("--web.listen-address", "192.0.2.7:9880")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "cannot listen on 192.0.2.7:9880: this host has no such address" in done.stderr


def test_a_thread_that_accepts_no_more_ends_the_program_with_status_1() -> None:
    code = (
        "import sys; from hwsonde_exporter import cli, server\n"
        "server._Server.serve = lambda _: None\n"
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--web.listen-address", "127.0.0.1:0", "--collector.disable-defaults"],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "hwsonde-exporter: a thread that accepts connections has ended; the log says why"
    )


@pytest.mark.parametrize(
    ("error", "arguments", "status"),
    [
        (ThreadError("x"), [], 1),
        (MemoryError(), ["--sampler.hertz=0"], 1),
        (OSError(errno.EMFILE, "x"), [], 1),
        (ListenError("x"), [], 1),
        (ListenError("x", passing=False), [], 2),
        (ConfigError("x"), [], 2),
        # Status 1 of these says that something is wrong with the host.
        (ThreadError("x"), ["check"], 2),
        (MemoryError(), ["doctor"], 2),
        (OSError(errno.EMFILE, "x"), ["check"], 2),
        (ThreadError("x"), ["once"], 2),
        (MemoryError(), ["--sampler.hertz=0", "--once"], 2),
    ],
)
def test_only_what_passes_by_itself_lets_a_service_be_started_again(
    error: Exception,
    arguments: list[str],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(cli, "_command", fail)
    assert cli.main(arguments) == status
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("number", "passing"),
    [(errno.EADDRNOTAVAIL, True), (errno.EADDRINUSE, True), (errno.EACCES, False), (errno.EAFNOSUPPORT, False)],
)
def test_a_right_that_a_port_wants_does_not_come_by_itself(number: int, passing: bool) -> None:
    assert server._refused("127.0.0.1", 80, OSError(number, "x")).passing is passing


def test_nothing_dear_is_imported_to_start() -> None:
    """What the exporter needs only sometimes is imported only then; what it never needs, never."""
    code = "import sys, hwsonde_exporter.cli; from hwsonde_exporter.registry import load_collectors; load_collectors(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {
        "yaml",
        "cheroot",
        "isal",
        "pydantic",
        "numpy",
        "sklearn",
        "requests",
        "prometheus_client",
        "asyncio",
    }

import errno
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from configparser import RawConfigParser
from pathlib import Path

import pytest

from hwsonde_exporter.config import load
from hwsonde_exporter.doctor import _CAPABILITIES
from hwsonde_exporter.errors import ListenError
from hwsonde_exporter.registry import load_collectors
from hwsonde_exporter.systemd import Notifier, inherited_sockets
from tests.exporter.core.serving.protected import curl
from tests.exporter.core.test_cli import COMMAND, ENVIRONMENT

UNITS = Path(__file__).parents[3] / "deploy" / "systemd"


def given(*sockets: socket.socket, names: str = "", process: int | None = None) -> dict[str, str]:
    return {"LISTEN_PID": str(process or os.getpid()), "LISTEN_FDS": str(len(sockets)), "LISTEN_FDNAMES": names}


@pytest.fixture
def first() -> Iterator[int]:
    """A run of free descriptors, as systemd's begins with 3."""
    yield 700
    for number in range(700, 705):
        try:
            os.close(number)
        except OSError:
            continue


def test_sockets_are_taken_with_their_names(first: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("::1", 0), family=socket.AF_INET6) as two:
        os.dup2(one.fileno(), first)
        os.dup2(two.fileno(), first + 1)
        environment = {**given(one, two, names="metrics:other"), "PATH": "/bin"}
        found = inherited_sockets(environment, first)
        assert environment == {"PATH": "/bin"}
        assert [each.name for each in found] == ["metrics", "other"]
        assert [each.socket.getsockname()[:2] for each in found] == [one.getsockname(), two.getsockname()[:2]]
        assert not any(os.get_inheritable(each.socket.fileno()) for each in found)
        for each in found:
            each.socket.close()


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"LISTEN_FDS": "1"},
        {"LISTEN_PID": "1", "LISTEN_FDS": "1"},
        {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "x"},
        {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1000000000"},
        {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "0"},
    ],
)
def test_what_is_meant_for_another_process_is_left_alone(environment: dict[str, str]) -> None:
    assert inherited_sockets(environment) == []
    assert "LISTEN_FDS" not in environment


def test_what_is_no_listening_socket_is_one_line(first: int) -> None:
    datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    local = socket.socket(socket.AF_UNIX)
    local.bind("\0hwsonde-test-local")
    local.listen()
    for wrong in (datagram, local, socket.socket()):
        os.dup2(wrong.fileno(), first)
        with pytest.raises(
            ListenError,
            match=r"socket metrics \(descriptor 700\) from systemd is no listening TCP socket; the socket unit",
        ):
            inherited_sockets(given(wrong, names="metrics"), first)
        wrong.close()
    os.dup2(os.open("/dev/null", os.O_RDONLY), first)
    with pytest.raises(ListenError, match="cannot be used"):
        inherited_sockets(given(datagram), first)
    os.close(first)
    with pytest.raises(ListenError, match="cannot be used: Bad file descriptor"):
        inherited_sockets(given(datagram), first)


class Listener:
    """systemd's side of sd_notify."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"\0{address[1:]}" if address.startswith("@") else address)
        self.socket.settimeout(20)

    def next(self) -> str:
        return self.socket.recv(4096).decode()

    def until(self, start: str) -> str:
        while not (text := self.next()).startswith(start):
            pass
        return text


@pytest.mark.parametrize("abstract", [True, False])
def test_notifications(tmp_path: Path, abstract: bool) -> None:
    address = "@hwsonde-test-notify" if abstract else str(tmp_path / "notify")
    listener = Listener(address)
    environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "4000000", "WATCHDOG_PID": str(os.getpid()), "A": "b"}
    notifier = Notifier(environment)
    assert environment == {"A": "b"}
    assert notifier.interval == 2.0
    notifier.ready("serves x")
    notifier.reloading()
    notifier.alive()
    notifier.stopping()
    assert listener.next() == "READY=1\nSTATUS=serves x"
    assert re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", listener.next())
    assert (listener.next(), listener.next()) == ("WATCHDOG=1", "STOPPING=1")
    listener.socket.close()
    notifier.ready("nobody hears it")


def test_no_descriptor_for_a_sign_of_life_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket, "socket", fail)
    Notifier({"NOTIFY_SOCKET": "/x"}).alive()


@pytest.mark.parametrize(
    "environment",
    [
        {"WATCHDOG_USEC": "4000000"},
        {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "4000000", "WATCHDOG_PID": "1"},
        {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "soon"},
        {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "0"},
    ],
)
def test_no_sign_of_life_is_given_to_who_does_not_ask(environment: dict[str, str]) -> None:
    assert Notifier(environment).interval is None


def test_the_program_tells_systemd_how_it_fares(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    listener = Listener(address)
    environment = {**ENVIRONMENT, "NOTIFY_SOCKET": address, "WATCHDOG_USEC": "600000"}
    flags = ["--web.listen-address", "127.0.0.1:0", "--sampler.hertz=0", "--log.level=error"]
    process = subprocess.Popen([*COMMAND, *flags], env=environment)
    try:
        assert listener.until("READY=1").endswith("/metrics")
        assert listener.until("WATCHDOG=1")
        process.send_signal(signal.SIGHUP)
        assert listener.until("RELOADING=1")
        assert listener.until("READY=1")
    finally:
        process.terminate()
    assert listener.until("STOPPING=1")
    assert process.wait(20) == 0


@pytest.mark.skipif(not shutil.which("systemd-socket-activate"), reason="systemd is not installed")
@pytest.mark.parametrize("address", ["127.0.0.1", "[::1]"])
def test_systemd_itself_hands_a_socket_over(tmp_path: Path, address: str) -> None:
    family = socket.AF_INET6 if "[" in address else socket.AF_INET
    with socket.create_server((address.strip("[]"), 0), family=family) as found:
        port = found.getsockname()[1]
    log = tmp_path / "log"
    activate = ["systemd-socket-activate", "-l", f"{address}:{port}", "--fdname=metrics", "-E", "PYTHONPATH"]
    with log.open("wb") as output:
        process = subprocess.Popen([*activate, *COMMAND, "--sampler.hertz=0"], env=ENVIRONMENT, stderr=output)
    try:
        deadline = time.monotonic() + 30
        # The first connection starts the program, and waits for it.
        while (answer := curl(port, "--connect-to", f"::{address}:{port}", scheme="http"))[0] == 7:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert answer == (0, 200, "healthy")
        while f"http://{address}:{port}/metrics (socket metrics of systemd)" not in log.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        process.terminate()
        process.wait(20)


# ---- the units -----------------------------------------------------------------------------------------------------


class Unit(RawConfigParser):
    def __init__(self, path: Path) -> None:
        super().__init__(strict=False, interpolation=None)
        self.optionxform = str  # type: ignore[assignment,method-assign]
        self.read_string(path.read_text())


SERVICE = UNITS / "hwsonde-exporter.service"
DROP_INS = sorted((UNITS / "hwsonde-exporter.service.d").glob("*.conf"))


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    shutil.copytree(UNITS, tmp_path, dirs_exist_ok=True)
    unit = tmp_path / SERVICE.name
    unit.write_text(unit.read_text().replace("/opt/hwsonde/bin/hwsonde-exporter", "/bin/true"))
    names = ["hwsonde-exporter.service", "hwsonde-exporter.socket"]
    done = subprocess.run(
        ["systemd-analyze", "verify", *(f"./{name}" for name in names)],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_rates_the_service_as_well_confined(tmp_path: Path) -> None:
    shutil.copy(SERVICE, tmp_path)
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=32", f"./{SERVICE.name}"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout.splitlines()[-1:]


def test_the_service_is_started_with_flags_that_exist() -> None:
    command = Unit(SERVICE)["Service"]["ExecStart"].split()
    flags = [word for word in command[1:] if not word.startswith("$")]
    load(flags, load_collectors())
    example = re.search(r'HWSONDE_EXPORTER_FLAGS="(--[a-z.-]+)=', SERVICE.read_text())
    assert example
    assert example[1] == "--config.file"


@pytest.mark.parametrize("path", [SERVICE, *DROP_INS], ids=lambda path: path.name)
def test_each_capability_is_named_with_what_it_is_for(path: Path) -> None:
    unit = Unit(path)["Service"]
    # This one drop-in is for services without a capability, and says nothing of them.
    silent = {"AmbientCapabilities": "", "CapabilityBoundingSet": ""} if path.name == "web.conf" else {}
    held, bound = ({**silent, **unit}[key].split() for key in ("AmbientCapabilities", "CapabilityBoundingSet"))
    assert held == bound
    comments = "\n".join(line for line in path.read_text().splitlines() if line.startswith("#"))
    for name in held:
        assert re.search(rf"^# {name}  ", comments, re.MULTILINE), name
        assert name in _CAPABILITIES.values()


def test_what_is_lost_without_a_capability_are_collectors() -> None:
    names = re.findall(r"Without it: ([\w, ]+)[.,]", SERVICE.read_text())
    assert len(names) == 3
    for name in ", ".join(names).split(", "):
        assert name in load_collectors(), name


def test_service_and_socket_belong_together() -> None:
    service, listening = Unit(SERVICE), Unit(UNITS / "hwsonde-exporter.socket")
    assert service["Service"]["Type"] == "notify"
    assert int(service["Service"]["WatchdogSec"]) > 5
    assert listening["Socket"]["ListenStream"] == "9880"
    assert listening["Socket"]["FileDescriptorName"] == "metrics"

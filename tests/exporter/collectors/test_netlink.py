"""Sockets in the host's network namespace, and dumps by netlink."""

from __future__ import annotations

import gc
import os
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors._ethtool_ioctl import open_ethtool
from hwsonde_exporter.collectors._netlink import GENERIC, ROUTE, attributes, dumper, messages
from hwsonde_exporter.collectors._netns import host_socket, is_ours
from hwsonde_exporter.errors import ReadError, Reason, Unavailable

PROC = Path("/proc")
NOBODY = 65534
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a network namespace")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A procfs whose process 1 is in a network namespace of its own."""
    child = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo ready; read line"], stdin=-1, stdout=-1, text=True)
    assert child.stdout is not None
    if child.stdout.readline() != "ready\n":
        pytest.skip("unshare can make no network namespace here")
    (tmp_path / "1").symlink_to(f"/proc/{child.pid}")
    yield tmp_path
    child.communicate("\n", timeout=10)


def devices(channel: socket.socket) -> set[int]:
    """Whether the loopback and this machine's other devices are seen from a socket: their indices."""
    import fcntl

    found = set()
    for _, name in socket.if_nameindex():
        try:
            answer = fcntl.ioctl(channel, 0x8933, struct.pack("16s24x", name.encode()))  # SIOCGIFINDEX
        except OSError:
            continue
        found.add(struct.unpack_from("=i", answer, 16)[0])
    return found


def test_here_it_is_our_own() -> None:
    assert is_ours(PROC) is True
    with host_socket(PROC, socket.AF_INET, socket.SOCK_DGRAM) as channel:
        assert devices(channel) == {index for index, _ in socket.if_nameindex()}
        assert not os.get_inheritable(channel.fileno())


def test_nothing_to_see(tmp_path: Path) -> None:
    assert is_ours(tmp_path) is None
    with pytest.raises(Unavailable) as caught:
        host_socket(tmp_path, socket.AF_INET, socket.SOCK_DGRAM)
    assert caught.value.reason is Reason.NO_PERMISSION
    assert "hidden" in caught.value.detail


def test_files_of_a_captured_host_are_not_taken_for_this_one(tmp_path: Path) -> None:
    (tmp_path / "1/net").mkdir(parents=True)
    (tmp_path / "1/net/dev").write_text("eth0: 1\n")
    assert is_ours(tmp_path) is False
    with pytest.raises(Unavailable) as caught:
        host_socket(tmp_path, socket.AF_INET, socket.SOCK_DGRAM)
    assert caught.value.reason is Reason.NO_KERNEL_SUPPORT


@only_root
def test_the_host_s_namespace_is_entered_by_a_socket_only(elsewhere: Path) -> None:
    before = Path("/proc/self/ns/net").readlink()
    assert is_ours(elsewhere) is False
    with host_socket(elsewhere, socket.AF_INET, socket.SOCK_DGRAM) as channel:
        assert devices(channel) == {1}
    assert Path("/proc/self/ns/net").readlink() == Path("/proc/thread-self/ns/net").readlink() == before
    names = []
    for _, message in dumper(elsewhere)(ROUTE, 18, struct.pack("=BxHiII", 0, 0, 0, 0, 0)):
        names += [bytes(content) for kind, content in attributes(message, 16) if kind == 3]
    assert names == [b"lo\0"]
    with pytest.raises(OSError, match="No such device"):
        open_ethtool(elsewhere).driver("eth0")


@only_root
def test_whoever_may_not_trace_process_1_can_still_tell(elsewhere: Path) -> None:
    elsewhere.parent.chmod(0o755)
    os.seteuid(NOBODY)
    try:
        ours, theirs = is_ours(PROC), is_ours(elsewhere)
        with pytest.raises(PermissionError):
            Path("/proc/1/ns/net").stat()
        with pytest.raises(Unavailable) as caught:
            host_socket(elsewhere, socket.AF_INET, socket.SOCK_DGRAM)
    finally:
        os.seteuid(0)
    assert ours is True
    # Where the path to it may not be walked, nothing is known.
    assert theirs in {False, None}
    assert caught.value.reason is Reason.NO_PERMISSION


def test_a_protocol_that_is_not_there() -> None:
    with pytest.raises(OSError, match="Protocol not supported"):
        next(dumper(PROC)(31, 1, b""))


def test_what_the_kernel_refuses_is_an_error() -> None:
    with pytest.raises(OSError, match="Operation not supported"):
        list(dumper(PROC)(GENERIC, 16, b"\xff\2\0\0"))


def test_a_dump_may_be_left_before_its_end() -> None:
    gc.collect()  # what earlier tests have left
    before = len(list(Path("/proc/self/fd").iterdir()))
    dump = dumper(PROC)(ROUTE, 18, struct.pack("=BxHiII", 0, 0, 0, 0, 0))
    assert next(dump)[0] == 16
    dump.close()  # type: ignore[attr-defined]
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@given(st.binary(max_size=200))
def test_any_packet_is_taken_apart_or_refused(data: bytes) -> None:
    try:
        parts = list(messages(memoryview(data)))
    except ReadError:
        return
    assert sum(16 + len(body) for _, body in parts) <= len(data)


@given(st.binary(max_size=200), st.integers(0, 20))
def test_any_attributes_are_taken_apart(data: bytes, start: int) -> None:
    parts = list(attributes(memoryview(data), start))
    assert sum(4 + len(content) for _, content in parts) <= max(0, len(data) - start)
    assert all(0 <= kind < 1 << 14 for kind, _ in parts)

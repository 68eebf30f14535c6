from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from hwsonde_exporter.collectors.host import Clock, HostCollector, clock_of, parse_os_release, read_clock
from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.host import FileReader
from tests.exporter.collectors.fakes import memory_host
from tests.exporter.collectors.hosts import CLOCK, fixture_host, values


def test_offset_is_in_microseconds_or_nanoseconds() -> None:
    assert clock_of(0, 0x0001, -1500, (16, 2), 65536).offset == pytest.approx(-0.0015)
    assert clock_of(0, 0x2001, -1500, (16, 2), 65536).offset == pytest.approx(-0.0000015)


def test_other_units_of_the_clock() -> None:
    assert clock_of(0, 0x2001, 0, (4200, 30), -65536 * 12) == Clock(True, 0.0, 0.0042, 0.00003, -0.000012)


@pytest.mark.parametrize(("state", "status"), [(5, 0x2001), (0, 0x0040), (5, 0x0041)])
def test_a_clock_that_runs_free(state: int, status: int) -> None:
    assert not clock_of(state, status, 0, (16_000_000, 16_000_000), 0).synchronized


def test_the_kernel_answers() -> None:
    clock = read_clock()
    assert 0 <= clock.estimated_error <= 3600
    assert abs(clock.offset) <= 1
    assert abs(clock.frequency) <= 0.000501  # the kernel's own bound is 500 parts in a million


def test_only_a_synchronized_clock_has_an_offset() -> None:
    collector = HostCollector(fixture_host("vm"), clock=lambda: Clock(False, 0.0, 16.0, 16.0, 0.0))
    answer = values(list(collector.collect()))
    assert answer["hwsonde_host_clock_synchronized",] == 0
    assert not [key for key in answer if "offset" in key[0] or "error" in key[0]]


def test_a_kernel_without_the_call_loses_only_the_clock() -> None:
    def refuse() -> Clock:
        raise ReadError("adjtimex: Function not implemented")

    assert set(values(list(HostCollector(fixture_host("vm"), clock=refuse).collect()))) == {
        ("hwsonde_host_boot_timestamp_seconds",)
    }


def test_identity() -> None:
    collector = HostCollector(fixture_host("vm"), clock=lambda: CLOCK)
    collector.probe()
    labels = (
        "vm-example",
        "6.1.0-18-cloud-amd64",
        "x86_64",
        "Debian GNU/Linux 12 (bookworm)",
        "Example Cloud",
        "Standard 2x8",
    )
    assert values(list(collector.collect()))["hwsonde_host_info", *labels] == 1


def test_machine_of_an_old_kernel_is_our_own() -> None:
    host, _ = memory_host({"/proc/sys/kernel/hostname": b"old\n", "/nowhere/usr/lib/os-release": b"PRETTY_NAME=Old\n"})
    collector = HostCollector(host, clock=lambda: CLOCK)
    collector.probe()
    info = next(iter(collector.collect()))
    assert info.labels == ("old", "", os.uname().machine, "Old", "", "")


def test_parse_os_release() -> None:
    assert parse_os_release(b'NAME=x\nPRETTY_NAME="A  B"\n') == "A B"
    assert parse_os_release(b"PRETTY_NAME='A'") == "A"
    assert parse_os_release(b"NAME=x\n") == ""


class Pieces:
    """A kernel that gives a file in pieces, as seq_file does before a long record."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    def pread(self, descriptor: int, size: int, offset: int) -> bytes:
        for piece in self.pieces:
            if offset == 0:
                return piece
            offset -= len(piece)
        return b""


def test_a_table_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"")
    monkeypatch.setattr(os, "pread", Pieces([b"short\n", b"x" * 4000 + b"\n", b"end\n"]).pread)
    for read in (FileReader().read, FileReader().read_once):
        assert read(path) == b"short\n" + b"x" * 4000 + b"\nend\n"


def test_of_the_start_of_a_table_whole_lines_are_given_and_no_more_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, read = tmp_path / "table", os.pread
    path.write_bytes(b"".join(b"line %04d\n" % number for number in range(50_000)))
    asked: list[int] = []

    def pread(descriptor: int, size: int, offset: int) -> bytes:
        asked.append(size)
        return read(descriptor, min(size, 4096), offset)

    monkeypatch.setattr(os, "pread", pread)
    reader = FileReader()
    assert reader.read_start(path, 9999) == path.read_bytes()[:9990]
    assert sum(asked) < 30_000
    assert reader.read_start(path, 1 << 30) == path.read_bytes() == reader.read(path)
    assert reader.read_start(path, 3) == b""
    reader.close()


def open_files() -> int:
    gc.collect()  # what earlier tests have left
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_descriptors_are_kept_only_by_read(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / str(number)).write_bytes(b"1\n")
    reader = FileReader()
    before = open_files()
    for number in range(20):
        assert reader.read_once(tmp_path / str(number)) == b"1\n"
    assert open_files() == before
    for number in range(20):
        assert reader.read(tmp_path / str(number)) == b"1\n"
    assert open_files() == before + 20
    reader.close()
    assert open_files() == before


def test_a_file_that_comes_back_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "device"
    reader = FileReader()
    with pytest.raises(ReadError, match="No such file"):
        reader.read(path)
    path.write_bytes(b"")
    assert reader.read(path) == b""  # what a vanished device gives: its descriptor is not kept
    path.unlink()
    path.write_bytes(b"2\n")
    assert reader.read(path) == b"2\n"
    reader.close()


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    for read in (FileReader().read, FileReader().read_once):
        with pytest.raises(ReadError, match="Is a directory"):
            read(tmp_path)

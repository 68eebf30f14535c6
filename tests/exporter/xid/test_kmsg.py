"""Records and lines of the kernel's log, and the reader that neither loses nor doubles one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.nvml.kmsg import (
    DriverLoaded,
    KernelLog,
    Line,
    LogReader,
    Record,
    SxidLine,
    XidLine,
    open_log,
    parse_line,
    parse_record,
)
from tests.exporter.xid.logs import Log, xid

# ---- records -------------------------------------------------------------------------------------------------------


def test_a_record_with_its_continuation() -> None:
    data = b"6,339,5140900,-;NET: Registered protocol family 10\n SUBSYSTEM=net\n DEVICE=+net:eth0\n"
    assert parse_record(data) == Record(339, 0, b"NET: Registered protocol family 10")


def test_a_record_with_the_name_of_its_task() -> None:
    assert parse_record(b"12,7,99,-,caller=T1;x\n") == Record(7, 1, b"x")


@pytest.mark.parametrize(
    "data", [b"", b";", b"6,1;x", b"6,-1,3,-;x", b"6,x,3,-;x", b"no record at all", b"x,1,2,-;t\n"]
)
def test_what_is_no_record(data: bytes) -> None:
    assert parse_record(data) is None


@given(st.binary())
def test_any_bytes_are_survived(data: bytes) -> None:
    parse_line(data)
    record = parse_record(data)
    assert record is None or record.sequence >= 0


# ---- lines ---------------------------------------------------------------------------------------------------------

GPU = "0000:3b:00"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", XidLine(GPU, 79)),
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid=1896, GPU has fallen off the bus.", XidLine(GPU, 79)),
        ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", XidLine(GPU, 79)),
        ("NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python3, Ch 00000010, intr 00000000. MMU Fault: x", XidLine(GPU, 31)),
        ("NVRM: Xid (PCI:0000:3B:00): 13, Graphics SM Warp Exception on (GPC 0, TPC 1, SM 0)", XidLine(GPU, 13)),
        ("NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9).", XidLine("0000:01:00", 94)),
        ("NVRM: Xid (PCI:0000:01:00 GPU-I:01 GPU-CI:02): 43, pid=9, name=a, Ch 1", XidLine("0000:01:00", 43)),
        ("NVRM: Xid (PCI:0018:01:00): 145, RLW_REMAP Nonfatal XC0 i0 Link -1 (0x00000004)", XidLine("0018:01:00", 145)),
        ("NVRM: Xid (PCI:00000008:01:00): 119, Timeout after 6s of waiting for RPC response", XidLine("0008:01:00", 119)),
        ("NVRM: Xid (PCI:10000:01:00): 62, x", XidLine("10000:01:00", 62)),
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", XidLine("0000:03:00", 14)),
        ("NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", XidLine(GPU, 154)),
        ("NVRM: Xid (PCI:0000:3b:00): 48", XidLine(GPU, 48)),
        ("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15", DriverLoaded()),
        ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 24007, Fatal, Link 30 sourcetrack timeout error (First)", SxidLine("3", 24007, "fatal")),
        ("nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20009, Non-fatal, Link 28 RX Short Error Rate", SxidLine("0", 20009, "nonfatal")),
        ("nvidia-nvswitch2: SXid (PCI:0000:c4:00.0): 10002, Severity 5 Engine instance 00 Sub-engine instance 00", SxidLine("2", 10002, "unknown")),
    ],
)  # fmt: skip
def test_what_drivers_print(text: str, found: Line) -> None:
    assert parse_line(text.encode()) == found


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid error: xyz, invalid data",
        "NVRM: Xid (invalid): some error",
        "NVRM: Xid (PCI:0000:3b:00): seventy-nine, x",
        "NVRM: Xid (PCI:0000:3b:00): 0, x",
        "NVRM: Xid (PCI:0000:3b:00): 123456, x",
        "NVRM: Xid (PCI:0000:3b:00): 99999999999999999999, x",
        "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.",
        # What a log daemon passes on begins with the name of who said it.
        "sudo[77]: root : COMMAND=/bin/echo NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
        "systemd[1]: NVRM: Xid (PCI:0000:3b:00): 79, x",
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): garbled, Fatal",
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 79, Fatal",
    ],
)
def test_what_is_no_error(text: str) -> None:
    assert parse_line(text.encode()) is None


@given(code=st.integers(1, 999), bus=st.integers(0, 255), tail=st.text(max_size=40))
def test_only_place_and_number_are_kept(code: int, bus: int, tail: str) -> None:
    """Whatever stands behind, among it what a program calls itself, changes nothing."""
    text = f"NVRM: Xid (PCI:0000:{bus:02x}:00): {code}, pid=1, name={tail}"
    assert parse_line(text.encode()) == XidLine(f"0000:{bus:02x}:00", code)


# ---- reader --------------------------------------------------------------------------------------------------------


def lines(reader: LogReader) -> list[int]:
    return [line.code for line in reader.poll().lines if not isinstance(line, DriverLoaded)]


def test_lines_from_before_the_start_are_not_read() -> None:
    log = Log()
    log.write(xid(79))
    reader = LogReader(log.open)
    assert lines(reader) == []
    log.write(xid(31))
    log.write("eth0: link up")
    log.write(xid(48))
    assert lines(reader) == [31, 48]
    assert lines(reader) == []
    assert log.opened == 1


def test_a_reader_may_begin_with_what_is_still_there() -> None:
    log = Log(room=3)
    for code in range(1, 6):
        log.write(xid(code))
    reader = LogReader(log.open, from_start=True)
    assert lines(reader) == [3, 4, 5]
    reader.close()
    log.write(xid(6))
    assert lines(reader) == [6]
    assert reader.lost == 0


def test_a_log_opened_anew_goes_on_where_it_was() -> None:
    log = Log()
    reader = LogReader(log.open)
    reader.open()
    log.write(xid(31))
    assert lines(reader) == [31]
    log.write(xid(32))
    log.broken = 1
    with pytest.raises(Unavailable, match="Input/output error"):
        reader.poll()
    log.write(xid(33))
    assert lines(reader) == [32, 33]
    assert log.opened == 2
    assert reader.lost == 0


def test_what_was_overwritten_is_counted() -> None:
    log = Log(room=10)
    reader = LogReader(log.open)
    reader.open()
    log.write(xid(1))
    assert lines(reader) == [1]
    for code in range(2, 32):
        log.write(xid(code))
    assert lines(reader) == list(range(22, 32))
    assert reader.lost == 20
    log.write(xid(40))
    assert lines(reader) == [40]
    assert reader.lost == 20


def test_what_was_overwritten_before_the_first_record_is_known_to_be_missing() -> None:
    log = Log(room=10)
    reader = LogReader(log.open)
    reader.open()
    for code in range(1, 21):
        log.write(xid(code))
    assert lines(reader) == list(range(11, 21))
    assert reader.lost >= 1


def test_a_flood_is_read_in_pieces() -> None:
    log = Log(room=100_000)
    reader = LogReader(log.open)
    reader.open()
    for _ in range(50_000):
        log.write(xid(13))
    first = reader.poll()
    assert (len(first.lines), first.finished) == (20_000, False)
    rest = [reader.poll() for _ in range(3)]
    assert [poll.finished for poll in rest] == [False, True, True]
    assert sum(len(poll.lines) for poll in rest) == 30_000
    assert reader.lost == 0


def test_lines_of_daemons_do_not_count() -> None:
    log = Log()
    reader = LogReader(log.open)
    reader.open()
    log.write(xid(79), priority=3 << 3 | 4)  # facility daemon
    log.write(xid(48), priority=1 << 3 | 4)  # what root writes to try an alert
    assert lines(reader) == [48]


@given(
    steps=st.lists(st.sampled_from(["write", "other", "poll", "break", "reopen", "flood"]), max_size=60),
    room=st.integers(1, 8),
)
@settings(deadline=None)
def test_each_line_is_read_once_or_counted_as_lost(steps: list[str], room: int) -> None:
    log = Log(room)
    reader = LogReader(log.open)
    log.write("boot")
    reader.open()
    log.write("first")
    assert lines(reader) == []
    written, read, records = 0, 0, 0
    for step in [*steps, "poll", "poll"]:
        if step == "poll":
            with suppress(Unavailable):
                read += len(reader.poll().lines)
        elif step == "break":
            log.broken += 1
        elif step == "reopen":
            reader.close()
        else:
            for _ in range(2 * room if step == "flood" else 1):
                log.write(xid(13) if step != "other" else "hello")
                records += 1
                written += step != "other"
    while log.broken:
        with suppress(Unavailable):
            reader.poll()
    read += len(reader.poll().lines)
    assert read <= written <= read + reader.lost
    assert reader.lost <= records


# ---- the device ----------------------------------------------------------------------------------------------------


def test_no_device(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        KernelLog(tmp_path / "kmsg")


@pytest.mark.parametrize("path", ["/dev/null", "/dev/zero"])
def test_another_device_is_not_taken_for_the_log(path: str) -> None:
    with pytest.raises(OSError, match="another kind of file"):
        KernelLog(path)


def test_the_device_below_the_root_filesystem_comes_first(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "kmsg").write_bytes(b"6,1,1,-;no device\n")
    with pytest.raises(Unavailable, match="not the kernel's log") as caught:
        open_log(tmp_path)
    assert caught.value.reason is Reason.NO_KERNEL_SUPPORT
    assert str(tmp_path) in caught.value.detail


def test_a_device_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("hwsonde_exporter.nvml.kmsg.os.open", refuse)
    with pytest.raises(Unavailable, match="CAP_SYSLOG") as caught:
        open_log(Path("/"))
    assert caught.value.reason is Reason.NO_PERMISSION


def test_the_real_device_of_this_machine() -> None:
    """Opened at its end, and read without waiting; all of it from its beginning on is made of records."""
    try:
        os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        pytest.skip(f"/dev/kmsg cannot be read here: {error}")
    log = KernelLog("/dev/kmsg")
    log.seek_first()
    with suppress(BlockingIOError):
        for _ in range(100_000):
            assert parse_record(log.read()) is not None
    with pytest.raises(BlockingIOError):
        log.read()
    log.close()

"""The collector of XIDs: two sources, GPUs that come and go, floods, restarts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors._nvidia_procfs import (
    Identity,
    parse_information,
    parse_version,
    read_gpus,
    short_address,
)
from hwsonde_exporter.collectors.gpu_xid import DriverEvent, GpuXidCollector, Told
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.host import Host, Paths
from hwsonde_exporter.nvml.answer import Event
from hwsonde_exporter.nvml.xid import PRECREATED
from tests.exporter.collectors.hosts import fixture_host, values
from tests.exporter.collectors.trees import tree_host
from tests.exporter.contracts.test_collectors import check
from tests.exporter.xid.logs import Log, xid
from tests.fixtures.node192_gpu import uuid_of

ERRORS, LAST, INFO = "hwsonde_gpu_xid_errors_total", "hwsonde_gpu_xid_last_timestamp_seconds", "hwsonde_gpu_xid_info"
LOGGED = "hwsonde_gpu_xid_logged_errors"
SWITCH = "hwsonde_gpu_sxid_errors_total"
GPU = ("1", uuid_of(1))
ADDRESS = "0000:3c:00"


class Library:
    """What the driver's library tells."""

    def __init__(self) -> None:
        self.running = True
        self.gpus: tuple[Identity, ...] = ()
        self.heard: list[DriverEvent] = []

    def tell(self, when: float, code: int, bus_id: str = "0000:3c:00.0", uuid: str = "") -> None:
        self.heard.append(Event(len(self.heard) + 1, when, uuid, bus_id, code, None))

    def __call__(self, after: int) -> Told:
        return Told(self.running, self.gpus, [event for event in self.heard if event.sequence > after])


class Bench:
    """A collector with a log, a library and a clock."""

    def __init__(self, host: Host | None = None) -> None:
        self.log, self.library, self.now = Log(room=100_000), Library(), 1000.0
        self.collector = GpuXidCollector(
            host or fixture_host("node192"), ask=self.library, log=self.log.open, wall=lambda: self.now
        )

    def start(self) -> Bench:
        self.collector.probe()
        return self

    def look(self, seconds: float = 1.0) -> dict[tuple[str, ...], float]:
        self.now += seconds
        samples = list(self.collector.collect())
        check(samples, GpuXidCollector.metrics)
        return values(samples)


def test_codes_that_page_are_at_zero_from_the_start() -> None:
    found = Bench().start().look()
    for number in range(7):
        for code in PRECREATED:
            assert found[ERRORS, str(number), uuid_of(number), str(code)] == 0
    assert found[ERRORS, "7", "", "79"] == 0, "a GPU that was never woken has no UUID yet"
    assert not [key for key in found if key[0] in {LAST, INFO}]


def test_a_line_is_counted_explained_and_dated() -> None:
    bench = Bench().start()
    bench.log.write(xid(79, ADDRESS, "GPU has fallen off the bus."))
    found = bench.look()
    assert found[ERRORS, *GPU, "79"] == 1
    assert found[LAST, *GPU, "79"] == 1001.0
    (info,) = [key for key in found if key[0] == INFO]
    assert info[1:4] == ("79", "GPU fell off the bus", "hardware")
    assert info[4] == "critical"
    assert "reboot" in info[5]


def test_what_was_logged_before_the_start_is_shown_but_not_counted() -> None:
    bench = Bench()
    for code in (31, 79, 79):
        bench.log.write(xid(code, ADDRESS))
    bench.start()
    found = bench.look()
    assert found[ERRORS, *GPU, "79"] == 0
    assert (found[LOGGED, *GPU, "31"], found[LOGGED, *GPU, "79"]) == (1, 2)
    assert {key[1] for key in found if key[0] == INFO} == {"31", "79"}
    bench.log.write(xid(79, ADDRESS))
    found = bench.look()
    assert (found[ERRORS, *GPU, "79"], found[LOGGED, *GPU, "79"]) == (1, 3)


def test_a_driver_that_is_loaded_again_starts_anew() -> None:
    bench = Bench()
    bench.log.write(xid(119, ADDRESS))
    bench.start()
    assert bench.look()[LOGGED, *GPU, "119"] == 1
    bench.log.write("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build")
    assert (LOGGED, *GPU, "119") not in bench.look()


def test_what_both_tell_counts_once_in_either_order() -> None:
    bench = Bench().start()
    bench.library.tell(1000.5, 79)
    assert bench.look()[ERRORS, *GPU, "79"] == 1
    bench.log.write(xid(79, ADDRESS))
    assert bench.look()[ERRORS, *GPU, "79"] == 1
    bench.log.write(xid(48, ADDRESS))
    assert bench.look()[ERRORS, *GPU, "48"] == 1
    bench.library.tell(1003.2, 48)
    assert bench.look()[ERRORS, *GPU, "48"] == 1


def test_a_long_sleep_between_two_looks_doubles_nothing() -> None:
    bench = Bench().start()
    bench.look()
    bench.log.write(xid(74, ADDRESS))
    bench.library.tell(1004.0, 74)
    assert bench.look(45.0)[ERRORS, *GPU, "74"] == 1


def test_a_second_probe_loses_and_doubles_nothing() -> None:
    bench = Bench().start()
    bench.log.write(xid(31, ADDRESS))
    bench.library.tell(1000.1, 31)
    assert bench.look()[ERRORS, *GPU, "31"] == 1
    bench.log.write(xid(32, ADDRESS))
    bench.collector.probe()
    found = bench.look()
    assert (found[ERRORS, *GPU, "31"], found[ERRORS, *GPU, "32"]) == (1, 1)


def test_the_library_alone_is_enough() -> None:
    bench = Bench()

    def refuse() -> object:
        raise Unavailable(Reason.NO_PERMISSION, "the log may not be read")

    bench.collector = GpuXidCollector(
        fixture_host("node192"),
        ask=bench.library,
        log=refuse,  # type: ignore[arg-type]
        wall=lambda: bench.now,
    )
    bench.start()
    bench.library.tell(1000.5, 62)
    found = bench.look()
    assert found[ERRORS, *GPU, "62"] == 1
    assert found["hwsonde_gpu_xid_source_up", "kmsg"] == 0
    assert found["hwsonde_gpu_xid_source_up", "nvml"] == 1
    bench.library.running = False
    with pytest.raises(Unavailable, match="may not be read"):
        bench.collector.probe()


def test_without_the_library_the_log_is_enough() -> None:
    bench = Bench()
    bench.library.running = False
    bench.start()
    bench.log.write(xid(119, ADDRESS))
    found = bench.look()
    assert found[ERRORS, *GPU, "119"] == 1
    assert found["hwsonde_gpu_xid_source_up", "nvml"] == 0
    assert found["hwsonde_gpu_xid_source_up", "kmsg"] == 1


def test_what_a_driver_prints_while_it_is_loaded_is_not_missed(tmp_path: Path) -> None:
    """The probe finds no driver; it is loaded, fails on a GPU at once, and only then comes the next probe."""
    bench = Bench(Host(Paths(tmp_path / "proc", tmp_path / "sys", tmp_path)))
    bench.library.running = False
    with pytest.raises(Unavailable, match="no driver") as caught:
        bench.collector.probe()
    assert caught.value.reason is Reason.NO_HARDWARE
    (tmp_path / "proc" / "driver" / "nvidia").mkdir(parents=True)
    bench.log.write(xid(143, "0000:dd:00"))
    bench.now += 55
    bench.collector.probe()
    assert bench.look()[ERRORS, "0000:dd:00", "", "143"] == 1


def test_a_gpu_that_nobody_knows_has_its_address_for_a_name() -> None:
    bench = Bench().start()
    bench.log.write(xid(79, "0000:dd:00"))
    assert bench.look()[ERRORS, "0000:dd:00", "", "79"] == 1


def test_the_library_knows_better_which_gpu_it_is() -> None:
    bench = Bench().start()
    bench.log.write(xid(79, ADDRESS))
    bench.look()
    bench.library.gpus = (Identity("5", "GPU-new", "00000000:3C:00.0"),)
    assert bench.look()[ERRORS, "5", "GPU-new", "79"] == 1


def test_an_event_without_an_address_is_placed_by_its_uuid() -> None:
    bench = Bench().start()
    bench.look()
    bench.library.tell(1001.5, 79, bus_id="", uuid=uuid_of(1))
    bench.log.write(xid(79, ADDRESS))
    assert bench.look()[ERRORS, *GPU, "79"] == 1


def test_a_flood_is_bounded_and_complete() -> None:
    bench = Bench().start()
    for _ in range(50_000):
        bench.log.write(xid(13, ADDRESS))
    counts = [bench.look()[ERRORS, *GPU, "13"] for _ in range(4)]
    assert counts == [20_000, 40_000, 50_000, 50_000]


def test_eight_hundred_thousand_lines_that_the_kernel_could_not_keep() -> None:
    """Twenty-nine kinds of line, more than the ring holds: the series stay few, and what is missing is known."""
    bench = Bench().start()
    bench.log.write("hello")
    bench.look()
    for number in range(800_000):
        bench.log.write(xid(1 + number % 29, ADDRESS))
    found = {}
    for _ in range(8):
        found = bench.look()
    counted = sum(value for key, value in found.items() if key[0] == ERRORS)
    assert counted == 100_000
    assert found["hwsonde_gpu_kernel_log_lost_records_total",] == 700_000
    assert len(found) < 400


def test_nonsense_makes_no_series_without_end() -> None:
    bench = Bench().start()
    for domain in range(50_000):
        bench.log.write(xid(79, f"{domain:04x}:01:00"))
        bench.log.write(f"nvidia-nvswitch{domain % 999}: SXid (PCI:0000:c1:00.0): {10_000 + domain}, Fatal, x")
    found = {}
    for _ in range(6):
        found = bench.look()
    assert len([key for key in found if key[0] == ERRORS]) < 2300
    assert len([key for key in found if key[0] == SWITCH]) <= 2048


def test_switches_by_code_and_how_bad() -> None:
    bench = Bench().start()
    for severity in ("Fatal", "Fatal", "Non-fatal"):
        bench.log.write(f"nvidia-nvswitch2: SXid (PCI:0000:c4:00.0): 20034, {severity}, Link 27 LTSSM Fault Up")
    found = bench.look()
    assert found[SWITCH, "2", "20034", "fatal"] == 2
    assert found[SWITCH, "2", "20034", "nonfatal"] == 1
    assert found["hwsonde_gpu_sxid_last_timestamp_seconds", "2", "20034", "fatal"] == 1001.0
    infos = [key for key in found if key[0] == "hwsonde_gpu_sxid_info"]
    assert {key[1:4] for key in infos} == {
        ("20034", severity, "link, data and physical layer: link is down") for severity in ("fatal", "nonfatal")
    }


def test_a_log_that_breaks_is_told_and_read_on() -> None:
    bench = Bench().start()
    bench.log.write(xid(31, ADDRESS))
    bench.look()
    bench.log.write(xid(32, ADDRESS))
    bench.log.broken = 1
    assert bench.look()["hwsonde_gpu_xid_source_up", "kmsg"] == 0
    found = bench.look()
    assert found["hwsonde_gpu_xid_source_up", "kmsg"] == 1
    assert found[ERRORS, *GPU, "32"] == 1


@pytest.mark.parametrize("code", [0, 5000, 1 << 40])
def test_a_library_that_has_gone_wild_is_not_believed(code: int) -> None:
    bench = Bench().start()
    bench.library.tell(1000.5, code)
    found = bench.look()
    assert not [key for key in found if key[0] == ERRORS and key[3] == str(code)]


# ---- what the kernel module tells ----------------------------------------------------------------------------------


def rows(host: Host) -> Sequence[tuple[str, ...]]:
    return [tuple(identity) for identity, _ in read_gpus(host)]


def test_gpus_of_the_module() -> None:
    found = rows(fixture_host("node192"))
    assert found[0] == ("0", uuid_of(0), "0000:3a:00")
    assert found[7] == ("7", "", "0000:cc:00")


def test_a_garbled_file_costs_only_the_name_of_its_gpu(tmp_path: Path) -> None:
    base = "proc/driver/nvidia/gpus"
    host = tree_host(tmp_path, {
        f"{base}/0000:3a:00.0/information": b"\xff\xfe\x00 : : :\nGPU UUID: \t GPU-not-one\n",
        f"{base}/0000:3b:00.0/power": "Runtime D3 status: Disabled",
        f"{base}/not-an-address/information": "GPU UUID: GPU-5a110001-3d7c-4f0e-9b21-0c4e7a61d001",
    })  # fmt: skip
    assert rows(host) == [("0", "", "0000:3a:00"), ("1", "", "0000:3b:00")]


versions: list[tuple[bytes, tuple[str, str] | None]] = [
    (b"NVRM version: NVIDIA UNIX x86_64 Kernel Module  384.81  Wed Aug 17 22:24:07 PDT 2016\n", ("384.81", "closed")),
    (b"NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 2024\nGCC version:  gcc 12", ("550.54.15", "closed")),
    (b"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n", ("570.86.15", "open")),
    (b"NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build", ("580.95.05", "open")),
    (b"GCC version:  gcc version 12.3.0\n", None),
    (b"", None),
]  # fmt: skip


@pytest.mark.parametrize(("data", "found"), versions)
def test_version_of_the_module(data: bytes, found: tuple[str, str] | None) -> None:
    assert parse_version(data) == found


@given(st.binary())
def test_any_bytes_are_survived(data: bytes) -> None:
    parse_version(data)
    assert all(len(text) <= 128 for pair in parse_information(data).items() for text in pair)
    short_address(data.decode("latin-1"))

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors._memory_units import encode, find_units, parse_terms, size_of
from hwsonde_exporter.collectors.memory_bandwidth import MemoryBandwidthCollector
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host, Paths
from tests.exporter.collectors.hosts import fixture_host, values
from tests.exporter.collectors.perf_kernel import FakeKernel

BYTES = "hwsonde_memory_bandwidth_bytes_total"
FORMATS = {"event": "config:0-7", "umask": "config:8-15", "edge": "config:18"}
MIB = ("6.103515625e-5", "MiB")


def put(tree: Path, name: str, text: str) -> None:
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def add_unit(
    tree: Path,
    name: str,
    number: int,
    events: dict[str, str],
    cpumask: str = "0",
    formats: dict[str, str] | None = None,
) -> None:
    base = f"sys/bus/event_source/devices/{name}"
    put(tree, f"{base}/type", str(number))
    put(tree, f"{base}/cpumask", cpumask)
    for term, bits in (formats or FORMATS).items():
        put(tree, f"{base}/format/{term}", bits)
    for event, text in events.items():
        put(tree, f"{base}/events/{event}", text)


def host_of(tree: Path) -> Host:
    put(tree, "proc/sys/kernel/perf_event_paranoid", "2")
    return Host(Paths(tree / "proc", tree / "sys", tree))


def test_terms() -> None:
    assert parse_terms("event=0x04,umask=0x03") == {"event": 4, "umask": 3}
    assert parse_terms("event=255, edge") == {"event": 255, "edge": 1}
    for text in ("", "event=", "event=x", "=1", "event=-1", "event=0x04,,"):
        assert parse_terms(text) is None


def test_terms_find_their_bits() -> None:
    assert encode({"event": 4, "umask": 3}, FORMATS) == (0x304, 0, 0)
    assert encode({"edge": 1}, FORMATS) == (1 << 18, 0, 0)
    # A term may lie in two pieces, the lower bits in the first, and in another word.
    assert encode({"event": 0x1AB}, {"event": "config:0-7,32-35"}) == (1 << 32 | 0xAB, 0, 0)
    assert encode({"mask": 5}, {"mask": "config1:4-7"}) == (0, 0x50, 0)
    assert encode({"mask": 1}, {"mask": "config2:63"}) == (0, 0, 1 << 63)


@pytest.mark.parametrize(
    "formats",
    [{}, {"event": ""}, {"event": "config"}, {"event": "config:x"}, {"event": "config:7-0"}, {"event": "config:0-64"},
     {"event": "config9:0-7"}, {"event": "config:0-1"}, {"event": "config:0-7,"}],
)  # fmt: skip
def test_terms_without_a_place_are_refused(formats: dict[str, str]) -> None:
    assert encode({"event": 4}, formats) is None


@given(st.text(max_size=30), st.text(max_size=30), st.integers(0, 1 << 64))
def test_any_text_is_encoded_or_refused(text: str, bits: str, value: int) -> None:
    for name, number in (parse_terms(text) or {}).items():
        assert number >= 0
        assert name
    words = encode({"event": value}, {"event": bits})
    assert words is None or all(0 <= word < 1 << 64 for word in words)


def test_sizes() -> None:
    assert size_of(*MIB) == 64
    assert size_of("3.0517578125e-5", "MiB") == 32
    for scale, unit in (
        ("", ""),
        ("x", "MiB"),
        ("nan", "MiB"),
        ("inf", "MiB"),
        ("1", "GiB"),
        ("1", "MiB"),
        ("0", "Bytes"),
    ):
        assert size_of(scale, unit) == 64


def test_server_units(tmp_path: Path) -> None:
    """Sub-channels are summed; other units and other events are left alone."""
    scheduler = {
        f"cas_count_{way}_sch{n}": f"event=0x0{5 + n},umask=0x{m}"
        for way, m in (("read", "cf"), ("write", "f0"))
        for n in (0, 1)
    }
    add_unit(tmp_path, "uncore_imc_0", 90, {**scheduler, "clockticks": "event=0x01"}, "0,48")
    add_unit(tmp_path, "uncore_imc_free_running_0", 91, {"data_read": "event=0xff,umask=0x20"}, "0,48")
    add_unit(tmp_path, "uncore_cha_0", 92, {"clockticks": "event=0x01"}, "0,48")
    (unit,) = find_units(host_of(tmp_path))
    assert unit.cpus == (0, 48)
    assert [(event.direction, event.event.config) for event in unit.events] == [
        ("read", 0xCF05), ("read", 0xCF06), ("write", 0xF005), ("write", 0xF006),
    ]  # fmt: skip


def test_desktop_units(tmp_path: Path) -> None:
    add_unit(
        tmp_path,
        "uncore_imc",
        15,
        {"data_reads": "event=0x01", "data_writes": "event=0x02", "gt_requests": "event=0x03"},
    )
    (unit,) = find_units(host_of(tmp_path))
    assert [(event.direction, event.event.config, event.size) for event in unit.events] == [
        ("read", 1, 64),
        ("write", 2, 64),
    ]


def test_amd_units(tmp_path: Path) -> None:
    formats = {"event": "config:0-7", "rdwrmask": "config:8-9"}
    for number in range(2):
        add_unit(tmp_path, f"amd_umc_{number}", 20 + number, {}, "0", formats)
    units = find_units(host_of(tmp_path))
    assert [unit.name for unit in units] == ["amd_umc_0", "amd_umc_1"]
    assert [(event.direction, event.event.type, event.event.config) for event in units[1].events] == [
        ("read", 21, 0x10A), ("write", 21, 0x20A),
    ]  # fmt: skip


def test_odd_units_are_left_out(tmp_path: Path) -> None:
    add_unit(tmp_path, "uncore_imc_0", 90, {"cas_count_read": "nonsense", "cas_count_write": "event=0x04,umask=0x0c"})
    add_unit(tmp_path, "uncore_imc_1", 91, {"cas_count_read": "event=0x04,umask=0x03"}, cpumask="")
    put(tmp_path, "sys/bus/event_source/devices/uncore_imc_2/events/cas_count_read", "event=0x04")
    (unit,) = find_units(host_of(tmp_path))
    assert [event.direction for event in unit.events] == ["write"]


def test_bytes_are_summed_by_socket() -> None:
    kernel = FakeKernel()
    collector = MemoryBandwidthCollector(fixture_host("node192"), kernel=kernel)
    collector.probe()
    assert len(kernel.opened) == 8 * 2 * 2
    kernel.run({"cas_count_read": 1000, "cas_count_write": 10})
    answer = values(list(collector.collect()))
    assert answer == {
        (BYTES, socket, direction): 8 * 64 * count
        for socket in ("0", "1")
        for direction, count in (("read", 1000), ("write", 10))
    }
    kernel.run({"cas_count_read": 500}, share=0.5)
    assert values(list(collector.collect()))[BYTES, "1", "read"] == 8 * 64 * 1500
    assert kernel.reads == 2 * 16, "one call a controller"


def test_a_lost_unit_comes_back_with_the_next_probe() -> None:
    kernel = FakeKernel()
    collector = MemoryBandwidthCollector(fixture_host("node192"), kernel=kernel)
    collector.probe()
    kernel.run({"cas_count_read": 1000})
    before = values(list(collector.collect()))
    kernel.unplug(48)
    kernel.run({"cas_count_read": 1000})
    after = values(list(collector.collect()))
    assert after[BYTES, "0", "read"] == 2 * before[BYTES, "0", "read"]
    assert after[BYTES, "1", "read"] == before[BYTES, "1", "read"]
    kernel.plug(48)
    collector.probe()
    kernel.run({"cas_count_read": 1000})
    last = values(list(collector.collect()))
    assert last[BYTES, "1", "read"] == 2 * before[BYTES, "1", "read"]
    kernel.unplug(0)
    kernel.unplug(48)
    with pytest.raises(ReadError, match="within a minute"):
        collector.collect()


def test_a_unit_that_is_described_otherwise_than_when_it_was_opened(tmp_path: Path) -> None:
    kernel = FakeKernel()
    add_unit(
        tmp_path,
        "uncore_imc_0",
        80,
        {"cas_count_read": "event=0x05,umask=0xcf", "cas_count_write": "event=0x05,umask=0xf0"},
    )
    collector = MemoryBandwidthCollector(host_of(tmp_path), kernel=kernel)
    collector.probe()
    put(tmp_path, "sys/bus/event_source/devices/uncore_imc_0/events/cas_count_write", "event=<garbled>")
    collector.probe()
    kernel.run({"cas_count_read": 10, "cas_count_write": 10})
    assert values(list(collector.collect())) == {(BYTES, "0", "read"): 640}


def test_why_it_cannot_work(tmp_path: Path) -> None:
    host = host_of(tmp_path)
    with pytest.raises(Unavailable, match="virtual machine") as caught:
        MemoryBandwidthCollector(host, kernel=FakeKernel()).probe()
    assert caught.value.reason is Reason.NO_HARDWARE
    add_unit(tmp_path, "uncore_imc_0", 90, {"cas_count_read": "event=0x04,umask=0x03"})
    for code, reason in ((errno.EACCES, Reason.NO_PERMISSION), (errno.EINVAL, Reason.NO_KERNEL_SUPPORT)):
        with pytest.raises(Unavailable) as caught:
            MemoryBandwidthCollector(host, kernel=FakeKernel({"cas_count_read": code})).probe()
        assert caught.value.reason is reason


def test_the_limit_of_descriptors_is_raised() -> None:
    kernel = FakeKernel(limit=7)
    collector = MemoryBandwidthCollector(fixture_host("node192"), kernel=kernel)
    collector.probe()
    assert len(kernel.opened) == 32

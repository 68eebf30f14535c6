"""The fixture hosts are what they claim to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors.cpu import MODES, parse_softirqs, parse_stat
from hwsonde_exporter.collectors.memory import parse_node_meminfo
from hwsonde_exporter.collectors.network import parse_net_dev
from hwsonde_exporter.collectors.storage import parse_diskstats
from tests.exporter.collectors.hosts import HOSTS, NAMES, fixture_host
from tests.fixtures.make_hosts import MAKERS
from tests.fixtures.make_node192 import write

# Garbled files have no sums that could be right.
WHOLE = tuple(name for name in NAMES if name != "sick")
GARBLED_DEVICES = {"eth9", "ib:0"}


def contents(folder: Path) -> dict[str, bytes | str]:
    found: dict[str, bytes | str] = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


@pytest.mark.parametrize("name", MAKERS)
def test_it_is_what_its_script_makes(name: str, tmp_path: Path) -> None:
    write(MAKERS[name](), tmp_path)
    how = "run python -m tests.fixtures.make_hosts if this is right"
    assert contents(tmp_path) == contents(HOSTS / name), how


def test_each_host_has_a_folder() -> None:
    assert sorted(path.name for path in HOSTS.iterdir()) == sorted(NAMES)
    assert set(MAKERS) | {"vm"} == set(NAMES)


def test_fixtures_stay_small() -> None:
    assert sum(len(data) for name in NAMES for data in contents(HOSTS / name).values()) < 900_000


@pytest.mark.parametrize("name", WHOLE)
def test_totals_are_sums_of_their_parts(name: str) -> None:
    host = fixture_host(name)
    stat = parse_stat(host.files.read(host.paths.proc("stat")))
    assert stat.total == tuple(map(sum, zip(*stat.cpus.values(), strict=True)))
    assert stat.counts[b"softirq"] == sum(parse_softirqs(host.files.read(host.paths.proc("softirqs"))).values())
    seconds = {round(sum(row[: len(MODES)]) / 100) for row in stat.cpus.values()}
    assert len(seconds) == 1, "all CPUs have been up for the same time"
    disks = {
        disk.decode(): [int(column) for column in row]
        for disk, row in parse_diskstats(host.files.read(host.paths.proc("diskstats"))).items()
    }
    for disk, row in disks.items():
        parts = [
            other
            for part, other in disks.items()
            if part != disk and part.startswith(disk) and part[len(disk) :].strip("p").isdigit()
        ]
        assert (
            all(whole >= sum(column) for whole, column in zip(row, zip(*parts, strict=True), strict=False)) or not parts
        )
        assert row[9] <= next(iter(seconds)) * 1000, "busy no longer than up"
    memory = parsing.key_values(host.files.read(host.paths.proc("meminfo")))
    assert memory[b"MemFree"] <= memory[b"MemAvailable"] <= memory[b"MemTotal"]
    assert memory[b"MemFree"] // 4 == parsing.key_values(host.files.read(host.paths.proc("vmstat")))[b"nr_free_pages"]


@pytest.mark.parametrize("name", WHOLE)
def test_memory_of_the_nodes_is_the_hosts(name: str) -> None:
    memory = parsing.key_values((HOSTS / name / "proc/meminfo").read_bytes())
    nodes = [
        parse_node_meminfo(path.read_bytes())
        for path in (HOSTS / name / "sys/devices/system/node").glob("node*/meminfo")
    ]
    for key in (b"MemTotal", b"MemFree"):
        assert sum(node[key] for node in nodes) == memory[key]


@pytest.mark.parametrize("name", WHOLE)
def test_control_groups_used_what_the_processors_gave(name: str) -> None:
    stat = parse_stat((HOSTS / name / "proc/stat").read_bytes())
    ticks = [number or 0 for number in stat.total]
    busy = (ticks[0] + ticks[1]) / 100, (ticks[2] + ticks[5] + ticks[6]) / 100
    base = HOSTS / name / "sys/fs/cgroup"
    root = parsing.key_values((base / "cpu.stat").read_bytes())
    assert (root[b"user_usec"] / 1e6, root[b"system_usec"] / 1e6) == pytest.approx(busy, rel=0.001)
    children = (parsing.key_values(path.read_bytes()) for path in base.glob("*/cpu.stat"))
    assert sum(child[b"usage_usec"] for child in children) <= 1e6 * sum(busy)


@pytest.mark.parametrize("name", NAMES)
def test_devices_are_where_the_board_has_them(name: str) -> None:
    host = HOSTS / name
    bus = host / "sys/bus/pci/devices"
    places = [path.read_text().strip() for path in host.glob("sys/class/nvme/*/address")]
    places += [path.readlink().name for path in host.glob("sys/class/infiniband/*/device")]
    places += [
        path.readlink().name for path in host.glob("sys/class/net/*/device") if "virtio" not in path.readlink().name
    ]
    if name != "sick":  # one of its disks is gone
        assert not [place for place in places if not (bus / place / "class").is_file()]
    network = {
        path.name for path in (host / "sys/class/net").iterdir() if path.is_dir() and (path / "operstate").is_file()
    }
    assert network == {row.decode() for row in parse_net_dev((host / "proc/1/net/dev").read_bytes())} - GARBLED_DEVICES
    assert {
        path.read_text().strip() for path in host.glob("sys/class/infiniband/*/ports/*/gid_attrs/ndevs/0")
    } <= network

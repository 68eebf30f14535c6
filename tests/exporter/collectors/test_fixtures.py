"""The fixture hosts are what they claim to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors.cpu import MODES, parse_softirqs, parse_stat
from hwsonde_exporter.collectors.storage import parse_diskstats
from tests.exporter.collectors.hosts import HOSTS, NAMES, fixture_host
from tests.fixtures.make_hosts import MAKERS
from tests.fixtures.make_node192 import write

# Garbled files have no sums that could be right.
WHOLE = tuple(name for name in NAMES if name != "sick")


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

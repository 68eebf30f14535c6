"""What does not fit into memory is said before work begins."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from hwsonde_detector.config import load_config
from hwsonde_detector.errors import ConfigError
from hwsonde_detector.past.memory import memory_left
from hwsonde_detector.past.reading import open_records
from hwsonde_detector.past.world import World
from hwsonde_detector.reports import program, room
from hwsonde_detector.reports.program import Asked, run_report
from hwsonde_detector.reports.room import Host, Stretch, check_room, count, needed
from hwsonde_detector.service.wiring import make_plan
from tests.detector.explain.planted import host
from tests.detector.reports.fleet import LEARN_S, START_MS, configured, record, series

DAY = 86_400_000
MONTH = Stretch(START_MS, START_MS + 30 * DAY, 3_600_000)
HOSTS = {host(f"n{number}"): Host(400, 15_000) for number in range(500)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("fleet")
    configured(place)
    record(place / "archive", series(seconds=200, asked={}, gone=[("n3", "", 0, 999)]))
    return place


def test_hosts_are_counted_as_they_are_scored(folder: Path) -> None:
    config = load_config(folder / "config.yaml", {})
    records = open_records(config, START_MS + 20_000, START_MS + 140_000, folder / "archive", 0)
    found = count((batch for batch, _ in records), make_plan(config))
    # Twelve counters, two of each of two disks, and context switches; n3 was only asked in vain.
    assert found == {host("n1"): Host(17, 1000), host("n2"): Host(17, 1000)}


def test_a_month_of_many_hosts_is_gigabytes_and_one_of_them_a_part(folder: Path) -> None:
    settings = make_plan(load_config(folder / "config.yaml", {})).settings
    models = needed(HOSTS, Stretch(START_MS, START_MS + 1, DAY), settings, lambda _: False)
    whole = needed(HOSTS, MONTH, settings, lambda _: True) - models
    one = needed(HOSTS, MONTH, settings, lambda entity: entity == host("n0")) - models
    assert 2e9 < whole < 3e9
    assert 0.2 * whole < one < 0.3 * whole, "a minute holds four windows"
    assert needed(HOSTS, Stretch(START_MS, START_MS + DAY, 0), settings, lambda _: True) - models < whole / 20


def test_too_much_is_one_line_that_says_what_to_do(folder: Path) -> None:
    config = load_config(folder / "config.yaml", {})
    plan = make_plan(config)

    def check(stretch: Stretch, left: int | None) -> None:
        check_room(config, folder / "archive", stretch, plan, lambda entity: entity == host("n2"), lambda: left)

    with pytest.raises(ConfigError) as caught:
        check(MONTH, 10_000_000)
    assert str(caught.value) == (
        "--from: 2 hosts (1 of them asked for) over 30 days need about 0.1 GB of memory and 0.0 GB are left; narrow it by --entity, --job, "
        "source.selector or a later --from"
    )
    check(MONTH, 1_000_000_000)
    check(MONTH, None)
    check(Stretch(START_MS, START_MS + 3_600_000, 0), 0)


def test_the_command_says_it_before_it_works(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_LEAST_MS", 0)
    monkeypatch.setattr(program, "score_records", lambda *_: pytest.fail("it has begun"))
    world = World(lambda: 0, lambda: 0.0, out=io.StringIO(), err=io.StringIO(), memory=lambda: 1_000_000)
    asked = Asked(tmp_path / "out", str(START_MS // 1000 + LEARN_S), archive=folder / "archive")
    with pytest.raises(ConfigError, match=r"^--from: 2 hosts \(2 of them asked for\) over "):
        run_report(load_config(folder / "config.yaml", {}), asked, world)
    assert list((tmp_path / "out").iterdir()) == []


def kernel(folder: Path, groups: str, **files: str) -> int | None:
    """What is left by files of a pretended kernel; ``__`` stands for a slash, ``_D_`` for a dot."""
    (folder / "proc" / "self").mkdir(parents=True)
    (folder / "proc" / "meminfo").write_text("MemTotal: 16000000 kB\nMemAvailable:    8000000 kB\n")
    (folder / "proc" / "self" / "cgroup").write_text(groups)
    for name, text in files.items():
        path = folder / "groups" / name.replace("__", "/").replace("_D_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return memory_left(folder / "proc", folder / "groups")


MACHINE = 8_000_000 * 1024


def test_without_a_limit_the_machine_says_what_is_left(tmp_path: Path) -> None:
    assert kernel(tmp_path, "0::/a/b\n", a__b__memory_D_max="max\n", a__b__memory_D_current="5\n") == MACHINE
    assert memory_left(tmp_path / "none", tmp_path / "none") is None


def test_a_group_above_may_allow_less(tmp_path: Path) -> None:
    files = {
        "a__memory_D_max": "1000000\n", "a__memory_D_current": "900000\n", "a__memory_D_stat": "anon 5\ninactive_file 50000\n",
        "a__b__memory_D_max": "500000\n", "a__b__memory_D_current": "100000\n",
    }  # fmt: skip
    assert kernel(tmp_path, "0::/a/b\n", **files) == 150_000


def test_a_container_sees_its_group_at_the_root(tmp_path: Path) -> None:
    files = {"memory_D_max": "300000\n", "memory_D_current": "400000\n"}
    assert kernel(tmp_path, "0::/docker/0123\n", **files) == 0


def test_groups_of_the_first_version(tmp_path: Path) -> None:
    files = {"memory__x__memory_D_limit_in_bytes": "700000\n", "memory__x__memory_D_usage_in_bytes": "100000\n"}
    assert kernel(tmp_path, "5:cpu:/y\n4:memory:/x\n0::/\n", **files) == 600_000


def test_this_machine_has_some() -> None:
    left = memory_left()
    assert left is None or left > 1_000_000

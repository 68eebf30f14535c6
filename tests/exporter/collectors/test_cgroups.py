"""Finding control groups and walking through them."""

from __future__ import annotations

from pathlib import Path

from hwsonde_exporter.collectors._cgroups import MAX_DEPTH, Hierarchy, find_hierarchies, walk
from hwsonde_exporter.collectors._workload_pods import read_pod_names
from hwsonde_exporter.host import Host, Paths
from tests.exporter.collectors.test_workload import Clock
from tests.fixtures import cgroup_trees as trees
from tests.fixtures.make_node192 import write


def test_only_the_hosts_own_mount_of_a_tree_counts(tmp_path: Path) -> None:
    mounts = (
        "40 31 0:26 /docker/ab /var/lib/x/sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
        "31 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
        "41 22 0:40 / /cgroup/cpu rw - cgroup none rw,cpuacct,cpu\n"
        "42 22 0:41 / /cgroup/freezer rw - cgroup none rw,freezer"
    )
    for folder in ("sys/fs/cgroup", "root/cgroup/cpu", "root/cgroup/freezer", "root/var/lib/x/sys/fs/cgroup"):
        (tmp_path / folder).mkdir(parents=True)
    write({"proc/1/mountinfo": mounts}, tmp_path)
    found = find_hierarchies(Host(Paths(tmp_path / "proc", tmp_path / "sys", tmp_path / "root")))
    assert found == [
        Hierarchy(str(tmp_path / "sys/fs/cgroup"), frozenset({"unified"})),
        Hierarchy(str(tmp_path / "root/cgroup/cpu"), frozenset({"cpu", "cpuacct"})),
    ]


def test_walks_are_bounded_in_depth_and_time(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * (MAX_DEPTH + 3))
    deep.mkdir(parents=True)
    trees_ = [Hierarchy(str(tmp_path), frozenset({"unified"}))]
    forest = walk(trees_, Clock())
    assert not forest.complete
    assert len(forest.groups) == MAX_DEPTH + 1
    ticks = iter(range(10_000))
    assert not walk(trees_, lambda: float(next(ticks))).complete


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / "bad\nname").mkdir()
    forest = walk([Hierarchy(str(tmp_path), frozenset({"unified"}))], Clock())
    assert list(forest.groups) == [(), ("a",)]
    assert forest.groups["a",].empty


def test_names_of_pods(tmp_path: Path) -> None:
    logs = tmp_path / "var/log/containers"
    logs.mkdir(parents=True)
    (logs / f"web-1.x_shop_app-v2-{'a' * 64}.log").touch()
    (logs / "junk.log").touch()
    (tmp_path / f"var/log/pods/shop_web-1.x_{trees.POD}").mkdir(parents=True)
    names = read_pod_names(str(tmp_path))
    assert names.containers == {"a" * 64: ("shop", "web-1.x", "app-v2")}
    assert names.pods == {trees.POD: ("shop", "web-1.x")}
    assert read_pod_names(str(tmp_path / "none")).pods == {}

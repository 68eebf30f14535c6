"""A container that sees only its own control group does not take it for the host's."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwsonde_exporter.collectors._cgroups import find_hierarchies
from hwsonde_exporter.collectors.workload import WorkloadCollector
from hwsonde_exporter.errors import Reason, Unavailable
from tests.exporter.collectors.hosts import values
from tests.exporter.collectors.trees import tree_host
from tests.fixtures import cgroup_trees as trees

OWN: trees.Tree = {
    "sys/fs/cgroup/cgroup.controllers": "cpu io memory pids",
    "sys/fs/cgroup/cgroup.events": "populated 1\nfrozen 0",
    "sys/fs/cgroup/cpu.stat": "usage_usec 900\nuser_usec 600\nsystem_usec 300",
    "proc/1/mountinfo": trees.MOUNTS_V2,
    "proc/1/cgroup": "0::/../../init.scope",
}


def below_root(tree: trees.Tree) -> trees.Tree:
    """The control groups of a host as its root filesystem shows them, without what lies outside of them."""
    return {f"root/{name}": text for name, text in tree.items() if name.startswith("sys/fs/cgroup")}


def test_it_says_what_to_mount(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"--path\.sysfs") as caught:
        WorkloadCollector(tree_host(tmp_path, OWN)).probe()
    assert caught.value.reason is Reason.NO_PERMISSION


def test_the_hosts_below_its_root_filesystem_are_taken(tmp_path: Path) -> None:
    host = tree_host(tmp_path, OWN | below_root(trees.docker_workstation()))
    assert [tree.folder for tree in find_hierarchies(host)] == [f"{tmp_path}/root/sys/fs/cgroup"]
    collector = WorkloadCollector(host)
    collector.probe()
    answer = values(list(collector.collect()))
    assert answer["hwsonde_workload_cpu_seconds_total", f"docker:{trees.CONTAINER[:12]}", "user"] == 50_000


@pytest.mark.parametrize(
    "change",
    [
        {"proc/1/cgroup": "0::/init.scope"},
        {"sys/fs/cgroup/cgroup.events": None},
    ],
    ids=["a container of its own", "the host's tree in a private namespace"],
)
def test_what_is_whole_stays(tmp_path: Path, change: dict[str, str | None]) -> None:
    files = {name: text for name, text in (OWN | change).items() if text is not None}
    WorkloadCollector(tree_host(tmp_path, files)).probe()

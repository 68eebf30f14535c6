"""Reading the kernel, control groups of both versions, namespaces, meters."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.faults.cgroups import TOP, Cgroups, Tree, find_trees
from benchmarks.faults.errors import BenchError
from benchmarks.faults.kernel import Kernel
from benchmarks.faults.meters import Meter, Progress, lost, read_meter
from benchmarks.faults.network import LINKS, Network, drop_program

# --- the kernel's files


def test_the_kernels_numbers_are_read(tmp_path: Path) -> None:
    files = {
        "stat": "cpu 1 2\nctxt 77\nprocesses 5\n",
        "sys/fs/file-nr": "1063\t0\t2466170\n",
        "meminfo": "MemTotal: 9 kB\nMemAvailable:       4 kB\n",
        "7/stat": "7 (a b) c) T 1 7 7 0 -1 0 0 0 0 0 200 100 50 50 20 0 1 0 4711 0\n",
        "7/net/snmp": "Ip: A B\nIp: 1 2\nTcp: RtoMin RetransSegs\nTcp: 200 31\nUdp: InDatagrams NoPorts\nUdp: 5 6\n",
        "7/net/dev": "Inter-| x\n face |y\n  hwbr0:100 1 0 0 0 0 0 0 900 2 0 0 0 0 0 0\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    kernel = Kernel(tmp_path)
    assert (kernel.stat("ctxt"), kernel.stat("processes")) == (77, 5)
    assert (kernel.open_files(), kernel.file_limit()) == (1063, 2466170)
    assert kernel.available_memory() == 4096
    assert (kernel.state(7), kernel.started(7)) == ("T", 4711)
    assert (kernel.network(7, "Tcp", "RetransSegs"), kernel.network(7, "Udp", "NoPorts")) == (31, 6)
    assert (kernel.sent_bytes(7, "hwbr0"), kernel.sent_bytes(7, "eth0")) == (900, 0)


def test_what_is_not_there_is_zero(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, tmp_path, tmp_path)
    assert kernel.stat("ctxt") == kernel.open_files() == kernel.file_limit() == kernel.available_memory() == 0
    assert kernel.started(1) == kernel.network(1, "Tcp", "RetransSegs") == kernel.sent_bytes(1, "x") == 0
    assert (kernel.state(1), kernel.has_tunnels()) == ("", False)
    assert kernel.disk_of(tmp_path) is None


def test_a_partition_stands_for_its_disk(tmp_path: Path) -> None:
    number = tmp_path.stat().st_dev
    disk = tmp_path / "devices" / "vda"
    (disk / "vda1").mkdir(parents=True)
    (disk / "dev").write_text("254:0\n")
    (disk / "vda1" / "partition").write_text("1\n")
    (disk / "vda1" / "dev").write_text("254:1\n")
    (tmp_path / "dev" / "block").mkdir(parents=True)
    (tmp_path / "dev" / "block" / f"{os.major(number)}:{os.minor(number)}").symlink_to(disk / "vda1")
    assert Kernel(sys=tmp_path).disk_of(tmp_path) == ("vda", "254:0")


def test_this_process_is_found_by_number_and_start() -> None:
    kernel = Kernel()
    assert kernel.started(os.getpid()) > 0
    assert kernel.state(os.getpid()) == "R"


# --- control groups

MIXED = """\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
49 31 0:32 / /other/memory rw,relatime - cgroup cgroup rw,memory
"""
OWN = "9:name=systemd:/\n4:memory:/task/7\n2:cpuacct:/\n1:cpu:/\n0::/\n"


def test_trees_of_version_1_lie_below_our_own_group() -> None:
    found = {str(tree.base): tree for tree in find_trees(MIXED, OWN)}
    assert set(found) == {
        "/sys/fs/cgroup/cpu",
        "/sys/fs/cgroup/cpuacct",
        "/sys/fs/cgroup/memory/task/7",
        "/sys/fs/cgroup/unified",
    }
    assert found["/sys/fs/cgroup/memory/task/7"].controllers == {"memory"}
    assert found["/sys/fs/cgroup/unified"].unified


def test_a_tree_of_version_2_lies_beside_our_own_group() -> None:
    mountinfo = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
    found = find_trees(mountinfo, "0::/user.slice/session-1.scope\n")
    assert [str(tree.base) for tree in found] == ["/sys/fs/cgroup/user.slice"]


def test_a_container_that_mounts_its_own_part_is_understood() -> None:
    mountinfo = "35 31 0:32 /box /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    found = find_trees(mountinfo, "4:memory:/box/task\n")
    assert [str(tree.base) for tree in found] == ["/sys/fs/cgroup/memory/task"]


def tree(folder: Path, files: dict[str, str], *, unified: bool) -> Cgroups:
    """Groups in a plain folder: files of a group that the kernel would show are written by hand."""
    groups = Cgroups([Tree(folder, unified, frozenset({"cpu", "memory", "blkio", "io"}))])
    groups.make("job")
    for name, text in files.items():
        (folder / TOP / "job" / name).write_text(text)
    return groups


def test_limits_and_counters_of_version_1(tmp_path: Path) -> None:
    groups = tree(
        tmp_path,
        {
            "cpu.cfs_quota_us": "-1",
            "cpu.cfs_period_us": "100000",
            "cpu.stat": "nr_periods 1\nthrottled_time 2500000000\n",
            "cpuacct.usage": "3000000000\n",
            "memory.limit_in_bytes": "9",
            "memory.usage_in_bytes": "700\n",
            "memory.failcnt": "12\n",
            "memory.stat": "cache 5\nrss 300\npgmajfault 8\n",
            "blkio.throttle.read_bps_device": "",
        },
        unified=False,
    )
    place = tmp_path / TOP / "job"
    groups.set_quota("job", 0.4)
    assert (place / "cpu.cfs_quota_us").read_text() == "40000"[:5]
    assert groups.throttled_seconds("job") == 2.5
    assert groups.cpu_seconds("job") == 3.0
    assert groups.memory("job") == (700, 300)
    assert (groups.limit_hits("job"), groups.memory_stat("job", "pgmajfault")) == (12, 8)
    groups.limit_memory("job", 4096)
    assert (place / "memory.limit_in_bytes").read_text() == "4096"
    groups.throttle_reads("job", "254:0", 1 << 20)
    assert (place / "blkio.throttle.read_bps_device").read_text() == "254:0 1048576"


def test_limits_and_counters_of_version_2(tmp_path: Path) -> None:
    groups = tree(
        tmp_path,
        {
            "cpu.max": "max 100000",
            "cpu.stat": "usage_usec 3000000\nthrottled_usec 2500000\n",
            "memory.max": "max",
            "memory.current": "700\n",
            "memory.events": "low 0\nmax 12\n",
            "memory.stat": "anon 300\nfile 5\npgmajfault 8\n",
            "io.max": "",
        },
        unified=True,
    )
    place = tmp_path / TOP / "job"
    groups.set_quota("job", 0.4)
    assert (place / "cpu.max").read_text() == "40000 100000"
    assert (groups.throttled_seconds("job"), groups.cpu_seconds("job")) == (2.5, 3.0)
    assert groups.memory("job") == (700, 300)
    assert (groups.limit_hits("job"), groups.memory_stat("job", "pgmajfault")) == (12, 8)
    groups.throttle_reads("job", "254:0", 1 << 20)
    assert (place / "io.max").read_text() == "254:0 rbps=1048576"
    assert groups.can("cpuacct")
    assert groups.can("blkio")


def test_without_a_tree_that_can_be_written_it_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="no control groups are mounted"):
        Cgroups([]).make("job")
    (tmp_path / TOP).write_text("a file where a folder must be")
    with pytest.raises(BenchError, match="run the bench as root"):
        Cgroups([Tree(tmp_path, unified=False, controllers=frozenset({"cpu"}))]).make("job")


def test_groups_are_removed_with_what_is_below_them(tmp_path: Path) -> None:
    groups = Cgroups([Tree(tmp_path, unified=False, controllers=frozenset({"cpu"}))])
    groups.make("one")
    groups.make("two/three")
    assert groups.remove() == []
    assert list(tmp_path.iterdir()) == []
    assert groups.remove() == []


def test_a_group_that_stays_is_named(tmp_path: Path) -> None:
    groups = tree(
        tmp_path, {"cgroup.procs": ""}, unified=False
    )  # a folder with a file cannot be removed as the kernel's can
    waited: list[float] = []
    assert str(tmp_path / TOP / "job") in groups.remove(waited.append)
    assert len(waited) > 1


# --- namespaces


def test_the_ring_is_built_and_a_failure_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said: list[str] = []

    def run(command: Sequence[str]) -> str:
        said.append(" ".join(command))
        if "hwbl2" in said[-1] and "addr" in said[-1]:
            raise BenchError("no")
        return ""

    monkeypatch.setattr("benchmarks.faults.network.NAMESPACES", tmp_path)
    for name in ("hwsonde-bench-0", "hwsonde-bench-1", "somebody-elses"):
        (tmp_path / name).touch()
    with pytest.raises(BenchError):
        Network(run).build()
    deleted = [line for line in said if "delete" in line]
    assert deleted == ["ip netns delete hwsonde-bench-0", "ip netns delete hwsonde-bench-1"]


def test_every_member_has_one_neighbour_on_each_side() -> None:
    assert [(link.source, link.target) for link in LINKS] == [
        ("hwsonde-bench-0", "hwsonde-bench-1"),
        ("hwsonde-bench-1", "hwsonde-bench-2"),
        ("hwsonde-bench-2", "hwsonde-bench-0"),
    ]
    assert all(len(name) < 16 for link in LINKS for name in (link.near, link.far))


def interpreted(program: str, number: int) -> int:
    """Run the instructions on a random number, as linux/Documentation/networking/filter.rst describes them."""
    count, *texts = program.split(",")
    steps = [tuple(map(int, text.split())) for text in texts]
    assert len(steps) == int(count)
    at = accumulator = 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        if code == 0x20:
            assert value == 0xFFFFF000 + 56
            accumulator = number
        elif code == 0x35:
            at += if_true if accumulator >= value else if_false
        elif code == 0x06:
            return value
        else:
            raise AssertionError(code)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_the_program_drops_the_share_that_it_should(share: float) -> None:
    program = drop_program(share)
    steps = 1000
    verdicts = [interpreted(program, ((2 * number + 1) << 31) // steps) for number in range(steps)]
    assert verdicts.count(2) == round(share * steps)
    assert set(verdicts) == {2, 0xFFFFFFFF}


# --- meters


def test_a_meter_is_read_while_it_is_written(tmp_path: Path) -> None:
    meter = Meter(tmp_path / "meter")
    assert read_meter(tmp_path / "meter") == 0
    meter.add(0, 1.5)
    meter.add(0, 1.5)
    meter.put(3, -2.0)
    assert (read_meter(tmp_path / "meter"), read_meter(tmp_path / "meter", 3)) == (3.0, -2.0)
    assert read_meter(tmp_path / "nothing") == 0


def test_a_healthy_worker_makes_a_second_a_second_whatever_the_phase() -> None:
    meter = Meter(None)
    progress = Progress(meter)
    for _ in range(20):
        progress.piece("load", 0.1)
        progress.piece("step", 0.4)
    assert meter.get(0) == pytest.approx(20 * 0.5)
    for _ in range(10):
        progress.piece("step", 4.0)  # slowed down to a tenth
    assert meter.get(0) == pytest.approx(20 * 0.5 + 10 * 0.4)


@pytest.mark.parametrize(
    ("before", "during", "wanted"),
    [
        ({"a": 1.0, "b": 1.0}, {"a": 0.9, "b": 0.5}, 0.5),
        ({"a": 1.0}, {"a": 1.2}, 0.0),
        ({"a": 1.0}, {"a": 0.0}, 1.0),
        ({"a": 0.0}, {"a": 1.0}, None),
        ({"a": 1.0}, {}, None),
        ({}, {}, None),
    ],
)
def test_harm_is_what_the_worst_part_lost(
    before: dict[str, float], during: dict[str, float], wanted: float | None
) -> None:
    assert lost(before, during) == wanted if wanted is None else lost(before, during) == pytest.approx(wanted)

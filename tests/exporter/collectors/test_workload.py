from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwsonde_exporter.collectors.workload import WorkloadCollector
from hwsonde_exporter.errors import CollectorError, Reason, Unavailable
from hwsonde_exporter.host import FileReader, Host, Paths
from hwsonde_exporter.metric import Kind
from hwsonde_exporter.workload_options import WorkloadOptions
from tests.exporter.collectors.hosts import HOSTS, values
from tests.exporter.collectors.trees import Forbidden
from tests.exporter.contracts.test_collectors import check, garbled_tree
from tests.fixtures import cgroup_trees as trees
from tests.fixtures.make_node192 import write

ALL = {
    "vm": trees.vm,
    "slurm_v2": trees.slurm_v2,
    "slurm_v1": trees.slurm_v1,
    "kubernetes_v2": trees.kubernetes_v2,
    "kubernetes_v1": trees.kubernetes_v1,
    "docker_workstation": trees.docker_workstation,
    "plain_v1_v2": trees.plain_v1_v2,
}
Answer = dict[tuple[str, ...], float]
CPU, THROTTLED, MEMORY = (
    f"hwsonde_workload_{name}" for name in ("cpu_seconds_total", "cpu_throttled_seconds_total", "memory_bytes")
)
OTHER, TASKS = "hwsonde_workload_other_cpu_seconds_total", "hwsonde_workload_tasks"
POD = f"pod:{trees.POD}"
CONTAINER = f"{POD}/{trees.CONTAINER[:12]}"


class Clock:
    """Seconds that pass only when told, so that cgroups are looked for when the test wants it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Machine:
    """A host in a folder, and its collector."""

    def __init__(
        self, folder: Path, tree: trees.Tree, options: WorkloadOptions | None = None, files: FileReader | None = None
    ) -> None:
        self.folder = folder
        self.clock = Clock()
        write(tree, folder)
        self.host = Host(Paths(folder / "proc", folder / "sys", folder / "root"), files or FileReader())
        self.collector = WorkloadCollector(self.host, options=options, clock=self.clock)
        self.collector.probe()

    def add(self, tree: trees.Tree) -> None:
        write(tree, self.folder)

    def remove(self, path: str) -> None:
        for base in (self.folder / "sys/fs/cgroup", *(self.folder / "sys/fs/cgroup").iterdir()):
            shutil.rmtree(base / path.strip("/"), ignore_errors=True)

    def collect(self, seconds: float = 100.0) -> Answer:
        """Samples ``seconds`` later; each series once."""
        self.clock.now += seconds
        samples = list(self.collector.collect())
        answer = values(samples)
        assert len(answer) == len(samples)
        return answer


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    made: list[Machine] = []

    def make(tree: trees.Tree, options: WorkloadOptions | None = None, files: FileReader | None = None) -> Machine:
        made.append(Machine(tmp_path / f"host{len(made)}", tree, options, files))
        return made[-1]

    yield make
    for one in made:
        one.host.files.close()


def workloads(answer: Answer) -> list[str]:
    return [key[1] for key in answer if key[0] == "hwsonde_workload_info"]


Make = Callable[..., Machine]


@pytest.mark.parametrize("name", ALL)
def test_every_host_gives_a_bounded_and_steady_set(name: str, machine: Make) -> None:
    host = machine(ALL[name]())
    first = host.collect()
    assert host.collect() == first
    assert first["hwsonde_workload_left_out",] == 0
    assert first["hwsonde_workload_walk_complete",] == 1
    assert first[OTHER,] > 0
    assert workloads(first)
    assert len(first) <= 40 * len(workloads(first)) + 10


def test_slurm_of_version_1(machine: Make) -> None:
    answer = machine(trees.slurm_v1()).collect()
    job = "slurm:771"
    assert answer["hwsonde_workload_info", job, "slurm", "job_771", "", "", "", "771", ""] == 1
    assert (answer[CPU, job, "user"], answer[CPU, job, "system"]) == (480_120.25, 18_400.5)
    assert answer[THROTTLED, job] == 61.5
    assert answer["hwsonde_workload_cpu_limit_cores", job] == 16
    assert answer[MEMORY, job] == (90_112 + 204_800) << 20
    assert answer["hwsonde_workload_memory_limit_bytes", job] == 256_000 << 20
    assert answer["hwsonde_workload_oom_kills_total", job] == 3
    assert answer["hwsonde_workload_memory_limit_events_total", job, "max"] == 21
    assert answer["hwsonde_workload_major_page_faults_total", job] == 8_812
    assert answer["hwsonde_workload_io_bytes_total", job, "read"] == 8_812 << 20
    assert answer["hwsonde_workload_io_requests_total", job, "write"] == 1640
    assert answer["hwsonde_workload_threads", job] == 5
    assert [answer[TASKS, job, state] for state in ("running", "sleeping", "uninterruptible", "stopped")] == [
        1,
        1,
        1,
        0,
    ]
    assert answer["hwsonde_workload_schedule_waiting_seconds_total", job] == 15
    assert answer["hwsonde_workload_context_switches_total", job] == 84_243
    assert "hwsonde_workload_memory_limit_bytes" not in {key[0] for key in answer if "systemd:slurmd.service" in key}
    assert not [key for key in answer if "pressure" in key[0] or "tcp" in key[0]], (
        "version 1 has none; the net is the host's"
    )
    assert answer[OTHER,] == pytest.approx(912_000.5 - 480_120.25 - 18_400.5 - 100)


def test_slurm_of_version_2_tells_a_stopped_job(machine: Make) -> None:
    host = machine(trees.slurm_v2() | {"proc/1/mountinfo": trees.MOUNTS_V2})
    answer = host.collect()
    assert [name for name in workloads(answer) if name.startswith("slurm:")] == ["slurm:48213", "slurm:48220"]
    assert (answer[TASKS, "slurm:48220", "stopped"], answer[TASKS, "slurm:48220", "running"]) == (2, 0)
    assert answer[TASKS, "slurm:48213", "running"] == 8
    assert answer["hwsonde_workload_pressure_waiting_seconds_total", "slurm:48213", "io"] == 9_410.75
    assert answer["hwsonde_workload_pressure_stalled_seconds_total", "slurm:48213", "memory"] == 52.125
    assert "systemd:slurmstepd.scope" not in workloads(answer), "a folder of jobs is no workload"


def test_pods_have_names_from_their_logs(machine: Make) -> None:
    answer = machine(trees.kubernetes_v2()).collect()
    short = trees.CONTAINER[:12]
    assert (
        answer["hwsonde_workload_info", CONTAINER, "kubernetes", short, "ml-team", "trainer-0", "trainer", "", ""] == 1
    )
    static = f"pod:{trees.STATIC_POD}/{trees.SECOND[:12]}"
    assert (
        "hwsonde_workload_info",
        static,
        "kubernetes",
        trees.SECOND[:12],
        "kube-system",
        "etcd-n1",
        "",
        "",
        "",
    ) in answer
    assert f"{POD}/{trees.SANDBOX[:12]}" not in workloads(answer), "a pod's sandbox only sleeps"
    assert answer[THROTTLED, CONTAINER] == 7.5
    assert answer["hwsonde_workload_cpu_limit_cores", CONTAINER] == 4


def test_the_net_of_a_pod_is_read_once_and_is_the_pods(machine: Make) -> None:
    answer = machine(trees.kubernetes_v2()).collect()
    assert answer["hwsonde_workload_tcp_segments_total", POD, "received"] == 88_120
    assert answer["hwsonde_workload_tcp_retransmitted_segments_total", POD] == 41
    assert answer["hwsonde_workload_tcp_timeouts_total", POD] == 13
    assert len([key for key in answer if "tcp_segments" in key[0]]) == 2, (
        "what shares the host's net has none of its own"
    )
    assert answer["hwsonde_workload_info", POD, "kubernetes", "trainer-0", "ml-team", "trainer-0", "", "", ""] == 1


def test_cgroupfs_of_version_1(machine: Make) -> None:
    answer = machine(trees.kubernetes_v1()).collect()
    assert [name for name in workloads(answer) if name != POD] == [f"docker:{trees.SECOND[:12]}", CONTAINER]
    assert answer[CPU, CONTAINER, "user"] == 900.5


def test_a_workstation_and_the_name_of_its_user(machine: Make) -> None:
    tree = trees.docker_workstation()
    quiet = machine(tree).collect()
    assert all(key[-1] == "" for key in quiet if key[0] == "hwsonde_workload_info")
    answer = machine(tree, WorkloadOptions(user_names=True)).collect()
    assert (
        "hwsonde_workload_info",
        "systemd:user-1000.slice",
        "systemd",
        "user-1000.slice",
        "",
        "",
        "",
        "",
        "ada",
    ) in answer
    # A user's containers are hers: they are not taken from the rest twice.
    assert answer[OTHER,] == 99_000 - 51_000 - 22_000 - 770


def test_version_1_with_pressure_of_version_2_beside_it(machine: Make) -> None:
    answer = machine(trees.plain_v1_v2()).collect()
    train = "cgroup:/bench/train"
    assert workloads(answer) == [train]
    assert answer[CPU, train, "user"] == 2500
    assert answer["hwsonde_workload_pressure_waiting_seconds_total", train, "cpu"] == 41.5
    assert answer[THROTTLED, train] == 2.5
    assert answer["hwsonde_workload_other_cgroup_cpu_seconds_total", "cgroup:/bench/hog"] == 5


def test_a_hog_in_another_cgroup_shows_at_the_next_scrape(machine: Make) -> None:
    host = machine(trees.plain_v1_v2())
    before = host.collect(1)
    host.add(trees.group_v1("/bench/hog", trees.Use(5.5, 1.25, processes=[320])) | trees.root_v1(5_002.0, 12))
    after = host.collect(1)
    name = "hwsonde_workload_other_cgroup_cpu_seconds_total", "cgroup:/bench/hog"
    assert after[name] - before[name] == pytest.approx(1.75)
    assert after[OTHER,] - before[OTHER,] == pytest.approx(2.0)


def test_a_new_job_is_found_when_the_number_of_cgroups_changes(machine: Make) -> None:
    host = machine(trees.slurm_v1())
    host.collect()
    host.add(trees.group_v1("/slurm/uid_7/job_900", trees.Use(1.0)))
    assert "slurm:900" not in workloads(host.collect(1)), "not looked for as long as the kernel counts as many"
    host.add(trees.root_v1(912_001.0, 66))
    answer = host.collect(1)
    assert "slurm:900" in workloads(answer)
    assert answer[CPU, "slurm:900", "user"] == 1.0


def test_a_job_that_ended_ends_and_one_of_the_same_name_goes_on(machine: Make) -> None:
    host = machine(trees.slurm_v1())
    before = host.collect()
    host.remove("/slurm/uid_1004/job_771")
    gone = host.collect(1)
    assert "slurm:771" not in workloads(gone)
    assert gone[OTHER,] >= before[OTHER,]
    (host.folder / "sys/fs/cgroup/keep").mkdir()  # so that the new folder does not get the old one's number
    host.add(trees.group_v1("/slurm/uid_1004/job_771", trees.Use(2.0, 1.0)))
    again = host.collect()
    assert again[CPU, "slurm:771", "user"] == before[CPU, "slurm:771", "user"] + 2
    assert again[OTHER,] >= gone[OTHER,]


def test_limits_met_in_a_jobs_steps_are_the_jobs_and_never_fall(machine: Make) -> None:
    met, killed = (
        ("hwsonde_workload_memory_limit_events_total", "slurm:771", "max"),
        ("hwsonde_workload_oom_kills_total", "slurm:771"),
    )
    host = machine(trees.slurm_v1())
    before = host.collect()
    host.add(
        trees.group_v1("/slurm/uid_1004/job_771/step_9", trees.Use(1.0, oom_kills=2)) | trees.root_v1(912_001.0, 66)
    )
    with_step = host.collect(1)
    assert (with_step[met] - before[met], with_step[killed] - before[killed]) == (14, 2)
    host.remove("/slurm/uid_1004/job_771/step_9")
    host.add(trees.root_v1(912_002.0, 65))
    after = host.collect(1)
    assert (after[met], after[killed]) == (with_step[met], with_step[killed])


def test_threads_beyond_the_budget_are_counted(machine: Make) -> None:
    answer = machine(trees.slurm_v1(), WorkloadOptions(tasks=3)).collect()
    assert answer["hwsonde_workload_tasks_unread", "slurm:771"] == 1
    assert sum(value for key, value in answer.items() if key[:2] == (TASKS, "slurm:771")) == 2
    without = machine(trees.slurm_v1(), WorkloadOptions(tasks=0)).collect()
    assert not [key for key in without if "tasks" in key[0] or "schedule" in key[0]]


def test_waiting_of_threads_that_come_and_go_is_a_counter(machine: Make) -> None:
    host = machine(trees.slurm_v1() | {"proc/uptime": "1000.00 900.00"})
    name = "hwsonde_workload_schedule_waiting_seconds_total", "slurm:771"
    assert host.collect()[name] == 15
    shutil.rmtree(host.folder / "proc/7702")
    host.add(trees.thread(7_701, "train", "R", 5_000, 13.0, 80_200) | {"proc/uptime": "1001.00 900.00"})
    assert host.collect(1)[name] == 15.5
    # 7703 began after the last look; 7704 is old and came from elsewhere.
    host.add(trees.thread(7_703, "train", "R", 100_150, 0.25, 2) | trees.thread(7_704, "train", "R", 50, 99.0, 900))
    host.add(trees.group_v1("/slurm/uid_1004/job_771/step_0/task_0", trees.Use(processes=[7_701, 7_703, 7_704])))
    assert host.collect(1)[name] == 15.75


def test_room_for_few(machine: Make) -> None:
    answer = machine(trees.slurm_v2() | {"proc/1/mountinfo": trees.MOUNTS_V2}, WorkloadOptions(limit=2)).collect()
    assert workloads(answer) == ["slurm:48213", "slurm:48220"]
    assert answer["hwsonde_workload_left_out",] > 0


def test_disks_that_lie_on_others_are_not_counted_again(machine: Make) -> None:
    tree = trees.slurm_v1()
    tree["sys/dev/block/254:0/slaves/sda/size"] = "1"
    host = machine(tree)
    assert host.collect()["hwsonde_workload_io_bytes_total", "slurm:771", "read"] == 0


def test_without_process_1_the_usual_places_are_tried(machine: Make) -> None:
    tree = trees.vm()
    assert workloads(machine(tree).collect())
    old = {name: text for name, text in trees.slurm_v1().items() if name != "proc/1/mountinfo"}
    moved = {name.replace("cgroup/cpu,cpuacct/", "cgroup/cpuacct/"): text for name, text in old.items()}
    assert "slurm:771" in workloads(machine(moved).collect())


def test_a_host_without_cgroups_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        WorkloadCollector(Host(Paths(tmp_path / "proc", tmp_path / "sys", tmp_path))).probe()
    assert caught.value.reason is Reason.NO_KERNEL_SUPPORT


def test_cgroups_that_cannot_be_read_are_an_error_of_one_line(machine: Make) -> None:
    host = machine({"sys/fs/cgroup/cgroup.controllers": "", "sys/fs/cgroup/a/x": "", "sys/fs/cgroup/b/x": ""})
    with pytest.raises(CollectorError, match="no file of any control group"):
        host.collect()


def test_without_permission_the_rest_is_given(machine: Make) -> None:
    whole = machine(trees.slurm_v1()).collect()
    part = machine(trees.slurm_v1(), files=Forbidden("memory/slurm/uid_1004/job_771/memory.stat")).collect()
    assert part.items() <= whole.items()
    assert len(whole) - len(part) == 3


@pytest.mark.parametrize("name", ["vm", "node192"])
def test_fixture_hosts_are_what_their_script_makes(name: str) -> None:
    for path, content in ALL[name.replace("node192", "slurm_v2")]().items():
        if not content.startswith("-> "):
            assert (HOSTS / name / path).read_text() == content + "\n", path


def test_memory_stays_flat_while_jobs_come_and_go(machine: Make) -> None:
    host = machine(trees.slurm_v1())
    for number in range(40):
        host.add(trees.group_v1(f"/slurm/uid_1/job_{number}", trees.Use(1.0)))
        host.collect()
        host.remove(f"/slurm/uid_1/job_{number}")
    host.collect()
    collector = host.collector
    assert len(collector._selection.chosen) == 2
    assert set(collector._processes) == set(workloads(host.collect()))
    assert len(collector.host.files._slots) <= 2


@given(seed=st.integers(0, 2**32), name=st.sampled_from(sorted(ALL)))
@settings(max_examples=40, deadline=None)
def test_garbled_hosts_give_sound_samples_that_do_not_fall(seed: int, name: str) -> None:
    with TemporaryDirectory() as folder:
        whole, garbled = Path(folder) / "whole", Path(folder) / "garbled"
        write(ALL[name](), whole)
        garbled.mkdir()
        garbled_tree(whole, garbled, random.Random(seed))
        host = Host(Paths(garbled / "proc", garbled / "sys", garbled / "root"))
        clock = Clock()
        collector = WorkloadCollector(
            host, options=WorkloadOptions(minimum_cpu_seconds=0, user_names=True), clock=clock
        )
        last: Answer = {}
        for _ in range(2):
            clock.now += 100
            samples = []
            with suppress(CollectorError):
                collector.probe()
                samples = list(collector.collect())
            check(samples, WorkloadCollector.metrics)
            answer = values(samples)
            counters = {sample.metric.name for sample in samples if sample.metric.kind is Kind.COUNTER}
            assert all(answer[key] >= last.get(key, 0) for key in answer if key[0] in counters)
            last.update(answer)
        host.files.close()


def test_the_user_of_a_job_of_version_2_is_that_of_its_processes(
    machine: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = trees.slurm_v2() | {"proc/1/mountinfo": trees.MOUNTS_V2, "root/etc/passwd": "ada:x:1000:1000::/:/bin/sh"}
    owners = {"48400": 1000, "51200": 1001}
    monkeypatch.setattr(
        "hwsonde_exporter.collectors.workload._owner_of", lambda folder: owners.get(folder.rpartition("/")[2], 0)
    )
    answer = machine(tree, WorkloadOptions(user_names=True)).collect()
    users = {key[1]: key[-1] for key in answer if key[0] == "hwsonde_workload_info"}
    assert (users["slurm:48213"], users["slurm:48220"], users["systemd:slurmd.service"]) == ("ada", "1001", "")

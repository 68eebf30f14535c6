"""Whose a GPU is: processes, namespaces, the kubelet's file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors._gpu_owners import (
    Allocation,
    Held,
    Owner,
    Owners,
    holders,
    parse_cgroup,
    parse_checkpoint,
    pod_workload,
    read_allocations,
    sees_host,
)
from hwsonde_exporter.collectors._workload_pods import PodNames
from hwsonde_exporter.host import Host, Paths
from tests.exporter.collectors.trees import Forbidden, tree_host

POD = "9a15d2b5-c152-46b9-96e0-d57032629e1f"
NUMBER = "4f" * 32
GPU, OTHER = "GPU-9b341c59-f96b-ba85-c137-78c3652fea65", "GPU-c1e9f249-b37b-81c2-a8d9-ba5ca0294841"


@pytest.mark.parametrize(
    ("data", "workload"),
    [
        (b"0::/system.slice/slurmstepd.scope/job_77/step_0/user/task_0\n", "slurm:77"),
        (b"12:memory:/slurm/uid_1000/job_9/step_batch\n11:cpuset:/slurm/uid_1000/job_9\n0::/\n", "slurm:9"),
        (f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{NUMBER}.scope\n".encode(), f"pod:{POD}/{NUMBER[:12]}"),
        # Seen out of a control group namespace of the exporter's own container.
        (f"0::/../../kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{NUMBER}.scope\n".encode(), f"pod:{POD}/{NUMBER[:12]}"),
        (f"0::/system.slice/docker-{NUMBER}.scope\n".encode(), f"docker:{NUMBER[:12]}"),
        (b"0::/system.slice/nvidia-persistenced.service\n", "systemd:nvidia-persistenced.service"),
        (b"0::/user.slice/user-1000.slice/session-4.scope\n", "systemd:user-1000.slice"),
        # A unit of version 2 and a job of version 1: the job.
        (b"0::/system.slice/slurmd.service\n4:devices:/slurm/uid_0/job_5\n", "slurm:5"),
        (b"0::/\n", None),
        (b"", None),
        (b"garbage\n::\n0:\n", None),
    ],
)  # fmt: skip
def test_whose_a_process_is(data: bytes, workload: str | None) -> None:
    found = parse_cgroup(data)
    assert (found.workload if found is not None else None) == workload


@given(st.binary())
def test_any_bytes_are_survived(data: bytes) -> None:
    parse_cgroup(data)
    assert isinstance(parse_checkpoint(data), list)


# ---- processes -----------------------------------------------------------------------------------------------------


def process_host(folder: Path, **files: str) -> Host:
    tree = {
        "proc/2/comm": "kthreadd",
        "proc/4711/cgroup": "0::/system.slice/slurmstepd.scope/job_77/step_0",
        "proc/4711/comm": "python3",
        "proc/4712/comm": "no cgroup file",
    }
    return tree_host(folder, tree | {name.replace("__", "/"): text for name, text in files.items()})


def test_names_are_told_only_where_they_are_wanted(tmp_path: Path) -> None:
    host = process_host(tmp_path)
    assert Owners(host).of(4711) == Owner("slurm:77")
    named = Owners(host, names=True).of(4711)
    assert named == Owner("slurm:77", "python3", str((tmp_path / "proc" / "4711").stat().st_uid))


@pytest.mark.parametrize("pid", [4712, 9999, 0, -1])
def test_nothing_is_known_of_what_cannot_be_read(tmp_path: Path, pid: int) -> None:
    assert Owners(process_host(tmp_path), names=True).of(pid) == Owner()


def test_in_a_container_with_processes_of_its_own_nobody_is_named(tmp_path: Path) -> None:
    """Number 4711 is somebody else there."""
    host = process_host(tmp_path, proc__2__comm="bash")
    assert not sees_host(host)
    assert Owners(host, names=True).of(4711) == Owner()
    (tmp_path / "proc" / "2" / "comm").unlink()
    assert not sees_host(host)


def test_what_may_not_be_read_is_empty(tmp_path: Path) -> None:
    host = process_host(tmp_path)
    refused = Host(Paths(host.paths.procfs, host.paths.sysfs, host.paths.rootfs), Forbidden("4711/comm"))
    found = Owners(refused, names=True).of(4711)
    assert (found.workload, found.process) == ("slurm:77", "")


# ---- the kubelet's file --------------------------------------------------------------------------------------------


def checkpoint(*entries: object) -> bytes:
    return json.dumps({"Data": {"PodDeviceEntries": list(entries), "RegisteredDevices": {}}, "Checksum": 1}).encode()


def entry(**changes: object) -> dict[str, object]:
    fields: dict[str, object] = {
        "PodUID": POD, "ContainerName": "app", "ResourceName": "nvidia.com/gpu", "DeviceIDs": {"1": [GPU, OTHER]}, "AllocResp": "Cms=",
    }  # fmt: skip
    return fields | changes


def test_devices_by_numa_node_in_a_list_and_shared() -> None:
    data = checkpoint(
        entry(),
        entry(ContainerName="old", DeviceIDs=[GPU]),
        entry(ContainerName="shared", DeviceIDs={"-1": [f"{GPU}::0", f"{GPU}::1"]}),
        entry(ContainerName="mig", ResourceName="nvidia.com/mig-3g.20gb", DeviceIDs={"0": ["MIG-1"]}),
        entry(ResourceName="rdma/hca", DeviceIDs={"0": ["mlx5_0"]}),
    )
    assert parse_checkpoint(data) == [
        Allocation(POD, "app", GPU),
        Allocation(POD, "app", OTHER),
        Allocation(POD, "old", GPU),
        Allocation(POD, "shared", GPU),
        Allocation(POD, "mig", "MIG-1"),
    ]


@pytest.mark.parametrize(
    "bad",
    [
        b"", b"null", b"[]", b"{}", b'{"Data": null}', b'{"Data": {"PodDeviceEntries": {}}}', b"[" * 100_000,
        checkpoint(1, None, [], {}, entry(PodUID=5), entry(DeviceIDs=None), entry(DeviceIDs={"0": "x"}), entry(DeviceIDs=[1, None])),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_left_out(bad: bytes) -> None:
    assert parse_checkpoint(bad) == []


def test_the_file_lies_below_the_root_filesystem(tmp_path: Path) -> None:
    place = "root/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
    host = tree_host(tmp_path, {place: checkpoint(entry())})
    assert len(read_allocations(host)) == 2
    refused = Host(host.paths, Forbidden("kubelet_internal_checkpoint"))
    assert read_allocations(refused) == []


def test_an_allocation_is_named_as_its_container_where_that_is_known() -> None:
    pods = {POD: ("team", "train-0")}
    one = PodNames({NUMBER: ("team", "train-0", "app")}, pods)
    two = PodNames({NUMBER: ("team", "train-0", "app"), "00" * 32: ("team", "train-0", "app")}, pods)
    allocation = Allocation(POD, "app", GPU)
    assert pod_workload(allocation, one) == f"pod:{POD}/{NUMBER[:12]}"
    assert pod_workload(allocation, two) == f"pod:{POD}"
    assert pod_workload(allocation, PodNames({}, {})) == f"pod:{POD}"


# ---- who holds what ------------------------------------------------------------------------------------------------

GPUS = {GPU: ("0", GPU), OTHER: ("1", OTHER), "MIG-1": ("1", OTHER)}
OWNERS = {1: Owner("slurm:7"), 2: Owner("slurm:7"), 3: Owner("systemd:x.service"), 4: Owner(), 5: Owner("pod:u/c")}


def held(processes: list[tuple[str, str, int]], allocations: list[tuple[str, str]], most: int = 100) -> list[Held]:
    return holders(processes, OWNERS.__getitem__, allocations, GPUS, most)[0]


def test_two_processes_of_a_job_hold_a_gpu_once() -> None:
    assert held([("0", GPU, 1), ("0", GPU, 2), ("1", OTHER, 2), ("1", OTHER, 4)], []) == [
        Held("slurm:7", "0", GPU),
        Held("slurm:7", "1", OTHER),
    ]


def test_a_gpu_that_was_given_counts_before_a_process_runs_on_it() -> None:
    assert held([], [("pod:u/c", GPU), ("pod:u/c", "MIG-1"), ("pod:u/c", "GPU-gone")]) == [
        Held("pod:u/c", "0", GPU),
        Held("pod:u/c", "1", OTHER),
    ]


def test_a_pod_is_not_told_of_twice_under_two_names() -> None:
    assert held([("0", GPU, 5)], [("pod:u", GPU), ("pod:u", OTHER)]) == [
        Held("pod:u", "1", OTHER),
        Held("pod:u/c", "0", GPU),
    ]


def test_beyond_the_budget_jobs_come_first() -> None:
    processes = [("0", GPU, 1), ("0", GPU, 3), ("1", OTHER, 3), ("0", GPU, 5)]
    rows, left_out = holders(processes, OWNERS.__getitem__, [], GPUS, 2)
    assert rows == [Held("pod:u/c", "0", GPU), Held("slurm:7", "0", GPU)]
    assert left_out == 2

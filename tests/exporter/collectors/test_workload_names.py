from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors._workload_names import Identity, Rank, identify, workload_of

A, B = "ab" * 32, "0f" * 32
UID = "1b2c3d4e-0f1a-4b2c-8d3e-4f5a6b7c8d9e"
LOW = UID.replace("-", "_")
STATIC = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("path", "workload", "manager"),
    [
        # Slurm: version 2, version 1, several slurmds on a host.
        ("/system.slice/slurmstepd.scope/job_1234/step_0/user/task_3", "slurm:1234", "slurm"),
        ("/system.slice/n17_slurmstepd.scope/job_9", "slurm:9", "slurm"),
        ("/slurm/uid_1000/job_5/step_batch/task_0", "slurm:5", "slurm"),
        ("/slurm_n17/uid_1000/job_5", "slurm:5", "slurm"),
        # Kubernetes: systemd and cgroupfs driver, guaranteed, kind, CRI-O, a static pod, a driver that nobody named.
        (f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{LOW}.slice/cri-containerd-{A}.scope", f"pod:{UID}/{A[:12]}", "kubernetes"),
        (f"/kubepods.slice/kubepods-pod{LOW}.slice/crio-{A}.scope/container", f"pod:{UID}/{A[:12]}", "kubernetes"),
        (f"/kubepods/besteffort/pod{UID}/{A}", f"pod:{UID}/{A[:12]}", "kubernetes"),
        (f"/kubepods/pod{UID}/{A}/system.slice/ssh.service", f"pod:{UID}/{A[:12]}", "kubernetes"),
        (f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod{LOW}.slice/cri-containerd-{A}.scope",
         f"pod:{UID}/{A[:12]}", "kubernetes"),
        (f"/kubepods.slice/kubepods-burstable-pod{STATIC}.slice/cri-containerd-{B}.scope", f"pod:{STATIC}/{B[:12]}", "kubernetes"),
        (f"/system.slice/containerd.service/kubepods-burstable-pod{LOW}.slice:cri-containerd:{A}", f"pod:{UID}/{A[:12]}", "kubernetes"),
        # Containers without pods.
        (f"/system.slice/docker-{A}.scope", f"docker:{A[:12]}", "docker"),
        (f"/docker/{A}", f"docker:{A[:12]}", "docker"),
        (f"/ecs/cluster/{'c' * 32}/{A}", f"docker:{A[:12]}", "docker"),
        (f"/machine.slice/libpod-{A}.scope/container", f"podman:{A[:12]}", "podman"),
        (f"/libpod_parent/libpod-{A}", f"podman:{A[:12]}", "podman"),
        (f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{A}.scope", f"podman:{A[:12]}", "podman"),
        (f"/system.slice/nerdctl-{A}.scope", f"containerd:{A[:12]}", "containerd"),
        ("/lxc.payload.web1/system.slice/nginx.service", "lxc:web1", "lxc"),
        ("/lxc/101/ns", "lxc:101", "lxc"),
        ("/machine.slice/machine-qemu\\x2d1\\x2dbuild.scope/libvirt/emulator", "machine:qemu-1-build", "machined"),
        # Jobs hold their containers.
        (f"/system.slice/slurmstepd.scope/job_7/step_0/user/task_0/libpod-{A}.scope", "slurm:7", "slurm"),
        # systemd.
        ("/system.slice/ssh.service", "systemd:ssh.service", "systemd"),
        ("/system.slice/system-getty.slice/getty@tty1.service", "systemd:getty@tty1.service", "systemd"),
        ("/init.scope", "systemd:init.scope", "systemd"),
        ("/user.slice/user-1000.slice/session-3.scope", "systemd:user-1000.slice", "systemd"),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/app.scope", "systemd:user-1000.slice", "systemd"),
        (f"/system.slice/libpod-conmon-{A}.scope", "", ""),
        ("/system.slice/dev-hugepages.mount", "", ""),
        ("/user.slice", "", ""),
        ("/", "", ""),
        # Nobody known.
        ("/bench/train", "cgroup:/bench", "cgroup"),
        ("/job_7", "cgroup:/job_7", "cgroup"),
        (f"/{A}", f"cgroup:/{A}", "cgroup"),
    ],
)  # fmt: skip
def test_whose_a_process_is(path: str, workload: str, manager: str) -> None:
    found = workload_of(path)
    assert (found.workload, found.manager) == (workload, manager) if found else workload == ""


def test_what_else_a_path_tells() -> None:
    job = workload_of("/slurm/uid_1004/job_771/step_0")
    assert job == Identity("slurm:771", "slurm", Rank.JOB, name="job_771", job_id="771", uid="1004")
    pod = workload_of(f"/kubepods/pod{UID.upper()}/{A}")
    assert pod is not None
    assert (pod.pod_uid, pod.container_id, pod.name) == (UID, A, A[:12])
    user = workload_of("/user.slice/user-1000.slice")
    assert user is not None
    assert (user.uid, user.rank) == ("1000", Rank.USER)


@pytest.mark.parametrize(
    "path", ["/kubepods.slice", "/kubepods/burstable", f"/kubepods/pod{UID}", "/slurm", "/slurm/uid_3", "/system.slice"]
)
def test_folders_are_nobodys(path: str) -> None:
    assert workload_of(path) is None


def test_inside_of_a_unit_only_jobs_and_containers_count() -> None:
    parts = ("system.slice", "x.service", "sub")
    assert identify(parts, inside=True) is None
    assert identify(("system.slice", "slurmd.service"), inside=True) is None


WORDS = [
    "slurm",
    "job_1",
    "uid_2",
    "kubepods.slice",
    f"pod{UID}",
    A,
    f"docker-{A}.scope",
    "user.slice",
    "user-1.slice",
    "x.service",
    "docker",
    "lxc",
    "\\x2d",
]


@given(st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=20)), max_size=6))
def test_any_path_gives_a_sound_name_or_none(parts: list[str]) -> None:
    found = workload_of("/".join(parts))
    if found is not None:
        for text in (
            found.workload,
            found.manager,
            found.name,
            found.pod_uid,
            found.container_id,
            found.job_id,
            found.uid,
        ):
            assert text.isprintable()
            assert len(text) <= 140
        assert found.workload.partition(":")[2]

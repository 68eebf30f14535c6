"""Processes on GPUs and the workloads that hold them, from the worker's answers to samples."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hwsonde_exporter.collectors.gpu_process import MOST_PROCESSES, GpuProcessCollector
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Sample
from hwsonde_exporter.nvml.answer import Answer, Device, Reading, WorkerState
from hwsonde_exporter.nvml.client import NvmlSettings
from hwsonde_exporter.workload_options import WorkloadOptions
from tests.exporter.collectors.hosts import values
from tests.exporter.collectors.trees import tree_host

POD = "9a15d2b5-c152-46b9-96e0-d57032629e1f"
INFO, HELD, LEFT = "hwsonde_gpu_process_info", "hwsonde_workload_gpu_info", "hwsonde_gpu_processes_left_out"
MEMORY = "hwsonde_gpu_process_memory_bytes"
CHECKPOINT = "root/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"


class Client:
    """Gives one answer."""

    settings = NvmlSettings(library=Path("/shim"))

    def __init__(self, *devices: Device) -> None:
        self.answer = Answer(WorkerState.RUNNING, "", devices, len(devices))

    def collect(self, groups: Sequence[str], every: float = 0.0) -> Answer:
        assert set(groups) == {"processes"}
        return self.answer


def device(number: int, *processes: tuple[int, int | None]) -> Device:
    readings = [Reading("processes", ("compute",), len(processes))]
    readings += [Reading("process", (str(pid),), 1) for pid, _ in processes]
    readings += [Reading("process_memory_bytes", (str(pid),), used) for pid, used in processes if used is not None]
    readings += [Reading("process_sm_utilization_ratio", (str(pid),), 50) for pid, _ in processes]
    return Device(str(number), f"GPU-{number}", f"0000:3{number}:00.0", True, "", tuple(readings))


def host_of(folder: Path, files: dict[str, Any] | None = None, **options: bool) -> Host:
    tree: dict[str, str | bytes] = {
        "proc/2/comm": "kthreadd",
        "proc/100/cgroup": "0::/system.slice/slurmstepd.scope/job_77/step_0",
        "proc/100/comm": "python3",
        "proc/200/cgroup": "0::/system.slice/dcgm.service",
        "proc/200/comm": "nv-hostengine",
        "root/etc/passwd": f"ann:x:{folder.stat().st_uid}:1::/:/bin/sh",
    }
    host = tree_host(folder, tree | (files or {}))
    return Host(host.paths, host.files, workloads=lambda: WorkloadOptions(**options))


def collect(host: Host, *devices: Device) -> dict[tuple[str, ...], float]:
    collector = GpuProcessCollector(Host(host.paths, host.files, workloads=host.workloads, nvml=Client(*devices)))  # type: ignore[arg-type]
    collector.probe()
    samples: list[Sample] = list(collector.collect())
    assert len({(sample.metric.name, sample.labels) for sample in samples}) == len(samples)
    return values(samples)


def keys(found: dict[tuple[str, ...], float], name: str) -> set[tuple[str, ...]]:
    return {key[1:] for key in found if key[0] == name}


def test_processes_are_joined_to_their_workloads(tmp_path: Path) -> None:
    found = collect(host_of(tmp_path), device(0, (100, 1 << 30), (200, None)), device(1, (100, 2 << 30)))
    assert keys(found, INFO) == {
        ("0", "GPU-0", "100", "", "", "slurm:77"),
        ("0", "GPU-0", "200", "", "", "systemd:dcgm.service"),
        ("1", "GPU-1", "100", "", "", "slurm:77"),
    }
    assert keys(found, HELD) == {
        ("slurm:77", "0", "GPU-0"), ("slurm:77", "1", "GPU-1"), ("systemd:dcgm.service", "0", "GPU-0"),
    }  # fmt: skip
    assert found[MEMORY, "1", "GPU-1", "100"] == 2 << 30
    assert (MEMORY, "0", "GPU-0", "200") not in found
    assert found["hwsonde_gpu_process_sm_utilization_ratio", "0", "GPU-0", "200"] == 0.5
    assert found[LEFT,] == 0


def test_names_are_shown_where_they_are_switched_on(tmp_path: Path) -> None:
    found = collect(host_of(tmp_path, gpu_process_names=True), device(0, (100, 1)))
    assert keys(found, INFO) == {("0", "GPU-0", "100", "python3", "ann", "slurm:77")}


def test_without_the_hosts_processes_numbers_are_all_that_is_told(tmp_path: Path) -> None:
    found = collect(host_of(tmp_path, {"proc/2/comm": "sh"}, gpu_process_names=True), device(0, (100, 1)))
    assert keys(found, INFO) == {("0", "GPU-0", "100", "", "", "")}
    assert keys(found, HELD) == set()


def test_a_pod_holds_its_gpu_before_it_runs_and_without_the_hosts_processes(tmp_path: Path) -> None:
    entry = {
        "PodUID": POD, "ContainerName": "app", "ResourceName": "nvidia.com/gpu", "DeviceIDs": {"0": ["GPU-1", "GPU-9"]},
    }  # fmt: skip
    data = json.dumps({"Data": {"PodDeviceEntries": [entry]}})
    number = "4f" * 32
    files = {
        "proc/2/comm": "sh",
        CHECKPOINT: data,
        f"root/var/log/containers/train-0_team_app-{number}.log": "x",
        f"root/var/log/pods/team_train-0_{POD}/app/0.log": "x",
    }
    host = host_of(tmp_path, files)
    assert keys(collect(host, device(0), device(1)), HELD) == {(f"pod:{POD}/{number[:12]}", "1", "GPU-1")}


def test_the_kubelets_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    host = host_of(tmp_path)
    collector = GpuProcessCollector(Host(host.paths, host.files, nvml=Client(device(0))))  # type: ignore[arg-type]
    collector.probe()
    assert keys(values(list(collector.collect())), HELD) == set()
    path = tmp_path / CHECKPOINT
    path.parent.mkdir(parents=True)
    entry = {"PodUID": POD, "ContainerName": "app", "ResourceName": "nvidia.com/gpu", "DeviceIDs": ["GPU-0"]}
    path.write_text(json.dumps({"Data": {"PodDeviceEntries": [entry]}}))
    assert keys(values(list(collector.collect())), HELD) == {(f"pod:{POD}", "0", "GPU-0")}
    path.unlink()
    assert keys(values(list(collector.collect())), HELD) == set()


def test_the_series_have_a_budget_and_those_with_the_most_memory_stay(tmp_path: Path) -> None:
    many = [(1000 + number, number << 20) for number in range(400)]
    found = collect(host_of(tmp_path), device(0, *many), device(1, (100, 1 << 40)))
    assert len(keys(found, INFO)) == len(keys(found, MEMORY)) == MOST_PROCESSES
    assert found[LEFT,] == 401 - MOST_PROCESSES
    assert ("1", "GPU-1", "100") in {key[:3] for key in keys(found, MEMORY)}
    assert ("0", "GPU-0", "1399") in {key[:3] for key in keys(found, MEMORY)}
    assert ("0", "GPU-0", "1000") not in {key[:3] for key in keys(found, MEMORY)}
    assert found["hwsonde_gpu_processes", "0", "GPU-0", "compute"] == 400


@pytest.mark.parametrize("labels", [(), ("100", "x"), ("-1",), ("pid",), ("٣٤",)])
def test_a_worker_that_has_gone_wild_makes_no_process(tmp_path: Path, labels: tuple[str, ...]) -> None:
    wild = Device(
        "0", "GPU-0", "", True, "", (Reading("process", labels, 1), Reading("process_memory_bytes", labels, 5))
    )
    found = collect(host_of(tmp_path), wild)
    assert not keys(found, MEMORY)
    assert len(keys(found, INFO)) <= 1

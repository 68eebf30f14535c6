"""Captures of hosts with GPUs: replayed they give the same series, and nothing in them tells which GPUs they are of."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hwsonde_exporter.capture import Outcome, capture, summary, write_folder
from hwsonde_exporter.capture_gpus import FILE
from hwsonde_exporter.config import load
from hwsonde_exporter.host import Paths
from hwsonde_exporter.nvml import record as recorder
from hwsonde_exporter.nvml import supervisor
from hwsonde_exporter.registry import load_collectors
from tests.exporter.nvml_hosts.gpu_host import GPU_KINDS, GpuHost, Series, kernel_files, of, running, sound
from tests.nvml_shim import recording as form
from tests.nvml_shim.control import Fault
from tests.nvml_shim.shim_host import ShimHost

TIME = 21.3
# What becomes another text in a capture, and what depends on how often something was asked or on this machine's log.
_REPLACED = frozenset({"uuid", "mig_uuid"})
_PASSING = ("hwsonde_exporter_", "hwsonde_gpu_nvml_", "hwsonde_gpu_xid_", "hwsonde_gpu_kernel_log_")
_ALIKE = (
    "hwsonde_gpu_memory_used_bytes", "hwsonde_gpu_power_limit_watts", "hwsonde_gpu_clock_hertz", "hwsonde_gpu_sm_active_ratio",
    "hwsonde_gpu_nvlink_up", "hwsonde_gpu_process_sm_utilization_ratio", "hwsonde_gpu_mig_memory_used_bytes",
    "hwsonde_gpu_pcie_link_width_lanes", "hwsonde_gpu_row_remap_banks",
)  # fmt: skip


def with_processes(folder: Path, recording: Mapping[str, Any]) -> Paths:
    """Kernel files of a recording, with the processes on its GPUs."""
    paths = kernel_files(folder, recording)
    parent = paths.proc("2")
    parent.mkdir()
    (parent / "comm").write_text("kthreadd\n")
    for device in recording["devices"]:
        for process in device["calls"].get("nvmlDeviceGetComputeRunningProcesses_v3", ()):
            own = paths.proc(str(process["pid"]))
            if not own.exists():
                own.mkdir()
                (own / "cgroup").write_text(f"0::/system.slice/slurmstepd.scope/job_{process['pid']}/step_0\n")
                (own / "comm").write_text("secret-trainer\n")
    return paths


def captured(shim: ShimHost, paths: Paths) -> Outcome:
    """A capture of the GPUs of a host."""
    kinds = load_collectors()
    flags = [
        "--collector.disable-defaults",
        *(f"--collector.{name}" for name in GPU_KINDS),
        *(f"--path.{name}fs={path}" for name, path in (("proc", paths.procfs), ("sys", paths.sysfs), ("root", paths.rootfs))),
        f"--nvml.library={shim.library}",
        "--nvml.deadline=0.5",
    ]  # fmt: skip
    return capture(load(flags, kinds), kinds)


def recorded(outcome: Outcome) -> dict[str, Any]:
    data = outcome.tree.entries[(FILE,)]
    assert isinstance(data, bytes)
    made: dict[str, Any] = json.loads(data)
    form.lines(made)
    return made


def complete(host: GpuHost) -> Series:
    """A scrape with everything that the host can give: hardware counters need two looks."""
    hopper = any("nvmlGpmMetricsGet" in device["calls"] for device in host.shim.recording["devices"])
    host.wait(sound)
    series, _ = host.wait(
        lambda series: sound(series) and (not hopper or of(series, "hwsonde_gpu_sm_active_ratio")), anew=True
    )
    return series


def shape(series: Series) -> Counter[tuple[str, frozenset[tuple[str, str]]]]:
    """Series by name and by the labels that a capture leaves as they are."""
    return Counter(
        (name, frozenset(pair for pair in labels if pair[0] not in _REPLACED))
        for name, labels in series
        if not name.startswith(_PASSING)
    )


def readings(series: Series, name: str) -> dict[frozenset[tuple[str, str]], float]:
    return {
        frozenset(pair for pair in labels if pair[0] not in _REPLACED): value
        for labels, value in of(series, name).items()
    }


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "old-driver" else [pytest.mark.slow])
        for name in form.names()
        if name != "sick"
    ],
)
def test_a_replayed_capture_gives_the_series_that_the_host_gave(name: str, tmp_path: Path) -> None:
    source = form.load(name)
    paths = with_processes(tmp_path / "kernel", source)
    with running(source, tmp_path / "before", fixed=TIME, captured=paths) as host:
        before = complete(host)
        outcome = captured(host.shim, paths)
    made = recorded(outcome)
    write_folder(outcome.tree, b"", tmp_path / "capture")
    again = Paths(*(tmp_path / "capture" / part for part in ("proc", "sys", "root")))
    with running(made, tmp_path / "after", fixed=0.0, captured=again) as host:
        after = complete(host)
    assert shape(after) == shape(before)
    seen = 0
    for metric in _ALIKE:
        assert readings(after, metric) == pytest.approx(readings(before, metric)), metric
        seen += len(readings(before, metric))
    assert seen
    assert outcome.differs == {}
    assert "the same series" in summary(outcome, tmp_path)
    assert f"GPUs: {len(source['devices'])} recorded in {FILE}\n" in summary(outcome, tmp_path)


@pytest.mark.parametrize("name", ["h200", "a100-mig"])
def test_nothing_in_a_capture_tells_which_gpus_it_is_of(name: str, tmp_path: Path) -> None:
    shim = ShimHost(name, tmp_path / "nvml", fixed=TIME)
    paths = with_processes(tmp_path / "kernel", shim.recording)
    outcome = captured(shim, paths)
    write_folder(outcome.tree, b"", tmp_path / "capture")
    files = [path for path in (tmp_path / "capture").rglob("*") if path.is_file() and not path.is_symlink()]
    text = "\n".join(f"{path}\n{path.read_text(errors='replace')}" for path in files)
    personal = ["secret-trainer"]
    for device in shim.recording["devices"]:
        for part in (device, *device.get("mig", ())):
            personal += [
                part["calls"][f"nvmlDeviceGet{key}"]
                for key in ("UUID", "Serial")
                if f"nvmlDeviceGet{key}" in part["calls"]
            ]
    assert len(personal) > 8
    for detail in personal:
        assert detail.partition("-")[2] not in text if detail.startswith(("GPU-", "MIG-")) else detail not in text
    # The same GPU has the same new name in the kernel's files.
    for device in recorded(outcome)["devices"]:
        calls = device["calls"]
        address = calls["nvmlDeviceGetPciInfo_v3"]["busId"].lower().removeprefix("0000")
        information = (tmp_path / "capture/proc/driver/nvidia/gpus" / address / "information").read_text()
        assert calls["nvmlDeviceGetUUID"] in information
        assert calls["nvmlDeviceGetSerial"].startswith("SERIAL")
    uuids = [device["calls"]["nvmlDeviceGetUUID"] for device in recorded(outcome)["devices"]]
    assert len(set(uuids)) == len(uuids)
    for function, version in recorded(outcome)["system"].items():
        assert version == shim.recording["system"][function], "a version may look like an address and is none"
    assert any("serial numbers" in line for line in outcome.replaced)


@pytest.mark.slow
def test_a_sick_host_is_captured_with_its_sickness(tmp_path: Path) -> None:
    shim = ShimHost("sick", tmp_path / "nvml")
    outcome = captured(shim, kernel_files(tmp_path / "kernel", shim.recording))
    made = recorded(outcome)
    assert outcome.gpus.startswith("8 recorded")
    assert "1 of them lost" in outcome.gpus
    assert "calls hung" in outcome.gpus
    assert {"device": 3, "error": 15} in made["faults"]
    assert made["devices"][1]["calls"]["nvmlDeviceGetRemappedRows"]["failureOccurred"] == 1


def test_a_driver_that_hangs_in_its_start_costs_the_gpus_and_not_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "_INIT_SECONDS", 0.5)
    monkeypatch.setitem(supervisor._SLOW_SECONDS, "init", 0.5)
    shim = ShimHost("workstation", tmp_path / "nvml")
    shim.control.inject(Fault("system", "nvmlInit*", hang="deaf"))
    # A capture that waited for the call would never end.
    outcome = captured(shim, kernel_files(tmp_path / "kernel", shim.recording))
    assert ("proc", "driver", "nvidia", "version") in outcome.tree.entries
    assert (FILE,) not in outcome.tree.entries
    assert outcome.gpus == "not recorded: NVIDIA's library does not work here: it does not answer"
    assert summary(outcome, tmp_path).count("GPUs: ") == 1


def test_without_a_driver_one_line_says_so_and_the_rest_is_captured(tmp_path: Path) -> None:
    shim = ShimHost("workstation", tmp_path / "nvml")
    shim.control.unload_driver()
    outcome = captured(shim, kernel_files(tmp_path / "kernel", shim.recording))
    assert (FILE,) not in outcome.tree.entries
    assert outcome.gpus == "not recorded: NVIDIA's library does not work here: Driver Not Loaded"
    assert ("proc", "driver", "nvidia", "version") in outcome.tree.entries


def test_a_host_without_gpus_is_not_asked(tmp_path: Path) -> None:
    for name in ("proc", "sys"):
        (tmp_path / name).mkdir()
    kinds = load_collectors()
    paths = [
        f"--path.{name}={tmp_path / part}" for name, part in (("procfs", "proc"), ("sysfs", "sys"), ("rootfs", "."))
    ]
    outcome = capture(load(["--collector.disable-defaults", "--collector.gpu", *paths], kinds), kinds)
    assert outcome.gpus == "none (no GPU of NVIDIA's on the PCI bus and no driver of theirs loaded)"
    outcome = capture(load(["--collector.disable-defaults", "--collector.memory", *paths], kinds), kinds)
    assert outcome.gpus == "not recorded, their collectors are off"
    assert (FILE,) not in outcome.tree.entries

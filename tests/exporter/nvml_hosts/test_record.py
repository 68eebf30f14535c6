"""The recorder of NVML's answers, tried on recorded hosts: what it records replays as the same host."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hwsonde_exporter.anonymous import Anonymiser
from hwsonde_exporter.nvml import record as recorder
from hwsonde_exporter.nvml._record_calls import device_calls, mig_calls
from hwsonde_exporter.nvml._record_child import plain
from hwsonde_exporter.nvml._record_names import Names
from hwsonde_exporter.nvml.record import FORMAT, NotRecorded, main, record
from tests.nvml_shim import recording as form
from tests.nvml_shim.control import Fault
from tests.nvml_shim.shim_host import ShimHost
from tests.nvml_shim.stuck_file import CannotMount
from tests.nvml_shim.unkillable import RECORDER_HOLDERS

HEALTHY = [name for name in form.names() if name != "sick"]


def told(host: ShimHost, time: float) -> dict[str, Any]:
    """Every answer of a host that a recorder asks for, by scope and function; what it refuses is left out."""
    host.control.freeze(time)
    found: dict[str, Any] = {}
    with host.bound() as nvml:
        nvml.nvmlInit()
        for number in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(number)
            scopes = [(str(number), handle, device_calls())]
            scopes += [(f"{number}.{place}", mig, mig_calls()) for place, mig in enumerate(migs(nvml, handle))]
            for scope, device, calls in scopes:
                for function, ask in calls.items():
                    try:
                        found[f"{scope} {function}"] = ask(nvml, device)
                    except Exception:  # noqa: BLE001  (the binding raises what it likes)
                        continue
    return found


def migs(nvml: Any, handle: Any) -> Iterator[Any]:
    for index in range(8):
        try:
            yield nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except nvml.NVMLError:
            return


@pytest.mark.parametrize("name", HEALTHY)
def test_a_recording_replays_as_the_same_host(name: str, tmp_path: Path) -> None:
    host = ShimHost(name, tmp_path / "host", fixed=20.0)
    made = record(host.library, seconds=0.0)
    assert made["format"] == form.FORMAT == FORMAT
    assert made["faults"] == []
    again = ShimHost(made, tmp_path / "again")
    before, after = told(host, 20.0), told(again, 0.0)
    assert before.keys() == after.keys()
    for key, answer in before.items():
        if key.endswith(("nvmlDeviceGetSamples", "nvmlDeviceGetProcessUtilization")):
            continue  # made of times
        assert json.dumps(after[key], default=plain) == json.dumps(answer, default=plain), key
    assert set(made["missing"]) <= set(host.recording["missing"])


def test_counters_get_the_rate_that_they_had(tmp_path: Path) -> None:
    host = ShimHost("h200", tmp_path)
    made = record(host.library, seconds=1.0)
    calls = made["devices"][0]["calls"]
    recorded = host.recording["devices"][0]["calls"]
    watts = calls["nvmlDeviceGetTotalEnergyConsumption"]["rate"] / 1000
    assert watts == pytest.approx(recorded["nvmlDeviceGetTotalEnergyConsumption"]["rate"] / 1000, rel=0.15)
    assert calls["nvmlDeviceGetFieldValues"]["138/17"]["rate"] > 0
    assert calls["nvmlDeviceGetFieldValues"]["82"]["type"] == "uint"
    assert "rate" not in calls["nvmlDeviceGetFieldValues"]["186"]
    assert calls["nvmlGpmMetricsGet"]["2"] == pytest.approx(recorded["nvmlGpmMetricsGet"]["2"]["mean"], abs=5)
    form.lines(made)


def test_a_sick_host_is_recorded_with_its_sickness(tmp_path: Path) -> None:
    host = ShimHost("sick", tmp_path / "host")
    made = record(host.library, deadline=0.5, seconds=0.1)
    assert {"device": 3, "error": 15} in made["faults"]
    hangs = [fault for fault in made["faults"] if "hang" in fault]
    assert len(hangs) == 2
    assert {fault["device"] for fault in hangs} == {4}
    assert len(made["devices"]) == 8
    assert made["devices"][3]["calls"] == {}
    assert made["devices"][1]["calls"]["nvmlDeviceGetRemappedRows"]["failureOccurred"] == 1
    assert made["devices"][7]["calls"]["nvmlDeviceGetCurrPcieLinkWidth"] == 4
    again = ShimHost(made, tmp_path / "again")
    with again.bound() as nvml:
        nvml.nvmlInit()
        assert nvml.nvmlDeviceGetCount() == 8
        with pytest.raises(nvml.NVMLError_GpuIsLost):
            nvml.nvmlDeviceGetHandleByIndex(3)


def test_a_library_that_dies_costs_the_call_only(tmp_path: Path) -> None:
    host = ShimHost("workstation", tmp_path)
    host.control.inject(Fault(device=0, function="nvmlDeviceGetVbiosVersion", hang="deaf"))
    made = record(host.library, deadline=0.5, seconds=0.1)
    assert made["faults"] == [{"device": 0, "function": "nvmlDeviceGetVbiosVersion", "hang": "asleep"}]
    assert made["devices"][0]["calls"]["nvmlDeviceGetName"] == "NVIDIA GeForce RTX 4080 SUPER"


def test_identities_are_replaced_and_stay_the_same_everywhere(tmp_path: Path) -> None:
    source = form.load("a100-mig")
    made = Names().replace(source)
    text = json.dumps(made)
    for device in source["devices"]:
        for part in (device, *device.get("mig", ())):
            assert part["calls"]["nvmlDeviceGetUUID"] not in text
        assert device["calls"]["nvmlDeviceGetSerial"] not in text
    for name in ("nvmlDeviceGetUUID", "nvmlDeviceGetSerial", "nvmlDeviceGetPciInfo_v3"):
        assert len({json.dumps(device["calls"][name]) for device in made["devices"]}) == 4
    ends = [device["calls"]["nvmlDeviceGetNvLinkRemotePciInfo_v2"] for device in made["devices"]]
    assert ends[0] == ends[3] != source["devices"][0]["calls"]["nvmlDeviceGetNvLinkRemotePciInfo_v2"]
    assert made["devices"][0]["mig"][0]["calls"]["nvmlDeviceGetUUID"].startswith("MIG-00000000-")
    assert Names().replace(source) == made
    kept = Names(bus=False).replace(source)
    assert (
        kept["devices"][0]["calls"]["nvmlDeviceGetPciInfo_v3"]
        == source["devices"][0]["calls"]["nvmlDeviceGetPciInfo_v3"]
    )


def test_uuids_are_replaced_as_in_the_host_s_other_files() -> None:
    source = form.load("h200")
    anonymiser = Anonymiser({"host"}, {"user"}, bytes(32))
    line = f"GPU UUID: \t {source['devices'][3]['calls']['nvmlDeviceGetUUID']}\n".encode()
    elsewhere = anonymiser.content(("proc", "driver", "nvidia", "gpus", "0000:4c:00.0", "information"), line).decode()
    made = Names(bus=False, uuid=anonymiser.name).replace(source)
    found = made["devices"][3]["calls"]["nvmlDeviceGetUUID"]
    assert found == elsewhere.split()[-1] != source["devices"][3]["calls"]["nvmlDeviceGetUUID"]
    assert len({device["calls"]["nvmlDeviceGetUUID"] for device in made["devices"]}) == 8


@pytest.mark.parametrize("holder", RECORDER_HOLDERS)
def test_a_call_that_nothing_ends_costs_the_rest_of_the_recording_only(holder: str, tmp_path: Path) -> None:
    host = ShimHost("workstation", tmp_path / "host")
    try:
        with RECORDER_HOLDERS[holder](host.control, "nvmlDeviceGetVbiosVersion", tmp_path / "mount"):
            made = record(host.library, deadline=0.5, seconds=0.1)
            assert host.control.initialisations == 1
    except CannotMount as error:
        pytest.skip(f"the kernel holds no process here: {error}")
    assert made["faults"] == [{"device": 0, "function": "nvmlDeviceGetVbiosVersion", "hang": "asleep"}]
    assert made["devices"][0]["calls"]["nvmlDeviceGetName"] == "NVIDIA GeForce RTX 4080 SUPER"


def test_without_a_driver_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host = ShimHost("h200", tmp_path / "host")
    host.control.unload_driver()
    with pytest.raises(NotRecorded, match="Driver Not Loaded"):
        record(host.library)
    assert main([str(tmp_path / "out.json"), "--library", str(host.library)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "out.json").exists()


def test_the_command_writes_a_recording_without_identities(tmp_path: Path) -> None:
    host = ShimHost("workstation", tmp_path / "host")
    out = tmp_path / "out.json"
    subprocess.run(
        [sys.executable, "-m", "hwsonde_exporter.nvml.record", str(out), "--library", str(host.library)],
        check=True,
        timeout=60,
    )
    made = json.loads(out.read_text())
    assert host.uuid(0) not in out.read_text()
    assert form.lines(made)


def test_an_operator_who_gives_up_leaves_no_process_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)

    def give_up(found: object, message: object) -> None:
        raise KeyboardInterrupt

    host = ShimHost("workstation", tmp_path / "host")
    host.control.inject(Fault(function="*", hang="deaf"))
    monkeypatch.setattr(subprocess, "Popen", Noted)
    monkeypatch.setattr(recorder._Found, "take", give_up)
    with pytest.raises(KeyboardInterrupt):
        record(host.library)
    assert [process.wait(10) for process in started] == [-signal.SIGKILL]

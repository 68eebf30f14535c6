"""The recordings: made as committed, sound, and physically possible at every time."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nvml_shim.make_recordings import HOSTS, text
from tests.nvml_shim.recording import FORMAT, RECORDINGS, RecordingError, lines, load, names
from tests.nvml_shim.shim_host import ShimHost

THERMAL = 0x20 | 0x40
each_host = pytest.mark.parametrize("name", names())


def test_all_recordings_are_made_here() -> None:
    assert names() == sorted(HOSTS)


@each_host
def test_it_is_committed_as_it_is_made(name: str) -> None:
    made = text(HOSTS[name]())
    assert (RECORDINGS / f"{name}.json").read_text() == made, "run python -m tests.nvml_shim.make_recordings"
    assert json.loads(made) == json.loads(json.dumps(HOSTS[name]()))


# ---- what is no recording -------------------------------------------------------------------------------------------


def recording(calls: object) -> dict[str, Any]:
    return {"format": FORMAT, "devices": [{"calls": calls}]}


@pytest.mark.parametrize(
    ("calls", "complaint"),
    [
        ({"nvmlDeviceGetPowerUsage": {"start": 1, "rate": 1, "swing": 2, "period": 3}}, "backwards"),
        ({"nvmlDeviceGetPowerUsage": {"mean": 1, "swing": 2}}, "period"),
        ({"nvmlDeviceGetPowerUsage": {"mean": 1, "rate": 2}}, "no rate"),
        ({"nvmlDeviceGetPowerUsage": {"mean": 1, "type": "byte"}}, "byte"),
        ({"nvmlDeviceGetPowerUsage": {"mean": 1, "colour": 2}}, "colour"),
        ({"nvmlDeviceGetPowerUsage": None}, "no answer"),
        ({"nvmlDeviceGetClockInfo": {"0": 1, "sm clock": 2}}, "neither arguments"),
        ({"cuInit": 1}, "cuInit"),
        ({"nvmlDeviceGetName": "x" * 600}, "longer"),
    ],
)
def test_a_mistake_is_reported_by_its_place(calls: object, complaint: str) -> None:
    with pytest.raises(RecordingError, match=complaint) as caught:
        lines(recording(calls))
    assert next(iter(calls)) in str(caught.value)  # type: ignore[call-overload]


def test_another_format_and_unknown_keys_are_refused() -> None:
    with pytest.raises(RecordingError, match="format"):
        lines({"format": "hwsonde-nvml 9", "devices": []})
    with pytest.raises(RecordingError, match="unknown"):
        lines({**recording({}), "device": []})


@given(name=st.text(min_size=1, max_size=60).filter(lambda value: "\0" not in value))
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    _, line = lines(recording({"nvmlDeviceGetName": name}))
    assert "\n" not in line
    assert len(line.split(" ")) == 6


# ---- physics --------------------------------------------------------------------------------------------------------


def answers(nvml: Any, handle: Any) -> dict[str, float]:
    """What can be said of one GPU now; what it does not tell is left out."""
    found: dict[str, float] = {}

    def note(key: str, function: Any, *arguments: Any, pick: Any = float, **named: Any) -> None:
        with suppress(pynvml.NVMLError):
            found[key] = pick(function(*arguments, **named))

    note("power", nvml.nvmlDeviceGetPowerUsage, handle)
    note("limit", nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    note("energy", nvml.nvmlDeviceGetTotalEnergyConsumption, handle)
    note("clock", nvml.nvmlDeviceGetClockInfo, handle, 1)
    note("highest clock", nvml.nvmlDeviceGetMaxClockInfo, handle, 1)
    note("temperature", nvml.nvmlDeviceGetTemperature, handle, 0)
    note("slowdown", nvml.nvmlDeviceGetTemperatureThreshold, handle, 1)
    note("margin", nvml.nvmlDeviceGetMarginTemperature, handle)
    note("reasons", nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    for part in ("total", "free", "used"):
        note(part, nvml.nvmlDeviceGetMemoryInfo, handle, pick=lambda info, part=part: getattr(info, part))
    for part in ("gpu", "memory"):
        note(
            f"{part} share",
            nvml.nvmlDeviceGetUtilizationRates,
            handle,
            pick=lambda rates, part=part: getattr(rates, part),
        )
    note("width", nvml.nvmlDeviceGetCurrPcieLinkWidth, handle)
    note("widest", nvml.nvmlDeviceGetMaxPcieLinkWidth, handle)
    note("generation", nvml.nvmlDeviceGetCurrPcieLinkGeneration, handle)
    processes = nvml.nvmlDeviceGetComputeRunningProcesses_v2(handle)
    found["processes"] = sum(process.usedGpuMemory or 0 for process in processes)
    instant, sent, received = nvml.nvmlDeviceGetFieldValues(handle, [186, 197, 198])
    for key, value in (("instant", instant), ("sent", sent), ("received", received)):
        if value.nvmlReturn == 0:
            found[key] = value.value.uiVal if value.valueType == 1 else value.value.ullVal
    return found


def links(nvml: Any, handle: Any) -> dict[int, tuple[float, float]]:
    """Speed of each link in bytes a second, and bytes sent over it."""
    found = {}
    for link in range(18):
        speed, common, sent = nvml.nvmlDeviceGetFieldValues(handle, [(164, link), 90, (138, link)])
        speed = speed if speed.nvmlReturn == 0 else common
        if sent.nvmlReturn == 0:
            found[link] = (speed.value.uiVal * 1e6, sent.value.ullVal * 1024.0)
    return found


def handles(nvml: Any, host: ShimHost) -> dict[int, Any]:
    """The GPUs that answer."""
    ailing = {fault["device"] for fault in host.recording.get("faults", ())}
    return {
        index: nvml.nvmlDeviceGetHandleByIndex(index)
        for index in range(nvml.nvmlDeviceGetCount())
        if index not in ailing
    }


@each_host
def test_at_any_time_the_values_fit_together(name: str, tmp_path: Path) -> None:
    host = ShimHost(name, tmp_path)
    with host.bound() as nvml:
        nvml.nvmlInit()
        for time in (0.0, 1.7, 4.4, 61.3, 3600.5):
            host.control.freeze(time)
            for index, handle in handles(nvml, host).items():
                now = answers(nvml, handle)
                assert 0 < now["power"] <= now["limit"] * 1.02, index
                assert 0 < now["clock"] <= now["highest clock"], index
                assert now["free"] + now["used"] == now["total"], index
                assert now["processes"] <= now["used"], index
                assert 20 <= now["temperature"] <= 90, index
                assert now["width"] <= now["widest"], index
                for share in ("gpu share", "memory share"):
                    assert 0 <= now.get(share, 0) <= 100, index
                hot = now["temperature"] >= now.get("slowdown", 87) - 2
                assert bool(int(now["reasons"]) & THERMAL) == hot, index
                if "margin" in now and now["margin"] < 2**31:
                    assert abs(now["temperature"] + now["margin"] - 87 if name != "workstation" else 0) <= 1, index


@each_host
def test_energy_is_the_integral_of_power_and_bytes_fit_through_their_links(name: str, tmp_path: Path) -> None:
    host = ShimHost(name, tmp_path)
    with host.bound() as nvml:
        nvml.nvmlInit()
        for index, handle in handles(nvml, host).items():
            host.control.freeze(10.0)
            before, wires = answers(nvml, handle), links(nvml, handle)
            powers = []
            for step in range(100):
                host.control.freeze(10.0 + (step + 0.5) * 0.02)
                powers.append(answers(nvml, handle).get("instant", before["power"]))
            host.control.freeze(12.0)
            after, wires_after = answers(nvml, handle), links(nvml, handle)
            joules = (after["energy"] - before["energy"]) / 1000
            if "instant" in before:
                assert joules == pytest.approx(2 * sum(powers) / len(powers) / 1000, rel=0.01), index
            lanes = before["width"] * 2 ** before["generation"] * 1.25e8 * 1.05
            for direction in ("sent", "received"):
                if direction in before:
                    assert (after[direction] - before[direction]) / 2 <= lanes, index
            for link, (speed, sent) in wires.items():
                rate = (wires_after[link][1] - sent) / 2
                assert 0 <= rate <= speed, (index, link)


@each_host
def test_nothing_that_counts_goes_backwards(name: str, tmp_path: Path) -> None:
    host = ShimHost(name, tmp_path)
    with host.bound() as nvml:
        nvml.nvmlInit()
        for handle in handles(nvml, host).values():
            before = dict[int, int]()
            for step in range(40):
                host.control.freeze(step * 0.37)
                for value in nvml.nvmlDeviceGetFieldValues(handle, [74, 75, 83, 94, 175, 197, 198, (138, 0), (139, 1)]):
                    if value.nvmlReturn == 0:
                        count = value.value.uiVal if value.valueType == 1 else value.value.ullVal
                        key = value.fieldId
                        assert count >= before.get(key, 0), key
                        before[key] = count


def test_the_sick_host_is_sick_in_every_way() -> None:
    devices = load("sick")["devices"]
    rows = [device["calls"]["nvmlDeviceGetRemappedRows"] for device in devices]
    assert (rows[1]["failureOccurred"], rows[2]["isPending"]) == (1, 1)
    assert devices[5]["calls"]["nvmlDeviceGetCurrentClocksEventReasons"] & THERMAL == THERMAL
    assert devices[6]["calls"]["nvmlDeviceGetNvLinkState"]["11"] == 0
    assert devices[7]["calls"]["nvmlDeviceGetCurrPcieLinkWidth"] == 4
    assert {fault["device"] for fault in load("sick")["faults"]} == {3, 4}
    assert math.isclose(devices[5]["calls"]["nvmlDeviceGetTemperature"]["0"]["mean"], 87, abs_tol=2)

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import attribution, recorded_faults
from benchmarks.attribution import Answer
from benchmarks.recorded_faults import OURS, Fault, read_recording
from hwsonde_detector.config.profiles import load_profiles
from hwsonde_detector.types import Device, Subsystem

PROFILE = load_profiles(["hwsonde"])[0]
BEGIN, SECONDS = 1_795_972_800.0, 420
# Counters of these rates, and the noise of each.
RATES = {
    "cpu.psi.some": (2e4, 4e3), "cpu.cpu0.user": (30, 3), "cpu.cpu1.user": (30, 3), "cpu.cpu.user": (60, 5), "cpu.ctxt": (4e3, 300),
    "mem.psi.some": (1e3, 200), "mem.psi.full": (500, 100), "mem.vm.pgscan_direct": (0, 0), "mem.vm.pgmajfault": (1, 0.5),
    "sto.psi.some": (3e4, 5e3), "sto.dsk.io_ms": (50, 8), "sto.dsk.rd_ios": (40, 6), "net.dev0.rx_bytes": (5e6, 4e5),
    "net.tcp0.RetransSegs": (0.1, 0.1), "cpu.cg.train.usage_user": (5e8, 3e7),
}  # fmt: skip
FAULTS = (
    ("mem_thrash", ["memory"], 300, 312, True),
    ("loss2", ["network"], 350, 362, True),
    ("fdleak", ["memory"], 390, 400, False),
)
BY_FAULT = {
    "mem_thrash": {
        "mem.psi.some": 3e5,
        "mem.psi.full": 2e5,
        "mem.vm.pgscan_direct": 5e4,
        "cpu.cpu0.user": 50,
        "cpu.cpu.user": 50,
    },
    "loss2": {"net.tcp0.RetransSegs": 200, "net.dev0.rx_bytes": -4e6},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(4)
    columns = {}
    for name, (level, noise) in RATES.items():
        rates = rng.normal(level, noise, SECONDS)
        for kind, _, start, end, effective in FAULTS:
            if effective:
                rates[start:end] += BY_FAULT[kind].get(name, 0.0)
        columns[name] = np.cumsum(np.maximum(rates, 0.0))
    columns["mem.mi.MemAvailable"] = rng.normal(6e6, 1e4, SECONDS)
    columns["app.train.steps"] = np.arange(SECONDS)
    np.savez(
        tmp_path / "recorded.npz",
        t=BEGIN + np.arange(SECONDS),
        x=np.column_stack(list(columns.values())),
        names=np.array(list(columns)),
        cumulative=np.array([not name.startswith("mem.mi") for name in columns]),
    )
    labels = [
        {"kind": kind, "subsystems": named, "start": BEGIN + start - 0.5, "end": BEGIN + end, "effective": effective}
        for kind, named, start, end, effective in FAULTS
    ]
    (tmp_path / "meta.json").write_text(json.dumps({"labels": labels, "interval_s": 1.0}))
    return tmp_path


def test_every_metric_of_the_map_is_one_that_the_profile_reads() -> None:
    read = set(PROFILE.metric_names())
    assert {f"hwsonde_{metric}" for _, metric, _, _ in recorded_faults._MAP} <= read
    assert {f"hwsonde_{metric}_sum" for _, metric, _, _, _ in recorded_faults._SAMPLED} <= read
    assert set(OURS.values()) <= set(Subsystem)


def test_a_recording_becomes_series_in_the_exporters_units(folder: Path) -> None:
    recording = read_recording(folder, PROFILE)
    told = {
        one.name.removeprefix("hwsonde_"): values
        for one, values in zip(recording.series, recording.values.T, strict=True)
    }
    assert recording.times[0] == 1000 * BEGIN
    assert np.diff(told["memory_pressure_waiting_seconds_total"]).mean() == pytest.approx(0.01, rel=0.3)
    assert told["cpu_busy_sampled_ratio_count"].tolist() == list(range(1, SECONDS + 1))
    assert told["memory_size_bytes"][0] == 1024 * told["memory_available_bytes"].max() / 1024
    assert not any("app" in name for name in told)
    assert [fault.kind for fault in recording.faults] == ["mem_thrash", "loss2", "fdleak"]
    assert recording.faults[2].subsystems == {"memory", "storage"}
    labels = [dict(one.labels) for one in recording.series if one.name == "hwsonde_storage_requests_total"]
    assert labels == [{"instance": "host:1", "job": "recorded", "node": "host", "device": "disk", "operation": "read"}]
    directions = {
        dict(one.labels)["direction"] for one in recording.series if one.name == "hwsonde_network_bytes_total"
    }
    assert directions == {"received"}


def test_rows_are_thinned_to_a_slower_scrape(folder: Path) -> None:
    recording = read_recording(folder, PROFILE)
    thinned = recording.thinned(2_900, 1)
    assert thinned.times[0] == recording.times[1]
    assert set(np.diff(thinned.times)) == {3000}
    assert thinned.values.shape == (len(thinned.times), len(recording.series))


def test_faults_are_found_and_named_and_a_fault_without_effect_does_not_count(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["attribution", str(folder)])
    attribution.main()
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line.split() for line in lines[1:-1]}
    assert set(rows) == {"mem_thrash", "loss2", "all"}
    assert rows["mem_thrash"][1:4] == ["1/1", "1/1", "1/1"]
    assert "memory" in rows["mem_thrash"]
    assert rows["loss2"][1:4] == ["1/1", "1/1", "1/1"]
    assert rows["all"][1:4] == ["2/2", "2/2", "2/2"]
    assert lines[-1].startswith("right: 1.00 of the found, 1.00 of all; always ")
    assert lines[-1].endswith(": 0.50 of the found")


def test_a_wrong_name_is_counted_as_wrong() -> None:
    fault = Fault("cpu_hog1", frozenset({"cpu"}), 0, 10_000, effective=True)
    disk = (Device("disk", "vda"),)
    lines = attribution.report(
        [
            Answer(fault, found=True, subsystem=Subsystem.STORAGE, devices=disk),
            Answer(fault, found=False, subsystem=Subsystem.CPU, devices=()),
            Answer(fault, found=False, subsystem=None, devices=()),
        ]
    )
    assert lines[1].split()[:4] == ["cpu_hog1", "1/3", "0/1", "1/3"]
    assert "disk vda (1)" in lines[1]
    assert lines[-1] == "right: 0.00 of the found, 0.33 of all; always cpu: 1.00 of the found"
    assert attribution.report([])[-1] == "right: 0.00 of the found, 0.00 of all; always nothing: 0.00 of the found"


def test_a_folder_without_a_recording_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["attribution", str(tmp_path)])
    with pytest.raises(SystemExit) as caught:
        attribution.main()
    assert caught.value.code == 2
    assert "one .npz file and a meta.json are needed" in capsys.readouterr().err

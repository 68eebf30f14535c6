"""Alerts about GPUs: each fires when it should, ends when it should, and a healthy host has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from alert_rules.timing import FAST, FLEET, Timing
from tests.rules.promtool import Case

HOST = 'job="hwsonde-exporter",instance="n1:9880",cluster="a",node="n1"'
GPU = f'{HOST},gpu="3",uuid="GPU-3"'
UP, DEVICES, PCI = f"hwsonde_gpu_up{{{GPU}}}", f"hwsonde_gpu_devices{{{HOST}}}", f"hwsonde_gpu_pci_devices{{{HOST}}}"


# The fast profile looks every second at what takes half an hour; that each alert of it fires, and does not, is in test_table.
PROFILES_HERE = [pytest.param(FAST, id="fast", marks=pytest.mark.slow), pytest.param(FLEET, id="fleet")]


@pytest.fixture(params=PROFILES_HERE)
def case(request: pytest.FixtureRequest) -> Case:
    timing: Timing = request.param
    return Case(timing)


def step(case: Case, seconds: int) -> int:
    return -(-seconds // case.timing.evaluation) * case.timing.evaluation


def xid(case: Case, code: int, severity: str, when: int, node: str = "n1") -> None:
    """An error at that second, as the exporter publishes it from then on."""
    labels = GPU.replace("n1", node)
    explained = f'xid="{code}",name="it",class="hardware",severity="{severity}",action="act"'
    last = f'hwsonde_gpu_xid_last_timestamp_seconds{{{labels},xid="{code}"}}'
    before = when // case.timing.evaluation
    case.series[last] = f"_x{before} {when}+0x3000"
    info = f"hwsonde_gpu_xid_info{{{HOST.replace('n1', node)},{explained}}}"
    case.series[info] = f"_x{before} 1+0x3000"


@pytest.mark.parametrize(
    ("severity", "name"),
    [pytest.param("critical", "HwsondeGpuXid", marks=pytest.mark.slow), ("warning", "HwsondeGpuXidWarning")],
)
def test_the_first_error_fires_in_the_round_that_sees_it_and_is_held(
    case: Case, tmp_path: Path, severity: str, name: str
) -> None:
    xid(case, 79, severity, 120)
    case.firing(name, 120 - case.timing.evaluation, 0)
    case.firing(name, step(case, 120), 1)
    case.firing(name, step(case, 120 + case.timing.xid - 2 * case.timing.evaluation), 1)
    case.firing(name, step(case, 120 + case.timing.xid + 2 * case.timing.evaluation), 0)
    case.check(tmp_path)


def test_faults_of_programs_are_nobodys_alert(case: Case, tmp_path: Path) -> None:
    xid(case, 31, "info", 120)
    case.value('count(ALERTS{alertname=~"HwsondeGpu.*"}) or vector(0)', step(case, 300), 0)
    case.check(tmp_path)


def test_the_same_error_on_two_hosts_is_two_alerts(case: Case, tmp_path: Path) -> None:
    xid(case, 79, "critical", 120)
    xid(case, 79, "critical", 120, "n2")
    case.firing("HwsondeGpuXid", step(case, 180), 2)
    case.check(tmp_path)


def test_a_gpu_that_stops_answering_is_lost_and_one_that_comes_back_is_not(case: Case, tmp_path: Path) -> None:
    beat, limit = case.timing.evaluation, case.timing.down
    case.series[DEVICES] = case.samples(("8", 6000))
    case.series[UP] = case.samples(("1", 120), ("0", 2 * limit), ("1", 3000))
    case.firing("HwsondeGpuLost", step(case, 120 + limit) - 2 * beat, 0)
    case.firing("HwsondeGpuLost", step(case, 120 + limit) + 2 * beat, 1)
    case.firing("HwsondeGpuLost", step(case, 120 + 2 * limit) + 4 * beat, 0)
    case.check(tmp_path)


def test_a_restart_of_the_worker_loses_no_gpu(case: Case, tmp_path: Path) -> None:
    """Without its worker the exporter says nothing of GPUs for a while; then they are back."""
    case.series[UP] = case.samples(("1", 120), ("stale", 0), ("_", 60), ("1", 3000))
    case.series[DEVICES] = case.samples(("8", 120), ("stale", 0), ("_", 60), ("8", 3000))
    for second in range(120, 600, 30):
        case.firing("HwsondeGpuLost", step(case, second), 0)
    case.check(tmp_path)


@pytest.mark.parametrize("restarted", [True, False])
def test_no_gpu_is_lost_to_a_driver_that_was_updated_under_its_module(
    case: Case, tmp_path: Path, restarted: bool
) -> None:
    """The exporter, or only its worker, is started again: no GPU can be asked until the host is, and the jobs on them go on."""
    after = ("stale", 0) if restarted else ("0", 6000)
    case.series[UP] = case.samples(("1", 120), after)
    case.series[DEVICES] = case.samples(("8", 120), ("0", 6000))
    state = f"hwsonde_gpu_nvml_state{{{HOST},state="
    case.series[f'{state}"running"}}'] = case.samples(("1", 120), ("stale", 0))
    case.series[f'{state}"mismatch"}}'] = case.samples(("_", 120), ("1", 6000))
    case.series[f"hwsonde_gpu_driver_mismatch{{{HOST}}}"] = case.samples(("0", 120), ("1", 6000))
    late = 120 + 2 * max(case.timing.down, case.timing.collector)
    for second in range(120, late, 60):
        case.firing("HwsondeGpuLost", step(case, second), 0)
    case.firing("HwsondeGpuDriverMismatch", step(case, late), 1)
    case.check(tmp_path)


def test_a_gpu_is_lost_while_the_old_library_still_works(case: Case, tmp_path: Path) -> None:
    """Versions on disk say nothing of a worker that goes on with what it has loaded."""
    case.series[UP] = case.samples(("1", 120), ("0", 6000))
    case.series[DEVICES] = case.samples(("8", 6000))
    case.series[f'hwsonde_gpu_nvml_state{{{HOST},state="running"}}'] = case.samples(("1", 6000))
    case.series[f"hwsonde_gpu_driver_mismatch{{{HOST}}}"] = case.samples(("1", 6000))
    case.firing("HwsondeGpuLost", step(case, 150 + 2 * case.timing.down), 1)
    case.check(tmp_path)


def test_a_gpu_that_was_lost_before_the_exporter_started_again_is_still_missed(case: Case, tmp_path: Path) -> None:
    case.series[UP] = case.samples(("1", 120), ("0", 30), ("stale", 0))
    case.series[UP.replace('"3"', '"4"').replace("GPU-3", "GPU-4")] = case.samples(("1", 6000))
    case.series[DEVICES] = case.samples(("8", 150), ("7", 6000))
    case.firing("HwsondeGpuLost", step(case, 240 + case.timing.down), 1)
    case.firing("HwsondeGpuLost", step(case, case.timing.vanished + 600), 0)
    case.check(tmp_path)


def test_a_host_that_is_down_has_no_lost_gpus(case: Case, tmp_path: Path) -> None:
    case.series[UP] = case.samples(("1", 120), ("stale", 0))
    case.series[DEVICES] = case.samples(("8", 120), ("stale", 0))
    case.firing("HwsondeGpuLost", step(case, 240 + case.timing.down), 0)
    case.check(tmp_path)


@pytest.mark.parametrize(
    ("name", "series", "wrong", "right"),
    [
        ("HwsondeGpuMemoryFailed", f"hwsonde_gpu_row_remap_failed{{{GPU}}}", "1", "0"),
        ("HwsondeGpuMemoryFailed", f"hwsonde_gpu_sram_ecc_threshold_exceeded{{{GPU}}}", "1", "0"),
        ("HwsondeGpuResetNeeded", f"hwsonde_gpu_recovery_action{{{GPU}}}", "1", "0"),
        ("HwsondeGpuResetNeeded", f"hwsonde_gpu_row_remap_pending{{{GPU}}}", "1", "0"),
        ("HwsondeGpuResetNeeded", f"hwsonde_gpu_retired_pages_pending{{{GPU}}}", "1", "0"),
        ("HwsondeGpuThrottled", f'hwsonde_gpu_clocks_event_active{{{GPU},reason="hw_thermal_slowdown"}}', "1", "0"),
        ("HwsondeGpuDriverMismatch", f"hwsonde_gpu_driver_mismatch{{{HOST}}}", "1", "0"),
    ],
)
def test_a_state_fires_while_it_lasts(
    case: Case, tmp_path: Path, name: str, series: str, wrong: str, right: str
) -> None:
    lasts = 2 * case.timing.collector
    case.series[series] = case.samples((right, 120), (wrong, lasts), (right, 600))
    case.firing(name, step(case, 120) - case.timing.evaluation, 0)
    case.firing(name, step(case, 120 + lasts) - 2 * case.timing.evaluation, 1)
    case.firing(name, step(case, 120 + lasts + 120), 0)
    case.check(tmp_path)


@pytest.mark.parametrize("state", ["row_remap_failed", "sram_ecc_threshold_exceeded"])
def test_memory_that_failed_pages_while_the_anomaly_of_its_rows_still_fires(
    case: Case, tmp_path: Path, state: str
) -> None:
    """Rows that are replaced are over in seconds; their page ends ``keep_firing`` later, and would come again."""
    soon = 120 + 2 * case.timing.hardware
    assert soon - 120 <= case.timing.keep_firing
    case.series[f"hwsonde_gpu_{state}{{{GPU}}}"] = case.samples(("0", 120), ("1", 1200))
    case.firing("HwsondeGpuMemoryFailed", step(case, 120) - case.timing.evaluation, 0)
    case.firing("HwsondeGpuMemoryFailed", step(case, soon), 1)
    case.check(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("reason", ["gpu_idle", "sw_power_cap", "sw_thermal_slowdown", "applications_clocks_setting"])
def test_what_slows_a_busy_gpu_down_in_its_daily_life_is_no_alert(case: Case, tmp_path: Path, reason: str) -> None:
    case.series[f'hwsonde_gpu_clocks_event_active{{{GPU},reason="{reason}"}}'] = case.samples(("1", 6000))
    case.firing("HwsondeGpuThrottled", step(case, 3000), 0)
    case.check(tmp_path)


def test_a_slowdown_without_a_reason_counts_and_one_with_a_reason_is_told_once(case: Case, tmp_path: Path) -> None:
    old, new = GPU, GPU.replace('"3"', '"4"').replace("GPU-3", "GPU-4")
    for labels, reason in ((old, "hw_slowdown"), (new, "hw_slowdown"), (new, "hw_thermal_slowdown")):
        case.series[f'hwsonde_gpu_clocks_event_active{{{labels},reason="{reason}"}}'] = case.samples(("1", 900))
    fires = 'ALERTS{alertname="HwsondeGpuThrottled",alertstate="firing"'
    at = step(case, 600)
    case.value(f'count({fires},gpu="3",reason="hw_slowdown"}})', at, 1)
    case.value(f'count({fires},gpu="4",reason="hw_thermal_slowdown"}})', at, 1)
    case.firing("HwsondeGpuThrottled", at, 2)
    case.check(tmp_path)


def test_a_gpu_that_the_driver_leaves_out_is_missing(case: Case, tmp_path: Path) -> None:
    limit = case.timing.collector
    case.series[PCI] = case.samples(("8", 6000))
    case.series[DEVICES] = case.samples(("8", 120), ("7", 6000))
    case.firing("HwsondeGpuMissing", step(case, 120 + limit) - 2 * case.timing.evaluation, 0)
    case.firing("HwsondeGpuMissing", step(case, 120 + limit) + 2 * case.timing.evaluation, 1)
    case.check(tmp_path)


@pytest.mark.parametrize(
    "state",
    ["no_permission", *(pytest.param(one, marks=pytest.mark.slow) for one in ("no_library", "no_binding", "error"))],
)
def test_gpus_that_the_exporter_cannot_ask_for_any_more_are_missing_and_no_more(
    case: Case, tmp_path: Path, state: str
) -> None:
    """It was started again, without what it needs for the driver's library."""
    case.series[PCI] = case.samples(("8", 6000))
    case.series[DEVICES] = case.samples(("8", 120), ("0", 6000))
    case.series[UP] = case.samples(("1", 120), ("stale", 0))
    case.series[f'hwsonde_gpu_nvml_state{{{HOST},state="running"}}'] = case.samples(("1", 120), ("0", 6000))
    case.series[f'hwsonde_gpu_nvml_state{{{HOST},state="{state}"}}'] = case.samples(("0", 120), ("1", 6000))
    case.series[f'hwsonde_gpu_xid_source_up{{{HOST},source="nvml"}}'] = case.samples(("1", 120), ("stale", 0))
    at = step(case, 120 + case.timing.collector) + 2 * case.timing.evaluation
    case.firing("HwsondeGpuMissing", at, 1)
    for name in ("HwsondeGpuLost", "HwsondeGpuDriverHung", "HwsondeGpuXidUnheard"):
        case.firing(name, at, 0)
        case.firing(name, at + 900, 0)
    case.check(tmp_path)


def test_a_link_that_was_never_up_is_not_down(case: Case, tmp_path: Path) -> None:
    never, once = (f'hwsonde_gpu_nvlink_up{{{GPU},link="{link}"}}' for link in (16, 3))
    case.series[never] = case.samples(("0", 6000))
    case.series[once] = case.samples(("1", 120), ("0", 6000))
    case.firing("HwsondeGpuNvlinkDown", step(case, 240 + case.timing.down), 1)
    case.check(tmp_path)

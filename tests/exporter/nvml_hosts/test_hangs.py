"""Calls that do not return: what one GPU's hang costs the others, and what happens to the worker."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hwsonde_exporter import snapshot
from hwsonde_exporter.nvml import quarantine, supervisor
from tests.exporter.nvml_hosts.gpu_host import GpuHost, Series, gpus_up, of, one, running
from tests.exporter.nvml_hosts.test_faults_end_to_end import (
    DEADLINE,
    GPUS,
    LONGEST_SCRAPE,
    NOT_ALWAYS,
    PERIOD,
    as_quick_as,
    four_gpus,
    of_gpu,
    readings,
    scrape_seconds,
    settled,
)
from tests.nvml_shim.control import Fault
from tests.nvml_shim.shim_host import ShimHost
from tests.nvml_shim.stuck_file import CannotMount
from tests.nvml_shim.unkillable import HOLDERS

TRIED_AGAIN = 2.0
# Made of two looks that one worker takes a second apart, so they are missing for that time after another one has started.
OF_TWO_LOOKS = frozenset(f"hwsonde_gpu_{name}" for name in (
    "graphics_active_ratio", "sm_active_ratio", "sm_occupancy_ratio", "tensor_active_ratio", "dram_active_ratio", "pipe_active_ratio",
    "pcie_rate_bytes_per_second",
))  # fmt: skip
PASSING = NOT_ALWAYS | OF_TWO_LOOKS


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """How soon there is another worker is this machine's affair: what was read lasts until then."""
    monkeypatch.setattr(snapshot, "STALE_PERIODS", 30)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GpuHost]:
    monkeypatch.setattr(quarantine, "_FIRST_SECONDS", TRIED_AGAIN)
    with running(four_gpus(), tmp_path, deadline=DEADLINE, period=PERIOD) as found:
        yield found


def watched(
    host: GpuHost, before: Series, gpus: set[str], until: Callable[[Series], object], seconds: float = 60.0
) -> Series:
    """Scrape until something is seen; every scrape must hold everything of these GPUs, and none may take long."""
    wanted = {key for gpu in gpus for key in of_gpu(before, gpu) if key[0] not in PASSING}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        series, taken = host.timed()
        assert taken < LONGEST_SCRAPE
        missing = wanted - readings(series).keys()
        assert not missing, sorted({key[0] for key in missing})
        if until(series):
            return series
        time.sleep(0.05)
    raise AssertionError(f"it did not come about in {seconds} s")


def hung(series: Series) -> float:
    return one(series, "hwsonde_gpu_nvml_restarts_total", reason="hung") or 0


@pytest.mark.parametrize("kind", ["asleep", pytest.param("deaf", marks=pytest.mark.slow)])
def test_a_group_that_hangs_costs_the_others_nothing_and_its_gpu_that_group(kind: str, host: GpuHost) -> None:
    before = settled(host)
    healthy = scrape_seconds(host)
    others = set(GPUS) - {"2"}
    host.control.inject(Fault(device=2, function="nvmlDeviceGetClockInfo", hang=kind))  # type: ignore[arg-type]
    watched(host, before, others, hung)
    assert as_quick_as(host, healthy) is not None
    # All of it is left alone until a scout has found that the rest works.
    watched(host, before, others, lambda series: one(series, "hwsonde_gpu_nvml_skipped", gpu="2", call="clock") == 1)
    group = {"hwsonde_gpu_clock_hertz", "hwsonde_gpu_performance_state"}
    kept, _ = host.wait(
        lambda series: {key[0] for key in of_gpu(before, "2") - of_gpu(series, "2")} - PASSING == group, anew=True
    )
    assert gpus_up(kept)["2"] == 1
    restarts = hung(kept)
    host.control.heal()
    watched(host, before, others, lambda series: of(series, "hwsonde_gpu_clock_hertz", gpu="2"))
    assert hung(host.renewed()) == restarts == 1


def test_a_gpu_that_hangs_everywhere_is_left_alone(host: GpuHost) -> None:
    before = settled(host)
    others = set(GPUS) - {"1"}
    host.control.inject(Fault(device=1, hang="asleep"))
    watched(host, before, others, lambda series: gpus_up(series)["1"] == 0)
    watched(
        host,
        before,
        others,
        lambda series: one(series, "hwsonde_gpu_nvml_skipped", gpu="1", call="*") == 1 and not of_gpu(series, "1"),
    )
    # It is tried again and again, and the others never notice.
    end = time.monotonic() + 3 * TRIED_AGAIN
    watched(host, before, others, lambda _: time.monotonic() > end)
    host.control.heal()
    wanted = {key for key in of_gpu(before, "1") if key[0] not in NOT_ALWAYS}
    watched(host, before, others, lambda series: wanted <= of_gpu(series, "1"))


def test_slow_calls_are_measured_and_lose_nothing(tmp_path: Path) -> None:
    def slow(series: Series) -> bool:
        count = one(series, "hwsonde_gpu_nvml_call_seconds_count", call="memory") or 0
        quick = one(series, "hwsonde_gpu_nvml_call_seconds_bucket", call="memory", le="0.1") or 0
        return count > quick

    # The deadline is far off, so that it is not this machine's other work that makes the difference.
    with running(four_gpus(), tmp_path, deadline=20.0, period=PERIOD) as host:
        before = settled(host)
        host.control.inject(Fault(device=0, function="nvmlDeviceGetBAR1MemoryInfo", slow=0.6 * DEADLINE))
        watched(host, before, set(GPUS) - {"0"}, slow)
        after = host.renewed()
        assert hung(after) == 0
        assert gpus_up(after) == dict.fromkeys(GPUS, 1)


def test_a_worker_that_is_killed_is_replaced_before_anybody_misses_it(host: GpuHost) -> None:
    before = settled(host)
    os.kill(host.control.last_process, signal.SIGKILL)
    watched(host, before, set(GPUS), lambda series: one(series, "hwsonde_gpu_nvml_restarts_total", reason="crashed"))
    end = time.monotonic() + 3 * PERIOD
    watched(host, before, set(GPUS), lambda _: time.monotonic() > end)


@pytest.mark.parametrize(
    "holder",
    [pytest.param(holder, marks=[pytest.mark.slow] if number else []) for number, holder in enumerate(HOLDERS)],
)
def test_a_worker_that_cannot_be_killed_starts_no_second_one(holder: str, host: GpuHost, tmp_path: Path) -> None:
    before = settled(host)
    healthy = scrape_seconds(host)
    try:
        with HOLDERS[holder](host.control, "nvmlDeviceGetClockInfo", tmp_path / "mount") as release:
            host.wait(lambda series: one(series, "hwsonde_gpu_nvml_state", state="stuck") == 1)
            started = host.control.initialisations
            gone, _ = host.wait(lambda series: not readings(series))
            assert as_quick_as(host, healthy) is not None
            end = time.monotonic() + 4 * PERIOD
            while time.monotonic() < end:
                series, taken = host.timed()
                assert not readings(series)
                assert taken < LONGEST_SCRAPE
                time.sleep(0.1)
            assert host.control.initialisations == started
            assert one(gone, "hwsonde_exporter_collector_success", collector="gpu") is not None
            release()
    except CannotMount as error:
        pytest.skip(f"the kernel holds no process here: {error}")
    wanted = {key for gpu in set(GPUS) - {"0"} for key in of_gpu(before, gpu) if key[0] not in NOT_ALWAYS}
    host.wait(lambda series: wanted <= readings(series).keys())
    assert host.control.initialisations > started
    host.wait(
        lambda series: of_gpu(before, "0") - {key for key in before if key[0] in NOT_ALWAYS} <= of_gpu(series, "0")
    )


def test_a_library_that_hangs_in_its_start_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(supervisor._SLOW_SECONDS, "init", 1.0)
    with running(
        four_gpus(),
        tmp_path,
        deadline=DEADLINE,
        period=PERIOD,
        settle=False,
        prepare=lambda shim: shim.control.inject(Fault("system", "nvmlInit*", hang="deaf")),
    ) as host:
        end = time.monotonic() + 4 * PERIOD
        while time.monotonic() < end:
            series, taken = host.timed()
            assert taken < LONGEST_SCRAPE
            assert not readings(series)
            time.sleep(0.1)
        host.wait(lambda series: one(series, "hwsonde_gpu_nvml_restarts_total", reason="hung"))
        host.control.heal()
        host.wait(lambda series: gpus_up(series) == dict.fromkeys(GPUS, 1))


def test_the_exporter_ends_at_once_while_a_call_hangs(tmp_path: Path) -> None:
    deadline = 60.0
    with running(
        four_gpus(),
        tmp_path,
        deadline=deadline,
        period=PERIOD,
        settle=False,
        prepare=lambda shim: shim.control.inject(Fault("system", "nvmlInit*", hang="deaf")),
    ) as host:
        host.wait(lambda _: host.control.hanging)
        began = time.monotonic()
        host.exporter.stop()
        # Whoever waited for the call would wait until its deadline.
        assert time.monotonic() - began < deadline / 4


def left_out(series: Series, gpu: str) -> set[str]:
    return {dict(labels)["call"] for labels in of(series, "hwsonde_gpu_nvml_skipped", gpu=gpu)}


@pytest.mark.slow
def test_what_is_looked_at_ten_times_a_second_costs_its_group_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "_FIRST_SECONDS", TRIED_AGAIN)
    with running(four_gpus(), tmp_path, deadline=DEADLINE, period=PERIOD, hertz=10.0) as host:
        before = settled(host)
        host.wait(lambda series: one(series, "hwsonde_gpu_memory_used_sampled_bytes_count", gpu="2"))
        host.control.inject(Fault(device=2, function="nvmlDeviceGetMemoryInfo*", hang="asleep"))
        watched(host, before, set(GPUS) - {"2"}, lambda series: left_out(series, "2") == {"memory"})
        host.wait(lambda series: of(series, "hwsonde_gpu_power_watts", gpu="2"), anew=True)
        # Scouts try it again, and neither the worker nor the other groups of the GPU notice.
        end = time.monotonic() + 3 * TRIED_AGAIN
        while time.monotonic() < end:
            series = host.series()
            assert (hung(series), left_out(series, "2")) == (1, {"memory"})
            assert of(series, "hwsonde_gpu_power_watts", gpu="2")
            time.sleep(0.1)
        host.control.heal()
        host.wait(lambda series: not left_out(series, "2") and of(series, "hwsonde_gpu_memory_used_bytes", gpu="2"))
        assert hung(host.renewed()) == 1


def test_events_that_hang_cost_events_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "_FIRST_SECONDS", TRIED_AGAIN)

    def deaf(shim: ShimHost) -> None:
        shim.control.inject(Fault(device=1, function="nvmlDeviceRegisterEvents", hang="asleep"))

    with running(four_gpus(), tmp_path, deadline=DEADLINE, period=PERIOD, settle=False, prepare=deaf) as host:
        series, _ = host.wait(
            lambda series: gpus_up(series) == dict.fromkeys(GPUS, 1) and left_out(series, "1") == {"events"}, anew=True
        )
        assert hung(series) == 1
        assert one(series, "hwsonde_gpu_xid_source_up", source="nvml") == 0
        host.control.xid(3, 79)
        host.wait(lambda series: one(series, "hwsonde_gpu_xid_errors_total", gpu="3", xid="79") == 1)
        host.control.heal()
        host.wait(lambda series: one(series, "hwsonde_gpu_xid_source_up", source="nvml") == 1)
        host.control.xid(1, 79)
        host.wait(lambda series: one(series, "hwsonde_gpu_xid_errors_total", gpu="1", xid="79") == 1)
        assert hung(host.renewed()) == 1

"""The detector's state when the disk is full, and when it was damaged."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tests.e2e.house import House, copied
from tests.e2e.simulated import SimulatedHost

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]

FAILURES = "hwsonde_detector_state_save_failures_total"


def test_a_full_disk_costs_only_the_saving(host: SimulatedHost, learned: Path, tmp_path: Path) -> None:
    data = copied(learned, tmp_path / "data")
    kept = (data / "detector" / "state.npz").read_bytes()
    with House(data, host, {"state": {"save_interval": "2s"}}) as house:
        pid = house.stack.children["detector"].pid
        assert pid is not None
        house.until(lambda health: health.score is not None, 20, "scores")
        # As a full disk does, but for this process alone: no file may grow beyond this. Its log stays smaller.
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (16384, resource.RLIM_INFINITY))
        saved = (data / "detector" / "state.npz").read_bytes()
        house.until(lambda _: "could not save its state" in str(house.notes), 20, "a failed save is counted and named")
        assert house.watch.errors > 0
        windows = house.look().windows_scored
        house.until(lambda health: health.windows_scored > windows + 4, 10, "scoring goes on")
        assert (data / "detector" / "state.npz").read_bytes() == saved, "the old state is untouched"
        assert len(saved) > 16384
        said = [line for line in house.log("detector").splitlines() if "level=warning" in line or "level=error" in line]
        assert len(said) == 1, f"{said}; {house.seen()}"
        assert "Traceback" not in house.log("detector")
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        house.until(lambda _: (data / "detector" / "state.npz").read_bytes() != saved, 20, "saving works again")
        assert house.events == [], house.seen()
    assert (data / "detector" / "state.npz").read_bytes() != kept
    assert sorted(path.name for path in (data / "detector").iterdir()) == [
        "incidents",
        "state.lock",
        "state.npz",
        "web.key",
    ]


@pytest.mark.parametrize(
    "damage",
    ["garbled", pytest.param("truncated", marks=pytest.mark.slow), pytest.param("empty", marks=pytest.mark.slow)],
)
def test_a_damaged_state_is_set_aside_and_learned_anew(
    host: SimulatedHost, learned: Path, tmp_path: Path, damage: str
) -> None:
    data = copied(learned, tmp_path / "data")
    state = data / "detector" / "state.npz"
    content = state.read_bytes()
    half = len(content) // 2
    state.write_bytes(
        {"truncated": content[:half], "garbled": content[:half] + b"?" + content[half + 1 :], "empty": b""}[damage]
    )
    damaged = state.read_bytes()
    with House(data, host) as house:
        # Prometheus still has the history, so that learning anew takes no time.
        house.until(lambda health: health.calibrated and health.score is not None, 60, "scores from history")
        said = [line for line in house.log("detector").splitlines() if "state" in line and "level=info" not in line]
        assert len(said) == 1, f"{said}; {house.seen()}"
        assert "Traceback" not in house.log("detector")
        assert house.events == [], house.seen()
    usual = {"incidents", "state.lock", "state.npz", "web.key"}
    aside = [path for path in (data / "detector").iterdir() if path.name not in usual]
    assert [path.read_bytes() for path in aside] == [damaged]

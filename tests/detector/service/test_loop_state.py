"""What the loop saves, and how it goes on from that."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest

from hwsonde_detector import telemetry
from hwsonde_detector.state import load_state, save_state
from hwsonde_detector.types import Phase
from tests.detector.service.bench import Bench

from .fakes import START, event


def test_state_is_saved_now_and_then_on_events_and_at_the_end(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.caught_up()
    assert bench.count(telemetry.STATE_SAVES) == 0
    bench.turn(65)
    assert bench.count(telemetry.STATE_SAVES) == 1
    bench.engine.events = [event(Phase.OPENED)]
    bench.turn()
    assert bench.count(telemetry.STATE_SAVES) == 2
    assert bench.count(telemetry.EPISODES, "cpu") == 1
    bench.loop.close()
    assert bench.count(telemetry.STATE_SAVES) == 3
    assert bench.source.closed
    assert bench.recorder.closed


def test_a_restart_goes_on_where_it_ended(tmp_path: Path) -> None:
    first = Bench(tmp_path)
    first.caught_up()
    first.engine.events = [event(Phase.OPENED), event(Phase.CLOSED)]
    first.turn()
    first.loop.close()
    second = Bench(tmp_path)
    second.clock.wall = first.clock.wall + 20_000
    second.loop.resume()
    assert second.engine.rows == first.engine.rows
    second.turn()
    since, _ = second.source.asked[0]
    assert first.engine.rows[-1] - 6000 <= since < first.engine.rows[-1] - 2000
    assert [episode.identity for episode in second.loop.board.get().past] == [f"n1@{START}"]
    assert second.engine.rows == list(range(first.engine.rows[0], second.engine.rows[-1] + 1, 1000))


def test_a_restart_reads_again_what_the_slowest_host_needs(tmp_path: Path) -> None:
    first = Bench(tmp_path)
    first.engine.others = (30_000,)
    first.caught_up()
    first.loop.close()
    second = Bench(tmp_path)
    second.clock.wall = first.clock.wall
    second.loop.resume()
    # Saved again before the slow host is heard of.
    second.loop.close()
    third = Bench(tmp_path)
    third.clock.wall = first.clock.wall
    third.loop.resume()
    third.turn()
    # Its last row may be 30 s old; the rate of that row needs the sample 30 s before, and the window one more.
    assert third.source.asked[0][0] <= first.engine.rows[-1] - 90_000
    assert third.source.asked[0][0] >= first.engine.rows[-1] - 95_000


def test_after_a_long_stop_only_the_last_hour_is_read(tmp_path: Path) -> None:
    first = Bench(tmp_path)
    first.caught_up()
    first.loop.close()
    second = Bench(tmp_path)
    second.clock.wall += 24 * 3_600_000
    second.loop.resume()
    second.turn()
    assert second.source.asked[0][0] == second.clock.wall - 3_600_000 - 2000


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"service": {"past": [{}], "interval_ms": 1000}, "engine": {"last": 1}},
        {"service": {"past": [], "interval_ms": 1000, "longest_interval_ms": 1000}, "engine": {}},
    ],
)
def test_state_that_lacks_something_means_a_cold_start_and_one_line(
    tmp_path: Path, document: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    save_state(tmp_path, document, {})
    bench = Bench(tmp_path)
    bench.loop.resume()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("state: ")
    assert line.endswith("kept as state.npz.unfit-1, learning starts anew")
    bench.caught_up()
    assert bench.engine.rows
    bench.loop.save()
    (tmp_path / "state.npz").unlink()
    (tmp_path / "state.npz.unfit-1").rename(tmp_path / "state.npz")
    assert load_state(tmp_path) == (document, {})


def test_a_full_disk_is_told_once_counted_and_got_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(tmp_path)
    bench.caught_up()
    caplog.set_level(logging.INFO, "hwsonde_detector")
    caplog.clear()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("hwsonde_detector.service.saving.save_state", full)
    for _ in range(3):
        bench.loop.save()
    monkeypatch.undo()
    bench.loop.save()
    assert bench.count(telemetry.STATE_FAILURES) == 3
    first, second = [record.getMessage() for record in caplog.records]
    assert "No space left" in first
    assert second.startswith("state is written again after")


def test_a_directory_that_cannot_be_written_is_told_at_the_start_and_once(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(Path("/proc/none"))
    bench.loop.resume()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("state: /proc/none: cannot keep state there (")
    bench.caught_up()
    bench.loop.save()
    assert bench.engine.rows
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [line]
    assert bench.count(telemetry.STATE_FAILURES) == 1


def watched(folder: Path) -> list[list[int]]:
    saved = load_state(folder)
    assert saved is not None
    return saved[0]["service"]["watched"]


def test_watched_time_is_saved_by_day_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    first = Bench(tmp_path)
    first.caught_up()
    first.turn(5)
    first.loop.close()
    (day,) = watched(tmp_path)
    rows = first.engine.rows
    assert day == [rows[0] - 1000, rows[-1], 1000 * len(rows), 0]
    second = Bench(tmp_path, shadow=True, step=2)
    second.clock.wall = first.clock.wall + 1000
    second.loop.resume()
    second.turn(3)
    second.loop.close()
    ((begin, end, live, shadow),) = watched(tmp_path)
    more = len(second.engine.rows) - len(rows)
    assert more > 0
    assert (begin, end, live, shadow) == (rows[0] - 1000, second.engine.rows[-1], 1000 * len(rows), 2000 * more)


def test_watched_time_outlasts_models_that_do_not_fit(tmp_path: Path) -> None:
    days = [[START - 5000, START - 1000, 4000, 0]]
    own = {"past": [], "interval_ms": 1000, "longest_interval_ms": 1000, "watched": days}
    save_state(tmp_path, {"service": own, "engine": {}}, {})
    bench = Bench(tmp_path)
    bench.loop.resume()
    bench.loop.save()
    assert watched(tmp_path) == days


def test_a_state_of_an_older_version_is_read_on(tmp_path: Path) -> None:
    first = Bench(tmp_path)
    first.caught_up()
    first.loop.close()
    document, arrays = load_state(tmp_path) or ({}, {})
    del document["service"]["watched"]
    save_state(tmp_path, document, arrays)
    second = Bench(tmp_path)
    second.loop.resume()
    assert second.engine.rows == first.engine.rows
    second.loop.save()
    assert watched(tmp_path) == []

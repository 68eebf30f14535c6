"""The loop with a source, an engine and a clock that the test drives."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hwsonde_detector import telemetry
from hwsonde_detector.errors import SourceRefused, SourceUnreachable
from hwsonde_detector.service.parts import Parts
from hwsonde_detector.sources.base import Read
from hwsonde_detector.types import Outputs, SampleBatch, Series
from hwsonde_detector.writers.exposition import exposition
from tests.detector.service.bench import Bench

from .fakes import START, FakeEngine, FakeSource


def test_a_first_start_reads_the_past_in_order_and_bounded_and_then_follows_the_scrape() -> None:
    bench = Bench(longest_ms=600_000)
    bench.source.first_ms = START - 3_600_000
    bench.caught_up()
    assert bench.source.asked[0][0] == START - 3_600_000 - 2000
    assert max(until - since for since, until in bench.source.asked) <= 600_000
    assert bench.engine.rows == sorted(bench.engine.rows)
    assert len(bench.engine.rows) == 3600
    assert bench.engine.times == sorted(bench.engine.times)
    bench.source.asked.clear()
    bench.turn(30)
    assert len(bench.source.asked) <= 33
    assert len(bench.engine.rows) >= 3625
    assert bench.count(telemetry.LATE_TICKS) == 0


def test_a_live_tick_comes_soon_after_its_sample() -> None:
    bench = Bench()
    bench.caught_up()
    bench.turn(5)
    delays = []
    for _ in range(20):
        bench.turn()
        delays.append((bench.engine.times[-1] - 437) % 1000)
    assert max(delays) <= 130


def test_what_is_published_comes_from_the_newest_windows_only() -> None:
    bench = Bench()
    bench.source.first_ms = START - 300_000
    bench.caught_up()
    (host,) = bench.loop.board.get().hosts
    assert 1 <= len(host.recent) <= 3
    assert host.recent[-1].score.end_ms == bench.engine.rows[-1]
    assert (
        bench.count(telemetry.WINDOWS_SCORED)
        == len(bench.engine.rows)
        == sum(len(report.scores) for outputs in bench.seen for report in outputs.reports)
    )
    assert bench.count(telemetry.WINDOWS_SKIPPED, "not_full") == bench.count(telemetry.VALUES_DROPPED, "reset") / 2 > 0
    assert bench.count(telemetry.WINDOWS_EXCUSED, "start") == 3 * bench.count(telemetry.REGIMES, "learned") > 0


def test_a_failing_source_is_counted_by_reason_told_once_and_tried_again_soon(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.caught_up()
    caplog.set_level(logging.INFO, "hwsonde_detector")
    caplog.clear()
    bench.source.trouble = [SourceUnreachable("http://p refuses; start it") for _ in range(12)]
    bench.clock.waits.clear()
    bench.turn(12)
    assert bench.count(telemetry.READ_ERRORS, "unreachable") == 12
    assert [record.getMessage() for record in caplog.records] == ["source: http://p refuses; start it"]
    assert 1.0 <= min(bench.clock.waits) <= max(bench.clock.waits) <= 4.0
    shown = bench.loop.board.get().source
    assert shown.failing
    assert shown.message == "http://p refuses; start it"
    rows = len(bench.engine.rows)
    bench.turn()
    assert len(bench.engine.rows) - rows >= 30
    assert "source answers again after" in caplog.records[-1].getMessage()
    assert not bench.loop.board.get().source.failing
    assert bench.count(telemetry.LATE_TICKS) == 0
    bench.turn(3)
    assert bench.engine.rows == list(range(bench.engine.rows[0], bench.engine.rows[-1] + 1, 1000))


def test_another_reason_is_another_line(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.source.trouble = [SourceUnreachable("a"), SourceRefused("b"), ValueError("odd")]
    bench.turn(3)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        "source: a",
        "source: still failing, now: b",
        "source: still failing, now: ValueError while reading, a defect of the detector: odd",
    ]
    assert (bench.count(telemetry.READ_ERRORS, "refused"), bench.count(telemetry.READ_ERRORS, "defect")) == (1, 1)


def test_the_page_says_of_a_failure_what_names_no_file(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    failures = (SourceUnreachable("/etc/token: no", shown="the secret cannot be read"), OSError("/etc/own: odd"))
    for failure, said in zip(failures, ("the secret cannot be read", "OSError while reading, a defect"), strict=True):
        bench.source.trouble = [failure]
        bench.turn()
        shown = bench.loop.board.get().source
        assert shown.message.startswith(said)
        assert "/etc" not in shown.message
        assert str(failure) in caplog.text
    bench.turn()
    assert bench.loop.board.get().source.message == ""


def test_a_gap_longer_than_one_read_is_read_in_parts_without_loss() -> None:
    bench = Bench(longest_ms=60_000)
    bench.caught_up()
    bench.clock.wait(900)
    bench.caught_up()
    assert bench.engine.rows == list(range(bench.engine.rows[0], bench.engine.rows[-1] + 1, 1000))
    assert bench.clock.wall - bench.engine.rows[-1] < 2000


def test_the_past_is_published_as_past_and_the_present_at_once_afterwards() -> None:
    bench = Bench(longest_ms=60_000)
    bench.caught_up()
    bench.turn(3)

    def of_now() -> bool:
        board = bench.loop.board.get()
        return board.speaks_of_now(board.hosts[0], bench.clock.monotonic(), bench.clock.now_ms())

    assert of_now()
    bench.clock.wait(1700)
    assert not of_now()
    while bench.loop.turn() == 0.0:
        assert not of_now()
    assert of_now()


def incident(bench: Bench) -> bool:
    text = exposition(bench.loop.board.get(), bench.clock.monotonic(), bench.clock.now_ms())
    return b"hwsonde_incident_active{" in text


def test_a_fault_that_was_over_before_it_was_read_pages_nobody() -> None:
    bench = Bench(longest_ms=60_000)
    bench.caught_up()
    bench.turn(3)
    bench.engine.fault = (START + 300_000, START + 600_000)
    bench.clock.wait(1680)
    open_ones = 0
    while bench.loop.turn() == 0.0:
        open_ones += bool(bench.loop.board.get().hosts[0].open_episodes)
        assert not incident(bench)
    assert open_ones >= 4
    assert not incident(bench)


def test_an_episode_that_is_open_at_a_restart_pages_again_once_the_past_is_read(tmp_path: Path) -> None:
    first = Bench(tmp_path)
    first.engine.fault = (START, START + 3_600_000)
    first.caught_up()
    first.turn(5)
    assert incident(first)
    first.loop.close()
    second = Bench(tmp_path, longest_ms=60_000)
    second.engine.fault = first.engine.fault
    second.clock.wall = first.clock.wall + 300_000
    second.loop.resume()
    while second.loop.turn() == 0.0:
        assert not incident(second)
    assert incident(second)


def test_a_source_whose_clock_is_behind_is_present_with_its_second_sample() -> None:
    bench = Bench()
    bench.source.first_ms, bench.source.late_ms = START - 300_000, 45_000
    bench.caught_up()
    board = bench.loop.board.get()
    assert not board.speaks_of_now(board.hosts[0], bench.clock.monotonic(), bench.clock.now_ms())
    bench.turn(4)
    board = bench.loop.board.get()
    assert board.speaks_of_now(board.hosts[0], bench.clock.monotonic(), bench.clock.now_ms())
    bench.source.late_ms += 3_600_000
    for _ in range(24):
        bench.turn()
    board = bench.loop.board.get()
    assert not board.speaks_of_now(board.hosts[0], bench.clock.monotonic(), bench.clock.now_ms())


def test_a_step_that_takes_minutes_gives_signs_of_life() -> None:
    bench = Bench()
    bench.caught_up()
    seen = []

    def work() -> None:
        for _ in range(3):
            bench.clock.elapsed += 100.0
            seen.append(bench.clock.monotonic() - bench.loop.board.alive())
            bench.engine.alive()
            seen.append(bench.clock.monotonic() - bench.loop.board.alive())

    bench.engine.during = work
    bench.turn()
    assert seen[1::2] == [0.0, 0.0, 0.0]
    assert max(seen) < 120.0
    assert bench.loop.board.alive() == bench.loop.board.get().taken


def test_too_little_memory_is_no_defect(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.caught_up()
    bench.source.trouble = [MemoryError()]
    bench.engine.trouble = [MemoryError()]
    bench.turn(5)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        f"{what}: too little memory; raise MemoryMax= or `ulimit -v`" for what in ("source", "step")
    ]


def test_a_defect_in_a_step_is_one_line_and_the_loop_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.caught_up()
    bench.engine.trouble = [ZeroDivisionError("by nought"), ZeroDivisionError("by nought")]
    bench.turn(5)
    assert bench.count(telemetry.STEP_ERRORS) == 2
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert lines == ["step: ZeroDivisionError while scoring, a defect of the detector: by nought"]
    assert bench.clock.wall - bench.engine.rows[-1] < 2000


def test_a_step_that_takes_long_skips_ticks_and_loses_no_sample() -> None:
    bench = Bench()
    bench.caught_up()
    bench.turn(3)

    def slow() -> None:
        bench.engine.during = lambda: None
        bench.clock.wait(4.3)

    bench.engine.during = slow
    bench.turn(6)
    assert bench.count(telemetry.LATE_TICKS) == 4
    assert bench.engine.rows == list(range(bench.engine.rows[0], bench.engine.rows[-1] + 1, 1000))


def test_a_clock_that_goes_back_is_told_once_and_nothing_is_scored_twice(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.caught_up()
    bench.turn(3)
    before = list(bench.engine.rows)
    bench.clock.wall -= 30_000
    bench.turn(60)
    lines = [record.getMessage() for record in caplog.records if "clock" in record.getMessage()]
    assert len(lines) == 1
    assert "went back by 30" in lines[0]
    assert bench.engine.rows[: len(before)] == before
    seen = [score.end_ms for outputs in bench.seen for report in outputs.reports for score in report.scores]
    assert seen == sorted(set(seen))
    assert bench.engine.rows[-1] > before[-1] + 10_000


def test_every_answer_is_recorded_with_the_time_it_was_scored_at() -> None:
    bench = Bench()
    bench.caught_up()
    bench.turn(3)
    assert [now for now, _ in bench.recorder.kept] == bench.engine.times


def test_another_configuration_without_the_models_learns_the_past_again() -> None:
    bench = Bench()
    bench.source.first_ms = START - 100_000
    bench.caught_up()
    source, engine = FakeSource(bench.clock, START - 100_000), FakeEngine()
    bench.loop.adopt(Parts(source, engine, "http://q"), keep_models=False)
    assert bench.source.closed
    assert bench.recorder.closed
    bench.caught_up()
    assert engine.rows[0] < START - 99_000
    kept = Parts(source, engine, "http://q", fixed_ms=5000)
    bench.loop.adopt(kept, keep_models=True)
    bench.clock.waits.clear()
    source.asked.clear()
    bench.turn(4)
    other = FakeEngine()
    other.rows.append(engine.rows[-1])
    bench.loop.adopt(Parts(source, other, "http://q", fixed_ms=5000), keep_models=True)
    bench.turn(1)
    assert START - 10_000 < source.asked[-1][0] < engine.rows[-1], "rates need the samples before the last row"
    assert not source.closed
    assert bench.clock.waits[-1] == pytest.approx(5.0, abs=0.1)
    assert source.asked[0][0] > START - 10_000


def test_samples_of_the_future_are_counted_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.caught_up()
    caplog.set_level(logging.INFO, "hwsonde_detector")
    caplog.clear()
    read = bench.source.read
    bench.source.read = lambda since, now: replace(read(since, now), future=3)  # type: ignore[method-assign]
    bench.turn(3)
    bench.source.read = read  # type: ignore[method-assign]
    bench.turn(2)
    assert bench.count(telemetry.VALUES_DROPPED, "future") == 9
    first, second = [record.getMessage() for record in caplog.records]
    assert first.startswith("answers: samples later than the time that was asked for are left out")
    assert second.startswith("answers hold no sample of the future any more after")


def test_no_sample_puts_off_the_reads_that_follow() -> None:
    bench = Bench()
    bench.caught_up()
    bench.turn(3)
    read = bench.source.read

    def ahead(since_ms: int, now_ms: int) -> Read:
        times = np.array([now_ms + 3_600_000])
        return Read(SampleBatch((Series("up", ()),), np.array([0, 1]), times, np.ones(1)), since_ms=since_ms)

    bench.engine.step = lambda batch, now_ms: Outputs()  # type: ignore[method-assign]
    bench.source.read = ahead  # type: ignore[method-assign]
    bench.turn(2)
    bench.source.read = read  # type: ignore[method-assign]
    bench.source.asked.clear()
    bench.clock.waits.clear()
    for _ in range(10):
        bench.turn()
        since_ms, until_ms = bench.source.asked[-1]
        assert bench.clock.wall - 5000 <= since_ms < until_ms <= bench.clock.wall
    assert max(bench.clock.waits) <= 2.0


def test_the_slowest_host_says_how_far_back_is_read() -> None:
    bench = Bench()
    bench.engine.others = (15_000,)
    bench.caught_up()
    bench.source.asked.clear()
    bench.turn(12)
    far = [until_ms - since_ms >= 15_000 for since_ms, until_ms in bench.source.asked]
    assert 2 <= sum(far) <= 6


def test_a_slow_target_of_a_host_says_how_far_back_is_read_too() -> None:
    bench = Bench()
    bench.source.first_ms = START - 60_000
    read = bench.source.read

    def with_slow(since_ms: int, now_ms: int) -> Read:
        found = read(since_ms, now_ms)
        slow = np.arange(-(-since_ms // 15_000) * 15_000, now_ms + 1, 15_000)
        if not slow.size:
            return found
        times = np.append(found.batch.times, slow)
        series = (*found.batch.series, Series("slow", (("node", "n1"),)))
        offsets = np.append(found.batch.offsets, times.size)
        return replace(found, batch=SampleBatch(series, offsets, times, np.ones(times.size)))

    bench.source.read = with_slow  # type: ignore[method-assign]
    bench.caught_up()
    bench.source.asked.clear()
    bench.turn(12)
    assert 2 <= sum(until_ms - since_ms >= 15_000 for since_ms, until_ms in bench.source.asked) <= 6

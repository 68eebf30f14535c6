"""A session from beginning to end without a host, and what becomes of one that was killed."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Self

import pytest

from benchmarks.faults import cli
from benchmarks.faults.errors import BenchError
from benchmarks.faults.injectors.base import Effect, Injector, Room
from benchmarks.faults.labels import Book, Session, decode
from benchmarks.faults.record import Durations, Line, Recorder, order, rates
from benchmarks.faults.trial import trial
from tests.benchmarks.faults_room import FakeRoom

DURATIONS = Durations(learn=100, before=60, on=25, off=35, after=60, settle=20)


class Killed(BaseException):
    """The process is gone: nothing after it runs but what must."""


class FakeClock:
    """Time of a room; the workload makes progress while it passes."""

    def __init__(self, room: FakeRoom, at: Callable[[float], None] = lambda _: None) -> None:
        self.room, self.at, self.speed = room, at, 1.0

    def now_ms(self) -> int:
        return round(self.room.time * 1000)

    def sleep(self, seconds: float) -> None:
        self.room.time += seconds
        for part in self.room.pids:
            name = f"{part} 0"
            self.room.made[name] = self.room.made.get(name, 0.0) + seconds * self.speed
        self.at(self.room.time)


class Slow(Injector):
    """Halves the workload's speed."""

    kind: ClassVar[str] = "slow"
    subsystems = frozenset({"network", "cpu"})
    clock: ClassVar[FakeClock]

    def start(self, room: Room) -> None:
        self.clock.speed = 0.5

    def effect(self, room: Room) -> Effect:
        return Effect("slowness", 1 - self.clock.speed, 0.3)

    def stop(self, room: Room) -> None:
        self.clock.speed = 1.0


class Idle(Slow):
    kind = "idle"

    def start(self, room: Room) -> None:
        """Does nothing."""


class Never(Slow):
    kind = "never"

    def missing(self, room: Room) -> str | None:
        return "not here"


class Broken(Slow):
    kind = "broken"

    def start(self, room: Room) -> None:
        raise BenchError("it broke")


class Unprepared(Slow):
    kind = "unprepared"

    def prepare(self, room: Room) -> None:
        raise OSError(28, "No space left on device")


KINDS: dict[str, Callable[[], Injector]] = {one.kind: one for one in (Slow, Idle, Never, Broken, Unprepared)}


def begun(tmp_path: Path, kinds: list[str]) -> tuple[Book, Session, FakeRoom, FakeClock]:
    room = FakeRoom()
    clock = FakeClock(room)
    Slow.clock = clock
    book = Book(tmp_path / "labels.json")
    session = book.unfinished()
    if session is None:
        session = Session(1, "quiet", "host", {}, [(kind, 1) for kind in kinds])
        book.sessions.append(session)
    return book, session, room, clock


def recorder(book: Book, session: Session, room: FakeRoom, clock: FakeClock) -> Recorder:
    return Recorder(book, session, room, KINDS, DURATIONS, clock, Line(io.StringIO()))


def test_a_session_has_all_its_stages(tmp_path: Path) -> None:
    book, session, room, clock = begun(tmp_path, ["slow", "idle", "never", "slow"])
    began = clock.now_ms()
    recorder(book, session, room, clock).run()
    assert decode((tmp_path / "labels.json").read_text()) == [session]
    assert session.over
    assert session.segments == [[began, clock.now_ms()]]
    assert session.learned_ms == began + 100_000
    assert session.skipped == {"never": "not here"}
    assert [one.kind for one in session.injections] == ["slow", "idle", "slow"]
    assert [one.effective for one in session.injections] == [True, False, True]
    assert [one.harm for one in session.injections] == [pytest.approx(0.5), pytest.approx(0.0), pytest.approx(0.5)]
    for one in session.injections:
        assert one.end_ms == one.start_ms + 25_000
        assert one.subsystems == ("cpu", "network")
    starts = [one.start_ms for one in session.injections]
    assert starts[0] == began + (100 + 60 + 35) * 1000
    assert starts[1] - starts[0] == 60_000
    assert [one.what for one in session.benign] == [
        f"{unit} was stopped and started" for unit in ("training", "training", "ring", "reader", "training")
    ]


@pytest.mark.parametrize("moment", [50.0, 130.0, 197.0, 210.0, 225.0, 335.0])
def test_a_killed_session_goes_on_with_the_next_fault(tmp_path: Path, moment: float) -> None:
    book, session, room, clock = begun(tmp_path, ["slow", "idle"])
    end, saved = room.time + moment, tmp_path / "labels.json"
    # What a kill leaves on disk is what was saved last, not what an end in order saves.
    left: list[str] = []

    def kill(now: float) -> None:
        if now >= end:
            left.append(saved.read_text())
            raise Killed

    clock.at = kill
    with pytest.raises(Killed):
        recorder(book, session, room, clock).run()
    saved.write_text(left[0])

    again, session, room, clock = begun(tmp_path, [])
    room.time = end + 500
    recorder(again, session, room, clock).run()
    assert session.over
    assert len(session.segments) == 2
    assert session.segments[0][1] <= round(end * 1000) < session.segments[1][0]
    kinds = [(one.kind, one.aborted) for one in session.injections]
    assert [kind for kind, _ in kinds] == ["slow", "idle"]
    assert [kind for kind, aborted in kinds if aborted] == (["slow"] if 195 <= moment < 220 else [])
    assert session.done == 2
    if moment < 100:
        assert session.learned_ms == session.segments[1][0] + 100_000
    for one in session.injections:
        assert one.end_ms is not None
        assert one.end_ms >= one.start_ms


def test_an_end_by_signal_ends_the_fault_and_marks_it(tmp_path: Path) -> None:
    book, session, room, clock = begun(tmp_path, ["slow"])
    end = room.time + 205

    def stop(now: float) -> None:
        if now >= end:
            raise KeyboardInterrupt

    clock.at = stop
    with pytest.raises(KeyboardInterrupt):
        recorder(book, session, room, clock).run()
    assert clock.speed == 1.0
    one = decode((tmp_path / "labels.json").read_text())[0].injections[0]
    assert (one.aborted, one.effective, one.end_ms) == (True, False, round(end * 1000))


def test_a_fault_that_breaks_does_not_end_the_session(tmp_path: Path) -> None:
    book, session, room, clock = begun(tmp_path, ["broken", "unprepared", "slow"])
    recorder(book, session, room, clock).run()
    assert session.over
    assert [(one.kind, one.aborted) for one in session.injections] == [("broken", True), ("slow", False)]
    assert session.injections[0].effect == "failed: it broke"
    assert "No space left" in session.skipped["unprepared"]


def test_what_ended_and_was_started_again_is_written_down(tmp_path: Path) -> None:
    book, session, room, clock = begun(tmp_path, [])
    clock.at = lambda now: room.ended.append("ring ended and was started again") if now == 1010 else None
    recorder(book, session, room, clock).run()
    assert [one.what for one in session.benign if "ended" in one.what] == ["ring ended and was started again"]


def test_the_order_is_random_by_seed_and_each_round_has_all() -> None:
    kinds = [f"k{number}" for number in range(12)]
    plan = order(kinds, 3, 7)
    assert plan == order(kinds, 3, 7) != order(kinds, 3, 8)
    for repetition in (1, 2, 3):
        mine = [kind for kind, number in plan if number == repetition]
        assert sorted(mine) == sorted(kinds)
        assert plan.index((mine[0], repetition)) == (repetition - 1) * len(kinds)
    assert [kind for kind, _ in plan[:12]] != kinds


def test_a_part_that_began_anew_made_no_progress() -> None:
    assert rates({"a": (0.0, 10.0), "b": (0.0, 5.0), "c": (0.0, 1.0)}, {"a": (2.0, 14.0), "b": (2.0, 1.0)}) == {
        "a": 2.0,
        "b": 0.0,
    }


def test_a_trial_says_what_acts_and_ends_what_failed(tmp_path: Path) -> None:
    _, _, room, clock = begun(tmp_path, [])
    said: list[str] = []
    assert trial(room, KINDS, 5.0, clock, said.append) == 1
    found = {line.split()[0]: line.split(maxsplit=1)[1] for line in said}
    assert found["slow"].startswith("acted: slowness: 0.5")
    assert found["idle"].startswith("no effect")
    assert found["never"] == "skipped: not here"
    assert found["broken"] == "failed: it broke"
    assert clock.speed == 1.0
    assert trial(room, {"slow": Slow, "never": Never}, 5.0, clock, said.append) == 0


def test_the_command_goes_on_as_it_was_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, int]] = []
    rooms: list[FakeRoom] = []
    ends: list[float] = [1100.0, float("inf")]

    class FakeBench(FakeRoom):
        def __init__(self, folder: Path, *, node: str, load: str, seconds: float, peers: int) -> None:
            super().__init__(load=load)
            self.node, self.found = node, ["a killed run had left something"]
            asked.append((node, load, peers))
            rooms.append(self)

        def about(self) -> dict[str, object]:
            return {"cpus": 2}

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    def clock() -> FakeClock:
        end = ends.pop(0)

        def kill(now: float) -> None:
            if now >= end:
                raise Killed

        Slow.clock = FakeClock(rooms[-1], kill)
        return Slow.clock

    monkeypatch.setattr(cli, "Bench", FakeBench)
    monkeypatch.setattr(cli, "RealClock", clock)
    monkeypatch.setattr(cli, "KINDS", {"slow": Slow, "idle": Idle})
    first = ["--kinds", "slow,idle", "--repetitions", "2", "--load", "full", "--node", "n7", "--peers", "2"]
    with pytest.raises(Killed):
        cli.main(
            [
                "record",
                str(tmp_path),
                *first,
                "--learn",
                "60",
                "--before",
                "20",
                "--after",
                "5",
                "--on",
                "4",
                "--off",
                "6",
            ]
        )
    assert not Book(tmp_path / "labels.json").sessions[0].over
    assert cli.main(["record", str(tmp_path)]) == 0
    session = Book(tmp_path / "labels.json").sessions[0]
    assert session.over
    assert asked == [("n7", "full", 2)] * 2
    assert session.about["durations"]["on"] == 4
    assert sorted(session.plan) == [("idle", 1), ("idle", 2), ("slow", 1), ("slow", 2)]
    assert [(one.kind, one.repetition) for one in session.injections] == session.plan
    assert {(one.end_ms or 0) - one.start_ms for one in session.injections if not one.aborted} == {4000}

"""Each kind of fault in a room without a host: what it does, what proves it, and that it ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.faults.errors import BenchError
from benchmarks.faults.injectors.base import Effect, Injector, rate_of
from benchmarks.faults.injectors.table import KINDS
from benchmarks.faults.labels import DATA
from benchmarks.faults.network import LINKS
from hwsonde_detector.types import Subsystem
from tests.benchmarks.faults_room import FakeRoom

NAMES = {subsystem.value for subsystem in Subsystem} | {DATA}
# What a test does to the room while a fault acts, so that its proof sees it: by kind, for one second.
PROOFS: dict[str, Callable[[FakeRoom], object]] = {
    "cpu_hog_quiet": lambda room: room.cgroups.numbers.update({"cpu hog": 1.5}),
    "cpu_hog_full": lambda room: room.cgroups.numbers.update({"cpu hog": 0.9}),
    "cpu_quota": lambda room: room.cgroups.numbers.update(throttled=0.6),
    "fork_storm": lambda room: room.kernel.numbers.update(processes=1000),
    "switch_storm": lambda room: room.kernel.numbers.update(ctxt=90_000),
    "stopped_process": lambda room: room.kernel.numbers.update(stopped=1),
    "memory_pressure": lambda room: room.cgroups.numbers.update(hits=300),
    "thrash": lambda room: room.cgroups.numbers.update(pgmajfault=900),
    "disk_write": lambda room: room.told.update({0: 30e6, 1: 30e6}),
    "disk_read": lambda room: room.told.update({0: 30e6, 3: 30e6}),
    "block_throttle": lambda room: room.made.update({"reader 1": 205e6}),
    "loss_2": lambda room: room.kernel.numbers.update({"Tcp RetransSegs": 10}),
    "loss_10": lambda room: room.kernel.numbers.update({"Tcp RetransSegs": 10}),
    "rate_limit": lambda room: room.kernel.numbers.update(sent=205e6),
    "delay": lambda room: room.told.update({0: 500}),
    "udp_flood": lambda room: room.kernel.numbers.update({"Udp NoPorts": 50_000}),
    "handle_leak": lambda room: room.kernel.numbers.update(open_files=2500),
    "peer_setting": lambda room: None,
    "exporter_hang": lambda room: setattr(room, "answering", False),
}


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Signals that would have been sent."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    return sent


def room_for(kind: str, folder: Path) -> FakeRoom:
    room = FakeRoom(load="full" if kind == "cpu_hog_full" else "quiet")
    room.peers = [(f"bench-peer-{number}", folder / str(number)) for number in range(4)]
    for _, path in room.peers:
        (path / "proc/sys/vm").mkdir(parents=True)
        (path / "proc/sys/vm/swappiness").write_text("60\n")
    return room


def acted(injector: Injector, room: FakeRoom, kind: str, *, proof: bool) -> Effect:
    """A fault of one second, ten seconds after its preparation."""
    injector.prepare(room)
    room.time += 10
    if kind in {"block_throttle", "rate_limit"}:
        room.made["reader 1"] = room.kernel.numbers["sent"] = 200e6
    injector.start(room)
    room.time += 1
    if proof:
        PROOFS[kind](room)
    elif kind in {"block_throttle", "rate_limit"}:
        room.made["reader 1"] = room.kernel.numbers["sent"] = 220e6
    return injector.effect(room)


def test_all_kinds_that_the_bench_must_have_are_there() -> None:
    assert set(KINDS) == set(PROOFS)
    assert [kind for kind, make in KINDS.items() if make.kind != kind] == []


@pytest.mark.parametrize("kind", KINDS)
def test_right_answers_are_names_of_subsystems(kind: str) -> None:
    assert KINDS[kind].subsystems
    assert KINDS[kind].subsystems <= NAMES


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_that_acts_is_proven(kind: str, tmp_path: Path, signals: list[tuple[int, int]]) -> None:
    room = room_for(kind, tmp_path)
    injector = KINDS[kind]()
    assert injector.missing(room) is None
    effect = acted(injector, room, kind, proof=True)
    assert effect.acted, effect
    assert f"{effect.least:.4g}" in effect.words
    injector.stop(room)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "peer_setting"])
def test_a_fault_that_does_nothing_is_none(kind: str, tmp_path: Path, signals: list[tuple[int, int]]) -> None:
    room = room_for(kind, tmp_path)
    injector = KINDS[kind]()
    assert not acted(injector, room, kind, proof=False).acted
    injector.stop(room)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_done_is_undone_and_only_once(kind: str, tmp_path: Path, signals: list[tuple[int, int]]) -> None:
    room = room_for(kind, tmp_path)
    injector = KINDS[kind]()
    injector.stop(room)
    undone = list(room.diary)
    acted(injector, room, kind, proof=True)
    injector.stop(room)
    done = room.diary[len(undone) :]
    begun = len(room.diary)
    injector.stop(room)
    # Taking away what is not there is all that a second end may do.
    assert all(line.startswith("tc ") and "delete" in line for line in room.diary[begun:])
    assert all(not child.running for child in room.children)
    assert done.count("quota training 0.4") == done.count("quota training None") == int(kind == "cpu_quota")
    if kind == "memory_pressure":
        assert done == [f"memory training {124 << 20}", "memory training None"]
    if kind == "block_throttle":
        assert done == [f"reads reader 254:0 {5_000_000}", "reads reader 254:0 None"]
    for line in [text for text in done if "qdisc add" in text]:
        device = line.split(" dev ")[1].split()[0]
        assert any("qdisc delete" in text and device in text for text in done), line
    for add in [text for text in done if "route add" in text]:
        assert any("route delete" in text for text in done), add
    sent = {number for _, number in signals}
    assert sent in (set(), {signal.SIGSTOP, signal.SIGCONT})
    assert {path.read_text() for _, folder in room.peers for path in folder.rglob("swappiness")} == {"60\n"}


@pytest.mark.parametrize("kind", ["loss_2", "loss_10", "rate_limit", "delay", "udp_flood"])
def test_without_namespaces_there_are_no_faults_of_the_network(kind: str) -> None:
    room = FakeRoom(ring=False)
    assert KINDS[kind]().missing(room) == "network namespaces cannot be made here"


@pytest.mark.parametrize("kind", ["cpu_quota", "memory_pressure", "thrash", "block_throttle"])
def test_without_controllers_there_are_no_limits(kind: str) -> None:
    room = FakeRoom()
    room.cgroups.there = False
    assert "no control group here has" in str(KINDS[kind]().missing(room))


def test_other_reasons_are_said() -> None:
    room = FakeRoom()
    assert KINDS["cpu_hog_full"]().missing(room) == "only in a session with --load full"
    assert KINDS["peer_setting"]().missing(room) == "fewer than 4 simulated hosts run (--peers 4)"
    room.pids.clear()
    assert KINDS["stopped_process"]().missing(room) == "training does not run here"
    room.exporter = 0
    assert KINDS["exporter_hang"]().missing(room) == "no exporter runs here"
    room.kernel.tunnels = False
    assert KINDS["delay"]().missing(room) == "/dev/net/tun is not here"
    room.kernel.disk = None
    assert "on no block device" in str(KINDS["block_throttle"]().missing(room))
    room.kernel.numbers["file_limit"] = 5000
    assert KINDS["handle_leak"]().missing(room) == "the host has only 5000 file handles"


def test_a_storm_counts_from_what_is_usual() -> None:
    room = FakeRoom()
    storm = KINDS["fork_storm"]()
    storm.prepare(room)
    room.time, room.kernel.numbers["processes"] = room.time + 10, 500  # 50 a second
    storm.start(room)
    room.time, room.kernel.numbers["processes"] = room.time + 10, 500 + 1400  # 140 a second
    effect = storm.effect(room)
    assert effect.value == pytest.approx(90)
    assert not effect.acted


def test_the_peer_that_differs_is_the_one_that_is_named(tmp_path: Path) -> None:
    room = room_for("peer_setting", tmp_path)
    injector = KINDS["peer_setting"]()
    injector.start(room)
    assert injector.node(room) == "bench-peer-1"
    assert (tmp_path / "1/proc/sys/vm/swappiness").read_text() == "3\n"
    assert injector.effect(room).value == 1
    injector.stop(room)


def test_a_worker_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    room = room_for("delay", tmp_path)
    room.broken.add("relay")
    with pytest.raises(BenchError):
        KINDS["delay"]().prepare(room)


def test_loss_is_put_on_every_cable_and_taken_away_though_one_fails(tmp_path: Path) -> None:
    room = room_for("loss_2", tmp_path)
    injector = KINDS["loss_2"]()
    room.broken.add(f"filter add dev {LINKS[2].far}")
    with pytest.raises(BenchError):
        injector.start(room)
    injector.stop(room)
    assert sum("qdisc delete" in line for line in room.diary) == len(LINKS)


def test_how_fast_something_grew() -> None:
    assert rate_of([]) == rate_of([(1.0, 5.0)]) == 0
    assert rate_of([(1.0, 5.0), (2.0, 50.0), (3.0, 25.0)]) == 10

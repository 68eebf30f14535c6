"""What the client sends scouts to try, and what it leaves alone when the driver numbers GPUs anew."""

from __future__ import annotations

from typing import Any

from hwsonde_exporter.nvml.answer import DeviceReply, Reading, Reply, WorkerState
from hwsonde_exporter.nvml.client import Client, NvmlSettings
from hwsonde_exporter.nvml.fleet import Fleet
from tests.exporter.nvml.fakes import Clock, FakeWorker, reply
from tests.exporter.nvml.test_client import Bench, hang_in


def hang_at_start(number: int, group: str) -> Any:
    """Hang in the start of the worker, unless this group of this GPU, or all of it, is left out."""

    def hang(message: Any) -> tuple[int, str] | None:
        if "groups" in message or number in message["avoid"]:
            return None
        return None if [number, group] in [list(pair) for pair in message["skip"]] else (number, group)

    return hang


def test_a_gpu_whose_events_hang_loses_its_events_only() -> None:
    bench = Bench(lambda clock: FakeWorker(clock, hang_at_start(1, "events")))
    for _ in range(6):
        answer = bench.ask()
    assert bench.ups(answer) == {"a": True, "b": True}
    assert [dict(device.skipped).keys() for device in answer.devices] == [set(), {"events"}]
    assert bench.client.restarts() == {"hung": 1, "crashed": 0}
    # It is tried again by scouts, which listen as the worker does, and none of the others notices.
    made = len(bench.workers)
    for _ in range(40):
        assert bench.ups(bench.ask()) == {"a": True, "b": True}
    assert len(bench.workers) > made
    assert bench.client.restarts() == {"hung": 1, "crashed": 0}


def test_a_gpu_whose_samples_hang_is_not_let_go_by_a_scout_that_takes_none() -> None:
    class Sampling(FakeWorker):
        """Without a rate nothing is sampled, and nothing hangs."""

        hertz = 0.0

        def send(self, message: Any) -> None:
            self.hertz = message.get("hertz", self.hertz)
            if self.hertz:
                self.hang = hang_in(1, "samples")
            super().send(message)

    bench = Bench(Sampling)
    for _ in range(100):
        answer = bench.ask("memory", "samples")
    assert bench.ups(answer) == {"a": True, "b": True}
    assert dict(answer.devices[1].skipped).keys() == {"samples"}
    assert bench.client.restarts()["hung"] == 1


def test_scouts_leave_out_what_hung_from_their_start_on() -> None:
    bench = Bench(lambda clock: FakeWorker(clock, hang_in(1, "nvlink")))
    for _ in range(4):
        bench.ask()
    (start, request) = bench.workers[2].requests
    assert (start["avoid"], start["skip"], start["events"]) == ([0], [(1, "nvlink")], True)
    assert (request["avoid"], request["skip"]) == ([0], [(1, "nvlink")])
    assert "nvlink" not in request["groups"]


def test_when_the_driver_counts_others_nothing_is_left_alone_by_its_old_number() -> None:
    bench = Bench(lambda clock: FakeWorker(clock, hang_in(1, "memory")))
    bench.ask()
    for _ in range(3):
        bench.ask()
    main = bench.workers[1]
    assert main.requests[-1]["skip"] == [(1, "memory")]
    main.hang = lambda _: None
    # Now GPU b is missing, and what was c has its number.
    main.more = {"gpus": 3}
    bench.ask()
    bench.ask()
    assert main.requests[-1]["skip"] == []
    assert main.requests[-1]["avoid"] == []


def test_listening_is_what_the_present_worker_says() -> None:
    bench = Bench()
    heard = [bench.client.listening]
    bench.ask()
    heard.append(bench.client.listening)
    bench.workers[0].more = {"listening": False}
    bench.ask()
    heard.append(bench.client.listening)
    bench.workers[0].more = {}
    bench.ask()
    heard.append(bench.client.listening)
    bench.workers[0].ended = True
    bench.make = lambda clock: FakeWorker(clock, greeting={"failed": ["no_driver", "gone"]})
    bench.ask()
    assert [*heard, bench.client.listening] == [False, True, False, True, False]


def test_a_new_worker_listens_when_it_has_said_so_and_not_because_the_last_one_did() -> None:
    bench = Bench()
    bench.ask()
    told: list[tuple[bool, bool]] = []

    class Watched(FakeWorker):
        """Notes what is told of it while it works on its first request."""

        def send(self, message: Any) -> None:
            if "number" in message and not told:
                told.append((bench.client.known()[0] is WorkerState.RUNNING, bench.client.listening))
            super().send(message)

    bench.workers[0].ended = True
    bench.make = Watched
    for _ in range(3):
        bench.ask()
    assert told == [(True, False)]
    assert bench.client.listening


def test_how_long_nobody_has_asked() -> None:
    clock = Clock()
    client = Client(NvmlSettings(), lambda: FakeWorker(clock), clock)
    assert client.idle() == float("inf")
    client.collect(())
    clock.now += 7.5
    assert client.idle() >= 7.5
    client.collect(())
    assert client.idle() < 7.5


def device(number: int, uuid: str) -> DeviceReply:
    return DeviceReply(number, uuid, f"0000:0{number}:00.0", "", (Reading("utilization_ratio", (), 1),))


def test_what_is_left_out_of_a_gpu_is_not_shown_of_a_missing_one_that_had_its_number() -> None:
    fleet = Fleet()

    def merged(*devices: DeviceReply, skipped: Any = None) -> Any:
        answer = Reply(len(devices), devices, {}, (), (), {}, 0, listening=True)
        return {one.uuid: one for one in fleet.merge(answer, skipped or {}, 0.0)}

    merged(device(0, "a"), device(1, "b"), device(2, "c"))
    found = merged(device(0, "a"), device(1, "c"), skipped={1: {"ecc": 5.0}})
    assert dict(found["c"].skipped) == {"ecc": 5.0}
    assert (found["b"].up, found["b"].error, dict(found["b"].skipped)) == (False, "missing", {})


def test_a_reply_says_whether_it_listens() -> None:
    assert reply(1, ["a"])["listening"] is True

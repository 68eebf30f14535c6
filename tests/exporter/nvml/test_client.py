"""The client, with workers that hang, die, lie and refuse to die."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from hwsonde_exporter.nvml.answer import Answer, WorkerState
from hwsonde_exporter.nvml.client import Client, NvmlSettings
from hwsonde_exporter.nvml.wire import RawEvent
from tests.exporter.nvml.fakes import Clock, FakeWorker, reply

Make = Callable[[], FakeWorker]


class Bench:
    """A client whose workers are made by ``make``, and all of them so far."""

    def __init__(self, make: Callable[[Clock], FakeWorker] = FakeWorker, deadline: float = 2.0) -> None:
        self.clock = Clock()
        self.make = make
        self.workers: list[FakeWorker] = []
        self.client = Client(NvmlSettings(deadline=deadline), self._launch, self.clock)

    def _launch(self) -> FakeWorker:
        self.workers.append(self.make(self.clock))
        return self.workers[-1]

    def ask(self, *groups: str, after: float = 1.0) -> Answer:
        self.clock.now += after
        return self.client.collect(groups or ("memory", "nvlink"))

    def ups(self, answer: Answer) -> dict[str, bool | None]:
        return {device.uuid: device.up for device in answer.devices}


def hang_in(number: int, group: str, *, scouts: bool = True) -> Callable[[Any], tuple[int, str] | None]:
    """Hang when this group is asked of this GPU and it is not left out."""

    def hang(message: Any) -> tuple[int, str] | None:
        asked = "groups" in message and group in message["groups"]
        left_out = number in message.get("avoid", ()) or [number, group] in [
            list(pair) for pair in message.get("skip", ())
        ]
        return (number, group) if asked and not left_out else None

    return hang


def test_nothing_is_started_before_somebody_asks() -> None:
    bench = Bench()
    assert bench.workers == []
    answer = bench.ask("memory")
    assert (answer.state, answer.gpus, answer.driver) == (WorkerState.RUNNING, 2, {"driver_version": "570.1"})
    assert bench.ups(answer) == {"a": True, "b": True}
    assert bench.workers[0].requests[1]["groups"] == ["memory"]
    bench.ask("memory")
    assert len(bench.workers) == 1
    bench.client.stop()
    assert bench.workers[0].closed


class Sleepy(FakeWorker):
    """Greets after so many seconds: its GPUs have to be woken."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        super().__init__(clock)
        self.awake = clock.now + seconds

    def receive(self, timeout: float) -> object | None:
        if self.clock.now >= self.awake:
            return super().receive(timeout)
        self.clock.now += max(timeout, 1e-3)
        return None


def test_gpus_that_are_woken_cost_whoever_asks_again_a_second() -> None:
    bench = Bench(lambda clock: Sleepy(clock, 5.0))
    began = bench.clock.now
    answer = bench.ask(after=0.0)
    assert (answer.state, answer.unanswered) == (WorkerState.STARTING, False)
    assert 1.0 <= bench.clock.now - began < 1.5
    assert [bench.ask().state for _ in range(4)][-1] is WorkerState.RUNNING


def asked_once(worker: Callable[[Clock], FakeWorker], seconds: float) -> tuple[Clock, Client]:
    clock = Clock()
    return clock, Client(NvmlSettings(), lambda: worker(clock), clock, clock.now + seconds)


def test_whoever_asks_once_waits_for_gpus_that_are_woken() -> None:
    clock, client = asked_once(lambda clock: Sleepy(clock, 20.0), 25.0)
    began = clock.now
    answer = client.collect(("memory",))
    assert (answer.state, answer.unanswered, answer.gpus) == (WorkerState.RUNNING, False, 2)
    assert 20.0 <= clock.now - began < 21.0


def test_whoever_asks_once_is_told_when_the_time_is_up_and_then_at_once() -> None:
    clock, client = asked_once(lambda clock: Sleepy(clock, 60.0), 10.0)
    began = clock.now
    answer = client.collect(("memory",))
    assert (answer.state, answer.unanswered) == (WorkerState.STARTING, True)
    assert 10.0 <= clock.now - began < 10.5
    before = clock.now
    answer = client.collect(("ecc",))
    assert (answer.state, answer.unanswered) == (WorkerState.STARTING, True)
    assert clock.now - before < 0.1


def test_a_worker_that_cannot_be_started_is_not_waited_for() -> None:
    """Where this program may start no other, every host would wait for it, also those without GPUs."""
    clock, launched = Clock(), []

    def launch() -> FakeWorker:
        launched.append(clock.now)
        raise OSError(2, "No such file or directory")

    client = Client(NvmlSettings(), launch, clock, clock.now + 10.0)
    answer = client.collect(("memory",))
    assert (answer.state, answer.unanswered, clock.now) == (WorkerState.CRASHED, True, launched[0])
    assert len(launched) == 2


def test_a_worker_that_is_held_answers_nobody_but_a_gpu_that_is_known_to_hang_is_news() -> None:
    _, client = asked_once(lambda clock: FakeWorker(clock, hang_in(0, "memory"), immortal=True), 10.0)
    answer = client.collect(("memory",))
    assert (answer.state, answer.unanswered) == (WorkerState.STUCK, True)
    _, client = asked_once(lambda clock: FakeWorker(clock, hang_in(0, "memory"), immortal=True), 10.0)
    assert client.collect(("ecc",)).state is WorkerState.RUNNING
    answer = client.collect(("memory",))
    assert (answer.state, answer.unanswered) == (WorkerState.STUCK, False)
    assert answer.devices[0].up is False


def test_a_hung_group_costs_the_other_gpus_one_restart_and_its_own_gpu_only_the_group() -> None:
    bench = Bench(lambda clock: FakeWorker(clock, hang_in(1, "nvlink")))
    began = bench.clock.now
    answer = bench.ask(after=0.0)
    assert bench.clock.now - began < 2.5
    assert bench.ups(answer)["a"] is True
    assert next(device for device in answer.devices if not device.up).error == "timeout"
    assert bench.client.restarts() == {"hung": 1, "crashed": 0}
    # The scout starts, is asked, comes back without the group that hung.
    answers = [bench.ask() for _ in range(4)]
    assert bench.ups(answers[-1]) == {"a": True, "b": True}
    assert [dict(device.skipped).keys() for device in answers[-1].devices] == [set(), {"nvlink"}]
    assert bench.client.restarts()["hung"] == 1
    bench.client.stop()
    assert all(worker.closed for worker in bench.workers)


def test_a_group_that_answers_again_is_asked_again() -> None:
    sick = [True]
    bench = Bench(lambda clock: FakeWorker(clock, lambda message: hang_in(1, "nvlink")(message) if sick[0] else None))
    bench.ask()
    for _ in range(4):
        bench.ask()
    sick[0] = False
    answer = bench.ask(after=31.0)
    for _ in range(4):
        answer = bench.ask()
    assert [dict(device.skipped) for device in answer.devices] == [{}, {}]
    assert bench.client.restarts()["hung"] == 1


def test_a_gpu_that_hangs_everywhere_is_left_alone_and_tried_by_scouts_only() -> None:
    def hang(message: Any) -> tuple[int, str] | None:
        if "groups" not in message or 1 in message["avoid"]:
            return None
        return next(((1, group) for group in ("memory", "nvlink") if group in message["groups"]), None)

    bench = Bench(lambda clock: FakeWorker(clock, hang))
    bench.ask()
    main = bench.workers[1]
    for _ in range(100):
        answer = bench.ask()
        assert bench.ups(answer)["a"] is True
        assert answer.state is WorkerState.RUNNING
    assert not main.ended
    assert bench.client.restarts()["hung"] == 1
    # Ever less often: after 0, 30 and 60 seconds.
    assert len(bench.workers) - 2 <= 4


def test_a_gpu_that_cannot_even_be_found_does_not_stop_the_others() -> None:
    def hang(message: Any) -> tuple[int, str] | None:
        return (1, "attach") if 1 not in message.get("avoid", ()) else None

    bench = Bench(lambda clock: FakeWorker(clock, hang))
    answers = [bench.ask() for _ in range(16)]
    assert bench.ups(answers[0]) == {}
    assert answers[0].state is WorkerState.STARTING
    last = answers[-1]
    assert [(device.index, device.uuid, device.up, device.error) for device in last.devices] == [
        ("0", "a", True, ""),
        ("1", "", False, "timeout"),
    ]


def test_a_worker_that_does_not_die_is_followed_by_no_other_until_it_does() -> None:
    bench = Bench(lambda clock: FakeWorker(clock, hang_in(0, "memory"), immortal=True))
    first = bench.ask()
    assert first.state is WorkerState.STUCK
    assert "reboot" in first.detail
    assert bench.ups(first) == {}
    for _ in range(50):
        assert bench.ask().state is WorkerState.STUCK
    assert len(bench.workers) == 1
    bench.workers[0].ended = True
    bench.make = FakeWorker
    assert bench.ask().state is WorkerState.RUNNING
    assert bench.workers[0].closed


def test_what_was_known_goes_dark_without_a_worker_at_once_where_it_hung_and_later_elsewhere() -> None:
    bench = Bench()
    bench.ask()
    bench.workers[0].hang = hang_in(1, "memory")
    bench.workers[0].immortal = True
    assert bench.ups(bench.ask()) == {"a": None, "b": False}
    answer = bench.ask(after=11.0)
    assert bench.ups(answer) == {"a": False, "b": False}
    assert {device.error for device in answer.devices} == {"stuck", "timeout"}
    assert not any(device.readings for device in answer.devices)


@pytest.mark.parametrize(
    ("state", "down"), [("no_driver", False), ("no_library", False), ("mismatch", False), ("crashed", None)]
)
def test_a_library_that_ends_is_started_again_and_says_why_not(state: str, down: bool | None) -> None:
    bench = Bench()
    bench.ask()
    bench.make = lambda clock: FakeWorker(clock, greeting={"failed": [state, "it is so"]})
    bench.workers[0].answers = [{"failed": [state, "it is so"]}]
    answer = bench.ask()
    assert (answer.state, answer.detail) == (WorkerState(state), "it is so")
    assert bench.ups(answer) == {"a": down, "b": down}
    made = len(bench.workers)
    for _ in range(120):
        bench.ask()
    # With back-off: half a minute at the longest.
    assert 4 <= len(bench.workers) - made <= 9
    bench.make = FakeWorker
    answers = [bench.ask() for _ in range(31)]
    assert bench.ups(answers[-1]) == {"a": True, "b": True}


@pytest.mark.parametrize(
    "nonsense", [{}, [], {"number": 1}, "x", {"failed": 3}, {"failed": ["zzz", 1]}, {"number": 99, "devices": []}]
)
def test_nonsense_is_taken_for_a_worker_that_is_lost(nonsense: object) -> None:
    bench = Bench()
    bench.ask()
    bench.workers[0].answers = [nonsense]
    bench.ask()
    assert bench.workers[0].closed
    assert bench.ask(after=5.0).state is WorkerState.RUNNING


def test_a_worker_that_dies_is_replaced() -> None:
    bench = Bench()
    bench.ask()
    bench.workers[0].ended = True
    assert bench.ask().state is WorkerState.RUNNING
    assert bench.client.restarts() == {"hung": 0, "crashed": 1}


def test_a_worker_that_cannot_be_started_is_reported() -> None:
    def refuse(_: Clock) -> FakeWorker:
        raise OSError(11, "Resource temporarily unavailable")

    answer = Bench(refuse).ask()
    assert answer.state is WorkerState.CRASHED
    assert "Resource temporarily unavailable" in answer.detail


def test_events_are_numbered_once_and_outlive_their_worker() -> None:
    bench = Bench()
    bench.ask()
    event = RawEvent(1, 5.0, 79, -1, "a", "0000:00:00.0")
    bench.workers[0].outbox = [event, event._replace(sequence=2, xid=48, gpu_instance=3)]
    found, lost = bench.client.events()
    assert [(each.sequence, each.xid, each.gpu_instance) for each in found] == [(1, 79, None), (2, 48, 3)]
    assert lost == 0
    bench.workers[0].outbox = [event._replace(sequence=3, xid=31)]
    bench.workers[0].ended = True
    bench.ask()
    bench.workers[1].outbox = [event._replace(sequence=1, xid=13)]
    assert [(each.sequence, each.xid) for each in bench.client.events(2)[0]] == [(3, 31), (4, 13)]
    assert bench.client.events(4) == ([], 0)


def test_lost_events_are_counted_over_workers() -> None:
    bench = Bench()
    for more in (3, 5):
        bench.ask()
        bench.workers[0].more = {"lost_events": more}
        bench.ask()
    assert bench.client.events()[1] == 5
    bench.workers[0].ended = True
    bench.ask()
    bench.workers[1].more = {"lost_events": 2}
    bench.ask()
    assert bench.client.events()[1] == 7


def test_samples_are_given_one_at_a_time_and_the_oldest_are_dropped() -> None:
    bench = Bench()
    bench.ask()
    bench.workers[0].more = {"fast": [["a", "power", list(range(30))], ["zzz", "power", [1]]]}
    bench.ask()
    taken = [bench.client.take_fast() for _ in range(21)]
    assert taken[0] == [("0", "a", "power", 10)]
    assert [values[0][3] for values in taken[:20]] == list(range(10, 30))
    assert taken[20] == []


def test_calls_and_errors_are_kept() -> None:
    bench = Bench()
    bench.ask()
    bench.workers[0].more = {"errors": [["ecc", "unknown", 2]]}
    bench.ask()
    bench.ask()
    assert bench.client.take_calls() == [("memory", 0.001)] * 3
    assert bench.client.take_calls() == []
    assert bench.client.errors() == {("ecc", "unknown"): 4}


def test_new_settings_end_the_worker_and_reach_the_next() -> None:
    bench = Bench()
    bench.ask()
    bench.client.configure(NvmlSettings(hertz=0.0, deadline=5.0))
    assert bench.workers[0].closed
    bench.ask()
    assert bench.workers[1].requests[0]["hertz"] == 0.0
    bench.client.configure(NvmlSettings(hertz=0.0, deadline=5.0))
    assert not bench.workers[1].ended


def test_stopping_does_not_wait_for_a_request_that_hangs() -> None:
    bench = Bench(lambda clock: FakeWorker(clock, hang_in(0, "memory")), deadline=1e6)
    began = threading.Event()

    def receive(timeout: float) -> object | None:
        began.set()
        time.sleep(0.001)
        return None

    bench.ask("nvlink")
    bench.workers[0].receive = receive  # type: ignore[method-assign]
    asking = threading.Thread(target=bench.client.collect, args=(["memory"],))
    asking.start()
    assert began.wait(60)
    bench.client.stop()
    asking.join(60)
    assert not asking.is_alive()
    assert bench.workers[0].closed
    assert bench.client.collect(["memory"]).state is WorkerState.STOPPED
    assert len(bench.workers) == 1


def asked(bench: Bench) -> list[list[str]]:
    return [message["groups"] for worker in bench.workers for message in worker.requests if "groups" in message]


def test_what_is_read_seldom_is_kept_meanwhile() -> None:
    bench = Bench()
    for _ in range(12):
        bench.clock.now += 1.0
        answer = bench.client.collect(["ecc"], 5.0)
        assert [len(device.readings) for device in answer.devices] == [1, 1]
    assert asked(bench).count(["ecc"]) == 3
    assert asked(bench).count([]) == 9


def test_what_was_kept_of_a_gpu_goes_with_it_and_is_read_anew_when_it_comes_back() -> None:
    bench = Bench()
    bench.ask("ecc")
    bench.client.collect(["ecc"], 100.0)
    lost = reply(3, ["a", "b"])
    lost["devices"][1] |= {"error": "gpu_is_lost", "readings": []}
    bench.workers[0].answers = [lost]
    # Another collector finds it; its answer is in the queue before that of the worker.
    bench.workers[0].send = lambda message: bench.workers[0].answers[0].update(number=message["number"])  # type: ignore[method-assign,union-attr]
    assert bench.ups(bench.ask("memory")) == {"a": True, "b": False}
    del bench.workers[0].send  # type: ignore[attr-defined]
    answers = [bench.client.collect(["ecc"], 100.0) for _ in range(2)]
    assert [len(device.readings) for device in answers[0].devices] == [1, 0]
    assert [len(device.readings) for device in answers[1].devices] == [1, 1]
    assert asked(bench)[-1] == ["ecc"]


def test_what_was_kept_is_not_shown_without_a_worker() -> None:
    bench = Bench()
    bench.client.collect(["ecc"], 100.0)
    bench.workers[0].ended = True
    bench.make = lambda clock: FakeWorker(clock, greeting={"failed": ["no_driver", "gone"]})
    bench.clock.now += 1.0
    answer = bench.client.collect(["ecc"], 100.0)
    assert not any(device.readings for device in answer.devices)

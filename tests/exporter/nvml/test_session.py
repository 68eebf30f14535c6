"""The worker's half without its process: GPUs that come and go, groups that are slow, events that cannot be had."""

from __future__ import annotations

import ctypes
import queue
import socket
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from hwsonde_exporter.nvml.event_thread import EventThread
from hwsonde_exporter.nvml.fast import FastReader
from hwsonde_exporter.nvml.gpu import Gpu, Library
from hwsonde_exporter.nvml.session import Session
from hwsonde_exporter.nvml.wire import EVENT_BYTES, NO_INSTANCE, RawEvent, decode_event
from tests.exporter.nvml.fakes import Binding, Clock, raises
from tests.exporter.nvml.test_readings import Gpm

LOST, UNKNOWN = pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_UNKNOWN
XID = pynvml.nvmlEventTypeXidCriticalError
# The thread of a test that is over is ended.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


class FakeSlot:
    """Notes what is entered."""

    def __init__(self) -> None:
        self.entered: list[tuple[int, str]] = []
        self.inside = False

    def enter(self, number: int, group: str, now: float) -> None:
        self.entered.append((number, group))
        self.inside = True

    def leave(self, now: float) -> None:
        self.inside = False


class Bench:
    """A session on a driver with GPUs ``a`` and ``b``, whose calls may take time."""

    def __init__(self, hertz: float = 0.0, **functions: Any) -> None:
        self.clock = Clock()
        self.present = ["a", "b"]
        self.seconds: dict[str, float] = {}
        self.slot = FakeSlot()
        self.binding = Binding(
            nvmlDeviceGetCount=lambda: len(self.present),
            nvmlDeviceGetHandleByIndex=lambda number: self.present[number],
            nvmlDeviceGetUUID=lambda handle: f"GPU-{handle}",
            nvmlDeviceGetPciInfo=SimpleNamespace(busId="00000000:3B:00.0"),
            **functions,
        )
        self.library = Library(self.binding, self.clock)
        self.session = Session(self.library, self.slot, FastReader(hertz, self.clock), None)  # type: ignore[arg-type]
        self.number = 0

    def taking(self, seconds: dict[str, float], value: Callable[[str], Any]) -> Callable[[str], Any]:
        """A function of the library that takes so long for each GPU."""

        def call(handle: str, *_: object, **__: object) -> Any:
            self.clock.now += seconds.get(handle, 0.0)
            return value(handle)

        return call

    def ask(self, *groups: str, after: float = 1.0) -> dict[str, dict[tuple[str, ...], float]]:
        """Readings by the UUID of each GPU that has no error."""
        self.clock.now += after
        self.number += 1
        reply = self.session.reply(self.number, groups, [], [])
        assert not self.slot.inside
        return {
            device["uuid"]: {(name, *labels): value for name, labels, value in device["readings"]}
            for device in reply["devices"]
            if not device["error"]
        }


def test_the_gauges_of_a_slow_group_stay_and_its_counters_wait() -> None:
    seconds = {"a": 0.5}
    counted: list[int] = []

    def width(handle: str) -> int:
        counted.append(1)
        return 16

    bench = Bench()
    bench.binding.functions |= {
        "nvmlDeviceGetCurrPcieLinkWidth": bench.taking(seconds, width),
        "nvmlDeviceGetPcieReplayCounter": lambda _: 7,
    }
    gauge, counter = ("pcie_link_width_lanes",), ("pcie_replays_total",)
    assert bench.ask("pcie")["GPU-a"] == {gauge: 16, counter: 7}
    calls = len(counted)
    for _ in range(2):
        found = bench.ask("pcie")
        assert found["GPU-a"] == {gauge: 16}
        assert found["GPU-b"] == {gauge: 16, counter: 7}
    assert len(counted) == calls + 2
    # A fifth of the time at most: half a second is followed by two and a half.
    assert bench.ask("pcie")["GPU-a"] == {gauge: 16, counter: 7}
    seconds.clear()
    for _ in range(3):
        bench.ask("pcie")
    assert bench.ask("pcie")["GPU-a"] == {gauge: 16, counter: 7}


@pytest.mark.parametrize("lost", ["in a call", "from the list"])
def test_nothing_that_a_slow_group_told_outlives_the_gpu(lost: str) -> None:
    failing: list[bool] = []

    def state(handle: str) -> int:
        return raises(LOST)() if failing and handle == "a" else 0

    bench = Bench()
    bench.binding.functions |= {
        "nvmlDeviceGetCurrPcieLinkWidth": bench.taking({"a": 1.0}, lambda _: 16),
        "nvmlDeviceGetPersistenceMode": state,
    }
    assert "GPU-a" in bench.ask("pcie", "mode")
    if lost == "in a call":
        failing.append(True)
    else:
        bench.present.remove("a")
    assert "GPU-a" not in bench.ask("pcie", "mode")
    failing.clear()
    bench.present = ["a", "b"]
    bench.binding.functions["nvmlDeviceGetCurrPcieLinkWidth"] = raises(UNKNOWN)
    assert ("pcie_link_width_lanes",) not in bench.ask("pcie", "mode")["GPU-a"]


def test_gpus_that_come_and_go_use_the_same_buffers() -> None:
    library = Gpm(Clock())
    bench = Bench(**library.functions())
    library.clock = bench.clock
    for _ in range(20):
        bench.present = ["a", "b"]
        assert set(bench.ask("gpm")) == {"GPU-a", "GPU-b"}
        assert ("sm_active_ratio",) in bench.ask("gpm")["GPU-b"]
        bench.present = ["b"]
        assert set(bench.ask("gpm")) == {"GPU-b"}
    assert library.buffers == 4


def test_a_gpu_of_which_every_call_fails_is_down_whatever_was_told_before() -> None:
    bench = Bench()
    bench.binding.functions |= {
        "nvmlDeviceGetCurrPcieLinkWidth": bench.taking({"a": 1.0}, lambda _: 16),
        "nvmlDeviceGetPersistenceMode": 1,
    }
    assert "GPU-a" in bench.ask("pcie", "mode")
    for name in ("nvmlDeviceGetPersistenceMode", "nvmlDeviceGetComputeMode"):
        bench.binding.functions[name] = raises(UNKNOWN)
    assert set(bench.ask("pcie", "mode")) == {"GPU-b"}


# ---- events --------------------------------------------------------------------------------------------------------


class Driver:
    """A driver that hands out events, refuses or accepts to be listened to, and gives handles that are addresses."""

    def __init__(self) -> None:
        self.events: queue.Queue[Any] = queue.Queue()
        self.refusing: set[str] = set()
        self.registered: list[int] = []
        self.clock = Clock()
        self.binding = Binding(
            nvmlEventSetCreate=lambda: self._answer("create", object()),
            nvmlDeviceGetSupportedEventTypes=lambda handle: self._answer("types", XID),
            nvmlDeviceRegisterEvents=self._register,
            nvmlEventSetWait_v2=self._wait,
        )
        self.library = Library(self.binding, self.clock)
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ours.settimeout(60.0)
        self.thread = EventThread(self.library, self.theirs)
        self.gpus = [
            Gpu(self.library, ctypes.c_void_p(0x1000 * (place + 1)), place, f"GPU-{name}", f"0000:0{place}:00.0")
            for place, name in enumerate("ab")
        ]
        self.entered: list[int | None] = []

    def _answer(self, name: str, value: Any) -> Any:
        return raises(UNKNOWN)() if name in self.refusing else value

    def _register(self, handle: Any, kinds: int, events: object) -> None:
        self._answer(f"register {handle.value}", None)
        self.registered.append(handle.value)

    def _wait(self, events: object, milliseconds: int) -> Any:
        try:
            found = self.events.get(timeout=0.05)
        except queue.Empty:
            return raises(pynvml.NVML_ERROR_TIMEOUT)()
        if found == "end":
            raise SystemExit
        return raises(found)() if isinstance(found, int) else found

    def happen(self, place: int, code: int, instance: int = 0xFFFFFFFF) -> None:
        self.events.put(
            SimpleNamespace(eventType=XID, device=self.gpus[place].handle, eventData=code, gpuInstanceId=instance)
        )

    def watch(self) -> None:
        self.thread.watch(self.gpus, lambda gpu: self.entered.append(None if gpu is None else gpu.number))

    def next(self) -> RawEvent:
        event = decode_event(self.ours.recv(EVENT_BYTES + 1))
        assert event is not None
        return event


@pytest.fixture
def driver() -> Iterator[Driver]:
    made = Driver()
    yield made
    made.events.put("end")
    if made.thread._thread is not None:
        made.thread._thread.join(10)
    made.ours.close()
    made.theirs.close()


def test_events_are_handed_over_with_their_gpu(driver: Driver) -> None:
    driver.watch()
    driver.happen(1, 79)
    driver.happen(0, 94, 3)
    events = [driver.next(), driver.next()]
    assert [(event.sequence, event.uuid, event.xid, event.gpu_instance) for event in events] == [
        (1, "GPU-b", 79, NO_INSTANCE),
        (2, "GPU-a", 94, 3),
    ]
    assert driver.thread.hears(driver.gpus)


@pytest.mark.parametrize("instance", [0xFFFFFFFE, 1 << 31, 1 << 40, -5])
def test_an_instance_that_is_none_does_not_end_the_thread(driver: Driver, instance: int) -> None:
    driver.watch()
    driver.happen(0, 31, instance)
    driver.happen(0, 32, 1)
    assert [(event.xid, event.gpu_instance) for event in (driver.next(), driver.next())] == [(31, NO_INSTANCE), (32, 1)]


def test_an_event_that_makes_no_sense_does_not_end_the_thread(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hwsonde_exporter.nvml.event_thread._PAUSE_SECONDS", 0.01)
    driver.watch()
    driver.events.put(SimpleNamespace(eventType=None))
    driver.events.put(pynvml.NVML_ERROR_GPU_IS_LOST)
    driver.happen(1, 48)
    assert driver.next().xid == 48
    assert driver.thread.hears(driver.gpus)


def test_a_gpu_that_refuses_is_asked_again_and_told_of(driver: Driver) -> None:
    first = driver.gpus[0].handle.value  # type: ignore[attr-defined]
    driver.refusing.add(f"register {first}")
    for _ in range(3):
        driver.watch()
        driver.clock.now += 1.0
    assert driver.entered == [None, 0, 1]
    assert driver.registered == [driver.gpus[1].handle.value]  # type: ignore[attr-defined]
    assert not driver.thread.hears(driver.gpus)
    assert driver.thread.hears(driver.gpus[1:])
    driver.refusing.clear()
    driver.clock.now += 60.0
    driver.watch()
    assert driver.thread.hears(driver.gpus)
    driver.happen(0, 13)
    assert driver.next().uuid == "GPU-a"


def test_a_gpu_that_is_left_alone_or_lost_is_not_heard() -> None:
    class Thread:
        """Hears whom it watches."""

        lost = 0

        def __init__(self) -> None:
            self.watched: list[str] = []

        def watch(self, gpus: list[Gpu], enter: object) -> None:
            self.watched = [gpu.uuid for gpu in gpus]

        def hears(self, gpus: list[Gpu]) -> bool:
            return bool(gpus) and {gpu.uuid for gpu in gpus} <= set(self.watched)

    bench = Bench()
    bench.session._events = Thread()  # type: ignore[assignment]

    def listening(avoid: list[int], skip: list[tuple[int, str]]) -> object:
        bench.clock.now += 1.0
        return bench.session.reply(1, [], avoid, skip)["listening"]

    assert [listening([], []), listening([1], []), listening([], [(1, "events")]), listening([], [])] == [
        True, False, False, True,
    ]  # fmt: skip
    bench.binding.functions["nvmlDeviceGetHandleByIndex"] = lambda number: (
        bench.present[number] if number else raises(LOST)()
    )
    assert listening([], []) is False


def test_a_library_without_events_hears_nothing_and_says_so(driver: Driver) -> None:
    driver.refusing.add("create")
    driver.watch()
    assert not driver.thread.hears(driver.gpus)
    assert not driver.thread.hears([])
    driver.refusing.clear()
    driver.watch()
    assert driver.thread.hears(driver.gpus)


def test_a_gpu_with_a_new_handle_is_registered_anew(driver: Driver) -> None:
    driver.watch()
    driver.gpus[0].renew(ctypes.c_void_p(0x9000), 0)
    assert not driver.thread.hears(driver.gpus)
    driver.watch()
    assert driver.registered == [0x1000, 0x2000, 0x9000]
    driver.happen(0, 62)
    assert driver.next().uuid == "GPU-a"


def test_events_that_nobody_takes_are_counted(driver: Driver) -> None:
    driver.watch()
    for _ in range(5000):
        driver.happen(0, 13)
    end = time.monotonic() + 60
    while not driver.thread.lost and time.monotonic() < end:
        time.sleep(0.01)
    assert driver.thread.lost > 0

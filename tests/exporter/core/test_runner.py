import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hwsonde_exporter.cell import Clocks
from hwsonde_exporter.errors import CollectorError, ReadError, Reason, Unavailable
from hwsonde_exporter.exposition import Block
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Sample
from hwsonde_exporter.runner import Runner, RunnerSettings
from hwsonde_exporter.state import State
from tests.exporter.core.fakes import HEAT, REAL_CLOCKS, Clock, Gate, collector_kind, gauge, heat_of


def runner_of(
    *kinds: Any, clocks: Clocks = REAL_CLOCKS, timeout: float = 0.5, limit: int = 100, disabled: str = ""
) -> Runner:
    enabled = frozenset(kind.name for kind in kinds) - {disabled}
    return Runner({kind.name: kind for kind in kinds}, Host, RunnerSettings(enabled, timeout, limit), clocks)


def state_of(runner: Runner, name: str) -> State:
    return next(state for state in runner.states() if state.name == name)


def values(blocks: dict[str, Block]) -> dict[str, tuple[float, ...]]:
    return {name: block.values for name, block in blocks.items()}


def eventually(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.005)
    return condition()


def raiser(error: BaseException) -> Callable[[], Any]:
    def collect() -> Any:
        raise error

    return collect


def metric_kind(name: str, collect: Callable[[], Any], **options: Any) -> Any:
    return collector_kind(name, collect, metrics=(gauge(name),), **options)


def test_values_are_read_when_asked() -> None:
    degrees = iter([1.0, 2.0])
    runner = runner_of(collector_kind("heat", lambda: [Sample(HEAT, (), next(degrees))]))
    assert values(runner.collect()) == {"heat": (1.0,)}
    time.sleep(0.11)
    assert values(runner.collect()) == {"heat": (2.0,)}
    state = state_of(runner, "heat")
    assert (state.success, state.series, state.available, state.reason) == (True, 1, True, "")


def test_scrapes_within_a_tenth_of_a_second_share_a_reading() -> None:
    clock = Clock()
    kind = collector_kind("heat", heat_of(1.0))
    runner = runner_of(kind, clocks=Clocks(clock, clock))
    runner.collect()
    clock.now += 0.09
    runner.collect()
    assert len(kind.calls) == 1
    clock.now += 0.02
    runner.collect()
    assert len(kind.calls) == 2


def test_concurrent_scrapes_share_the_reading_that_is_under_way() -> None:
    gate = Gate([Sample(HEAT, (), 3.0)])
    kind = collector_kind("heat", gate)
    runner = runner_of(kind, timeout=5.0)
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(runner.collect) for _ in range(4)]
        assert eventually(lambda: len(kind.calls) == 1)
        time.sleep(0.05)
        gate.event.set()
        assert [values(future.result()) for future in futures] == [{"heat": (3.0,)}] * 4
    assert len(kind.calls) == 1


def test_a_selection_reads_nothing_else() -> None:
    one, two = collector_kind("one", heat_of(1.0)), metric_kind("two", list)
    runner = runner_of(one, two)
    assert values(runner.collect({"one"})) == {"one": (1.0,)}
    assert two.calls == []


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ReadError("/proc/x: gone"), "read_error"),
        (CollectorError("odd"), "read_error"),
        (ZeroDivisionError("division by zero"), "exception"),
        (SystemExit(3), "exception"),
        (RecursionError(), "exception"),
        (Unavailable(Reason.NO_PERMISSION, "not allowed"), "no_permission"),
    ],
)
def test_whatever_a_collector_raises_is_counted_and_harms_no_other(error: BaseException, reason: str) -> None:
    runner = runner_of(metric_kind("bad", raiser(error)), collector_kind("good", heat_of(7.0)))
    assert values(runner.collect()) == {"good": (7.0,)}
    state = state_of(runner, "bad")
    assert state.errors[reason] == 1
    assert not state.success
    time.sleep(0.11)
    assert values(runner.collect()) == {"good": (7.0,)}


def test_an_answer_that_breaks_off_gives_nothing() -> None:
    def half() -> Any:
        yield Sample(HEAT, (), 1.0)
        raise ReadError("/sys/y: gone")

    runner = runner_of(collector_kind("half", half))
    assert runner.collect() == {}
    assert state_of(runner, "half").problem == "read_error: /sys/y: gone"


def test_a_failure_does_not_leave_the_values_before_it() -> None:
    answers = iter([[Sample(HEAT, (), 1.0)], ReadError("gone")])

    def collect() -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    clock = Clock()
    runner = runner_of(collector_kind("heat", collect), clocks=Clocks(clock, clock))
    assert values(runner.collect()) == {"heat": (1.0,)}
    clock.now += 1
    assert runner.collect() == {}


def test_a_collector_that_cannot_be_made_is_counted() -> None:
    kind = collector_kind("heat", heat_of(1.0))
    kind.__init__ = lambda self, host: 1 / 0
    runner = runner_of(kind)
    assert runner.collect() == {}
    assert "ZeroDivisionError" in state_of(runner, "heat").problem


def test_what_hangs_is_left_out_and_the_rest_goes_on() -> None:
    gate = Gate([Sample(gauge("b"), (), 1.0)])
    hanging = metric_kind("b", gate)
    runner = runner_of(
        metric_kind("a", lambda: [Sample(gauge("a"), (), 1)]), hanging, collector_kind("c", heat_of(2.0))
    )
    began = time.monotonic()
    assert values(runner.collect(timeout=0.5)) == {"a": (1,), "c": (2.0,)}
    assert time.monotonic() - began < 2.0
    state = state_of(runner, "b")
    assert state.errors["timeout"] == 1
    assert state.success is False
    assert state.hanging is not None
    # While it hangs nobody waits for it again, and no second try is made.
    for _ in range(3):
        time.sleep(0.11)
        began = time.monotonic()
        assert set(runner.collect()) == {"a", "c"}
        assert time.monotonic() - began < 0.4
    assert len(hanging.calls) == 1
    assert state_of(runner, "b").errors["timeout"] == 1
    # The late answer is not published, but the next one is.
    gate.event.set()
    assert eventually(lambda: state_of(runner, "b").hanging is None)
    assert set(runner.collect({"b"})) == {"b"}
    assert len(hanging.calls) == 2


def test_several_that_hang_leave_time_for_the_others() -> None:
    gates = [Gate() for _ in range(4)]
    kinds = [metric_kind(f"b{number}", gate) for number, gate in enumerate(gates)]
    runner = runner_of(*kinds, collector_kind("z", heat_of(2.0)), timeout=1.5)
    assert values(runner.collect()) == {"z": (2.0,)}
    for gate in gates:
        gate.event.set()


def test_threads_do_not_pile_up_behind_what_hangs() -> None:
    gate = Gate()
    runner = runner_of(metric_kind("b", gate), collector_kind("c", heat_of(2.0)), timeout=0.3)
    runner.collect()
    before = threading.active_count()
    for _ in range(5):
        time.sleep(0.11)
        runner.collect()
    assert threading.active_count() <= before
    gate.event.set()


def test_a_probe_says_why_and_is_repeated_each_minute() -> None:
    clock, able = Clock(), [False]

    def probe() -> None:
        if not able[0]:
            raise Unavailable(Reason.NO_HARDWARE, "there is no heat")

    kind = collector_kind("heat", heat_of(1.0), probe=probe)
    runner = runner_of(kind, clocks=Clocks(clock, clock))
    assert runner.collect() == {}
    state = state_of(runner, "heat")
    assert (state.available, state.reason, state.detail) == (False, "no_hardware", "there is no heat")
    assert sum(state.errors.values()) == 0
    able[0] = True
    clock.now += 59
    assert runner.collect() == {}
    clock.now += 2
    assert values(runner.collect()) == {"heat": (1.0,)}
    able[0] = False
    clock.now += 61
    assert runner.collect() == {}


def test_probes_can_be_asked_for() -> None:
    clock, able = Clock(), [False]

    def probe() -> None:
        if not able[0]:
            raise Unavailable(Reason.MISSING_TOOL, "no tool")

    runner = runner_of(collector_kind("heat", heat_of(1.0), probe=probe), clocks=Clocks(clock, clock))
    runner.collect()
    able[0] = True
    clock.now += 1
    runner.probe_again()
    assert values(runner.collect()) == {"heat": (1.0,)}


def test_a_probe_that_fails_otherwise_is_an_error_of_the_run() -> None:
    runner = runner_of(collector_kind("heat", heat_of(1.0), probe=raiser(ReadError("odd"))))
    runner.collect()
    assert state_of(runner, "heat").errors["read_error"] == 1


def test_disabled_collectors_say_so_and_never_run() -> None:
    kind = collector_kind("heat", heat_of(1.0))
    runner = runner_of(kind, disabled="heat")
    assert runner.collect() == {}
    assert state_of(runner, "heat").reason == "disabled"
    assert kind.calls == []


def test_background_values_carry_their_time_and_go_stale() -> None:
    clock, failing = Clock(), []

    def collect() -> list[Sample]:
        if failing:
            raise ReadError("gone")
        return [Sample(HEAT, (), 5.0)]

    kind = collector_kind("slow", collect, period=10.0)
    runner = runner_of(kind, clocks=Clocks(clock, lambda: clock.now + 1e9))
    runner.start()
    runner.settle(5.0)
    assert values(runner.collect()) == {"slow": (5.0,)}
    assert state_of(runner, "slow").last_success == clock.now + 1e9
    failing.append(1)
    clock.now += 29
    assert values(runner.collect()) == {"slow": (5.0,)}
    clock.now += 2
    assert runner.collect() == {}
    runner.stop()


def test_a_background_collector_runs_at_its_period_and_not_at_scrapes() -> None:
    kind = collector_kind("slow", heat_of(5.0), period=0.1)
    runner = runner_of(kind)
    runner.start()
    assert eventually(lambda: len(kind.calls) >= 3)
    gaps = [after - before for before, after in zip(kind.calls, kind.calls[1:], strict=False)]
    assert min(gaps) > 0.03
    runner.stop()
    assert eventually(lambda: not any(thread.name == "collector-slow" for thread in threading.enumerate()))


def test_a_background_collector_that_hangs_is_marked_once_and_no_scrape_waits() -> None:
    clock, gate = Clock(), Gate([Sample(HEAT, (), 1.0)])
    runner = runner_of(collector_kind("slow", gate, period=5.0), clocks=Clocks(clock, clock))
    runner.start()
    clock.now += 16
    began = time.monotonic()
    for _ in range(3):
        assert runner.collect() == {}
    assert time.monotonic() - began < 0.4
    state = state_of(runner, "slow")
    assert (state.success, state.errors["timeout"], state.hanging) == (False, 1, 16)
    gate.event.set()
    assert eventually(lambda: state_of(runner, "slow").success is True)
    assert values(runner.collect()) == {"slow": (1.0,)}
    runner.stop()


def test_one_line_is_logged_for_a_change_and_none_for_a_repetition(caplog: pytest.LogCaptureFixture) -> None:
    clock, failing = Clock(), [True]

    def collect() -> list[Sample]:
        if failing:
            raise ReadError(f"gone at {clock.now}")
        return [Sample(HEAT, (), 5.0)]

    caplog.set_level(logging.INFO)
    runner = runner_of(collector_kind("heat", collect), clocks=Clocks(clock, clock))
    for _ in range(4):
        clock.now += 1
        runner.collect()
    failing.clear()
    for _ in range(4):
        clock.now += 1
        runner.collect()
    assert [record.getMessage() for record in caplog.records] == [
        "collector heat: failing (read_error): gone at 1001.0",
        "collector heat: ok",
    ]


def test_new_settings_keep_what_is_known(caplog: pytest.LogCaptureFixture) -> None:
    heat, other = (
        collector_kind("heat", raiser(ReadError("gone"))),
        metric_kind("other", lambda: [Sample(gauge("other"), (), 1)]),
    )
    runner = runner_of(heat, other, disabled="other")
    runner.start()
    runner.configure(RunnerSettings(frozenset({"heat", "other"}), 0.5, 100))
    assert state_of(runner, "heat").errors["read_error"] == 1
    assert values(runner.collect()) == {"other": (1,)}
    runner.configure(RunnerSettings(frozenset({"other"}), 0.5, 100))
    assert state_of(runner, "heat").reason == "disabled"


def test_background_collectors_follow_new_settings() -> None:
    slow = collector_kind("slow", heat_of(5.0), period=0.05)
    runner = runner_of(slow, disabled="slow")
    runner.start()
    runner.configure(RunnerSettings(frozenset({"slow"})))
    assert eventually(lambda: values(runner.collect()) == {"slow": (5.0,)})
    runner.configure(RunnerSettings(frozenset()))
    assert runner.collect() == {}
    assert eventually(lambda: not any(thread.name == "collector-slow" for thread in threading.enumerate()))


def test_each_collector_has_a_host_of_its_own() -> None:
    """A reader that hangs in one file holds its lock, so no two collectors may share one."""
    hosts: list[Host] = []

    def make_host() -> Host:
        hosts.append(Host())
        return hosts[-1]

    kinds = {name: metric_kind(name, list) for name in ("a", "b")}
    Runner(kinds, make_host, RunnerSettings(frozenset(kinds)), REAL_CLOCKS).collect()
    assert len({id(host.files) for host in hosts}) == 2


def test_what_is_dropped_is_counted() -> None:
    runner = runner_of(
        collector_kind("heat", lambda: [Sample(HEAT, (), 1), Sample(HEAT, (), 2), Sample(gauge("x"), (), 1)])
    )
    assert values(runner.collect())["heat"][:1] == (1,)
    assert state_of(runner, "heat").dropped == {"duplicate": 1, "undeclared": 1}


def test_readings_that_a_collector_does_not_believe_are_counted() -> None:
    class Doubting(metric_kind("doubt", list)):  # type: ignore[misc]
        def collect(self) -> list[Sample]:
            self.host.rejections.add()
            self.host.rejections.add(2)
            return []

    runner = runner_of(Doubting, collector_kind("heat", list))
    assert [state.rejected for state in runner.states()] == [0, 0]
    runner.collect()
    assert (state_of(runner, "doubt").rejected, state_of(runner, "heat").rejected) == (3, 0)

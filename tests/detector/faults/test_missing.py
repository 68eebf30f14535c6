"""Parts, collectors, metrics and targets that vanish, and those that only seem to."""

from __future__ import annotations

import copy
import json

import pytest

from hwsonde_detector.plan import Plan
from hwsonde_detector.types import Device, FaultKind, Phase, SampleBatch
from hwsonde_detector.worker import WorkerState, restore, snapshot, step
from tests.detector.faults.machine import (
    BARE,
    ENTITY,
    GPUS,
    OTHER,
    PLAN,
    PROFILE,
    SETTINGS,
    START_MS,
    TARGET,
    Fault,
    Values,
    batch_of,
    fault_of,
    gpu,
    healthy,
    of,
    peak,
    peaks,
    play,
    qualities,
    scrape,
    second_of,
    series,
    ticks,
    told,
    without,
)

LEARNED = 200


@pytest.fixture(scope="module")
def learned() -> WorkerState:
    return play(ticks(range(LEARNED)))[0]


@pytest.fixture
def state(learned: WorkerState) -> WorkerState:
    return copy.deepcopy(learned)


def between(begin: int, end: int, fault: Fault) -> Fault:
    return lambda second, values: fault(second, values) if begin <= second < end else values


def losing(*names: str, **labels: str) -> Fault:
    return lambda second, values: without(values, of(values, *names, **labels))


def test_a_healthy_machine_has_no_fault_and_nothing_is_missed(state: WorkerState) -> None:
    _, outputs = play(ticks(range(LEARNED, LEARNED + 400)), state)
    assert not told(outputs)
    assert peaks(outputs) == {}
    assert {one.coverage for one in qualities(outputs)} == {1.0}


def test_a_gpu_that_sends_nothing_is_named_and_comes_back(state: WorkerState) -> None:
    fault = between(210, 260, losing(gpu="3"))
    _, outputs = play(ticks(range(LEARNED, 300), fault), state)
    opened, closed = told(outputs)
    assert (opened.phase, closed.phase) == (Phase.OPENED, Phase.CLOSED)
    # Ten seconds of absence count, the first of them is that of the scrape which lacks it.
    assert second_of(opened.at_ms) == 219
    assert opened.episode.title == "n17 gpu 3 (GPU-3) has sent nothing for 10 s; 7 of 8 GPUs still report"
    assert second_of(opened.episode.onset_ms) == 209
    assert opened.episode.kind is FaultKind.MISSING
    assert closed.episode.identity == opened.episode.identity == "data n17@2027-01-15T08:03:29Z"
    assert second_of(closed.at_ms) == 280
    assert closed.episode.peak == pytest.approx(5.0)
    states = {second_of(one.at_ms): one for one in qualities(outputs)}
    assert fault_of(states[259], FaultKind.MISSING).evidence[0].device == Device("gpu", "3 (GPU-3)")
    assert fault_of(states[260], FaultKind.MISSING).score == 0.0
    assert states[250].coverage < 1.0 == states[270].coverage
    assert states[250].episode is not None
    assert states[250].episode.title.startswith("n17 gpu 3 (GPU-3) has sent nothing for 41 s")


def test_a_gpu_that_only_says_that_it_does_not_answer_is_missing(state: WorkerState) -> None:
    def lost(second: int, values: Values) -> Values:
        up = of(values, "x_gpu_up", gpu="3")
        return without(values, set(of(values, gpu="3")) - set(up)) | dict.fromkeys(up, 0.0)

    _, outputs = play(ticks(range(LEARNED, 240), between(210, 999, lost)), state)
    assert "gpu 3 (GPU-3)" in told(outputs)[0].episode.title


def test_a_gpu_keeps_its_name_when_its_number_changes(state: WorkerState) -> None:
    def renumbered(second: int, values: Values) -> Values:
        moved = {}
        for one, value in values.items():
            labels = dict(one.labels)
            if labels.get("gpu") == "3":
                labels["gpu"] = "9"
            moved[series(one.name, {}, **labels)] = value
        return moved

    _, outputs = play(ticks(range(LEARNED, 240), between(210, 999, renumbered)), state)
    assert peak(outputs, FaultKind.MISSING) == 0.0


@pytest.mark.parametrize(
    ("labels", "part", "left"),
    [
        ({"device": "eth1"}, "nic eth1", "1 of 2 NICs"),
        ({"device": "nvme0n1"}, "disk nvme0n1", None),
        ({"numa_node": "1"}, "numa_node 1", "1 of 2 NUMA nodes"),
    ],
)
def test_any_physical_part_is_missed(state: WorkerState, labels: dict[str, str], part: str, left: str | None) -> None:
    _, outputs = play(ticks(range(LEARNED, 240), between(210, 999, losing(**labels))), state)
    (event,) = told(outputs)
    assert f"{part} has sent nothing for 10 s" in event.episode.title
    assert left is None or f"; {left} still report" in event.episode.title


def test_a_workload_that_ends_is_not_missed(state: WorkerState) -> None:
    _, outputs = play(ticks(range(LEARNED, 400), between(210, 999, losing("x_workload_seconds_total"))), state)
    assert peaks(outputs) == {}
    assert {one.coverage for one in qualities(outputs)} == {1.0}


@pytest.mark.parametrize("device", ["veth12ab", "docker0", "lo"])
def test_a_virtual_device_is_not_missed(device: str) -> None:
    def fault(second: int, values: Values) -> Values:
        known = {series("x_nic_bytes_total", device=device): second * 3.0} if second < 150 else {}
        return values | known

    _, outputs = play(ticks(range(220), fault))
    assert peaks(outputs) == {}


def test_what_was_seen_for_a_moment_only_is_not_missed(state: WorkerState) -> None:
    def fault(second: int, values: Values) -> Values:
        return values | ({series("x_disk_bytes_total", device="sdz"): second * 3.0} if 210 <= second < 250 else {})

    _, outputs = play(ticks(range(LEARNED, 330), fault), state)
    assert peaks(outputs) == {}


def unavailable(name: str, reason: str) -> Fault:
    def fault(second: int, values: Values) -> Values:
        own = {"gpu": [one for one in values if one.name.startswith("x_gpu")]}.get(name, [])
        gone = [*own, *of(values, collector=name)]
        return without(values, gone) | {series("x_collector_available", collector=name, reason=reason): 0.0}

    return fault


def test_a_collector_that_cannot_work_any_more_is_missed_with_its_reason(state: WorkerState) -> None:
    _, outputs = play(ticks(range(LEARNED, 240), between(210, 999, unavailable("nvme", "permission"))), state)
    (event,) = told(outputs)
    assert event.episode.title == (
        "n17 collector nvme has given nothing for 20 s (permission); 3 of 4 collectors still work"
    )


def test_a_collector_whose_runs_fail_is_missed(state: WorkerState) -> None:
    def failing(second: int, values: Values) -> Values:
        return values | {series("x_collector_success", collector="nvme"): 0.0}

    _, outputs = play(ticks(range(LEARNED, 240), between(210, 999, failing)), state)
    assert "collector nvme has given nothing for 20 s (its runs fail)" in told(outputs)[0].episode.title


def test_a_collector_that_never_worked_is_not_missed() -> None:
    def fault(second: int, values: Values) -> Values:
        return values | {series("x_collector_available", collector="ipmi", reason="no_device"): 0.0}

    _, outputs = play(ticks(range(300), fault))
    assert peaks(outputs) == {}


def test_a_collector_explains_everything_that_it_gave(state: WorkerState) -> None:
    _, outputs = play(ticks(range(LEARNED, 260), between(210, 999, unavailable("gpu", "driver"))), state)
    found = fault_of(qualities(outputs)[-1], FaultKind.MISSING)
    assert [one.device for one in found.evidence if one.score >= 1] == [Device("collector", "gpu")]


def test_all_gpus_are_missed_where_no_collector_says_why(state: WorkerState) -> None:
    def fault(second: int, values: Values) -> Values:
        return without(values, [one for one in values if one.name.startswith("x_gpu")])

    _, outputs = play(ticks(range(LEARNED, 260), between(210, 999, fault)), state)
    found = fault_of(qualities(outputs)[-1], FaultKind.MISSING)
    assert [one.device.kind for one in found.evidence if one.score >= 1] == ["gpu"] * 8
    assert told(outputs)[0].episode.title.endswith("; 0 of 8 GPUs still report; also 7 more")


def test_a_metric_alone_pages_only_where_no_collectors_tell(state: WorkerState) -> None:
    fault = between(210, 999, losing("x_pages_total"))
    _, outputs = play(ticks(range(LEARNED, 300), fault), state)
    assert peaks(outputs) == {"missing": 0.9}
    bare = Plan(SETTINGS, (BARE,))
    _, outputs = play(ticks(range(300), fault, told=False), plan=bare)
    (event,) = told(outputs)
    assert event.episode.title.startswith(
        "n17 metric x_pages_total was not sent for 40 s; 11 of 12 metrics still are sent"
    )


def test_a_start_of_the_exporter_gives_time(state: WorkerState) -> None:
    """The GPUs are read for the first time only 15 s after a start."""

    def restarted(second: int, values: Values) -> Values | None:
        if second < 214:
            return None
        values = values | {series("x_start_seconds"): START_MS / 1000 + 213}
        return (
            without(values, of(values, "x_gpu_celsius", "x_gpu_watts", "x_gpu_active_ratio"))
            if second < 229
            else values
        )

    _, outputs = play(ticks(range(LEARNED, 300), between(210, 999, restarted)), state)
    assert peaks(outputs).keys() <= {"gap"}
    assert not told(outputs)


def test_a_gpu_that_is_lost_in_a_reboot_is_missed_once_the_time_is_over(state: WorkerState) -> None:
    def rebooted(second: int, values: Values) -> Values | None:
        if second < 270:
            return None
        return without(values, of(values, gpu="3")) | {series("x_start_seconds"): START_MS / 1000 + 269}

    _, outputs = play(ticks(range(LEARNED, 330), between(210, 999, rebooted)), state)
    (event,) = told(outputs)
    assert "gpu 3 (GPU-3)" in event.episode.title
    assert second_of(event.at_ms) == 299


def test_an_upgrade_that_renames_metrics_is_not_missed_but_lowers_the_coverage(state: WorkerState) -> None:
    def upgraded(second: int, values: Values) -> Values:
        gone = [*of(values, "x_build_info"), *(one for one in values if one.name.startswith("x_gpu"))]
        fresh = {series("x_build_info", version="2.0"): 1.0, series("x_start_seconds"): START_MS / 1000 + 209}
        return without(values, gone) | fresh

    _, outputs = play(ticks(range(LEARNED, 330), between(210, 999, upgraded)), state)
    assert peak(outputs, FaultKind.MISSING) < 1.0
    assert not told(outputs)
    assert qualities(outputs)[-1].coverage < 0.7


def test_without_a_version_a_class_that_is_gone_after_a_start_was_renamed_and_one_of_many_was_not() -> None:
    plan = Plan(SETTINGS, (BARE,))

    def restarted(names: dict[str, str]) -> Fault:
        def fault(second: int, values: Values) -> Values:
            gone = of(values, **names) if names else [one for one in values if one.name.startswith("x_gpu")]
            return without(values, gone) | {series("x_start_seconds"): START_MS / 1000 + 209}

        return between(210, 999, fault)

    _, all_gone = play(ticks(range(290), restarted({}), told=False), plan=plan)
    assert peak(all_gone, FaultKind.MISSING) == 0.0
    _, one_gone = play(ticks(range(290), restarted({"gpu": "3"}), told=False), plan=plan)
    assert "gpu 3 (GPU-3)" in told(one_gone)[0].episode.title


def test_what_stays_away_is_accepted_in_the_end(state: WorkerState) -> None:
    _, outputs = play(ticks(range(LEARNED, 680), between(210, 999, losing(gpu="3"))), state)
    assert [event.phase for event in told(outputs)] == [Phase.OPENED, Phase.CLOSED]
    assert second_of(told(outputs)[1].at_ms) == 629
    assert qualities(outputs)[-1].coverage == 1.0


def fans(second: int) -> Values:
    return {series("y_fan_rpm", OTHER, fan=name): 1000 + 9.0 * (second % 7) for name in ("a", "b")}


@pytest.mark.parametrize("asked", [True, False])
def test_a_target_is_missed_while_the_server_asks_for_it(asked: bool) -> None:
    def fault(second: int, values: Values) -> Values:
        if second < 150:
            return values | fans(second) | {series("up", OTHER): 1.0}
        return values | ({series("up", OTHER): 0.0} if asked else {})

    _, outputs = play(ticks(range(240), fault))
    if asked:
        (event,) = told(outputs)
        assert (
            event.episode.title == "n17 target other/n17:9400 cannot be scraped for 40 s, other targets of the host can"
        )
    else:
        assert peaks(outputs) == {}


def test_a_silent_host_misses_no_parts_and_its_episode_ends_with_it(state: WorkerState) -> None:
    state, outputs = play(ticks(range(LEARNED, 225), between(210, 999, losing(gpu="3"))), state)
    assert [event.phase for event in told(outputs)] == [Phase.OPENED]
    before = fault_of(qualities(outputs)[-1], FaultKind.MISSING).score
    state, outputs = play(ticks(range(225, 300), lambda second, values: None), state)
    assert {fault_of(one, FaultKind.MISSING).score for one in qualities(outputs)} == {before}
    state, output = step(state, SampleBatch.empty(), START_MS + 500_000, PLAN)
    assert output.gone == (ENTITY,)
    assert [event.phase for event in output.fault_events] == [Phase.CLOSED]


@pytest.mark.parametrize("cut", [205, 214, 219, 240, 262, 275])
def test_a_restart_of_the_detector_changes_nothing(learned: WorkerState, cut: int) -> None:
    fault = between(210, 260, losing(gpu="3"))
    whole = play(ticks(range(LEARNED, 300), fault), copy.deepcopy(learned))[1]
    state, first = play(ticks(range(LEARNED, cut), fault), copy.deepcopy(learned))
    document, arrays = snapshot(state)
    again = restore(json.loads(json.dumps(document)), arrays, PLAN)
    # The service reads some overlap again, at once.
    overlap = [batch_of(second, fault(second, scrape(second))) for second in range(cut - 4, cut)]
    state, _ = play([(batch, START_MS + 1000 * cut - 500) for batch in overlap], again)
    _, rest = play(ticks(range(cut, 300), fault), state)
    expected = {one.at_ms: one for one in qualities(whole)}
    for one in qualities(rest):
        assert one == expected[one.at_ms]
    assert [*told(first), *told(rest)] == told(whole)


def test_the_series_that_tell_make_no_rows_and_change_no_score() -> None:
    plan = Plan(SETTINGS, (PROFILE,))
    state, _ = play(ticks(range(60)), plan=plan)
    bare, _ = play(ticks(range(60), told=False), plan=Plan(SETTINGS, (BARE,)))
    (one,), (other,) = state.hosts.values(), bare.hosts.values()
    assert one.memory.channels == other.memory.channels
    assert one.memory.values.tobytes() == other.memory.values.tobytes()
    assert (one.last_row_ms, one.interval_ms) == (other.last_row_ms, other.interval_ms)


def test_nothing_but_vain_scrapes_makes_no_host() -> None:
    state, outputs = play(ticks(range(10), lambda second, values: None))
    assert not state.hosts
    assert not any(output.reports for output in outputs)


def test_the_ledger_forgets_targets_that_moved_away() -> None:
    """A new address every while: what is known of the old ones goes after the time in which parts are accepted."""
    state = WorkerState()
    for number in range(4):
        target = {**TARGET, "instance": f"n17:{number}"}
        begin = 1000 * number

        def moved(second: int, values: Values, target: dict[str, str] = target) -> Values:
            return {series(one.name, {}, **(dict(one.labels) | target)): value for one, value in values.items()}

        state, outputs = play(ticks(range(begin, begin + 100), moved), state)
        assert peak(outputs, FaultKind.MISSING) < 1.0
    (host,) = state.hosts.values()
    known = {key.target for key in host.quality.faults.parts.ledger.keys}
    assert known == {("hwsonde-exporter", "n17:2"), ("hwsonde-exporter", "n17:3")}
    assert known == host.quality.faults.targets.keys()


def test_gpus_are_told_by_uuid() -> None:
    state, _ = play(ticks(range(100), healthy))
    (host,) = state.hosts.values()
    names = {name for key, name in host.quality.faults.parts.names.items() if key.kind == "gpu"}
    assert names == {f"{number} ({gpu(number)['uuid']})" for number in GPUS}

"""The parts of it, each against a slow and obvious twin, and what must hold for any samples."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwsonde_detector.detectors.data_faults import FaultState
from hwsonde_detector.detectors.faults import gauges, parts
from hwsonde_detector.detectors.faults.columns import Now
from hwsonde_detector.detectors.faults.gauges import GaugePlaces, new_gauges
from hwsonde_detector.detectors.faults.ledger import Ledger
from hwsonde_detector.detectors.faults.parts import PartBook
from hwsonde_detector.detectors.faults.saved import restore_faults, snapshot_faults
from hwsonde_detector.detectors.faults.view import PartKey, view_of
from hwsonde_detector.plan import Plan, fingerprints
from hwsonde_detector.quality import restore_quality, snapshot_quality
from hwsonde_detector.signals.health import HealthKey, HealthState, speaks
from hwsonde_detector.signals.layout import RuleBook, build_layout
from hwsonde_detector.signals.profiles.rules import HealthRole
from hwsonde_detector.signals.targets import ingest, new_target
from hwsonde_detector.types import FaultKind, SampleBatch
from hwsonde_detector.worker import WorkerState, restore, snapshot
from tests.detector.faults.machine import (
    GPUS,
    PLAN,
    PROFILE,
    RULES,
    SETTINGS,
    START_MS,
    TARGET,
    batch_of,
    gpu,
    play,
    qualities,
    scrape,
    series,
    ticks,
)
from tests.detector.faults.naive import NaiveGauge, NaivePart

NAMES = (TARGET["job"], TARGET["instance"])


# --- the ledger


@given(
    st.lists(st.tuples(st.sampled_from(["add", "keep", "set"]), st.lists(st.integers(0, 9), max_size=6)), max_size=20)
)
@settings(deadline=None)
def test_a_ledger_is_a_table_of_dictionaries(steps: list[tuple[str, list[int]]]) -> None:
    ledger: Ledger[int] = Ledger({"a": 0.0, "b": math.nan})
    naive: dict[int, list[float]] = {}
    for number, (what, keys) in enumerate(steps):
        if what == "add":
            ledger.add(keys)
            for key in keys:
                naive.setdefault(key, [0.0, math.nan])
        elif what == "keep":
            kept = [place for place, key in enumerate(ledger.keys) if key in keys]
            ledger.keep(np.array(kept, np.int64))
            naive = {key: value for key, value in naive.items() if key in keys}
        else:
            places = ledger.numbers(keys)
            ledger["b"][places] = number
            for key in keys:
                naive.setdefault(key, [0.0, math.nan])[1] = number
    assert ledger.keys == tuple(naive)
    np.testing.assert_array_equal(ledger.values.T, np.array(list(naive.values())).reshape(-1, 2))
    assert [ledger.places[key] for key in naive] == list(range(len(naive)))


def test_a_ledger_refuses_what_does_not_fit() -> None:
    ledger: Ledger[str] = Ledger({"a": 0.0})
    for keys, values in ((["x", "x"], np.zeros((1, 2))), (["x"], np.zeros((2, 1))), (["x"], np.zeros(1))):
        with pytest.raises(ValueError, match="do not fit"):
            ledger.load(keys, values)


# --- parts


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from([1.0, 0.0, -1.0]), min_size=3, max_size=3), st.sampled_from([0.0, 1000.0, 5000.0])
        ),
        max_size=60,
    )
)
@settings(deadline=None)
def test_accounts_of_parts_equal_their_naive_twin(steps: list[tuple[list[float], float]]) -> None:
    book, naive = PartBook(), [NaivePart() for _ in range(3)]
    keys = [PartKey(*NAMES, "gpu", str(number)) for number in range(3)]
    rules = type(RULES)(usual_ms=20_000, missing_ms=10_000, accept_ms=60_000)
    book.ledger.add(keys)
    at = START_MS
    for states, elapsed in steps:
        at += 1000
        parts.account(book, NAMES, np.array(states), Now(at, 1000, elapsed), rules, grace=False)
        for one, state in zip(naive, states, strict=True):
            one.take({1.0: True, 0.0: False}.get(state), elapsed, rules.accept_ms)
        found = {one.device.name: one.score for one in parts.missing(book, [NAMES], rules)}
        for number, one in enumerate(naive):
            assert found.get(str(number), 0.0) == pytest.approx(one.score(rules.usual_ms, 10_000))


# --- gauges


@given(st.lists(st.sampled_from([60.0, 61.5, 61.5, 61.5, 62.0]), min_size=1, max_size=60))
@settings(deadline=None)
def test_rests_of_a_gauge_equal_their_naive_twin(values: list[float]) -> None:
    one = series("x_gpu_celsius", sensor="gpu", **gpu("3"))
    layout = build_layout([one], RuleBook.of([PROFILE]))
    view, state, ledger = view_of(layout, NAMES), new_target(layout), new_gauges()
    places = GaugePlaces(ledger, view, NAMES)
    for second, value in enumerate(values):
        state, _ = ingest(state, np.array([0]), np.array([START_MS + 1000 * second]), np.array([value]))
        gauges.watch_gauges(ledger, places, view, state)
    naive = NaiveGauge([(START_MS + 1000.0 * second, value) for second, value in enumerate(values)])
    place = int(places.at[0])
    assert ledger["read_ms"][place] - ledger["since_ms"][place] == naive.rest()
    assert ledger["moves"][place] == naive.moves()
    assert ledger["longest_ms"][place] == naive.longest()


# --- what scrapes and collectors tell


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 1), st.integers(0, 30)), max_size=6), max_size=12
    )
)
@settings(deadline=None)
def test_the_newest_sample_of_each_key_is_kept(batches: list[list[tuple[str, int, int]]]) -> None:
    """Collectors a, b and c, of two series each that differ in their reason."""
    state = HealthState()
    newest: dict[str, int] = {}
    for batch in batches:
        known: dict[tuple[str, int], set[int]] = {}
        for name, reason, second in batch:
            known.setdefault((name, reason), set()).add(second)
        pairs = {
            series("x_collector_available", collector=name, reason=str(reason)): sorted(seconds)
            for (name, reason), seconds in known.items()
        }
        order = sorted(pairs)
        offsets = np.cumsum([0, *(len(pairs[one]) for one in order)]).astype(np.int64)
        times = np.array([second for one in order for second in pairs[one]], np.int64)
        state.follow(SampleBatch(tuple(order), offsets, times, times.astype(np.float64)), (PROFILE,))
        for (name, _), seconds in known.items():
            newest[name] = max(newest.get(name, -1), *seconds)
    found = {key.name: int(time) for key, time in zip(state.keys, state.times.tolist(), strict=True)}
    assert found == newest
    assert state.values.tolist() == [float(time) for time in state.times.tolist()]


def test_the_newest_reason_is_told() -> None:
    state = HealthState()
    for second, reason in enumerate(("", "no_device", "permission")):
        values = {series("x_collector_available", collector="nvme", reason=reason): float(reason == "")}
        state.follow(batch_of(second, values), (PROFILE,))
    slot = state.keys.index(HealthKey(*NAMES, HealthRole.AVAILABLE, "nvme"))
    assert (state.values[slot], state.label(slot, "reason")) == (0.0, "permission")


def test_keys_that_are_silent_for_long_are_dropped() -> None:
    state = HealthState()
    state.follow(batch_of(0, {series("x_collector_success", collector="old"): 1.0}), (PROFILE,))
    state.follow(batch_of(900, {series("x_collector_success", collector="new"): 1.0}), (PROFILE,))
    state.follow(batch_of(901, {series("x_collector_success", collector="newer"): 1.0}), (PROFILE,))
    assert {key.name for key in state.keys if key.role is HealthRole.SUCCESS} == {"new", "newer"}
    assert state.label(state.keys.index(HealthKey(*NAMES, HealthRole.SUCCESS, "new")), "collector") == "new"


def test_another_profile_is_followed_at_once() -> None:
    state = HealthState()
    batch = batch_of(0, {series("x_collector_success", collector="a"): 1.0})
    assert [heard.values.tolist() for heard in state.follow(batch, (PROFILE,))] == [[1.0]]
    assert state.follow(SampleBatch.empty(), ()) == ()
    assert state.follow(batch, ()) == ()


def test_a_host_is_heard_by_its_own_series_only() -> None:
    assert speaks(batch_of(0, scrape(0)).series)
    assert not speaks(batch_of(0, None).series)
    assert not speaks(())


# --- any samples at all


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_any_samples_give_scores_that_are_numbers(data: st.DataObject) -> None:
    pool = sorted(scrape(0))
    value = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([0.0, 1.0, 1e18, -1.0])
    state, second = WorkerState(), 0
    plan = Plan(SETTINGS, (PROFILE,))
    for _ in range(data.draw(st.integers(1, 25))):
        second += data.draw(st.sampled_from([1, 1, 1, 2, 30, 700]))
        chosen = data.draw(st.lists(st.sampled_from(pool), max_size=20, unique=True))
        values = {one: data.draw(value) for one in chosen}
        batch = batch_of(second, values or None, told=data.draw(st.booleans()))
        state, outputs = play([(batch, START_MS + 1000 * second + 150)], state, plan)
        for quality in qualities(outputs):
            assert [fault.kind for fault in quality.faults] == [
                kind for kind in FaultKind if kind is not FaultKind.PARTIAL
            ]
            assert all(0.0 <= fault.score <= 10.0 for fault in quality.faults)
            assert 0.0 <= quality.coverage <= 1.0
    document, arrays = snapshot(state)
    restore(json.loads(json.dumps(document)), arrays, plan)


# --- state


def test_a_state_comes_back_as_it_was() -> None:
    state, _ = play(ticks(range(150)))
    (host,) = state.hosts.values()
    first = snapshot_quality(host.quality)
    again = snapshot_quality(restore_quality(json.loads(json.dumps(first[0])), first[1]))
    assert again[0] == first[0]
    assert again[1].keys() == first[1].keys()
    assert all(np.array_equal(again[1][name], first[1][name], equal_nan=True) for name in first[1])


def test_an_empty_state_comes_back_too() -> None:
    document, arrays = snapshot_faults(FaultState())
    assert snapshot_faults(restore_faults(document, arrays))[0] == document


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("parts", lambda keys: keys[:-1]),
        ("parts", lambda keys: [keys[0], *keys[:-1]]),
        ("gauges", lambda keys: [key[:3] for key in keys]),
        ("usual", lambda keys: [[*key[:2], "unheard of", *key[3:]] for key in keys]),
        ("resets", lambda keys: [["a"]]),
    ],
)
def test_a_damaged_state_is_refused(name: str, change) -> None:
    state, _ = play(ticks(range(100)))
    (host,) = state.hosts.values()
    document, arrays = snapshot_faults(host.quality.faults)
    document[name] = change(document[name])
    with pytest.raises((KeyError, ValueError, TypeError)):
        restore_faults(document, arrays)


def test_a_state_without_it_is_refused() -> None:
    state, _ = play(ticks(range(30)))
    document, arrays = snapshot(state)
    del document["hosts"][0]["quality"]
    with pytest.raises(KeyError):
        restore(document, arrays, PLAN)


def test_rules_of_data_faults_shape_no_model() -> None:
    from dataclasses import replace

    other = Plan(replace(SETTINGS, data_faults=replace(RULES, missing_ms=99_000)), (PROFILE,))
    assert fingerprints(other) == fingerprints(PLAN)


def test_only_what_the_next_scrapes_do_not_bring_back_is_kept() -> None:
    state, _ = play(ticks(range(100)))
    (host,) = state.hosts.values()
    document, _ = snapshot_faults(host.quality.faults)
    names = {key[2] for key in document["gauges"]}
    assert document["columns"] == []
    assert names == {
        "x_gpu_up",
        "x_gpu_celsius",
        "x_gpu_watts",
        "x_gpu_active_ratio",
        "x_disk_celsius",
        "x_free_bytes",
    }
    assert len(document["parts"]) == len(GPUS) + 2 + 1 + 2 + 4 + 12
    assert document["resets"] == []

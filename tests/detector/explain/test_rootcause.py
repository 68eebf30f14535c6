"""Planted faults come first: their channel, device, subsystem, and the host that began."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.explain.findings import Role
from hwsonde_detector.explain.rootcause import SPREAD_MS, Onset, maybe_first, root_causes, together
from hwsonde_detector.types import Device, Direction, Subsystem
from tests.detector.explain.planted import SECOND, T0, channel, fault, host, score

DISK, OTHER_DISK = Device("disk", "nvme1n1"), Device("disk", "nvme0n1")
IO_TIME = channel("storage_io_time{device=nvme1n1}", Subsystem.STORAGE, DISK)
QUEUE = channel("storage_queue{device=nvme1n1}", Subsystem.STORAGE, DISK)
OTHER = channel("storage_io_time{device=nvme0n1}", Subsystem.STORAGE, OTHER_DISK)
IO_PRESSURE = channel("pressure{resource=io}", Subsystem.STORAGE)
SWITCHES = channel("context_switches", Subsystem.CPU, weight=0.3)
CPU_PRESSURE = channel("pressure{resource=cpu}", Subsystem.CPU)
PSI = channel("pressure{resource=memory}", Subsystem.MEMORY)
RETRANSMITS = channel("tcp_retransmitted", Subsystem.NETWORK)
N1, N2, N3 = host("n1"), host("n2"), host("n3")


def of(*planted):
    """Episodes and scores of several planted faults."""
    scores: dict = {}
    for episode, own in planted:
        scores.setdefault(episode.entity, []).extend(own)
    return [episode for episode, _ in planted], {
        entity: sorted(own, key=lambda one: one.end_ms) for entity, own in scores.items()
    }


def test_a_planted_channel_device_and_subsystem_come_first():
    planted = fault(N1, T0, 60, {IO_TIME: 0.5, IO_PRESSURE: 0.25, CPU_PRESSURE: 0.1, OTHER: 0.05, SWITCHES: 0.1})
    (cause,) = root_causes(*of(planted), {N1: SECOND})
    assert (cause.subsystem, cause.device) == (Subsystem.STORAGE, DISK)
    assert cause.findings[0].channel == IO_TIME
    assert cause.findings[0].direction is Direction.HIGH
    assert cause.devices[0][0] == DISK
    assert cause.share == pytest.approx(0.8)
    assert sum(finding.share for finding in cause.findings) == pytest.approx(1.0)
    assert (cause.start_ms, cause.uncertainty_ms) == (T0, SECOND)
    assert cause.ends_ms(0) == T0 + 59 * SECOND


def test_noise_beside_a_fault_is_left_out():
    planted = fault(N1, T0, 20, {IO_TIME: 0.97, PSI: 0.02, SWITCHES: 0.01})
    (cause,) = root_causes(*of(planted), {N1: SECOND})
    assert [finding.channel for finding in cause.findings] == [IO_TIME, PSI]


def test_symptoms_are_told_from_causes_and_never_come_first():
    symptom = channel("storage_written", Subsystem.STORAGE, weight=0.3)
    planted = fault(N1, T0, 20, {symptom: 0.5, IO_TIME: 0.3, CPU_PRESSURE: 0.2})
    (cause,) = root_causes(*of(planted), {N1: SECOND})
    assert [(finding.channel, finding.role) for finding in cause.findings] == [
        (IO_TIME, Role.CAUSE),
        (symptom, Role.SYMPTOM),
        (CPU_PRESSURE, Role.ELSEWHERE),
    ]


def test_a_subsystem_of_symptoms_only_is_no_cause():
    planted = fault(N1, T0, 20, {SWITCHES: 0.6, PSI: 0.4}, subsystem=Subsystem.CPU)
    causes = root_causes(*of(planted), {N1: SECOND})
    assert [cause.subsystem for cause in causes] == [Subsystem.MEMORY]
    assert causes[0].paged == (Subsystem.CPU,)


def test_two_faults_at_once_on_one_host_are_two_causes():
    planted = fault(N1, T0, 60, {IO_TIME: 0.5, RETRANSMITS: 0.4, SWITCHES: 0.1})
    first, second = root_causes(*of(planted), {N1: SECOND})
    assert (first.subsystem, second.subsystem) == (Subsystem.STORAGE, Subsystem.NETWORK)
    assert [finding.channel for finding in second.findings] == [RETRANSMITS]
    # What goes with the first is told once.
    assert {finding.channel for finding in first.findings} == {IO_TIME, SWITCHES}
    assert first.share + second.share == pytest.approx(0.9)


def test_two_faults_at_once_on_two_hosts_are_two_causes():
    planted = [fault(N1, T0, 60, {IO_TIME: 0.9}), fault(N2, T0, 60, {PSI: 0.9}, fused=2.0)]
    first, second = root_causes(*of(*planted), {N1: SECOND, N2: SECOND})
    assert (first.subsystem, first.onsets[0].entity) == (Subsystem.STORAGE, N1)
    assert (second.subsystem, second.onsets[0].entity) == (Subsystem.MEMORY, N2)


def test_what_is_added_by_others_does_not_move_a_share_between_channels():
    loud = {IO_TIME: 0.6, IO_PRESSURE: 0.3}
    (alone,) = root_causes(*of(fault(N1, T0, 60, loud)), {N1: SECOND})
    beside = fault(N2, T0 + 10_000_000, 60, {PSI: 0.9})
    found = root_causes(*of(fault(N1, T0, 60, loud), beside), {N1: SECOND, N2: SECOND})
    mine = next(cause for cause in found if cause.subsystem is Subsystem.STORAGE)
    assert mine.findings == alone.findings
    assert mine.evidence == alone.evidence


def test_a_fault_that_spreads_names_its_first_host():
    planted = [
        fault(N2, T0 + 40 * SECOND, 60, {RETRANSMITS: 0.9}, fused=8.0),
        fault(N1, T0, 90, {RETRANSMITS: 0.9}),
        fault(N3, T0 + 41 * SECOND, 60, {RETRANSMITS: 0.9}),
    ]
    (cause,) = root_causes(*of(*planted), dict.fromkeys((N1, N2, N3), SECOND))
    assert [onset.entity for onset in cause.onsets] == [N1, N2, N3]
    assert cause.first == (N1,)
    assert cause.findings[0].entity == N1


@pytest.mark.parametrize(
    ("apart_s", "interval_s", "known"), [(0, 1, False), (1, 1, False), (2, 1, True), (15, 15, False), (16, 15, True)]
)
def test_the_first_host_is_named_only_beyond_one_interval(apart_s, interval_s, known):
    step = interval_s * SECOND
    planted = [
        fault(N1, T0, 30, {RETRANSMITS: 0.9}, step_ms=step),
        fault(N2, T0 + apart_s * SECOND, 30, {RETRANSMITS: 0.9}, step_ms=step),
    ]
    (cause,) = root_causes(*of(*planted), {N1: step, N2: step})
    assert cause.first == ((N1,) if known else (N1, N2))


def test_the_longer_interval_of_two_hosts_decides():
    onsets = [Onset(N1, T0, SECOND, None, 2.0, ()), Onset(N2, T0 + 10 * SECOND, 15 * SECOND, None, 2.0, ())]
    assert maybe_first(onsets) == (N1, N2)
    assert maybe_first([]) == ()


def test_the_same_on_another_host_much_later_is_another_cause():
    planted = [
        fault(N1, T0, 30, {RETRANSMITS: 0.9}),
        fault(N2, T0 + SPREAD_MS + SECOND, 30, {RETRANSMITS: 0.9}),
    ]
    assert len(root_causes(*of(*planted), {N1: SECOND, N2: SECOND})) == 2


def test_flapping_on_one_host_is_one_cause_with_its_episodes():
    planted = [fault(N1, T0 + hour * 3_600_000, 30, {IO_TIME: 0.9}) for hour in range(3)]
    (cause,) = root_causes(*of(*planted), {N1: SECOND})
    assert len(cause.onsets[0].episodes) == 3
    assert cause.start_ms == T0
    assert len(cause.findings) == 1


def test_two_disks_one_after_the_other_are_two_causes():
    planted = [fault(N1, T0, 30, {IO_TIME: 0.9}), fault(N1, T0 + 3_600_000, 30, {OTHER: 0.9})]
    assert [cause.device for cause in root_causes(*of(*planted), {N1: SECOND})] == [DISK, OTHER_DISK]


def test_no_device_is_named_where_none_stands_out():
    (cause,) = root_causes(*of(fault(N1, T0, 30, {IO_TIME: 0.4, OTHER: 0.4})), {N1: SECOND})
    assert cause.device is None
    assert [device for device, _ in cause.devices] == [OTHER_DISK, DISK]
    (whole,) = root_causes(*of(fault(N1, T0, 30, {IO_PRESSURE: 0.8, IO_TIME: 0.1})), {N1: SECOND})
    assert whole.device is None


def test_several_channels_of_one_device_outvote_one_of_another():
    (cause,) = root_causes(*of(fault(N1, T0, 30, {OTHER: 0.34, IO_TIME: 0.33, QUEUE: 0.33})), {N1: SECOND})
    assert cause.device == DISK


def test_what_it_began_with_weighs_more_than_what_came_of_it():
    episode, early = fault(N1, T0, 30, {PSI: 0.9}, subsystem=Subsystem.MEMORY)
    _, late = fault(N1, T0 + 30 * SECOND, 60, {CPU_PRESSURE: 0.9})
    longer = type(episode)(
        episode.identity,
        N1,
        episode.start_ms,
        T0,
        T0 + 89 * SECOND,
        Subsystem.MEMORY,
        3.0,
        "",
        episode.top,
        episode.first_channels,
    )
    causes = root_causes([longer], {N1: early + late}, {N1: SECOND})
    assert causes[0].subsystem is Subsystem.MEMORY
    assert causes[0].start_ms == T0
    assert [cause.subsystem for cause in causes[1:]] in ([], [Subsystem.CPU])
    for cause in causes[1:]:
        assert cause.start_ms == T0 + 30 * SECOND


def test_one_wild_window_does_not_outvote_the_others():
    episode, scores = fault(N1, T0, 20, {PSI: 0.9}, subsystem=Subsystem.MEMORY)
    wild = score(N1, T0 + 20 * SECOND, 1e9, [*fault(N1, T0, 1, {RETRANSMITS: 1.0})[0].top])
    longer = type(episode)(
        episode.identity,
        N1,
        episode.start_ms,
        T0,
        T0 + 20 * SECOND,
        Subsystem.MEMORY,
        1e9,
        "",
        episode.top,
        episode.first_channels,
    )
    causes = root_causes([longer], {N1: [*scores, wild]}, {N1: SECOND})
    assert [cause.subsystem for cause in causes] == [Subsystem.MEMORY]


def test_an_episode_without_its_windows_speaks_for_itself():
    episode, _ = fault(N1, T0, 30, {IO_TIME: 0.7, SWITCHES: 0.3}, open_end=True)
    (cause,) = root_causes([episode], {}, {})
    assert (cause.subsystem, cause.device, cause.uncertainty_ms) == (Subsystem.STORAGE, DISK, 0)
    assert cause.onsets[0].end_ms is None
    assert cause.ends_ms(T0 + 99) == T0 + 99


def test_an_episode_without_anything_keeps_its_subsystem():
    episode, _ = fault(N1, T0, 30, {IO_TIME: 0.7})
    bare = type(episode)(episode.identity, N1, T0, T0, None, Subsystem.POWER, 2.0, "")
    (cause,) = root_causes([bare], {}, {})
    assert (cause.subsystem, cause.findings, cause.share) == (Subsystem.POWER, (), 0.0)
    assert root_causes([], {}, {}) == ()


def test_channels_within_one_interval_moved_together():
    moved = together([("b", T0 + 1000), ("a", T0), ("c", T0 + 1001), ("d", T0 + 5000)], 1000)
    assert [(one.at_ms - T0, one.channels) for one in moved] == [(0, ("a", "b")), (1001, ("c",)), (5000, ("d",))]


PLACES = (IO_TIME, OTHER, IO_PRESSURE, SWITCHES, CPU_PRESSURE, PSI, RETRANSMITS)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.integers(0, 600),
            st.integers(1, 40),
            st.dictionaries(st.integers(0, len(PLACES) - 1), st.floats(0.01, 1), min_size=1),
        ),
        max_size=6,
    ),
    st.randoms(use_true_random=False),
)
def test_any_faults_make_causes_that_add_up_and_do_not_depend_on_the_order(found, order: random.Random):
    planted = []
    for node, begin, windows, shares in found:
        whole = sum(shares.values())
        loud = {PLACES[place]: share / whole for place, share in shares.items()}
        planted.append(fault(host(f"n{node}"), T0 + begin * SECOND, windows, loud))
    episodes, scores = of(*planted)
    intervals = dict.fromkeys(scores, SECOND)
    causes = root_causes(episodes, scores, intervals)
    again = list(episodes)
    order.shuffle(again)
    by_identity = {episode.identity: episode for episode in episodes}
    if len(by_identity) == len(episodes):
        assert root_causes(again, scores, intervals) == causes
    assert sum(cause.share for cause in causes) <= 1 + 1e-9
    assert {name for cause in causes for onset in cause.onsets for name in onset.episodes} == set(by_identity)
    for cause in causes:
        assert [onset.at_ms for onset in cause.onsets] == sorted(onset.at_ms for onset in cause.onsets)
        assert cause.first[0] == cause.onsets[0].entity
        own = [finding for finding in cause.findings if finding.entity == cause.first[0]]
        assert all(
            finding.channel.subsystem is cause.subsystem for finding in own if finding.role is not Role.ELSEWHERE
        )
    for before, after in itertools.pairwise(causes):
        assert before.evidence >= after.evidence

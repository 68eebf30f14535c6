from __future__ import annotations

import errno
import gc
import os
import resource
import struct
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors._perf_event import (
    ATTRIBUTES,
    HARDWARE,
    SOFTWARE,
    SYSTEM,
    Event,
    Group,
    Outcome,
    Reading,
    attributes,
    grown,
    open_groups,
    outcome_of,
    parse_group,
    permission_advice,
)
from tests.exporter.collectors.fakes import memory_host
from tests.exporter.collectors.perf_asked import refusal
from tests.exporter.collectors.perf_kernel import SECOND, FakeKernel

A, B, C, D = (Event(name, HARDWARE, number) for number, name in enumerate("abcd"))
counts = st.integers(0, (1 << 64) - 1)


def test_attributes_are_those_of_the_kernel() -> None:
    """Offsets of struct perf_event_attr in include/uapi/linux/perf_event.h; its version 1 has 72 bytes."""
    data = attributes(Event("x", 0x51, 0x1122334455667788, 0xAA, 0xBB))
    assert ATTRIBUTES.size == len(data) == 72
    assert struct.unpack_from("=II", data) == (0x51, 72)
    assert struct.unpack_from("=Q", data, 8) == (0x1122334455667788,)
    assert struct.unpack_from("=Q", data, 32) == (0b1011,)  # time enabled, time running, group
    assert struct.unpack_from("=Q", data, 40) == (0,)  # not disabled, nothing left out
    assert struct.unpack_from("=QQ", data, 56) == (0xAA, 0xBB)


def test_a_group_is_parsed() -> None:
    data = struct.pack("=5Q", 2, 1000, 400, 7, 9)
    assert parse_group(data, 2) == Reading(1000, 400, (7, 9))


@given(st.binary(max_size=80), st.integers(1, 4))
def test_anything_else_is_no_group(data: bytes, size: int) -> None:
    reading = parse_group(data, size)
    assert reading is None or (len(reading.counts) == size and reading.running <= reading.enabled)


@pytest.mark.parametrize("data", [b"", struct.pack("=4Q", 1, 10, 10, 5), struct.pack("=5Q", 2, 10, 11, 5, 5)])
def test_a_group_that_fell_apart_is_none(data: bytes) -> None:
    assert parse_group(data, 2) is None


def test_counts_stand_for_the_whole_time() -> None:
    assert grown(Reading(100, 100, (50,)), Reading(500, 200, (150,))) == (400, 100, (400,))


@given(
    counts, counts, st.integers(0, 1 << 62), st.integers(0, 1 << 62), st.integers(0, 1 << 62), st.integers(0, 1 << 62)
)
def test_growth_is_never_negative(old: int, new: int, e1: int, r1: int, e2: int, r2: int) -> None:
    growth = grown(Reading(e1, min(e1, r1), (old,)), Reading(max(e1, e2), min(e2, r2), (new,)))
    assert growth is None or growth.counts[0] >= 0


def test_a_group_that_never_ran_gives_nothing_and_is_not_lost() -> None:
    kernel = FakeKernel()
    (group,), _ = open_groups(kernel, [[A]], 0)
    for _ in range(3):
        kernel.run({"a": 1000}, share=0.0)
        assert group.advance() is None
        assert group.share() == 0.0
    assert not group.lost
    kernel.run({"a": 800}, share=0.25)
    growth = group.advance()
    # The four seconds are counted for by the quarter of one in which it ran.
    assert growth is not None
    assert growth.counts == (200 * 16,)
    assert group.share() == 0.25


def test_share_is_that_of_the_time_since_it_was_asked() -> None:
    kernel = FakeKernel()
    (group,), _ = open_groups(kernel, [[A]], 0)
    kernel.run({}, share=1.0)
    group.advance()
    assert group.share() == 1.0
    assert group.share() is None
    kernel.run({}, share=0.5)
    group.advance()
    assert group.share() == 0.5


@pytest.mark.parametrize("size", [1, 2])
def test_an_event_whose_cpu_went_is_lost(size: int) -> None:
    kernel = FakeKernel()
    (group,), _ = open_groups(kernel, [[A, B][:size]], 0)
    kernel.run({"a": 5})
    assert group.advance() is not None
    kernel.unplug(0)
    kernel.run({"a": 5})
    assert group.advance() is None
    assert group.lost


def test_it_is_lost_too_if_it_stood_still_before_it_ran_again() -> None:
    kernel = FakeKernel()
    (group,), _ = open_groups(kernel, [[A]], 0)
    kernel.run({"a": 5})
    group.advance()
    kernel.run({"a": 5}, share=0.0)
    group.advance()
    kernel.unplug(0)
    assert group.advance() is None
    assert group.lost


def test_an_event_that_is_missing_leaves_its_group() -> None:
    kernel = FakeKernel({"a": errno.ENOENT, "c": errno.EOPNOTSUPP})
    groups, outcomes = open_groups(kernel, [[A, B, C, D]], 3)
    assert [group.events for group in groups] == [(B, D)]
    assert [outcomes[name] for name in "abcd"] == ["no_hardware", "counted", "no_hardware", "counted"]
    leader = min(kernel.opened)
    assert [opened.leader for opened in kernel.opened.values()] == [-1, leader]


def test_an_event_that_fits_no_group_counts_alone() -> None:
    kernel = FakeKernel(alone="c")
    groups, outcomes = open_groups(kernel, [[A, B, C, D]], 0)
    assert {group.events for group in groups} == {(A, B, D), (C,)}
    assert set(outcomes.values()) == {Outcome.COUNTED}


def test_what_is_invalid_alone_too_is_not_there() -> None:
    assert open_groups(FakeKernel({"b": errno.EINVAL}), [[A, B]], 0)[1]["b"] is Outcome.NO_HARDWARE


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (errno.EACCES, "no_permission"), (errno.EPERM, "no_permission"), (errno.ENOENT, "no_hardware"), (errno.ENOSYS, "no_kernel_support"),
        (errno.EMFILE, "no_descriptors"), (errno.ENFILE, "no_descriptors"), (errno.EBUSY, "busy"), (errno.ENOMEM, "failed"),
    ],
)  # fmt: skip
def test_causes_are_told_apart(code: int, outcome: str) -> None:
    assert outcome_of(OSError(code, os.strerror(code))) == outcome
    assert open_groups(FakeKernel({"a": code}), [[A]], 0)[1] == {"a": outcome}


def test_descriptors_end_with_the_group() -> None:
    kernel = FakeKernel()
    groups, _ = open_groups(kernel, [[A, B], [C]], 0)
    assert len(kernel.opened) == 3
    groups[0].close()
    assert len(kernel.opened) == 1
    assert groups[0].advance() is None
    del groups
    gc.collect()
    assert not kernel.opened


def test_advice_names_the_setting() -> None:
    host, _ = memory_host({"/proc/sys/kernel/perf_event_paranoid": b"4\n"})
    advice = permission_advice(host)
    assert "perf_event_paranoid is 4" in advice
    assert "CAP_PERFMON" in advice
    assert "not readable" in permission_advice(memory_host({})[0])


# ---- the real kernel -----------------------------------------------------------------------------------------------


def real_groups(*events: Event) -> list[Group]:
    cpu = min(os.sched_getaffinity(0))
    if refused := refusal():
        # The kernel's own answer to a call that is not ours: without CAP_PERFMON, or in a container, it gives no event of a whole CPU.
        pytest.skip(f"the kernel refuses events of whole CPUs: {os.strerror(refused)}")
    groups, outcomes = open_groups(SYSTEM, [events], cpu)
    assert set(outcomes.values()) == {Outcome.COUNTED}
    return groups


def test_the_kernel_counts_context_switches() -> None:
    """As many as we made on our CPU, and each more that others make."""
    (group,) = real_groups(Event("switches", SOFTWARE, 3), Event("clock", SOFTWARE, 0))
    mask = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(mask)})
    try:
        group.advance()
        began = time.monotonic_ns()
        for _ in range(100):
            time.sleep(0.0001)
        growth = group.advance()
        took = time.monotonic_ns() - began
    finally:
        os.sched_setaffinity(0, mask)
    assert growth is not None
    assert growth.counts[0] >= 100
    assert growth.running == growth.enabled
    assert abs(growth.enabled - took) < SECOND // 10
    assert group.share() == 1.0
    group.close()


def test_the_kernel_refuses_what_does_not_exist() -> None:
    assert open_groups(SYSTEM, [[Event("x", SOFTWARE, 999)]], 0)[1]["x"] in {"no_hardware", "no_permission"}
    with pytest.raises(OSError, match=r"\S"):
        SYSTEM.open(Event("clock", SOFTWARE, 0), 60_000, -1)


def test_the_limit_of_descriptors_is_raised_as_far_as_it_may_be() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        assert SYSTEM.raise_limit()
        raised = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert 256 < raised[0] <= before[1]
        assert raised[1] == before[1]
        assert not SYSTEM.raise_limit()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def open_files() -> int:
    gc.collect()  # what earlier tests have left
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_no_descriptor_is_left() -> None:
    before = open_files()
    groups = real_groups(Event("switches", SOFTWARE, 3), Event("faults", SOFTWARE, 2))
    assert open_files() == before + 2
    del groups
    gc.collect()
    assert open_files() == before

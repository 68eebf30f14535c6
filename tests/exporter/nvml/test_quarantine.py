"""What is left alone, for how long, and what is tried of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.nvml.quarantine import WHOLE, Quarantine


def test_the_first_hang_is_looked_into_at_once() -> None:
    quarantine = Quarantine()
    quarantine.hang(2, "ecc", 100.0)
    assert quarantine.devices() == [2]
    assert quarantine.remaining(2, 100.0) == {WHOLE: 0.0}
    assert quarantine.due(100.0) == (2, {"ecc"})
    quarantine.passed(2, {"ecc"}, 101.0)
    assert quarantine.devices() == []
    assert quarantine.groups() == [(2, "ecc")]
    assert quarantine.due(130.0) is None
    assert quarantine.due(131.0) == (2, set())
    quarantine.failed(2, "ecc", 133.0)
    assert quarantine.groups() == [(2, "ecc")]
    assert quarantine.due(190.0) is None
    quarantine.passed(2, set(), 193.0)
    assert quarantine.groups() == []
    assert quarantine.remaining(2, 193.0) == {}
    assert quarantine.due(1e9) is None


def test_one_that_cannot_be_found_is_tried_as_a_whole() -> None:
    quarantine = Quarantine()
    quarantine.hang(1, "attach", 0.0)
    assert quarantine.due(0.0) == (1, set())
    quarantine.failed(1, "attach", 10.0)
    assert quarantine.due(39.0) is None
    assert quarantine.due(40.0) == (1, set())


def test_a_second_hang_elsewhere_keeps_all_of_it_away() -> None:
    quarantine = Quarantine()
    quarantine.hang(0, "ecc", 0.0)
    quarantine.failed(0, "memory", 3.0)
    assert quarantine.devices() == [0]
    assert quarantine.due(32.0) is None
    assert quarantine.due(33.0) == (0, set())


def test_one_that_hangs_again_after_it_was_sound_is_waited_for_longer_until_that_is_long_ago() -> None:
    quarantine = Quarantine()
    quarantine.hang(0, "ecc", 0.0)
    quarantine.passed(0, set(), 1.0)
    quarantine.hang(0, "memory", 50.0)
    assert quarantine.due(109.0) is None
    assert quarantine.due(110.0) == (0, set())
    quarantine.passed(0, set(), 111.0)
    quarantine.hang(0, "memory", 1000.0)
    assert quarantine.due(1000.0) == (0, {"memory"})


def test_clearing_forgets_all() -> None:
    quarantine = Quarantine()
    quarantine.hang(0, "ecc", 0.0)
    quarantine.clear()
    assert (quarantine.devices(), quarantine.groups(), quarantine.due(0.0)) == ([], [], None)


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["hang", "passed", "passed all", "failed"]), st.sampled_from(["ecc", "memory", "attach"])
        ),
        max_size=30,
    )
)
def test_whatever_happens_a_gpu_is_tried_again_within_ten_minutes_or_is_let_go(steps: list[tuple[str, str]]) -> None:
    quarantine, now = Quarantine(), 0.0
    quarantine.hang(0, "ecc", now)
    for step, group in steps:
        now += 7.0
        if step == "hang":
            quarantine.hang(0, group, now)
        elif step == "failed":
            quarantine.failed(0, group, now)
        else:
            quarantine.passed(0, {group} if step == "passed" else set(), now)
        left_out = quarantine.remaining(0, now)
        assert all(0 <= seconds <= 600 for seconds in left_out.values())
        assert bool(left_out) == bool(quarantine.devices() or quarantine.groups())
        assert not left_out or quarantine.due(now + 600) is not None


def test_a_scout_that_comes_back_too_late_changes_nothing() -> None:
    quarantine = Quarantine()
    quarantine.passed(0, {"ecc"}, 0.0)
    quarantine.failed(0, "ecc", 0.0)
    quarantine.hang(0, "ecc", 0.0)
    quarantine.passed(0, set(), 1.0)
    quarantine.failed(0, "ecc", 2.0)
    assert (quarantine.devices(), quarantine.groups()) == ([], [])

"""The end-to-end tests' account of the host."""

from __future__ import annotations

from tests.e2e.noise import STEAL_FIELD, Noise, jiffies


def test_the_first_line_is_that_of_all_cpus() -> None:
    found = jiffies("cpu  10 2 30 400 5 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
    assert found == [10, 2, 30, 400, 5, 6, 7, 8]
    assert found[STEAL_FIELD] == 8


def test_it_tells_scores_and_loads() -> None:
    noise = Noise()
    assert "so far: none" in str(noise)
    noise.add(None)
    noise.add(0.5)
    assert "score/load so far: 0s -/" in str(noise)
    assert "0.50" not in str(noise), "one a second is enough"
    noise._began -= 5
    noise.add(0.5)
    assert ", 5s 0.50/" in str(noise)
    assert "load average" in str(noise)
    assert "% of the CPU time stolen" in str(noise)

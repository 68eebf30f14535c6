"""Partial answers of the source: their time adds up, and whole answers take it away."""

from __future__ import annotations

import pytest

from hwsonde_detector.errors import SourcePartial, SourceRefused
from hwsonde_detector.service.partial import PartialAnswers

from .bench import Bench


def test_a_minute_of_partial_answers_reaches_the_threshold_and_heals() -> None:
    answers = PartialAnswers()
    for second in range(61):
        answers.observe(partial=True, monotonic=float(second))
    assert answers.score == pytest.approx(1.0)
    for second in range(61, 121):
        answers.observe(partial=False, monotonic=float(second))
    assert answers.score == pytest.approx(0.0)


def test_one_partial_answer_among_whole_ones_is_nothing() -> None:
    answers = PartialAnswers()
    for second in range(300):
        answers.observe(partial=second % 10 == 0, monotonic=float(second))
    assert answers.score < 0.05


def test_it_is_bounded() -> None:
    answers = PartialAnswers()
    for hour in range(50):
        answers.observe(partial=True, monotonic=3600.0 * hour)
    assert answers.score == 10.0


def test_the_loop_counts_them_and_publishes_the_score() -> None:
    bench = Bench()
    bench.caught_up()
    bench.turn(3)
    assert bench.loop.board.get().partial == 0.0
    rows = len(bench.engine.rows)
    bench.source.trouble = [SourcePartial("p: partial") for _ in range(10)]
    bench.turn(10)
    assert len(bench.engine.rows) == rows, "a partial answer is not scored"
    partial = bench.loop.board.get().partial
    assert partial > 0.05
    bench.source.trouble = [SourceRefused("p: no") for _ in range(3)]
    bench.turn(3)
    assert bench.loop.board.get().partial == partial

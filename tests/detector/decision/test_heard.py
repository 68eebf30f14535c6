from __future__ import annotations

import numpy as np
import pytest

from hwsonde_detector.decision.heard import Heard


def test_scores_come_back_in_order_up_to_the_limit() -> None:
    heard = Heard()
    for start in (0, 4, 8):
        heard.append(np.arange(start, start + 4.0)[:, None] * [1, 10], np.arange(start, start + 4.0), 100, 6)
    assert heard.raw(100).tolist() == [[n, 10 * n] for n in range(6, 12)]
    assert heard.fused(100).tolist() == [6, 7, 8, 9, 10, 11]


def test_models_that_had_learned_little_do_not_count() -> None:
    heard = Heard()
    heard.append(np.ones((3, 1)), np.ones(3), 60, 100)
    heard.append(np.full((2, 1), 2.0), np.ones(2), 120, 100)
    assert heard.raw(120)[:, 0].tolist() == [1, 1, 1, 2, 2]
    assert heard.raw(121)[:, 0].tolist() == [2, 2]
    assert heard.raw(1000).shape == (0, 1)


def test_rows_that_were_not_judged_are_left_out() -> None:
    heard = Heard()
    heard.append(np.array([[1.0], [np.nan], [3.0]]), np.array([0.1, 0.2, np.nan]), 10, 100)
    assert heard.raw(10).tolist() == [[1.0]]


def test_other_members_start_anew() -> None:
    heard = Heard()
    heard.append(np.ones((3, 2)), np.ones(3), 10, 100)
    heard.append(np.ones((1, 3)), np.ones(1), 10, 100)
    assert heard.raw(10).shape == (1, 3)


def test_arrays_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit this version"):
        Heard(np.zeros((3, 2)), np.zeros(2))


def test_nothing_was_heard_yet() -> None:
    assert Heard().fused(10).shape == (0,)
    assert len(Heard().raw(10)) == 0

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hwsonde_detector.decision.calibration import Tail, calibrated, cross_fit, fit_tail, surprise
from hwsonde_detector.detectors.base import Detector
from hwsonde_detector.detectors.table import MEMBERS, make
from hwsonde_detector.detectors.zscore import ZScore
from hwsonde_detector.settings import DetectorSettings
from hwsonde_detector.types import Floats
from tests.detector.decision import naive_calibration as naive

SCORES = hnp.arrays(np.float64, st.integers(1, 80), elements=st.floats(0, 1e9, width=32))


@pytest.mark.parametrize("n", [1, 2, 10, 60, 240, 3600])
def test_counted_part_is_the_share_at_or_above(n: int) -> None:
    scores = np.random.default_rng(n).gamma(4.0, size=n)
    tail = fit_tail(scores)
    for x, decades in list(zip(tail.knots, tail.surprises, strict=True))[:: max(len(tail.knots) // 20, 1)]:
        assert 10**-decades == pytest.approx(naive.share_at_or_above(scores, x))


def test_ties_count_as_a_whole() -> None:
    tail = fit_tail(np.repeat([1.0, 2.0, 3.0], [10, 80, 10]))
    assert 10 ** -surprise(tail, np.array([1.0, 2.0])) == pytest.approx([100 / 101, 90 / 101])


def test_between_two_scores_it_is_interpolated() -> None:
    tail = fit_tail(np.arange(1000.0))
    low, middle, high = surprise(tail, np.array([500.0, 502.0, 504.0]))
    assert low < middle < high


@pytest.mark.parametrize("n", [5, 20, 60, 240])
def test_few_rows_claim_no_more_than_they_counted(n: int) -> None:
    """Where scores were counted, n rows cannot say less than 1 in n + 1."""
    scores = np.random.default_rng(n).gamma(4.0, size=n)
    tail = fit_tail(scores)
    assert tail.surprises.max() <= np.log10(n + 1)
    assert surprise(tail, tail.knots).max() <= np.log10(n + 1)


def test_fewer_rows_extrapolate_less_boldly() -> None:
    rng = np.random.default_rng(2)
    one_in_ten_thousand = 1 + np.log(1e4)
    said = [
        np.mean(
            [surprise(fit_tail(1 + rng.exponential(size=n)), np.array([one_in_ten_thousand]))[0] for _ in range(200)]
        )
        for n in (30, 240, 4000)
    ]
    assert said[0] < said[1] < said[2]
    assert said[2] == pytest.approx(4.0, abs=0.3)


@pytest.mark.parametrize("n", [60, 240, 3600])
def test_fresh_healthy_scores_pass_the_risk_about_as_often_as_it_says(n: int) -> None:
    """Over many fits on n rows, 1 % of fresh rows pass the 1 % line, and 1 in 1,000 the other, within a factor of two."""
    rng = np.random.default_rng(n)
    passed = {0.01: 0.0, 0.001: 0.0}
    rounds = 150
    for _ in range(rounds):
        tail = fit_tail(rng.gamma(4.0, size=n))
        said = surprise(tail, rng.gamma(4.0, size=4000))
        for risk in passed:
            passed[risk] += (calibrated(said, risk) >= 1).mean() / rounds
    for risk, share in passed.items():
        assert risk / 2 < share < risk * 2


def test_beyond_the_counted_part_the_share_is_the_predictive_one() -> None:
    tail = fit_tail(np.random.default_rng(1).exponential(size=1000))
    begin, base = tail.knots[-1], 10 ** -tail.surprises[-1]
    x = begin + np.array([0.5, 2.0, 6.0])
    expected = [base * naive.tail_share(tail.excesses, tail.scale, distance) for distance in (0.5, 2.0, 6.0)]
    assert 10 ** -surprise(tail, x) == pytest.approx(expected)


def test_scale_is_the_mean_excess() -> None:
    scores = np.r_[np.arange(981.0), np.full(20, 1000.0)]
    tail = fit_tail(scores)
    assert tail.knots[-1] == 980.0
    assert tail.scale == pytest.approx(20.0)
    assert tail.excesses == 21


def test_nearly_constant_training_scores_do_not_make_everything_infinite() -> None:
    tail = fit_tail(np.full(500, 2.0))
    said = surprise(tail, np.array([2.0, 2.01, 2.1, 4.0]))
    assert said[0] < 0.01
    assert said[1] < 1
    assert (np.diff(said) > 0).all()
    assert said[3] < 10


def test_more_than_six_decades_grow_with_the_logarithm() -> None:
    tail = Tail(np.array([0.0]), np.array([0.0]), np.log10(np.e), 1e9)  # one decade a unit
    assert surprise(tail, np.array([5.0, 6.0])) == pytest.approx([5.0, 6.0], rel=1e-6)
    assert surprise(tail, np.array([7.0, 106.0])) == pytest.approx([6 + np.log(2), 6 + np.log(101)], rel=1e-6)


def test_what_is_not_finite_stays_bounded_or_unknown() -> None:
    tail = fit_tail(np.random.default_rng(1).exponential(size=100))
    said = surprise(tail, np.array([np.nan, np.inf, -np.inf, 1e308]))
    assert np.isnan(said[0])
    assert np.isfinite(said[1:]).all()
    assert said[1] < 100
    assert 0 <= said[2] < 0.01


@given(SCORES, hnp.arrays(np.float64, st.integers(2, 40), elements=st.floats(0, 1e12)))
def test_it_never_falls_and_is_never_below_zero(training: Floats, asked: Floats) -> None:
    said = surprise(fit_tail(training), np.sort(asked))
    assert (np.diff(said) >= -1e-12).all()
    assert (said >= 0).all()
    assert np.isfinite(said).all()


@given(SCORES)
def test_a_restored_tail_says_the_same(training: Floats) -> None:
    tail = fit_tail(training)
    asked = np.r_[training, training * 3, 0.0, 1e6]
    assert (surprise(Tail.restore(tail.arrays()), asked) == surprise(tail, asked)).all()


@pytest.mark.parametrize("name", ["knots", "surprises", "tail"])
def test_a_damaged_tail_is_refused(name: str) -> None:
    arrays = fit_tail(np.arange(50.0)).arrays()
    with pytest.raises(ValueError, match="kept calibration does not fit"):
        Tail.restore({key: array for key, array in arrays.items() if key != name})
    with pytest.raises(ValueError, match="kept calibration does not fit"):
        Tail.restore({**arrays, name: np.zeros((2, 2))})


def test_a_tail_stays_small() -> None:
    tail = fit_tail(np.random.default_rng(0).exponential(size=20_000))
    assert sum(array.nbytes for array in tail.arrays().values()) < 5000


def test_unknown_scores_are_left_out_and_nothing_but_unknown_is_refused() -> None:
    scores = np.random.default_rng(0).exponential(size=300)
    mixed = np.insert(scores, 7, [np.nan, np.inf])
    assert (fit_tail(mixed).knots == fit_tail(scores).knots).all()
    for empty in (np.zeros(0), np.array([np.nan, np.inf])):
        with pytest.raises(ValueError, match="at least one finite score"):
            fit_tail(empty)


def test_one_is_the_configured_risk() -> None:
    assert calibrated(np.array([0.0, 4.0, 8.0]), 1e-4) == pytest.approx([0.0, 1.0, 2.0])


@pytest.mark.parametrize("risk", [0.0, 1.0, -0.1, 2.0])
def test_an_impossible_risk_is_refused(risk: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        calibrated(np.array([1.0]), risk)


class Spy:
    """Remembers what it learned from; scores by the share of asked rows that it had seen."""

    seen: tuple[frozenset[float], ...] = ()

    def fit(self, rows: Floats) -> Spy:
        self.mine = frozenset(rows[:, 0].tolist())
        type(self).seen += (self.mine,)
        return self

    def score(self, rows: Floats) -> Floats:
        return np.array([float(value in self.mine) for value in rows[:, 0]])


@pytest.mark.parametrize(("n", "count", "gap"), [(100, 5, 0), (100, 5, 3), (101, 4, 2), (7, 3, 1), (2, 2, 0)])
def test_no_row_is_scored_by_a_model_that_saw_it_or_its_neighbours(n: int, count: int, gap: int) -> None:
    Spy.seen = ()
    rows = np.arange(float(n))[:, None]
    assert (cross_fit(Spy, rows, folds=count, gap=gap) == 0).all()
    assert [sorted(seen) for seen in Spy.seen] == [others for _, others in naive.folds(n, count, gap)]


def test_more_folds_than_rows_leave_one_out() -> None:
    Spy.seen = ()
    cross_fit(Spy, np.arange(3.0)[:, None], folds=9)
    assert [sorted(seen) for seen in Spy.seen] == [[1.0, 2.0], [0.0, 2.0], [0.0, 1.0]]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_where_nothing_is_left_to_learn_from_all_rows_teach(n: int) -> None:
    assert np.isfinite(cross_fit(ZScore, np.arange(float(n))[:, None], folds=2, gap=10)).all()


@pytest.mark.parametrize("wrong", [{"folds": 1}, {"gap": -1}])
def test_impossible_folds_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="cross-fitting needs"):
        cross_fit(ZScore, np.zeros((10, 2)), **wrong)
    with pytest.raises(ValueError, match="got 0 rows"):
        cross_fit(ZScore, np.zeros((0, 2)))


@pytest.mark.parametrize("name", sorted(MEMBERS))
def test_a_tail_of_unseen_rows_keeps_its_promise_where_one_of_seen_rows_does_not(name: str) -> None:
    """40 columns, 120 rows: fresh rows pass the 2 % line of a cross-fitted tail about as often as they should."""
    settings = DetectorSettings(trees=50)
    rng = np.random.default_rng(11)

    def passed(tail: Tail, detector: Detector) -> float:
        return (surprise(tail, detector.score(fresh)) >= -np.log10(0.02)).mean()

    honest, naive_share = [], []
    for _ in range(8):
        rows, fresh = rng.normal(size=(120, 40)), rng.normal(size=(500, 40))
        detector = make(name, settings).fit(rows)
        honest.append(passed(fit_tail(cross_fit(lambda: make(name, settings), rows, folds=4)), detector))
        naive_share.append(passed(fit_tail(detector.score(rows)), detector))
    # A distance with a ridge is a little further for models of fewer rows: its cross-fitted tail is careful.
    assert 0.002 < np.mean(honest) < 0.05
    assert np.mean(naive_share) > np.mean(honest)

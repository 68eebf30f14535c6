"""Alerts about data: each fires when it should, ends when it should, and a healthy host has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from alert_rules.timing import FAST, FLEET, Timing
from tests.rules.promtool import Case

# The fast profile looks every second at what takes half an hour; that each alert of it fires, and does not, is in test_table.
PROFILES_HERE = [pytest.param(FAST, id="fast", marks=pytest.mark.slow), pytest.param(FLEET, id="fleet")]


@pytest.fixture(params=PROFILES_HERE)
def case(request: pytest.FixtureRequest) -> Case:
    timing: Timing = request.param
    return Case(timing)


def step(case: Case, seconds: int) -> int:
    return -(-seconds // case.timing.evaluation) * case.timing.evaluation


def score(kind: str, detector: str = "d1", name: str = "hwsonde_data_fault_score") -> str:
    return f'{name}{{job="hwsonde-detector",instance="{detector}",cluster="a",node="n1",kind="{kind}"}}'


NAMES = {"missing": "HwsondeDataFault", "stuck": "HwsondeDataFaultWarning", "gap": "HwsondeDataFaultWarning"}


@pytest.mark.parametrize("kind", NAMES)
def test_a_score_of_one_fires_in_the_round_that_sees_it_and_ends_when_it_is_healed(
    case: Case, tmp_path: Path, kind: str
) -> None:
    beat, held = case.timing.evaluation, case.timing.keep_firing
    case.series[score(kind)] = case.samples(("0.99", 60), ("1", 300), ("0", 3000))
    case.firing(NAMES[kind], step(case, 60) - beat, 0)
    case.firing(NAMES[kind], step(case, 60), 1)
    case.firing(NAMES[kind], step(case, 360 + held) - 2 * beat, 1)
    case.firing(NAMES[kind], step(case, 360 + held) + 3 * beat, 0)
    other = ({*NAMES.values()} - {NAMES[kind]}).pop()
    case.firing(other, step(case, 200), 0)
    case.check(tmp_path)


def test_neither_partial_answers_nor_shadow_scores_nor_small_ones_are_an_alert(case: Case, tmp_path: Path) -> None:
    case.series[score("partial")] = case.samples(("9", 900))
    case.series[score("missing", name="hwsonde_shadow_data_fault_score")] = case.samples(("9", 900))
    for kind in ("missing", "impossible", "reset", "stuck", "slow", "skew", "gap"):
        case.series[score(kind)] = case.samples(("0.9", 900))
    case.value('count(ALERTS{alertname=~"HwsondeDataFault.*"}) or vector(0)', step(case, 600), 0)
    case.check(tmp_path)


def test_a_pair_of_detectors_gives_one_alert_a_kind(case: Case, tmp_path: Path) -> None:
    for detector in ("d1", "d2"):
        case.series[score("missing", detector)] = case.samples(("2", 900))
        case.series[score("skew", detector)] = case.samples(("2", 900))
        case.series[score("slow", detector)] = case.samples(("2", 900))
    case.firing("HwsondeDataFault", step(case, 300), 1)
    case.firing("HwsondeDataFaultWarning", step(case, 300), 2)
    case.check(tmp_path)


def test_it_does_not_live_on_the_last_sample_before_a_restart_of_prometheus(case: Case, tmp_path: Path) -> None:
    case.series[score("missing")] = case.samples(("2", 60), ("_", 1200))
    end = case.timing.fresh + case.timing.keep_firing + 60
    case.firing("HwsondeDataFault", step(case, end - 2 * case.timing.evaluation), 1)
    case.firing("HwsondeDataFault", step(case, end + 2 * case.timing.evaluation), 0)
    case.check(tmp_path)

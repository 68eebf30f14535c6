"""A port that is away for a moment: told afterwards, by one alert and for an hour."""

from __future__ import annotations

from pathlib import Path

import pytest

from alert_rules.timing import FAST, FLEET, Timing
from tests.rules.promtool import Case

PORT = 'job="hwsonde-exporter",instance="n1:9880",cluster="a",node="n1",device="mlx5_0",port="1"'
DOWNED, UP = f"hwsonde_network_rdma_link_downed_total{{{PORT}}}", f"hwsonde_network_rdma_up{{{PORT}}}"
DROPPED, FLAPPING, DOWN = "HwsondeNetworkRdmaLinkDropped", "HwsondeNetworkLinkFlapping", "HwsondeNetworkRdmaDown"
LOST, AWAY, HOUR = 600, 30, 3600


# The fast profile looks every second at what takes half an hour; that each alert of it fires, and does not, is in test_table.
PROFILES_HERE = [pytest.param(FAST, id="fast", marks=pytest.mark.slow), pytest.param(FLEET, id="fleet")]


@pytest.fixture(params=PROFILES_HERE)
def case(request: pytest.FixtureRequest) -> Case:
    timing: Timing = request.param
    return Case(timing)


def told(case: Case, at: int, *names: str) -> None:
    """Expect those of the three alerts that are named, and no other."""
    for name in (DROPPED, FLAPPING, DOWN):
        case.firing(name, at, int(name in names))


def test_a_port_that_was_away_for_half_a_minute_is_told_for_an_hour(case: Case, tmp_path: Path) -> None:
    case.series[DOWNED] = case.samples(("3", LOST), ("4", 2 * HOUR))
    case.series[UP] = case.samples(("1", LOST), ("0", AWAY), ("1", 2 * HOUR))
    told(case, LOST - 60)
    told(case, LOST + AWAY + 60, DROPPED)
    told(case, LOST + HOUR - 60, DROPPED)
    told(case, LOST + HOUR + 60)
    case.check(tmp_path)


def test_a_second_loss_is_flapping_and_the_first_is_not_told_beside_it(case: Case, tmp_path: Path) -> None:
    case.series[DOWNED] = case.samples(("0", LOST), ("1", 300), ("2", 2 * HOUR))
    case.series[UP] = case.samples(("1", 3 * HOUR))
    told(case, LOST + 120, DROPPED)
    told(case, LOST + 420, FLAPPING)
    case.check(tmp_path)


def test_a_port_that_stays_down_is_down_and_nothing_else(case: Case, tmp_path: Path) -> None:
    case.series[DOWNED] = case.samples(("0", LOST), ("1", 2 * HOUR))
    case.series[UP] = case.samples(("1", LOST), ("0", 900), ("1", HOUR))
    told(case, LOST + 60 + case.timing.down, DOWN)
    told(case, LOST + 960, DROPPED)
    case.check(tmp_path)

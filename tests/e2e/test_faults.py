"""From a real fault to its page and back, with real programs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.e2e.house import House, copied
from tests.e2e.pager import refused, told_once
from tests.e2e.shipped import expect_shipped
from tests.e2e.simulated import SimulatedHost

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]


def test_a_cpu_fault_makes_one_page_and_one_resolve(host: SimulatedHost, learned: Path, tmp_path: Path) -> None:
    with House(copied(learned, tmp_path / "data"), host) as house:
        expect_shipped(house.stack.options)
        house.quiet()
        assert house.events == [], house.seen()
        with host.cpu_fault() as fault:
            house.until(lambda _: bool(house.triggers()), 14, "the page")
        house.until(lambda _: bool(house.resolves()), 60, "the resolve")
        house.rest(6)
        health = house.look()
        assert (len(house.triggers()), len(house.resolves())) == (1, 1), house.seen()
        page = told_once("one sick host", house.events, fault.began, fault.ended or 0)
        assert page.subsystem == "cpu", house.seen()
        assert page.alert == "HwsondeHostAnomaly"
        assert page.summary.startswith("local/e2e-host: cpu ")
        assert page.received - fault.began < 14, house.seen()
        assert refused(house.stack.options.events_log) == []
        assert (health.alerts_firing, health.incidents) == (0, ()), house.seen()
        house.expect_no_errors()


@pytest.mark.slow
def test_restarts_in_an_open_episode_keep_its_page(host: SimulatedHost, learned: Path, tmp_path: Path) -> None:
    with House(copied(learned, tmp_path / "data"), host) as house:
        house.quiet()
        with host.cpu_fault():
            house.until(lambda _: bool(house.triggers()), 15, "the page")
            for name in ("detector", "exporter", "prometheus"):
                house.stack.restart(name)
                back = time.time()
                house.until(
                    lambda health, since=back: bool(health.incidents) and time.time() - since > 4,
                    20,
                    f"the episode after the restart of {name}",
                )
            assert house.resolves() == [], f"the fault is still there; {house.seen()}"
        house.until(lambda _: bool(house.resolves()), 90, "the resolve")
        house.rest(6)
        keys = {event.key for event in house.events}
        assert len(keys) == 1, house.seen()
        assert house.watch.book.sent == 1, house.seen()
        assert len(house.resolves()) == 1, house.seen()

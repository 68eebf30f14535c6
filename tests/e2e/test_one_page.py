"""Incidents of several kinds with the shipped rules and paging: each is one page that names what is wrong, and one resolve.

A sick host is in test_faults.py, a sick GPU in test_sick_gpu.py; with ``-n 0 -s`` each prints a line about its incident.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from alert_rules.timing import FAST
from tests.e2e.fleet import Fleet
from tests.e2e.house import House, copied
from tests.e2e.pager import refused, told_once
from tests.e2e.shipped import expect_shipped
from tests.e2e.simulated import SimulatedHost

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

# What a page may take beyond the time for which its alert waits: a round of the hardware's rules, the group's wait, and a starved host.
MARGIN = 40
# Whatever would page after the resolve does so by then: a group tells of changes every 5 s, and an episode needs 4 windows after 10 rows.
AFTER = 20


@pytest.mark.parametrize(
    ("name", "alert", "words"),
    [
        ("exporter", "HwsondeExporterDown", "local/e2e-host: the hardware exporter does not answer, so this host is"),
        ("detector", "HwsondeDetectorDown", "No detector of local answers: no anomaly is found until"),
    ],
)
def test_a_program_that_died(
    name: str, alert: str, words: str, host: SimulatedHost, learned: Path, tmp_path: Path
) -> None:
    with House(copied(learned, tmp_path / "data"), host) as house:
        expect_shipped(house.stack.options)
        house.quiet()
        assert house.events == [], house.seen()
        died = time.time()
        house.stack.children[name].kill()
        # Nobody starts it again, as where its supervisor has given up.
        house.stack.hold(name)
        house.until(lambda _: bool(house.triggers()), FAST.down + MARGIN, "the page")
        house.rest(5)
        back = time.time()
        house.stack.run(name)
        house.stack.wait_ready([name])
        house.until(lambda _: bool(house.resolves()), MARGIN, "the resolve")
        scored = house.look().windows_scored
        house.until(lambda health: health.windows_scored > scored + 10, 40, "scores again")
        house.rest(AFTER)
        page = told_once(f"{name} that died", house.events, died, back)
        assert page.alert == alert, house.seen()
        assert page.summary.startswith(words), page.summary
        health = house.look()
        assert (health.alerts_firing, health.incidents) == (0, ()), house.seen()
        assert refused(house.stack.options.events_log) == []


def test_four_hosts_at_once(tmp_path: Path) -> None:
    """With the fleet profile, all of its times divided by one factor."""
    hosts = {f"n{number}": SimulatedHost(tmp_path / f"n{number}", seed=number) for number in (1, 2, 3, 4)}
    with ExitStack() as running:
        for host in hosts.values():
            running.callback(host.stop)
            host.start()
        fleet = running.enter_context(Fleet(tmp_path / "data", hosts))
        fleet.quiet()
        assert fleet.events == [], fleet.seen()
        with ExitStack() as faults:
            began = time.time()
            for host in hosts.values():
                faults.enter_context(host.cpu_fault())
            fleet.until(lambda: bool(fleet.events), MARGIN, "the page")
            fleet.rest(15)
            ended = time.time()
        fleet.until(lambda: any(event.action == "resolve" for event in fleet.events), 120, "the resolve")
        fleet.rest(25)
        page = told_once("four hosts at once", fleet.events, began, ended)
        assert page.alert == "HwsondeHostAnomaly"
        assert page.subsystem == "cpu"
        assert page.summary.startswith("fleet/n"), page.summary
        assert ": cpu deviates from what " in page.summary
        loud = 'count(max_over_time(hwsonde_anomaly_score{detector="fused"}[3m]) > 1)'
        assert fleet.ask(loud) == [4], "the fault was felt by all of them"
        told = "count by (node) (max_over_time(hwsonde_incident_active[3m]))"
        assert fleet.ask(f"count({told})") == [1], "and told at one"
        assert refused(fleet.options.events_log) == []

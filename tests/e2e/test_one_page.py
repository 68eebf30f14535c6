"""Incidents of several kinds with the shipped rules and paging: each is one page that names what is wrong, and one resolve.

A sick host is in test_faults.py. ``./run test -n 0 -s -m e2e tests/e2e/test_faults.py tests/e2e/test_one_page.py`` prints a line about each.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from alert_rules.timing import FAST
from quickstart import fetch
from tests.e2e.fleet import Fleet
from tests.e2e.gpus import HostWithGpus
from tests.e2e.house import House, copied
from tests.e2e.pager import refused, told_once
from tests.e2e.shipped import expect_shipped
from tests.e2e.simulated import SimulatedHost

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

# What a page may take beyond the time for which its alert waits: a round of the hardware's rules, the group's wait, and a starved host.
MARGIN = 40
# Whatever would page after the resolve does so by then: a group tells of changes every 5 s, and an episode needs 4 windows after 10 rows.
AFTER = 20
SICK = 2


@pytest.fixture(scope="module")
def with_gpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, HostWithGpus]]:
    """A stack that knows a host with GPUs, and that host."""
    folder = tmp_path_factory.mktemp("gpus")
    host = HostWithGpus(folder)
    host.start()
    try:
        # Usual after 20 s, in place of half an hour: a GPU that goes is missed, too.
        with House(folder / "data", host, {"data_faults": {"usual": "20s"}}) as house:
            house.until(lambda health: health.calibrated, 240, "calibration")
            yield house, host
    finally:
        host.stop()


@pytest.mark.parametrize(
    ("name", "fault", "words"),
    [
        ("lost", HostWithGpus.lose, "does not answer any more"),
        ("out of spare rows", HostWithGpus.spend_spare_rows, "cannot repair its memory any more"),
    ],
)
def test_a_sick_gpu(
    with_gpus: tuple[House, HostWithGpus], name: str, fault: Callable[[HostWithGpus, int], None], words: str
) -> None:
    house, host = with_gpus
    expect_shipped(house.stack.options)
    house.quiet()
    before = len(house.events)
    began = time.time()
    fault(host, SICK)
    house.until(lambda _: any(words in event.summary for event in house.events[before:]), FAST.down + MARGIN, words)
    house.rest(5)
    ended = time.time()
    host.heal()
    house.until(lambda _: any(event.action == "resolve" for event in house.events[before:]), 60, "the resolve")
    house.rest(AFTER)
    events = house.events[before:]
    page = told_once(f"one sick GPU ({name})", events, began, ended)
    assert page.summary.startswith("local/e2e-host: "), page.summary
    assert re.search(rf"\bgpu {SICK}\b", page.summary, re.IGNORECASE), page.summary
    # The score deviates within seconds; the alert of the part itself waits, and is told in the same page.
    own = next(event for event in events if words in event.summary)
    assert f"local/e2e-host: GPU {SICK} " in own.summary
    if name == "lost":
        assert host.shim.uuid(SICK) in own.summary
        missed = 'max_over_time(hwsonde_data_fault_score{kind="missing"}[3m])'
        found = fetch.query(house.stack.options.ports.prometheus, missed)
        assert max(float(one["value"][1]) for one in found) >= 1, "it was missed as well"
    assert refused(house.stack.options.events_log) == []


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

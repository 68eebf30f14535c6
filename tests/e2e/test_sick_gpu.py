"""One sick GPU, replayed by a stand-in for its driver, with the shipped rules and paging: one page that names it, and one resolve."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import pytest

from alert_rules.timing import FAST
from quickstart import fetch
from tests.e2e.gpus import HostWithGpus
from tests.e2e.house import House
from tests.e2e.pager import refused, told_once
from tests.e2e.shipped import expect_shipped

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

# What an alert may take beyond the time for which it waits: a round of the hardware's rules, the group's turn, and a starved host.
MARGIN = 40
# Whatever would page after the resolve does so by then: symptoms keep firing for 30 s, of which most are over at the resolve.
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

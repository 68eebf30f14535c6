"""Programs that go away and come back on a quiet host: nothing is lost, nobody is paged."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.e2e.house import House, copied
from tests.e2e.simulated import SimulatedHost

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]


def test_restarts_and_an_outage_lose_nothing_and_page_nobody(
    host: SimulatedHost, learned: Path, tmp_path: Path
) -> None:
    with House(copied(learned, tmp_path / "data"), host) as house:
        rows = house.quiet().learning_rows
        assert rows >= 90
        for name in ("exporter", "detector"):
            house.stack.restart(name)
            house.rest(4)
        house.until(lambda health: health.calibrated and health.score is not None, 20, "scores after the restarts")
        before = house.look()
        assert before.learning_rows >= rows, "what was learned is kept"

        house.stack.hold("prometheus")
        house.rest(15)
        assert "level=warning" in house.log("detector"), "one line says that reading fails"
        house.stack.run("prometheus")
        house.stack.wait_ready(["prometheus"])
        after = house.until(
            lambda health: health.calibrated and health.windows_scored >= before.windows_scored + 10,
            40,
            "scores after the outage",
        )
        assert after.learning_rows >= before.learning_rows
        assert "Traceback" not in house.log("detector")
        house.rest(5)
        assert house.events == [], house.seen()
        assert house.watch.health.alerts_firing == 0, house.seen()
        assert house.stack.restarts == 0, house.seen()


def test_a_program_that_dies_is_started_again_and_counted(host: SimulatedHost, learned: Path, tmp_path: Path) -> None:
    with House(copied(learned, tmp_path / "data"), host) as house:
        house.quiet()
        child = house.stack.children["exporter"]
        child.kill()
        child.wait(5)
        house.until(lambda _: house.stack.restarts == 1, 5, "the death is seen")
        assert any(note.startswith("exporter was killed by signal 9, starting it again in 1 s") for note in house.notes)
        house.until(lambda _: house.stack.children["exporter"].status() is None, 10, "the new start")
        house.until(lambda health: health.exporter_series > 100 and health.score is not None, 20, "scores again")
        assert house.watch.errors >= 1
        house.rest(3)
        assert house.events == [], house.seen()


def test_a_prometheus_that_no_longer_stores_is_told_and_counted(
    host: SimulatedHost, learned: Path, tmp_path: Path
) -> None:
    with House(copied(learned, tmp_path / "data"), host) as house:
        house.until(lambda health: health.exporter_series > 100, 20, "the first scrape")
        assert house.watch.storage.errors == 0, house.seen()
        child = house.stack.children["prometheus"]
        # It lives, and does nothing: as with a disk that hangs.
        child.signal(signal.SIGSTOP)
        try:
            house.until(lambda _: house.watch.storage.errors == 1, 40, "the silence is counted")
        finally:
            child.signal(signal.SIGCONT)
        assert any(note.startswith("Prometheus has stored nothing for ") for note in house.notes), house.seen()
        house.until(lambda _: not house.watch.storage.silent, 20, "it stores again")
        assert any(note.startswith("Prometheus stores again") for note in house.notes), house.seen()
        assert house.stack.restarts == 0, house.seen()

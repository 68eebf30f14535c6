"""Incidents with real programs: a page with its alert beside it, and a silence that makes a fault normal until it ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.e2e.house import House, copied
from tests.e2e.simulated import SimulatedHost

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(420)]


def ask(house: House, path: str) -> Any:
    return requests.get(f"http://127.0.0.1:{house.stack.options.ports.detector}{path}", timeout=10).json()


def incidents(house: House) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask(house, "/api/v1/incidents")["incidents"]
    return found


def alertmanager(house: House) -> str:
    return f"http://127.0.0.1:{house.stack.options.ports.alertmanager}/api/v2"


def test_a_fault_has_a_page_that_stays(host: SimulatedHost, learned: Path, tmp_path: Path) -> None:
    with House(copied(learned, tmp_path / "data"), host) as house:
        house.quiet()
        before = {one["id"] for one in incidents(house)}
        with host.cpu_fault():
            house.until(lambda _: bool(house.triggers()), 14, "the page")
            (one,) = [one for one in incidents(house) if one["id"] not in before]
            assert one["state"] == "open"
            house.until(lambda _: bool(ask(house, f"/incidents/{one['id']}.json")["alerts"]["alerts"]), 15, "the alert")
            document = ask(house, f"/incidents/{one['id']}.json")
            assert document["causes"][0]["subsystem"] == "cpu"
            assert document["causes"][0]["channels"][0]["chart"]["times"]
            assert "HwsondeHostAnomaly" in {alert["name"] for alert in document["alerts"]["alerts"]}
        house.until(lambda _: bool(house.resolves()), 60, "the resolve")
        house.stack.restart("detector")
        house.until(lambda health: health.score is not None, 30, "scores after the restart")
        again = next(found for found in incidents(house) if found["id"] == one["id"])
        assert again["state"] == "closed"
        assert ask(house, f"/incidents/{one['id']}.json")["causes"]


def test_a_silence_makes_it_normal_and_it_pages_when_the_silence_ends(
    host: SimulatedHost, learned: Path, tmp_path: Path
) -> None:
    with House(copied(learned, tmp_path / "data"), host) as house:
        house.quiet()
        name = silence(house)
        house.rest(5)
        with host.cpu_fault():
            house.until(lambda _: any(one["normal"] for one in incidents(house)), 20, "what counts as normal")
            house.rest(6)
            assert house.triggers() == [], house.seen()
            requests.delete(f"{alertmanager(house)}/silence/{name}", timeout=10)
            house.until(lambda _: bool(house.triggers()), 20, "the page after the silence")
        house.until(lambda _: bool(house.resolves()), 60, "the resolve")
        assert len(house.triggers()) == 1, house.seen()


def silence(house: House) -> str:
    now = datetime.now(UTC)
    matchers = [{"name": "hwsonde_normal", "value": "true"}, {"name": "node", "value": "e2e-host"}]
    body = {
        "matchers": [{**one, "isRegex": False, "isEqual": True} for one in matchers],
        "startsAt": now.isoformat(),
        "endsAt": (now + timedelta(hours=1)).isoformat(),
        "createdBy": "e2e",
        "comment": "burn-in",
    }
    return str(requests.post(f"{alertmanager(house)}/silences", json=body, timeout=10).json()["silenceID"])

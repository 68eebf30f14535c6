"""Pages per 100 node-days: both are of the same stretch of time, whatever range is asked for."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hwsonde_detector.config.loading import parse_config
from hwsonde_detector.errors import ConfigError
from hwsonde_detector.incidents.entry import entry_of
from hwsonde_detector.incidents.store import FOLDER, Store
from hwsonde_detector.past.world import World
from hwsonde_detector.reports.kpi_program import KpiAsked, run_kpi
from hwsonde_detector.state import save_state
from tests.detector.incidents.made import episode
from tests.detector.reports.test_open_incidents import HOSTS, days, pairs

DAY = 86_400_000


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def kpi(folder: Path, first: str, last: str, now_ms: int, config: str = "") -> tuple[dict, str]:
    err = io.StringIO()
    world = World(lambda: now_ms, lambda: 0.0, out=io.StringIO(), err=err)
    asked = KpiAsked(folder / "kpi", first, last)
    assert run_kpi(parse_config(f"state: {{dir: {folder}}}\n{config}".encode(), "f"), asked, world) == 0
    page = (folder / "kpi" / "kpi.html").read_text()
    found = json.loads((folder / "kpi" / "kpi.json").read_bytes())
    assert ("what is kept begins then" in page) == ((found["rate_from_ms"] or 0) > found["start_ms"])
    return found, err.getvalue()


def kept(folder: Path, watched: list[list[int]], told_ms: list[int], now_ms: int, **more: int) -> None:
    store = Store(folder / FOLDER, **more)
    store.open(now_ms)
    for place, one in enumerate(told_ms):
        host = HOSTS[place % len(HOSTS)]
        store.add(entry_of(episode(one - 3000, host, end_ms=one + 60_000), one), {}, now_ms)
    hosts = [
        {"entity": pairs(host), "watch": {"watched_ms": 99 * DAY, "pages": 9}, "last_row_ms": now_ms} for host in HOSTS
    ]
    save_state(folder, {"engine": {"hosts": hosts}, "service": {"watched": watched}}, {})


def test_node_days_are_those_of_the_month_and_not_of_all_time(tmp_path: Path) -> None:
    """Installed on 20 November, asked on 10 December for November: 11 days of each host, not 20."""
    now = at("2026-12-10T00:00:00")
    kept(tmp_path, days(at("2026-11-20T00:00:00"), now), [at("2026-11-25T12:00:00"), at("2026-12-05T12:00:00")], now)
    found, err = kpi(tmp_path, "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z", now)
    assert (found["hosts"], found["node_days"], found["incidents"]) == (5, 55.0, 1)
    assert found["pages_per_100_node_days"] == pytest.approx(100 / 55, abs=1e-3)
    assert err == (
        "hwsonde-detector: the range begins before what is kept of incidents and of watched time: the rate is from "
        "2026-11-20 00:00:00Z on\n"
    )


def test_a_range_before_all_that_is_known_has_no_rate(tmp_path: Path) -> None:
    now = at("2026-12-10T00:00:00")
    kept(tmp_path, days(now - 8 * DAY, now), [], now)
    found, err = kpi(tmp_path, "-60d", "-30d", now)
    assert (found["node_days"], found["pages_per_100_node_days"], found["rate_from_ms"]) == (0.0, None, None)
    assert err.count("\n") == 1
    assert "there is no rate" in err


def test_node_days_go_back_no_further_than_incidents(tmp_path: Path) -> None:
    now = at("2026-12-10T00:00:00")
    kept(tmp_path, days(now - 300 * DAY, now), [now - 10 * DAY, now - 100 * DAY], now, keep_ms=365 * DAY)
    found, err = kpi(tmp_path, "-365d", "now", now, "incidents: {keep_for: 90d}")
    assert (found["node_days"], found["incidents"], found["rate_incidents"]) == (450.0, 2, 1)
    assert found["pages_per_100_node_days"] == pytest.approx(100 / 450, abs=1e-3)
    assert "the rate is from 2026-09-11 00:00:00Z on" in err


def test_where_only_the_newest_incidents_are_kept_the_rate_begins_with_the_oldest(tmp_path: Path) -> None:
    now = at("2026-12-10T00:00:00")
    kept(tmp_path, days(now - 60 * DAY, now), [now - place * DAY for place in (20, 10, 5)], now, most=2)
    found, _ = kpi(tmp_path, "-30d", "now", now, "incidents: {keep: 2}")
    assert (found["rate_from_ms"], found["node_days"], found["rate_incidents"]) == (now - 10 * DAY, 50.0, 2)
    found, _ = kpi(tmp_path, "-30d", "now", now, "incidents: {keep: 3}")
    assert found["node_days"] == 150.0


def test_time_in_shadow_mode_is_in_no_rate(tmp_path: Path) -> None:
    now = at("2026-12-10T00:00:00")
    watched = [*days(now - 9 * DAY, now - 4 * DAY, shadow=True), *days(now - 4 * DAY, now)]
    kept(tmp_path, watched, [now - DAY], now)
    found, err = kpi(tmp_path, "-9d", "now", now)
    assert (found["node_days"], found["shadow_node_days"]) == (20.0, 25.0)
    assert found["pages_per_100_node_days"] == 5.0
    assert err == ""
    silent, _ = kpi(tmp_path, "-9d", "-5d", now)
    assert (silent["node_days"], silent["pages_per_100_node_days"]) == (0.0, None)


def test_part_of_a_day_counts_as_part(tmp_path: Path) -> None:
    now = at("2026-12-10T18:00:00")
    kept(tmp_path, days(now - 40 * DAY, now), [now - DAY], now)
    assert kpi(tmp_path, "-36h", "-6h", now)[0]["node_days"] == pytest.approx(5 * 30 / 24, abs=1e-3)


def test_a_state_of_an_older_version_gives_no_rate_and_says_so(tmp_path: Path) -> None:
    """It knows how long each host was watched in all, and not when."""
    now = at("2026-12-10T00:00:00")
    kept(tmp_path, [], [now - DAY], now)
    found, err = kpi(tmp_path, "-30d", "now", now)
    assert (found["hosts"], found["incidents"], found["pages_per_100_node_days"]) == (5, 1, None)
    assert "how long hosts were watched in this range is not known" in err


def test_a_full_disk_costs_no_figures_that_were_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = at("2026-12-10T00:00:00")
    kept(tmp_path, days(now - 9 * DAY, now), [], now)
    kpi(tmp_path, "-9d", "now", now)
    before = {file: file.read_bytes() for file in (tmp_path / "kpi").iterdir()}

    def full(self: Path, content: bytes) -> int:
        with open(self, "wb") as file:
            file.write(content[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ConfigError, match="No space left"):
        kpi(tmp_path, "-5d", "now", now)
    assert {file: file.read_bytes() for file in (tmp_path / "kpi").iterdir()} == before

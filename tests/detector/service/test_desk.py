"""The parts for incidents, put together by the program: served, protected, started and ended in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import bcrypt
import pytest
import requests

from hwsonde_detector.clock import SystemClock
from hwsonde_detector.config.loading import load_config
from hwsonde_detector.errors import ConfigError, StateError
from hwsonde_detector.incidents.book import Book, Mode
from hwsonde_detector.incidents.store import FOLDER, Store
from hwsonde_detector.service import locking
from hwsonde_detector.service.program import Program
from hwsonde_detector.service.signals import Signals
from hwsonde_detector.web.history import History
from tests.detector.incidents.made import episode
from tests.detector.web.data import StillClock

USERS = bcrypt.hashpw(b"right", bcrypt.gensalt(4)).decode()


def write(folder: Path, more: str = "") -> Path:
    file = folder / "detector.yaml"
    file.write_text(
        "source: {url: 'http://127.0.0.1:1', history: 0s}\n"
        f"state: {{dir: {folder / 'state'}}}\nweb: {{listen: '127.0.0.1:0', config_file: web.yml}}\n"
        "alertmanager: {url: 'http://127.0.0.1:1', every: 1s, timeout: 200ms}\n"
        f"automation: {{command: [/bin/false]}}\n{more}"
    )
    return file


@contextmanager
def running(file: Path) -> Iterator[tuple[str, Signals]]:
    clock = SystemClock()
    signals = Signals(clock.wake)
    program = Program(load_config(file), clock, signals)
    thread = threading.Thread(target=program.run)
    thread.start()
    try:
        yield f"http://127.0.0.1:{program.port}", signals
    finally:
        signals.tell(stop=True)
        thread.join(30)
        clock.close()
        assert not thread.is_alive()


def test_incidents_are_served_to_who_is_signed_in(tmp_path: Path) -> None:
    (tmp_path / "web.yml").write_text(f'basic_auth_users: {{ann: "{USERS}"}}\n')
    now_ms = time.time_ns() // 1_000_000
    kept = Book(Store(tmp_path / "state" / FOLDER), History(), StillClock(now_ms), Mode())
    kept.resume([episode(now_ms - 100_000, end_ms=now_ms - 50_000)])
    with running(write(tmp_path)) as (address, signals):
        assert requests.get(f"{address}/incidents", timeout=10).status_code == 401
        assert requests.get(f"{address}/-/healthy", timeout=10).status_code == 200
        session = requests.Session()
        session.auth = ("ann", "right")
        (one,) = session.get(f"{address}/api/v1/incidents", timeout=10).json()["incidents"]
        page = session.get(f"{address}/incidents/{one['id']}", timeout=10).text
        assert "Alertmanager" in page
        token = page.partition('name="token" value="')[2].partition('"')[0]
        marked = session.post(
            f"{address}/incidents/{one['id']}/mark", data={"token": token, "mark": "useful"}, timeout=10
        )
        assert marked.status_code == 200
        metrics = session.get(f"{address}/metrics", timeout=10).text
        assert "\nhwsonde_detector_realised_useful_ratio 1\n" in metrics
        assert '\nhwsonde_detector_automation_actions_total{result="done"} 0\n' in metrics
        write(tmp_path, "maintenance: {x: 'node=\"n1\" from 2026-11-29T22:00:00Z for 4h'}\n")
        signals.tell(reload=True)
        ends = time.monotonic() + 20
        reloaded = '\nhwsonde_detector_reloads_total{result="ok"} 1\n'
        while reloaded not in session.get(f"{address}/metrics", timeout=10).text:
            assert time.monotonic() < ends
            time.sleep(0.05)
    with running(write(tmp_path)) as (address, _):
        (again,) = session.get(f"{address}/api/v1/incidents", timeout=10).json()["incidents"]
        assert (again["id"], again["mark"]) == (one["id"], "useful")


def test_a_wrong_file_of_users_ends_the_start_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "web.yml").write_text("basic_auth_users: {ann: plain}\n")
    with pytest.raises(ConfigError, match=r"web\.yml:1: basic_auth_users\.ann") as caught, running(write(tmp_path)):
        pass
    assert "\n" not in str(caught.value)
    assert "plain" not in str(caught.value)
    locking.Locks(tmp_path / "state").release()


def own(folder: Path, state: Path) -> Path:
    """A configuration in a folder of its own that keeps its state somewhere."""
    folder.mkdir(exist_ok=True)
    file = folder / "detector.yaml"
    file.write_text(
        f"source: {{url: 'http://127.0.0.1:1', history: 0s}}\nweb: {{listen: '127.0.0.1:0'}}\nstate: {{dir: {state}}}\n"
    )
    return file


def reloads(address: str, result: str, count: int) -> None:
    """Wait for so many reloads with this result."""
    ends, line = time.monotonic() + 30, f'\nhwsonde_detector_reloads_total{{result="{result}"}} {count}\n'
    while line not in requests.get(f"{address}/metrics", timeout=10).text:
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_a_folder_that_another_detector_has_is_not_taken_by_a_reload_nor_at_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(locking, "_PATIENCE_S", 0.0)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    with running(own(tmp_path / "b", ours)) as (address, signals):
        with running(own(tmp_path / "a", theirs)):
            with pytest.raises(StateError, match=f"^{theirs}: another detector"), running(own(tmp_path / "c", theirs)):
                pass
            own(tmp_path / "b", theirs)
            signals.tell(reload=True)
            reloads(address, "failed", 1)
            (told,) = [one.getMessage() for one in caplog.records if "old configuration stays" in one.getMessage()]
            assert f"{theirs}: another detector" in told
            # With the folder that it has all is well again.
            own(tmp_path / "b", ours)
            signals.tell(reload=True)
            reloads(address, "ok", 1)
        own(tmp_path / "b", theirs)
        signals.tell(reload=True)
        reloads(address, "ok", 2)
        for taken in (ours, theirs):
            with pytest.raises(StateError, match=f"^{taken}: another detector"):
                locking.Locks(taken)
    for left in (ours, theirs):
        locking.Locks(left).release()

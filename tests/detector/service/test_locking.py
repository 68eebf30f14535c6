"""One folder, one detector; where no lock can be made the service goes on."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hwsonde_detector.errors import StateError
from hwsonde_detector.service import locking
from hwsonde_detector.service.locking import Locks

from .test_program import ENVIRONMENT

HOLD = (
    "import pathlib, sys; from hwsonde_detector.service.locking import Locks; "
    "locks = Locks(pathlib.Path(sys.argv[1])); print(flush=True); sys.stdin.read()"
)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "_PATIENCE_S", 0.0)


def free(folder: Path) -> bool:
    """Whether anybody could lock it now."""
    try:
        Locks(folder).release()
    except StateError:
        return False
    return True


def test_a_folder_is_made_for_its_owner_and_held_by_one(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "state"
    with Locks(folder):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "state.lock").stat().st_mode) == 0o600
        with pytest.raises(StateError) as caught:
            Locks(folder)
        assert str(caught.value).startswith(f"{folder}: another detector that runs keeps its state there; end that one")
        assert "state.dir" in str(caught.value)
        assert "\n" not in str(caught.value)
    assert free(folder), "it is let go"


def test_who_was_killed_holds_nothing_and_who_runs_holds_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hold = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(hold, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert not free(tmp_path)
        other.send_signal(signal.SIGKILL)
        # Not waited for: who starts next is a little patient.
        monkeypatch.setattr(locking, "_PATIENCE_S", 30.0)
        assert free(tmp_path)


def test_a_reload_holds_one_more_folder_and_lets_it_go(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    with Locks(first) as locks:
        locks.take(second)
        locks.keep(second)
        assert not free(first), "incidents still lie there"
        assert not free(second)
        locks.take(third)
        locks.keep(second)
        assert not free(second)
        assert free(third), "the new configuration was wrong"
        locks.take(first)
        locks.keep(first)
        assert not free(first)
        assert free(second)
    assert free(first)


def test_a_folder_by_another_name_is_the_same_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "state")
    with Locks(tmp_path / "state") as locks:
        locks.take(tmp_path / "link")
        locks.keep(None)
        assert not free(tmp_path / "state"), "it is held by its first name still"


def test_without_a_folder_there_is_nothing_to_hold() -> None:
    with Locks(None) as locks:
        locks.take(None)
        locks.keep(None)


def test_a_folder_that_cannot_be_made_is_passed_over_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    for folder in (Path("/proc/none"), Path("/dev/null/below")):
        Locks(folder).release()
    assert caplog.records == [], "others tell of it"


def test_a_full_disk_or_one_without_locks_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", full)
        with Locks(tmp_path):
            pass
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", none)
        with Locks(tmp_path):
            pass
    place = f"state: {tmp_path}/state.lock"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        (
            "WARNING",
            f"{place}: cannot be locked ({os.strerror(number)}); see that no other detector keeps its state there",
        )
        for number in (errno.ENOSPC, errno.ENOLCK)
    ]
    assert free(tmp_path)

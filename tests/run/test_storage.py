"""The data directory: what stands there, its room, and a Prometheus that stops storing."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from quickstart import storage
from quickstart.errors import QuickstartError
from quickstart.layout import Options, Ports
from quickstart.storage import LEAST_ROOM, SILENT_SECONDS, Storage, check_places, kind, lack, room

PLENTY = 1 << 40


def options(data: Path) -> Options:
    return Options(data, Ports.from_base(21000), "n1")


def measured(room_by_look: list[int]) -> Callable[[Path], int]:
    left = iter(room_by_look)
    return lambda _: next(left)


def plenty(_: Path) -> int:
    return PLENTY


def test_a_new_and_a_used_data_directory_are_fine(tmp_path: Path) -> None:
    check_places(options(tmp_path / "new"), ["exporter"])
    for name in ("config", "logs", "detector", "prometheus", "alertmanager"):
        (tmp_path / name).mkdir()
    for name in ("lock", "events.jsonl"):
        (tmp_path / name).touch()
    (tmp_path / "logs" / "exporter.log").symlink_to("/dev/null")
    check_places(options(tmp_path), ["exporter"])


@pytest.mark.parametrize("name", ["config", "logs", "detector", "prometheus", "alertmanager"])
def test_a_file_where_a_directory_must_be(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(QuickstartError) as refused:
        # Below a file nothing can be looked at, so it must be named first.
        check_places(options(tmp_path), ["exporter"])
    assert str(refused.value).startswith(f"{tmp_path / name} is a file where a directory must be: move it away")
    assert "--data" in str(refused.value)


@pytest.mark.parametrize("name", ["lock", "events.jsonl", "logs/exporter.log"])
def test_something_else_where_a_file_must_be(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    place.mkdir(parents=True)
    with pytest.raises(QuickstartError, match=f"{name} is a directory where a file must be"):
        check_places(options(tmp_path), ["exporter"])
    place.rmdir()
    os.mkfifo(place)
    with pytest.raises(QuickstartError, match=f"{name} is a pipe"):
        check_places(options(tmp_path), ["exporter"])


def test_kinds(tmp_path: Path) -> None:
    assert kind(tmp_path / "none") == ""
    (tmp_path / "link").symlink_to(tmp_path / "none")
    assert kind(tmp_path / "link") == "link to nothing"
    (tmp_path / "none").mkdir()
    assert kind(tmp_path / "link") == "directory"


def test_room_of_this_disk(tmp_path: Path) -> None:
    assert room(tmp_path) > 0
    with pytest.raises(FileNotFoundError):
        room(tmp_path / "none")


@pytest.mark.parametrize(
    ("user", "blocks", "files", "expected"),
    [
        (0, (100, 7, 3), (50, 9, 8), 7 * 4096),
        (1000, (100, 7, 3), (50, 9, 8), 3 * 4096),
        (0, (100, 7, 3), (50, 2, 0), 7 * 4096),
        (1000, (100, 7, 3), (50, 2, 0), 0),
        (0, (100, 7, 3), (0, 0, 0), 7 * 4096),
        (0, (0, 0, 0), (0, 0, 0), sys.maxsize),
    ],
)
def test_room_is_what_this_user_may_take(
    monkeypatch: pytest.MonkeyPatch,
    user: int,
    blocks: tuple[int, int, int],
    files: tuple[int, int, int],
    expected: int,
) -> None:
    found = SimpleNamespace(
        f_frsize=4096, f_blocks=blocks[0], f_bfree=blocks[1], f_bavail=blocks[2],
        f_files=files[0], f_ffree=files[1], f_favail=files[2],
    )  # fmt: skip
    monkeypatch.setattr(storage.os, "statvfs", lambda _: found)
    monkeypatch.setattr(storage.os, "geteuid", lambda: user)
    assert room(Path("/d")) == expected


def test_a_lack_is_one_line_that_names_the_directory() -> None:
    assert lack(Path("/d"), measure=plenty) == ""
    assert lack(Path("/d"), measure=lambda _: LEAST_ROOM) == ""
    said = lack(Path("/d"), measure=lambda _: 3 << 20)
    assert said == "/d has 3.0 MiB left, 16 are needed: make room, or give another place with --data DIR"

    def gone(_: Path) -> int:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    assert lack(Path("/d"), measure=gone).startswith("/d: No such file or directory: ")


def test_a_disk_that_fills_is_one_error_until_there_is_ample_room_again() -> None:
    looks = [PLENTY, LEAST_ROOM - 1, 0, LEAST_ROOM + 1, LEAST_ROOM * 2, LEAST_ROOM + 1, 0]
    one = Storage(Path("/d"), 0.0, measured(looks))
    said = [one.look(float(at), float(at)) for at in range(len(looks))]
    assert [len(lines) for lines in said] == [0, 1, 0, 0, 1, 0, 1]
    assert said[1][0].startswith("/d has 16.0 MiB left")
    assert said[4] == ["/d has room again"]
    assert one.errors == 2


def test_a_prometheus_that_stores_nothing_is_one_error_each_time() -> None:
    one = Storage(Path("/d"), 0.0, plenty)
    assert one.look(100.0, 1.0) == []
    for at in range(2, 2 + int(SILENT_SECONDS) - 1):
        assert one.look(100.0, float(at)) == []
    assert (one.errors, one.silent) == (0, False)
    said = one.look(100.0, 1.0 + SILENT_SECONDS)
    assert said == ["Prometheus has stored nothing for 15 s in /d (log: /d/logs/prometheus.log)"]
    assert one.look(100.0, 40.0) == []
    assert (one.errors, one.silent) == (1, True)
    assert one.look(101.0, 41.0) == ["Prometheus stores again, after 40 s"]
    assert (one.errors, one.silent) == (1, False)
    assert one.look(102.0, 90.0) == []


def test_a_prometheus_that_never_stored_anything_is_an_error() -> None:
    one = Storage(Path("/d"), 0.0, plenty)
    said = [line for at in range(1, 31) for line in one.look(0.0, float(at))]
    assert len(said) == one.errors == 1


def test_who_did_not_look_has_seen_no_silence() -> None:
    one = Storage(Path("/d"), 0.0, plenty)
    assert one.look(100.0, 1.0) == []
    # This program itself was stopped for a while, and its first answer is an old one.
    assert one.look(100.0, 100.0) == []
    assert one.look(190.0, 101.0) == []
    assert one.errors == 0


def test_a_prometheus_that_is_stopped_on_purpose_is_no_error() -> None:
    one = Storage(Path("/d"), 0.0, plenty)
    for at in range(1, 60):
        assert one.look(5.0, float(at), held=True) == []
    assert one.look(5.0, 60.0) == []
    assert one.look(60.0, 65.0) == []
    assert one.errors == 0

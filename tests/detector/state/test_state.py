from __future__ import annotations

import errno
import json
import os
import resource
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from hwsonde_detector import state
from hwsonde_detector.errors import StateError
from hwsonde_detector.state import check_directory, load_state, peek_state, save_state

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)
ARRAYS = st.dictionaries(
    st.text(),
    hnp.arrays(
        st.sampled_from([np.float64, np.float32, np.int64, np.int32, np.bool_, np.dtype("<U7")]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    ),
    max_size=4,
)
DOCUMENT = {"hosts": ["n17"], "rows": 12, "nothing": None}
SOME = {"model/0/centre": np.arange(5.0), "../../evil": np.ones((2, 3), np.float32)}


def equal(first: NDArray[Any], second: NDArray[Any]) -> bool:
    return first.dtype == second.dtype and np.array_equal(first, second, equal_nan=first.dtype.kind == "f")


@given(st.dictionaries(st.text(), JSON, max_size=4), ARRAYS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_what_is_saved_is_what_is_loaded(
    tmp_path: Path, document: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> None:
    save_state(tmp_path, document, arrays)
    loaded = load_state(tmp_path)
    assert loaded is not None
    assert loaded[0] == document
    assert loaded[1].keys() == arrays.keys()
    assert all(equal(loaded[1][name], array) for name, array in arrays.items())


def test_numbers_that_are_not_finite_survive(tmp_path: Path) -> None:
    save_state(tmp_path, {"x": [float("inf"), float("nan")]}, {"y": np.array([np.nan, -np.inf])})
    document, arrays = load_state(tmp_path)
    assert str(document["x"]) == "[inf, nan]"
    assert np.array_equal(arrays["y"], [np.nan, -np.inf], equal_nan=True)


def test_no_state_is_none(tmp_path: Path) -> None:
    assert load_state(tmp_path) is None
    assert load_state(tmp_path / "not" / "there") is None


def test_the_directory_is_made_for_its_owner_only(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "state"
    save_state(directory, DOCUMENT, SOME)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE((directory / "state.npz").stat().st_mode) == 0o600
    assert names(directory) == ["state.npz"]


def test_equal_state_gives_equal_bytes(tmp_path: Path) -> None:
    save_state(tmp_path / "a", DOCUMENT, SOME)
    save_state(tmp_path / "b", dict(reversed(DOCUMENT.items())), dict(reversed(SOME.items())))
    assert (tmp_path / "a/state.npz").read_bytes() == (tmp_path / "b/state.npz").read_bytes()


def test_the_file_is_an_npz_that_numpy_reads_without_pickle(tmp_path: Path) -> None:
    save_state(tmp_path, DOCUMENT, SOME)
    with np.load(tmp_path / "state.npz", allow_pickle=False) as archive:
        head = json.loads(bytes(archive["document.json"]))
        assert head["document"] == DOCUMENT
        assert archive[str(head["names"].index("model/0/centre"))].tolist() == [0, 1, 2, 3, 4]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_state(tmp_path, DOCUMENT, SOME)
    return tmp_path


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_any_flipped_byte_is_noticed(saved: Path) -> None:
    content = (saved / "state.npz").read_bytes()
    rng = np.random.default_rng(0)
    ends = [*range(40), *range(len(content) - 130, len(content))]
    for place in [*ends, *rng.integers(0, len(content), 100).tolist()]:
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        (saved / "state.npz").write_bytes(changed)
        with pytest.raises(StateError, match=r"(damaged|newer).*learning starts anew"):
            load_state(saved)
        assert load_state(saved) is None


def test_any_truncation_and_any_addition_is_noticed(saved: Path) -> None:
    content = (saved / "state.npz").read_bytes()
    lengths = {0, 1, 10, 63, 64, 65, 91, 92, 93, len(content) // 2, len(content) - 64, len(content) - 1}
    for changed in [content[:length] for length in lengths] + [content + b"\0", content + content]:
        (saved / "state.npz").write_bytes(changed)
        with pytest.raises(StateError, match="damaged or cut short"):
            load_state(saved)


def test_a_damaged_file_is_set_aside_and_named(saved: Path) -> None:
    (saved / "state.npz").write_bytes(b"no such thing")
    with pytest.raises(StateError) as caught:
        load_state(saved)
    assert "\n" not in str(caught.value)
    assert "state.npz.damaged-1" in str(caught.value)
    assert (saved / "state.npz.damaged-1").read_bytes() == b"no such thing"
    save_state(saved, DOCUMENT, SOME)
    assert load_state(saved)[0] == DOCUMENT


def test_only_the_last_three_damaged_files_are_kept(saved: Path) -> None:
    for number in range(5):
        (saved / "state.npz").write_bytes(b"%d" % number)
        with pytest.raises(StateError):
            load_state(saved)
    assert names(saved) == ["state.npz.damaged-1", "state.npz.damaged-2", "state.npz.damaged-3"]
    assert {(saved / name).read_bytes() for name in names(saved)} == {b"2", b"3", b"4"}


def test_a_newer_version_is_set_aside_unharmed(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "VERSION", 2)
    save_state(saved, DOCUMENT, SOME)
    content = (saved / "state.npz").read_bytes()
    monkeypatch.undo()
    with pytest.raises(StateError, match=r"version 2 is newer than this program.s 1; kept as state\.npz\.newer-1"):
        load_state(saved)
    assert (saved / "state.npz.newer-1").read_bytes() == content


def test_a_file_with_a_good_checksum_but_other_content_is_damaged(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_DOCUMENT", "other.json")
    save_state(saved, DOCUMENT, SOME)
    monkeypatch.undo()
    with pytest.raises(StateError, match="damaged"):
        load_state(saved)


def test_leftovers_of_a_crash_are_removed(saved: Path) -> None:
    (saved / "state.npz.new-abc").write_bytes(b"half")
    assert load_state(saved) is not None
    assert names(saved) == ["state.npz"]


@pytest.fixture
def small_disk() -> Iterator[Callable[[], None]]:
    """Writing fails for real after 4 kB, as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_leaves_the_old_state_and_no_temporary_file(saved: Path, small_disk: Callable[[], None]) -> None:
    content = (saved / "state.npz").read_bytes()
    small_disk()
    with pytest.raises(StateError, match=r"state not written .*; the former state is kept") as caught:
        save_state(saved, DOCUMENT, {"big": np.zeros(10_000)})
    assert "\n" not in str(caught.value)
    assert names(saved) == ["state.npz"]
    assert (saved / "state.npz").read_bytes() == content


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_directory_that_cannot_be_is_one_line(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StateError, match="cannot keep state there") as caught:
        save_state(tmp_path / place, DOCUMENT, SOME)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_directory_that_cannot_be_written_is_one_line() -> None:
    with pytest.raises(StateError, match="/proc: cannot keep state there"):
        save_state(Path("/proc"), DOCUMENT, SOME)


def test_a_pipe_in_the_place_of_the_state_is_told_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "state.npz")
    with pytest.raises(StateError, match=r"cannot be read \(it is no regular file\); starting without it"):
        load_state(tmp_path)
    save_state(tmp_path, DOCUMENT, SOME)
    assert load_state(tmp_path) is not None


def test_a_directory_is_checked_before_there_is_a_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_directory(tmp_path / "new" / "one")
    assert names(tmp_path / "new" / "one") == []
    with pytest.raises(StateError, match=r"^/proc/none: cannot keep state there \(.*\); (name|make)"):
        check_directory(Path("/proc/none"))

    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", forbidden)
    for place, user, how in [
        (tmp_path / "none", os.geteuid(), f"make it as root by `install -d -m 0700 -o {os.geteuid()} {tmp_path}/none`"),
        (tmp_path, os.geteuid(), f"make it writable by `chmod u+rwx {tmp_path}`"),
        # What lies there already would stay another's with the folder alone.
        (tmp_path, 12345, f"give it to this user as root by `chown -R 12345 {tmp_path}`"),
    ]:
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        with pytest.raises(StateError) as caught:
            check_directory(place)
        assert f"; {how}, or name a directory that can be written by state.dir" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_state_that_cannot_be_read_stays_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "state.npz").mkdir()
    with pytest.raises(StateError, match="cannot be read"):
        load_state(tmp_path)
    assert names(tmp_path) == ["state.npz"]


@pytest.mark.parametrize(
    ("document", "arrays"),
    [({"x": object()}, {}), ({}, {"x": np.array([object()])}), ({"x": {1, 2}}, {})],
)
def test_a_value_that_cannot_be_kept_leaves_the_old_state(
    saved: Path, document: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> None:
    content = (saved / "state.npz").read_bytes()
    with pytest.raises(StateError, match="a value cannot be kept"):
        save_state(saved, document, arrays)
    assert (saved / "state.npz").read_bytes() == content


def test_peeking_changes_nothing(tmp_path):
    assert peek_state(tmp_path) is None
    save_state(tmp_path, {"a": 1}, {"x": np.zeros(3)})
    (tmp_path / "state.npz.new-other").write_bytes(b"a save that goes on")
    assert peek_state(tmp_path) == {"a": 1}
    data = bytearray((tmp_path / "state.npz").read_bytes())
    data[20] ^= 1
    (tmp_path / "state.npz").write_bytes(data)
    with pytest.raises(StateError, match="left as it is"):
        peek_state(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state.npz", "state.npz.new-other"]

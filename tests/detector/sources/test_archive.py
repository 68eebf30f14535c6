"""Recording and replay: equal reads, a cut-off end, damage in the middle, a full disk."""

from __future__ import annotations

import logging
import os
import re
import struct
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwsonde_detector.errors import ArchiveError
from hwsonde_detector.sources import archive as module
from hwsonde_detector.sources.archive import MAGIC, ArchiveRecorder, ArchiveSource, Start, Tick
from hwsonde_detector.sources.base import Read
from hwsonde_detector.sources.decode import SEPARATOR, decode_answers
from hwsonde_detector.types import Entity, SampleBatch
from hwsonde_detector.types.guidance import UNGUIDED, Guidance, Marked, Matcher, Normal, guidance_document
from tests.detector.sources.answers import answer, identity


def read_of(raw: bytes | None, since_ms: int = 0, warnings: tuple[str, ...] = ()) -> Read:
    batch = SampleBatch.empty() if raw is None else decode_answers(raw, since_ms)[0]
    return Read(batch, warnings, raw, since_ms)


def tick(number: int) -> tuple[int, Read]:
    body = answer(
        [(identity("up", node=f"n{node}"), [(1000 * number, float("nan") if node else 1.5)]) for node in range(3)]
    )
    return 1000 * number + 130, read_of(body, 1000 * number - 1)


def flat(pairs):
    return [
        (
            now,
            read.raw,
            read.warnings,
            read.since_ms,
            read.batch.series,
            read.batch.offsets.tobytes(),
            read.batch.times.tobytes(),
            read.batch.values.tobytes(),
        )
        for now, read in pairs
    ]


def ticks(source: ArchiveSource):
    return [(record.now_ms, record.read) for record in source.records() if isinstance(record, Tick)]


def recorded(path: Path, pairs, **options) -> None:
    with ArchiveRecorder(path, **options) as recorder:
        for now, read in pairs:
            recorder.record(now, read)


TICKS = [tick(number) for number in range(1, 6)]
UNSURE = Guidance(unsure=True)
SILENCED = Guidance(normal=(Normal((Matcher("node", "a"),), 0, 9, "silence", "silence 1"),))
MARKED = Guidance(marks=(Marked(Entity((("node", "a"),)), "a@1", "noise"),))


def test_the_same_reads_at_the_same_times(tmp_path):
    several = read_of(
        SEPARATOR.join([answer([(identity("a"), [(1, 1.0)])]), answer([(identity("b"), [(1, 1.0)])])]),
        0,
        ("PromQL info: x",),
    )
    pairs = [*TICKS, (7000, read_of(None, 6000)), (8000, several)]
    recorded(tmp_path / "a", pairs)
    source = ArchiveSource(tmp_path / "a")
    assert flat(ticks(source)) == flat(pairs)
    assert flat(ticks(source)) == flat(pairs)
    assert source.warning is None


def test_recording_goes_on_in_the_same_file(tmp_path):
    recorded(tmp_path / "a", TICKS[:2])
    recorded(tmp_path / "a", TICKS[2:])
    assert flat(ticks(ArchiveSource(tmp_path / "a"))) == flat(TICKS)


def test_a_start_keeps_the_state(tmp_path):
    arrays = {"0/model": np.arange(6.0).reshape(2, 3), "file": np.array([True]), "allow_pickle": np.zeros(0, np.int64)}
    with ArchiveRecorder(tmp_path / "a") as recorder:
        recorder.record_start(None, {})
        recorder.record(*TICKS[0])
        recorder.record_start({"hosts": [1, "é"]}, arrays)
    cold, first, warm = ArchiveSource(tmp_path / "a").records()
    assert cold == Start()
    assert isinstance(first, Tick)
    assert warm.document == {"hosts": [1, "é"]}
    assert warm.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert warm.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(warm.arrays[name], array)


def test_every_cut_gives_the_whole_records_before_it(tmp_path):
    recorded(tmp_path / "a", TICKS)
    data = (tmp_path / "a").read_bytes()
    ends = [len(MAGIC)]
    for count in range(1, 6):
        recorded(tmp_path / f"{count}", TICKS[:count])
        ends.append((tmp_path / f"{count}").stat().st_size)
    for cut in range(len(MAGIC), len(data), 7):
        (tmp_path / "cut").write_bytes(data[:cut])
        source = ArchiveSource(tmp_path / "cut")
        whole = sum(end <= cut for end in ends) - 1
        assert flat(ticks(source)) == flat(TICKS[:whole])
        assert (source.warning is None) == (cut in ends)
        recorded(tmp_path / "cut", TICKS[whole:])
        assert (tmp_path / "cut").read_bytes() == data


def test_zeros_after_a_power_cut_are_a_cut_off_end(tmp_path):
    recorded(tmp_path / "a", TICKS[:2])
    with (tmp_path / "a").open("ab") as file:
        file.write(bytes(5000))
    source = ArchiveSource(tmp_path / "a")
    assert flat(ticks(source)) == flat(TICKS[:2])
    assert "cut off" in source.warning
    recorded(tmp_path / "a", TICKS[2:])
    assert flat(ticks(ArchiveSource(tmp_path / "a"))) == flat(TICKS)


@settings(max_examples=60, deadline=None)
@given(st.integers(min_value=0), st.integers(1, 255))
def test_a_flipped_byte_is_never_taken_for_data(tmp_path_factory, place, flip):
    path = tmp_path_factory.mktemp("archive") / "a"
    recorded(path, TICKS)
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= flip
    path.write_bytes(data)
    found, warning, error = replayed(path)
    if error is not None:
        assert "\n" not in str(error)
        assert str(path) in str(error)
    else:
        # Only damage in the last record can pass for a record that was cut off.
        assert warning is not None
        assert found == flat(TICKS[:-1])


def replayed(path):
    try:
        source = ArchiveSource(path)
        return flat(ticks(source)), source.warning, None
    except ArchiveError as error:
        return None, None, error


def test_damage_in_the_middle_names_the_offset(tmp_path):
    recorded(tmp_path / "a", TICKS[:1])
    at = (tmp_path / "a").stat().st_size
    recorded(tmp_path / "a", TICKS[1:])
    data = bytearray((tmp_path / "a").read_bytes())
    data[at + 40] ^= 1
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(ArchiveError, match=f"byte {at} is damaged"):
        ticks(ArchiveSource(tmp_path / "a"))


def of_kind(kind: int, content: bytes = b"what a later version writes") -> bytes:
    payload = bytes([kind]) + content
    checked = struct.pack("<II", len(payload), zlib.crc32(payload))
    return checked + zlib.crc32(checked).to_bytes(4, "little") + payload


@pytest.mark.parametrize("kind", [0, 5, 255])
@pytest.mark.parametrize("behind", [0, 2])
def test_a_record_of_an_unknown_kind_is_one_clear_line(tmp_path, kind, behind):
    path = tmp_path / "a"
    recorded(path, TICKS[:2])
    at = path.stat().st_size
    with path.open("ab") as file:
        file.write(of_kind(kind))
    recorded(path, TICKS[2 : 2 + behind])
    source, found = ArchiveSource(path), []
    said = f"the record at byte {at} is of kind {kind}, which this version does not know; read it with the version that recorded it"
    with pytest.raises(ArchiveError, match=re.escape(said)) as caught:
        found.extend(source.records())
    assert str(caught.value) == f"{path}: {said}"
    with pytest.raises(ArchiveError, match=re.escape(said)):
        source.span()


def test_a_damaged_kind_is_damage_and_no_other_version(tmp_path):
    path = tmp_path / "a"
    recorded(path, TICKS)
    data = bytearray(path.read_bytes())
    data[len(MAGIC) + 12] = 9
    path.write_bytes(data)
    assert ArchiveSource(path).span() == (TICKS[1][0], TICKS[-1][0])
    with pytest.raises(ArchiveError, match=f"byte {len(MAGIC)} is damaged"):
        ticks(ArchiveSource(path))


def test_the_kinds_that_are_described_are_those_that_are_read_and_written(tmp_path):
    numbers = {int(one) for one in re.findall(r"^- (\d+), ", module.__doc__, re.MULTILINE)}
    assert numbers == module._KINDS
    path = tmp_path / "a"
    with ArchiveRecorder(path) as recorder:
        recorder.record_start(None, {})
        recorder.record_guidance(SILENCED)
        recorder.record_guidance(UNSURE)
        recorder.record(*TICKS[0])
    with path.open("rb") as file:
        written = {file.read(1)[0] for _ in module._walk(file, path, path.stat().st_size)}
    assert written == numbers


def guidances(path: Path) -> list[Guidance]:
    return [record.guidance for record in ArchiveSource(path).records() if isinstance(record, Tick)]


@pytest.mark.parametrize(
    "told",
    [
        [UNSURE, UNSURE, UNGUIDED],
        [UNSURE, SILENCED, SILENCED, UNGUIDED],
        [replace(SILENCED, unsure=True), replace(SILENCED, unsure=True), SILENCED],
        [UNGUIDED, MARKED, UNGUIDED, UNSURE],
        [replace(MARKED, unsure=True), UNSURE, replace(MARKED, unsure=True), UNGUIDED],
    ],
)
def test_what_was_told_with_each_answer_comes_back_with_it(tmp_path, told):
    with ArchiveRecorder(tmp_path / "a") as recorder:
        recorder.record_start(None, {})
        for guidance, (now, read) in zip(told, TICKS, strict=False):
            recorder.record_guidance(guidance)
            recorder.record(now, read)
    assert guidances(tmp_path / "a") == told


def test_nobody_is_unsure_any_more_behind_a_start(tmp_path):
    with ArchiveRecorder(tmp_path / "a") as recorder:
        for told in (UNSURE, UNGUIDED, UNSURE):
            recorder.record_start(None, {})
            recorder.record_guidance(told)
            recorder.record(*TICKS[0])
    assert guidances(tmp_path / "a") == [UNSURE, UNGUIDED, UNSURE]


def test_in_archives_of_former_versions_it_held_for_one_answer(tmp_path):
    recorded(tmp_path / "a", [])
    with (tmp_path / "a").open("ab") as file:
        file.write(of_kind(3, orjson.dumps(guidance_document(replace(SILENCED, unsure=True)))))
    recorded(tmp_path / "a", TICKS[:3])
    assert guidances(tmp_path / "a") == [replace(SILENCED, unsure=True), SILENCED, SILENCED]


@pytest.mark.parametrize("content", [b"", b"HWSONDE ARCHIVE 2\n", b"some notes\n", MAGIC[:4]])
def test_what_is_no_archive_is_refused(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(ArchiveError, match="no archive"):
        ArchiveSource(tmp_path / "a")


def test_another_file_is_never_written_to(tmp_path):
    (tmp_path / "a").write_bytes(b"some notes that somebody wants to keep\n")
    with pytest.raises(ArchiveError, match="is no archive"):
        ArchiveRecorder(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"some notes that somebody wants to keep\n"


@pytest.mark.parametrize("path", ["none/a", "."])
def test_paths_that_cannot_be_used(tmp_path, path):
    for make in (ArchiveRecorder, ArchiveSource):
        with pytest.raises(ArchiveError, match="archive cannot be"):
            make(tmp_path / path)


def test_two_recorders_do_not_share_a_file(tmp_path):
    with ArchiveRecorder(tmp_path / "a"), pytest.raises(ArchiveError, match="another process"):
        ArchiveRecorder(tmp_path / "a")


def test_the_size_is_bounded(tmp_path, caplog):
    with caplog.at_level(logging.ERROR, "hwsonde_detector.archive"), ArchiveRecorder(tmp_path / "a", 500) as recorder:
        for now, read in TICKS * 10:
            recorder.record(now, read)
        assert recorder.stopped
    assert len(caplog.records) == 1
    assert "largest size" in caplog.text
    assert (tmp_path / "a").stat().st_size <= 500
    assert len(ticks(ArchiveSource(tmp_path / "a"))) >= 1


FULL = """
import resource, signal, sys
from pathlib import Path
from tests.detector.sources.test_archive import TICKS
from hwsonde_detector import logs
from hwsonde_detector.sources.archive import ArchiveRecorder
logs.set_up()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))
with ArchiveRecorder(Path(sys.argv[1])) as recorder:
    for now, read in TICKS * 3:
        recorder.record(now, read)
    assert recorder.stopped
print("went on")
"""


def test_a_full_disk_stops_recording_and_nothing_else(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FULL, tmp_path / "a"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout == "went on\n"
    assert done.stderr.count("\n") == 1
    assert "recording stopped: File too large; make room" in done.stderr
    source = ArchiveSource(tmp_path / "a")
    found = ticks(source)
    assert found
    assert flat(found) == flat((TICKS * 3)[: len(found)])
    assert source.warning is None


def test_a_replay_leaves_out_what_the_run_left_out(tmp_path):
    body = answer([(identity("up", node="a"), [(1000, 1.0), (1900, 1.0), (3_600_000, 1.0)])])
    recorded(tmp_path / "a", [(1130, Read(SampleBatch.empty(), (), body, 0))])
    ((now, read),) = ticks(ArchiveSource(tmp_path / "a"))
    assert (now, read.batch.times.tolist(), read.future) == (1130, [1000, 1900], 1)

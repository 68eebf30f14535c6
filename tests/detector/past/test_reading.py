"""The past out of a Prometheus and out of an archive: the same ticks, whatever the reads were like."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.errors import ArchiveError, SourceGarbled, SourcePartial, SourceRefused, SourceUnreachable
from hwsonde_detector.past.reading import TICK_MS, How, Position, archive_range, finer, open_records, ticks
from hwsonde_detector.sources.archive import ArchiveRecorder, ArchiveSource, Tick
from hwsonde_detector.sources.base import Read
from hwsonde_detector.types import SampleBatch
from tests.detector.past.history import START_MS, History, config, raw_of
from tests.detector.sources import server as fake
from tests.detector.sources.answers import EMPTY, answer

HISTORY = History(300, faults={})
FIRST, LAST = START_MS + 90_500, START_MS + 250_000
PARTIAL = answer([], warnings=["store gateway: context deadline exceeded"])


def flat(records) -> list[tuple[int, int, float]]:
    """Every sample with its tick's time."""
    return [
        (now_ms, ms, value)
        for batch, now_ms in records
        for ms, value in zip(batch.times.tolist(), batch.values.tolist(), strict=True)
    ]


def plain(batch: SampleBatch) -> dict:
    return {
        one: (batch.times[begin:end].tolist(), batch.values[begin:end].tolist())
        for one, begin, end in zip(batch.series, batch.offsets[:-1], batch.offsets[1:], strict=True)
    }


@pytest.fixture
def pauses():
    return []


@pytest.fixture
def read(server, tmp_path, pauses):
    """Read the range from the server that plays."""

    def records(learning_ms=60_000, **how):
        found = open_records(
            config(tmp_path, server.url), FIRST, LAST, None, learning_ms, How(pause=pauses.append, **how)
        )
        return list(found)

    return records


def test_ticks_fall_on_full_minutes_and_on_the_borders_of_the_range(server, read):
    server.play(HISTORY.served())
    records = read()
    minutes = [START_MS + minute * TICK_MS for minute in (1, 2, 3, 4)]
    assert [now_ms for _, now_ms in records] == [minutes[0], FIRST, *minutes[1:], LAST]
    borders = [FIRST - 60_000, *[now_ms for _, now_ms in records]]
    for (batch, now_ms), begin in zip(records, borders, strict=False):
        assert plain(batch) == plain(HISTORY.batch(begin, now_ms))


READS = st.lists(st.integers(1, 200), max_size=12)


@given(READS, READS)
def test_ticks_do_not_depend_on_how_it_was_read(first, second):
    def dealt(lengths):
        until = [START_MS - 1000]
        for length in lengths:
            until.append(min(until[-1] + length * 1000, LAST))
        until.append(LAST)
        reads = [(HISTORY.batch(begin, end), end) for begin, end in pairwise(until)]
        return [(plain(batch), now_ms) for batch, now_ms in ticks(reads, START_MS - 1000, FIRST, LAST)]

    assert dealt(first) == dealt(second)


@given(st.integers(0, 6))
def test_going_on_after_any_tick_gives_the_rest(done):
    def dealt(since):
        return [
            (plain(batch), now_ms) for batch, now_ms in ticks([(HISTORY.batch(since, LAST), LAST)], since, FIRST, LAST)
        ]

    whole = dealt(FIRST - 60_000)
    assert len(whole) == 6
    begin = whole[done - 1][1] if done else FIRST - 60_000
    assert dealt(begin) == whole[done:]


def test_a_grid_is_read_by_query_range(server, read):
    def behave(handler):
        form = handler.server.asked[-1].form
        start, end, step = (round(float(form[name]) * 1000) for name in ("start", "end", "step"))
        assert handler.server.asked[-1].path == "/api/v1/query_range"
        moments = range(start, end + 1, step)
        handler.reply(answer([((("__name__", "m_cpu_0_total"), ("node", "n1")), [(ms, 1.0) for ms in moments])]))

    server.play(behave)
    times = [ms for _, ms, _ in flat(read(step_ms=10_000))]
    assert times == list(range(START_MS + 40_000, LAST + 1, 10_000))


def test_a_read_that_fails_for_a_while_changes_nothing(server, read, pauses):
    server.play(HISTORY.served())
    expected = flat(read())
    failing = [fake.good(PARTIAL), fake.truncated(EMPTY, 5), fake.hangs_up, fake.hangs_up]
    asked = []

    def sometimes(handler):
        asked.append(handler)
        # In the middle of the range, once something has been read.
        if len(asked) > 1 and failing:
            failing.pop(0)(handler)
            return True
        return False

    server.play(HISTORY.served(sometimes))
    assert flat(read()) == expected
    assert not failing
    assert pauses == [1.0, 5.0, 20.0]


@pytest.mark.parametrize(
    ("behaviour", "error", "tries"),
    [
        (fake.good(PARTIAL), SourcePartial, 3),
        (fake.good(b"<html>"), SourceGarbled, 3),
        (fake.hangs_up, SourceUnreachable, 0),
        (fake.status(401), SourceRefused, 0),
        (fake.status(500), SourceRefused, 0),
    ],
)
def test_a_read_that_keeps_failing_ends_with_its_line(server, read, pauses, behaviour, error, tries):
    server.play(behaviour)
    with pytest.raises(error):
        read()
    assert len(pauses) == tries


def test_what_was_read_before_a_failure_is_given(server, tmp_path):
    asked = []

    def later(handler):
        asked.append(handler)
        if len(asked) > 2:
            handler.reply(PARTIAL)
        return len(asked) > 2

    server.play(HISTORY.served(later))
    given_ms = []
    records = open_records(config(tmp_path, server.url), FIRST, LAST, None, 600_000, How(pause=lambda _: None))
    with pytest.raises(SourcePartial):
        given_ms += (now_ms for _, now_ms in records)
    # Of the two answers the second may not be whole, as far as anybody knows.
    assert given_ms == [START_MS - 480_000]


def test_nothing_in_the_range(server, read):
    server.play(fake.good(EMPTY))
    records = read()
    assert records[-1][1] == LAST
    assert flat(records) == []


# --- archives


@pytest.fixture
def archive(tmp_path):
    return HISTORY.archive(tmp_path / "a")


def from_archive(path, first=FIRST, last=LAST, learning_ms=60_000, after=None):
    folder = path.parent
    return list(open_records(config(folder), first, last, path, learning_ms, How(after=after or Position())))


def test_ticks_of_an_archive_are_those_that_were_recorded(archive):
    records = from_archive(archive)
    recorded = [(one.read.batch, one.now_ms) for one in ArchiveSource(archive).records() if isinstance(one, Tick)]
    expected = [pair for pair in recorded if FIRST - 60_000 < pair[1] <= LAST]
    assert [now_ms for _, now_ms in records[:-1]] == [now_ms for _, now_ms in expected]
    assert [plain(batch) for batch, _ in records[:-1]] == [plain(batch) for batch, _ in expected]
    # The last scrape of the range was read after its end.
    assert records[-1][1] == LAST
    assert set(records[-1][0].times.tolist()) == {LAST}


def test_going_on_in_an_archive(archive):
    whole = from_archive(archive)
    rest = from_archive(archive, after=Position(40, whole[39][1]))
    assert [now_ms for _, now_ms in rest] == [now_ms for _, now_ms in whole[40:]]


def test_the_range_of_an_archive(archive, tmp_path):
    first, last = archive_range(archive)
    assert (first, last) == (START_MS - 1, START_MS + 299_150)
    # All of it, then.
    assert len(flat(from_archive(archive, first, last, 0))) == HISTORY.totals.size
    with ArchiveRecorder(tmp_path / "empty") as recorder:
        recorder.record(5, Read(SampleBatch.empty(), (), EMPTY))
    for path in (tmp_path / "empty", tmp_path / "none"):
        with pytest.raises(ArchiveError):
            archive_range(path)


def test_recorded_starts_and_a_cut_off_end_do_no_harm(archive, caplog):
    whole = flat(from_archive(archive))
    with ArchiveRecorder(archive) as recorder:
        recorder.record_start({"x": 1}, {"a": np.zeros(3)})
        late = HISTORY.batch(LAST, LAST + 1000)
        recorder.record(START_MS + 400_000, Read(late, (), raw_of(late)))
    assert flat(from_archive(archive)) == whole
    data = archive.read_bytes()
    archive.write_bytes(data[:-7])
    assert flat(from_archive(archive)) == whole
    assert flat(from_archive(archive, last=START_MS + 500_000))[: len(whole) - 40] == whole[: len(whole) - 40]
    assert "cut off" in caplog.text


def test_ticks_may_be_made_shorter_for_a_while():
    whole = [
        (HISTORY.batch(begin, begin + 60_000), begin + 60_000) for begin in range(START_MS, START_MS + 180_000, 60_000)
    ]
    found = list(finer(iter(whole), START_MS, START_MS + 70_000, 5000))
    times = [(now_ms - START_MS) // 1000 for _, now_ms in found]
    assert times == [*range(5, 61, 5), 65, 70, 120, 180]
    assert [ms for _, ms, _ in flat(found) if ms > START_MS + 120_000] == [ms for _, ms, _ in flat(whole[2:])]
    assert sorted(ms for _, ms, _ in flat(found)) == sorted(ms for _, ms, _ in flat(whole))
    assert all(batch.times.max() <= now_ms for batch, now_ms in found)
    # What comes late is not lost.
    late = [(HISTORY.batch(START_MS - 1, START_MS + 7000), START_MS + 7000)]
    assert len(flat(finer(iter(late), START_MS + 3000, START_MS + 9000, 5000))) == len(flat(late))

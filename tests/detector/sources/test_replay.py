"""An archive of a run gives the same scores and events as the run, and the same bytes each time."""

from __future__ import annotations

import orjson
import pytest

from hwsonde_detector.engines.local import LocalEngine
from hwsonde_detector.errors import ArchiveError
from hwsonde_detector.replay import lines, replay
from hwsonde_detector.sources.archive import ArchiveRecorder, ArchiveSource
from hwsonde_detector.sources.base import Read
from hwsonde_detector.types import SampleBatch
from tests.detector.sources.answers import answer
from tests.detector.worker.hosts import PLAN, batches, rates

FAULT_FROM, SECONDS = 150, 175


def fault(name: str, second: int, value: float) -> float:
    return value * 6 if second >= FAULT_FROM and name.startswith("storage") else value


@pytest.fixture(scope="module")
def ticks() -> list[tuple[SampleBatch, int]]:
    return batches(rates(SECONDS, fault=fault))


def raw_of(batch: SampleBatch) -> bytes:
    series = []
    for index, one in enumerate(batch.series):
        part = slice(batch.offsets[index], batch.offsets[index + 1])
        series.append(
            (
                (("__name__", one.name), *one.labels),
                list(zip(batch.times[part].tolist(), batch.values[part].tolist(), strict=True)),
            )
        )
    return answer(series)


def live(ticks, path, engine: LocalEngine) -> bytes:
    """Score as the service does, recording; give the lines that a replay must print."""
    said = []
    with ArchiveRecorder(path) as recorder:
        if engine.last_row_ms() is None:
            recorder.record_start(None, {})
        else:
            recorder.record_start(*engine.snapshot())
        for batch, now_ms in ticks:
            recorder.record(now_ms, Read(batch, (), raw_of(batch)))
            said += lines(engine.step(batch, now_ms), now_ms)
    return b"".join(said)


def test_a_replay_equals_the_run_byte_for_byte(ticks, tmp_path):
    said = live(ticks, tmp_path / "a", LocalEngine(PLAN))
    archive = ArchiveSource(tmp_path / "a")
    assert b"".join(replay(archive.records(), PLAN)) == said
    assert b"".join(replay(archive.records(), PLAN)) == said
    found = [orjson.loads(line) for line in said.splitlines()]
    opened = [one for one in found if one["kind"] == "event" and one["phase"] == "opened"]
    assert [one["episode"]["subsystem"] for one in opened] == ["storage"]
    scores = [one for one in found if one["kind"] == "score"]
    assert len(scores) > 100
    assert scores[-1]["entity"] == {"cluster": "lab", "node": "n1"}
    assert sum(scores[-1]["subsystems"].values()) == pytest.approx(scores[-1]["fused"])


def test_a_run_that_began_with_kept_models_is_replayed_with_them(ticks, tmp_path):
    first = LocalEngine(PLAN)
    for batch, now_ms in ticks[:140]:
        first.step(batch, now_ms)
    second = LocalEngine(PLAN)
    second.restore(*first.snapshot())
    said = live(ticks[138:], tmp_path / "a", second)
    assert b'"phase":"opened"' in said
    assert b"".join(replay(ArchiveSource(tmp_path / "a").records(), PLAN)) == said


def test_two_runs_in_one_archive(ticks, tmp_path):
    said = live(ticks[:60], tmp_path / "a", LocalEngine(PLAN)) + live(ticks[:70], tmp_path / "a", LocalEngine(PLAN))
    assert b"".join(replay(ArchiveSource(tmp_path / "a").records(), PLAN)) == said


def test_damage_ends_a_replay_with_its_place(ticks, tmp_path):
    live(ticks[:60], tmp_path / "a", LocalEngine(PLAN))
    data = bytearray((tmp_path / "a").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(ArchiveError, match="at byte"):
        list(replay(ArchiveSource(tmp_path / "a").records(), PLAN))

"""What the detector told of and a report does not find again: which of it counts, and how it is said."""

from __future__ import annotations

import io
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from hwsonde_detector.config.loading import parse_config
from hwsonde_detector.explain.vanished import SeenFault
from hwsonde_detector.explain.verdict import Moments
from hwsonde_detector.incidents.entry import Mark, entry_of
from hwsonde_detector.incidents.store import FOLDER, Store
from hwsonde_detector.reports.told import Told, known_told, read_told
from hwsonde_detector.state import save_state
from hwsonde_detector.types import DataFaultEpisode, Device, Episode, FaultEvidence, FaultKind, Subsystem
from tests.detector.explain.planted import SECOND, T0, channel, fault, host
from tests.detector.reports.test_open_incidents import engine, opened

N1, N2 = host("n1"), host("n2")
SPAN = (T0, T0 + 600 * SECOND)
MOMENTS = Moments(*SPAN)
PSI = channel("psi", Subsystem.MEMORY)
GPU = Device("gpu", "3 (GPU-5f1c)")


def episode(begin_s: int, length_s: int | None, node=N1) -> Episode:
    made, _ = fault(node, T0 + begin_s * SECOND, length_s or 10, {PSI: 1.0}, open_end=length_s is None)
    return replace(made, title="lab/n1 memory: pressure 63 %")


def data_fault(begin_s: int, kind=FaultKind.MISSING, device=GPU) -> DataFaultEpisode:
    onset = T0 + begin_s * SECOND
    evidence = (FaultEvidence(device, 4.0, onset),)
    title = "lab/n1 gpu 3 (GPU-5f1c) has sent nothing for 40 s"
    return DataFaultEpisode("data x", N1, kind, onset + 9, onset, None, 4.0, title, evidence)


def sentences(*incidents, faults=(), found=(), seen=(), seen_s: int | None = 600, base: str = "") -> list[str]:
    told = Told(
        incidents=tuple(entry_of(one, 0) if isinstance(one, Episode) else one for one in incidents),
        faults=tuple(faults),
        seen_ms=None if seen_s is None else T0 + seen_s * SECOND,
    )
    return [one.sentence for one in known_told({N1: SPAN}, told, found, seen, MOMENTS, base)]


def test_an_open_and_a_closed_one():
    open_one, closed = episode(-1800, None), episode(100, 60)
    first, second = sentences(open_one, closed, base="https://det.example.org/")
    assert first == (
        "The detector told of an incident that has been open since "
        f"{MOMENTS.text(open_one.onset_ms)}: lab/n1 memory: pressure 63 % (https://det.example.org/incidents/{entry_of(open_one, 0).id})."
    )
    assert f"that was open from {MOMENTS.text(T0 + 100_000)} to {MOMENTS.text(T0 + 159_000)}: " in second
    (dated,) = sentences(episode(-100_000, None))
    assert "open since 2026-" in dated, "it began on another day"


@pytest.mark.parametrize(
    ("begin_s", "length_s", "counts"),
    [(-100, 50, False), (-100, 150, True), (500, 900, True), (601, 10, False), (-90_000, None, True), (601, None, False)],
)  # fmt: skip
def test_only_what_touches_the_time_that_counts(begin_s, length_s, counts):
    assert bool(sentences(episode(begin_s, length_s))) is counts
    assert sentences(episode(begin_s, length_s, N2)) == []


def test_what_was_open_when_a_detector_was_stopped_long_ago_is_not_held_against_a_host():
    assert sentences(episode(-7200, None), seen_s=-3000) != []
    assert sentences(episode(-9000, None), seen_s=-3601) == []
    assert sentences(episode(-9000, None), seen_s=None) != []
    assert sentences(faults=[data_fault(-9000)], seen_s=-3601) == []


def test_what_is_found_again_is_told_once():
    kept = episode(100, 100)
    assert sentences(kept, found=[kept]) == []
    assert sentences(kept, found=[episode(130, 100)]) == [], "other models saw it begin later"
    assert len(sentences(kept, found=[episode(300, 100)])) == 1
    assert len(sentences(kept, found=[replace(episode(130, 100), subsystem=Subsystem.STORAGE)])) == 1
    assert len(sentences(kept, found=[episode(130, 100, N2)])) == 1


def test_what_people_said_of_it_is_told_with_it():
    kept = entry_of(episode(100, 100), 0, normal="silence 7")
    (one,) = sentences(replace(kept, mark=Mark.NOISE))
    assert "pressure 63 %; it counted as normal (silence 7); somebody called it noise (incidents/" in one


def test_data_faults_that_were_open():
    told = Told(faults=(data_fault(-7200),), seen_ms=SPAN[1])
    (one,) = known_told({N1: SPAN}, told, (), (), MOMENTS, "")
    assert one.cause
    assert one.sentence.startswith("The detector told of a data fault that has been open since ")
    assert one.sentence.endswith(": lab/n1 gpu 3 (GPU-5f1c) has sent nothing for 40 s.")
    assert (one.device, one.runbook) == (GPU, "HwsondeDataFault")
    told = replace(told, faults=(data_fault(10, FaultKind.STUCK), data_fault(20, FaultKind.SLOW)))
    (one,) = known_told({N1: SPAN}, told, (), (), MOMENTS, "")
    assert (one.cause, one.runbook) == (False, "HwsondeDataFaultWarning")
    again = SeenFault(N1, FaultKind.MISSING, data_fault(10).evidence[0], T0, T0 + 5)
    assert sentences(faults=[data_fault(10)], seen=[again]) == []


def document(one: DataFaultEpisode) -> dict:
    return {**asdict(one), "entity": [list(pair) for pair in one.entity.labels]}


def test_everything_is_read_and_nothing_is_touched(tmp_path: Path):
    config = parse_config(f"state: {{dir: {tmp_path}}}\n".encode(), "f")
    state = engine(opened(0))
    state["hosts"][1]["quality"] = {"episode": document(data_fault(10))}
    save_state(tmp_path, {"engine": state, "service": {"past": []}}, {})
    store = Store(tmp_path / FOLDER)
    store.open(T0)
    closed = entry_of(opened(2, end_ms=T0), 0)
    store.add(closed, {}, T0)
    before = sorted((path, path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file())
    err = io.StringIO()
    told = read_told(config, err)
    assert sorted(one.id for one in told.incidents) == sorted([closed.id, entry_of(opened(0), 0).id])
    assert [one.end_ms for one in told.incidents if one.id == closed.id] == [T0]
    assert told.faults == (data_fault(10),)
    assert told.seen_ms == state["hosts"][0]["last_row_ms"]
    assert sorted((path, path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file()) == before
    assert err.getvalue() == ""


def test_what_cannot_be_read_is_a_line_and_the_rest_is_known(tmp_path: Path):
    config = parse_config(f"state: {{dir: {tmp_path}}}\n".encode(), "f")
    store = Store(tmp_path / FOLDER)
    store.open(T0)
    store.add(entry_of(opened(2, end_ms=T0), 0), {}, T0)
    save_state(tmp_path, {"engine": {"hosts": [{}]}, "service": {"past": []}}, {})
    err = io.StringIO()
    assert len(read_told(config, err).incidents) == 1
    assert err.getvalue().startswith("hwsonde-detector: what is open is not known: the state lacks something (KeyError")
    save_state(tmp_path, {"engine": engine(opened(0)), "service": {"past": []}}, {})
    (tmp_path / FOLDER / "index.log").write_bytes(b"hwsonde incidents 9\n")
    err = io.StringIO()
    assert [one.end_ms for one in read_told(config, err).incidents] == [None]
    assert err.getvalue().startswith("hwsonde-detector: closed incidents are not known: ")

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from benchmarks import accuracy
from benchmarks.event_metrics import (
    Floats,
    Mask,
    average_precision,
    false_events,
    false_pages,
    hit_events,
    near_events,
    recall_at_budget,
    runs,
)

MASKS = hnp.arrays(np.bool_, st.integers(1, 60))


def mask(text: str) -> Mask:
    return np.array([character == "#" for character in text])


@pytest.mark.parametrize(
    ("text", "gap", "expected"),
    [
        ("", 0, []),
        ("....", 0, []),
        ("##..#", 0, [(0, 1), (4, 4)]),
        ("##..#", 2, [(0, 1), (4, 4)]),
        ("##..#", 3, [(0, 4)]),
        ("####", 0, [(0, 3)]),
    ],
)
def test_runs(text: str, gap: int, expected: list[tuple[int, int]]) -> None:
    assert runs(mask(text), gap) == expected


@given(MASKS)
def test_rows_near_an_event_are_within_ten_rows(label: Mask) -> None:
    naive = [any(label[max(row - 10, 0) : row + 11]) for row in range(len(label))]
    assert near_events(label).tolist() == naive


@given(MASKS, st.data())
def test_average_precision_equals_the_sum_over_thresholds(label: Mask, data: st.DataObject) -> None:
    score = data.draw(hnp.arrays(np.float64, len(label), elements=st.integers(0, 5)))
    if not label.any():
        assert np.isnan(average_precision(label, score))
        return
    total, before = 0.0, 0.0
    for threshold in sorted(set(score.tolist()), reverse=True):
        found = score >= threshold
        recall, precision = label[found].sum() / label.sum(), label[found].mean()
        total, before = total + (recall - before) * precision, recall
    assert average_precision(label, score) == pytest.approx(total)


def test_alarms_near_an_event_are_neither_true_nor_false() -> None:
    label = np.zeros(100, np.bool_)
    label[40:45] = True
    alarm = np.zeros(100, np.bool_)
    alarm[[30, 54]] = True
    assert (hit_events(alarm, label), false_events(alarm, label), false_pages(alarm, label)) == (0, 0, 0)
    alarm[[29, 42, 80]] = True
    assert (hit_events(alarm, label), false_events(alarm, label), false_pages(alarm, label)) == (1, 2, 1)


def test_a_long_false_alarm_costs_more() -> None:
    alarm = np.zeros(100, np.bool_)
    alarm[10:31] = True
    assert false_events(alarm, np.zeros(100, np.bool_)) == 3
    assert false_pages(alarm, np.zeros(100, np.bool_)) == 1


def test_recall_at_budget_stops_where_false_events_pass_it() -> None:
    label = np.zeros(1000, np.bool_)
    label[[100, 300, 500]] = True
    score = np.zeros(1000)
    score[[100, 300, 500]] = [9.0, 7.0, 5.0]
    score[[700, 800]] = [8.0, 6.0]
    assert recall_at_budget(label, score) == (2, 3)


def planted(seed: int = 0) -> tuple[Floats, Floats, Mask]:
    rng = np.random.default_rng(seed)
    train, test = rng.normal(size=(400, 6)), rng.normal(size=(200, 6))
    label = np.zeros(200, np.bool_)
    label[120:140] = True
    test[label, :3] += 15.0
    return train, test, label


SUBSYSTEMS = ["cpu", "cpu", "cpu", "storage", "network", "memory"]


def test_the_pipeline_finds_a_planted_fault_and_names_its_part() -> None:
    train, test, label = planted()
    answer = accuracy.pipeline("host", train, test, 60_000, accuracy.preset("default"), SUBSYSTEMS)
    assert answer.score.shape == answer.alarm.shape == (200,)
    # The default risk lets one healthy window in a thousand pass 1; none of a hundred may come near the fault.
    assert answer.score[label][3:].min() > 1.5 * answer.score[20:120].max()
    assert answer.score[label][3:].min() > 1
    assert not answer.alarm[:120].any()
    assert answer.alarm[125:140].all()
    assert answer.contribution is not None
    parts = answer.contribution[125:140].sum(axis=0)
    assert parts[:3].sum() > 5 * parts[3:].sum()
    assert answer.contribution.sum(axis=1)[125:140] == pytest.approx(answer.score[125:140], rel=1e-6)


def test_a_later_row_never_changes_an_earlier_answer() -> None:
    train, test, _ = planted()
    whole = accuracy.pipeline("host", train, test, 60_000, accuracy.preset("default"))
    part = accuracy.pipeline("host", train, test[:130], 60_000, accuracy.preset("default"))
    assert (part.score == whole.score[:130]).all()
    assert (part.alarm == whole.alarm[:130]).all()


def test_a_preset_that_learns_from_what_it_said_does_so_in_training() -> None:
    train, test, label = planted()
    answer = accuracy.pipeline("host", train, test, 60_000, accuracy.preset("slow"), SUBSYSTEMS)
    assert answer.score[label][3:].min() > max(answer.score[20:120].max(), 1.0)
    assert answer.alarm[125:140].all()
    again = accuracy.pipeline("host", train, test[:130], 60_000, accuracy.preset("slow"), SUBSYSTEMS)
    assert (again.score == answer.score[:130]).all()


def test_rows_far_apart_take_the_slow_preset() -> None:
    assert [accuracy.suited(apart) for apart in (100, 1000, 14_999, 15_000, 300_000)] == ["default"] * 3 + ["slow"] * 2


def test_k_means_is_louder_where_rows_leave_what_was_learned() -> None:
    train, test, label = planted()
    answer = accuracy.k_means(train, test)
    assert answer.score[label].min() > answer.score[:120].max()
    assert answer.score.max() <= 10.0
    steady = accuracy.k_means(np.ones((50, 1)), np.concatenate([np.ones((9, 1)), np.full((1, 1), 2.0)]))
    assert steady.score.tolist() == [0.0] * 9 + [10.0]


def test_a_difference_stands_with_what_other_entities_would_have_given() -> None:
    label = np.zeros(200, np.bool_)
    label[100:110] = True
    ours, other = accuracy.Tally(), accuracy.Tally()
    rng = np.random.default_rng(0)
    for _ in range(8):
        good = label + 0.1 * rng.random(200)
        ours.add(accuracy.Answer(good, label.copy()), label, 1.0)
        noisy = rng.random(200)
        other.add(accuracy.Answer(noisy, noisy > 0.97), label, 1.0)
    assert ours.totals == (8, 8.0)
    assert ours.figures().tolist() == pytest.approx([1.0, 1.0, 1.0, 0.0])
    line = accuracy.difference(ours, other, "noise")
    assert line.split()[0] == "noise"
    low, high = (float(part.strip("[],")) for part in line.split()[2:4])
    assert 0.5 < low <= high < 1.0
    same = accuracy.difference(ours, ours, "ours")
    assert "+0.00 [+0.00, +0.00]" in same


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["accuracy", *map(str, arguments)])
    accuracy.main()


def test_a_labelled_set_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train, test, label = planted()
    np.savez(tmp_path / "set.npz", **{"a/b/train": train, "a/b/test": test, "a/b/label": label.astype(np.uint8)})
    (tmp_path / "meta.json").write_text(json.dumps({"interval_s": 60, "subsystem": SUBSYSTEMS}))
    (tmp_path / "out").mkdir()
    run(
        monkeypatch, tmp_path, "--scores-out", tmp_path / "out" / "scores.npz", "--preset", "slow", "--preset", "reveal"
    )
    with np.load(tmp_path / "out" / "scores.npz") as written:
        assert sorted(written.files) == ["a/b/alarm", "a/b/contribution", "a/b/score"]
        assert written["a/b/contribution"].shape == test.shape
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1 entities, 1 events, 0.1 entity-days"
    assert [line[:10].strip() for line in lines[2:7]] == ["slow", "reveal", "mean |z|", "k-means", "random"]
    assert float(lines[2].split()[-1]) == 0.0
    assert [line[:10].strip() for line in lines[8:]] == ["reveal", "mean |z|", "k-means", "random"]


def test_healthy_runs_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = np.random.default_rng(1).normal(size=(640, 4))
    phase = np.repeat([0, 3], [40, 600]).astype(np.int8)
    np.savez(tmp_path / "set.npz", **{"r1/x": rows, "r1/phase": phase})
    (tmp_path / "meta.json").write_text(json.dumps({"interval_s": 0.1, "phase_codes": {"init": 0, "steady": 3}}))
    (tmp_path / "out").mkdir()
    run(monkeypatch, tmp_path, "--scores-out", tmp_path / "out" / "scores.npz")
    with np.load(tmp_path / "out" / "scores.npz") as written:
        assert written["r1/alarm"].shape == (300,)
        assert not written["r1/alarm"].any()
    assert "r1" in capsys.readouterr().out


def test_a_folder_without_data_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        run(monkeypatch, tmp_path, "--scores-out", tmp_path / "scores.npz")
    assert caught.value.code == 2
    assert "one .npz file and a meta.json are needed" in capsys.readouterr().err

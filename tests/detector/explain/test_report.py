"""The document: what it says of a planted fault, of a clean range, and of a range that was not judged."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from hwsonde_detector.explain.analysis import MOST_CHARTS, Question, Topic, analyse, charted
from hwsonde_detector.explain.neighbours import JobSpan
from hwsonde_detector.explain.nextsteps import STEPS
from hwsonde_detector.explain.report import Before, Learned, document
from hwsonde_detector.explain.series import Points
from hwsonde_detector.past.run import PastRun
from hwsonde_detector.types import Device, Subsystem
from tests.detector.explain.planted import SECOND, T0, channel, fault, host, quiet

DISK = Device("disk", "nvme1n1")
IO_TIME = channel("storage_io_time{device=nvme1n1}", Subsystem.STORAGE, DISK, unit="ratio")
SWITCHES = channel("context_switches", Subsystem.CPU, weight=0.3)
PSI = channel("psi", Subsystem.MEMORY)
N1, N2, N3 = host("n1"), host("n2"), host("n3")
END = T0 + 600 * SECOND


def run(*planted, hosts=(N1, N2, N3)) -> PastRun:
    scores = {entity: quiet(entity, 600) for entity in hosts}
    for episode, own in planted:
        times = {score.end_ms for score in own}
        scores[episode.entity] = sorted(
            [*(score for score in scores[episode.entity] if score.end_ms not in times), *own],
            key=lambda one: one.end_ms,
        )
    episodes = tuple(sorted((episode for episode, _ in planted), key=lambda one: one.start_ms))
    return PastRun(
        T0,
        END,
        {entity: tuple(own) for entity, own in scores.items()},
        episodes,
        dict.fromkeys(hosts, SECOND),
        {entity: {} for entity in hosts},
    )


STORAGE = fault(
    N1,
    T0 + 300 * SECOND,
    60,
    {IO_TIME: 0.8, SWITCHES: 0.2},
    onsets={IO_TIME.name: T0 + 299 * SECOND, SWITCHES.name: T0 + 305 * SECOND},
)
SPREAD = fault(N2, T0 + 330 * SECOND, 60, {IO_TIME: 0.8, SWITCHES: 0.2})
JOBS = [JobSpan("slurm:7", entity, T0, END) for entity in (N1, N2, N3)]


def made(scored, question=Question(Topic.RANGE), jobs=JOBS, rows=None, before=Before(), **more):  # noqa: B008
    analysis = analyse(scored, question, jobs, 1)
    learned = Learned(dict.fromkeys((N1, N2, N3), T0 - 3_600_000))
    found = document(analysis, "0.1", rows=rows or {}, learned=learned, before=before, **more)
    # What is written must be JSON, and hold what was put in.
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found


def test_a_planted_fault_that_spreads():
    found = made(run(STORAGE, SPREAD))
    assert found["verdict"]["kind"] == "fault"
    assert found["verdict"]["sentence"].startswith("lab/n1, then lab/n2: storage disk nvme1n1: ") or found["verdict"][
        "sentence"
    ].startswith("lab/n1, then lab/n2: storage nvme1n1: ")
    (cause,) = found["causes"]
    assert (cause["subsystem"], cause["device"]) == ("storage", {"class": "disk", "name": "nvme1n1"})
    assert [host["host"] for host in cause["hosts"]] == ["lab/n1", "lab/n2"]
    assert cause["hosts"][0]["onset_ms"] == T0 + 299 * SECOND
    assert [host["maybe_first"] for host in cause["hosts"]] == [True, False]
    assert cause["first_known"]
    assert cause["order"] == "lab/n1 was first; lab/n2 31 s later (plus or minus 1 s)."
    top = cause["channels"][0]
    assert (top["channel"], top["role"], top["direction"], top["value"], top["lower"], top["upper"]) == (
        IO_TIME.name, "cause", "high", 0.9, 0.0, 0.2,
    )  # fmt: skip
    assert [one["role"] for one in cause["channels"][:2]] == ["cause", "elsewhere"]
    assert [step["channels"] for step in cause["moved"]] == [[IO_TIME.name], [SWITCHES.name]]
    assert cause["moved"][0]["uncertainty_ms"] == 1000
    assert cause["others"]["job"] == "slurm:7"
    assert [one["behaviour"] for one in cause["others"]["hosts"]] == ["same", "quiet"]
    assert cause["next"] == list(STEPS[Subsystem.STORAGE])
    assert cause["runbook"] == "docs/runbooks/HwsondeHostAnomaly.md"
    assert found["settings"] == []
    assert [line["host"] for line in found["timelines"]] == ["lab/n1", "lab/n2", "lab/n3"]
    assert found["coverage"]["windows"] == 1.0


def test_a_clean_range():
    found = made(run())
    assert found["verdict"] == {
        "kind": "clean",
        "sentence": "Not the hardware: 3 hosts, 100 % of channels and 100 % of windows judged, none above 0.4.",
        "limits": [],
    }
    assert found["causes"] == found["episodes"] == []
    assert found["coverage"]["hosts_without_calibration"] == []


def test_clean_is_refused_where_a_host_was_not_calibrated():
    scored = run()
    learning = tuple(replace(score, calibrated=False) for score in scored.scores[N2])
    found = made(replace(scored, scores={**scored.scores, N2: learning}))
    assert found["verdict"]["kind"] == "unknown"
    assert found["coverage"]["hosts_without_calibration"] == ["lab/n2"]
    assert found["coverage"]["hosts_judged_enough"] == 2


def test_an_empty_run_is_not_known():
    found = made(PastRun(T0, END, {}, (), {}, {}), jobs=[])
    assert found["verdict"]["kind"] == "unknown"
    assert found["learning"]["from_ms"] is None


def test_a_question_about_one_host_compares_it_with_the_others():
    found = made(run(STORAGE, SPREAD), Question(Topic.HOST, "n1", {N1: (T0, END)}))
    assert found["coverage"]["hosts"] == 1
    assert [host["host"] for host in found["causes"][0]["hosts"]] == ["lab/n1"]
    assert [one["behaviour"] for one in found["causes"][0]["others"]["hosts"]] == ["other", "quiet"]


def test_a_question_about_one_episode_leaves_the_others_out():
    other = fault(N1, T0 + 500 * SECOND, 60, {PSI: 1.0})
    scored = run(STORAGE, other)
    found = made(scored, Question(Topic.EPISODE, other[0].identity, {N1: (T0, END)}))
    assert [cause["subsystem"] for cause in found["causes"]] == ["memory"]
    assert [one["identity"] for one in found["episodes"]] == [other[0].identity]


def test_a_job_counts_only_while_it_ran():
    spans = {N1: (T0 + 400 * SECOND, END), N2: (T0, T0 + 200 * SECOND)}
    found = made(run(STORAGE), Question(Topic.JOB, "slurm:7", spans))
    assert found["verdict"]["kind"] == "clean"
    assert [host["windows_expected"] for host in found["coverage"]["by_host"]] == [200, 200]


@pytest.mark.parametrize(
    ("begin_s", "says"), [(300, "cannot be told within 1 s"), (340, "40 s after the first cause, and may follow")]
)
def test_what_a_second_cause_is_to_the_first(begin_s, says):
    second = fault(N2, T0 + begin_s * SECOND, 60, {PSI: 1.0}, fused=1.5)
    first = fault(N1, T0 + 300 * SECOND, 60, {IO_TIME: 1.0})
    found = made(run(first, second))
    assert [cause["subsystem"] for cause in found["causes"]] == ["storage", "memory"]
    assert says in " ".join(found["causes"][1]["remarks"])
    assert found["causes"][0]["remarks"] == []


def test_a_page_that_named_another_part_is_explained():
    found = made(
        run(fault(N1, T0 + 300 * SECOND, 60, {PSI: 0.8, channel("busy", Subsystem.CPU): 0.2}, subsystem=Subsystem.CPU))
    )
    assert found["causes"][0]["remarks"] == ["The page named cpu; over the whole episode most evidence is in memory."]


def test_how_often_it_came_before():
    earlier = fault(N1, T0 + 100 * SECOND, 40, {PSI: 1.0})[0]
    kept = fault(N1, T0 - 86_400 * SECOND, 40, {IO_TIME: 1.0})[0]
    elsewhere = fault(N2, T0 - 86_400 * SECOND, 40, {IO_TIME: 1.0})[0]
    scored = run(STORAGE)
    scored = replace(scored, episodes=(earlier, *scored.episodes))
    found = made(
        scored,
        Question(Topic.EPISODE, STORAGE[0].identity, {N1: (T0, END)}),
        before=Before((kept, elsewhere, STORAGE[0]), "kept"),
    )
    before = found["causes"][0]["before"]
    assert (before["same"], before["any"], before["since_ms"]) == (1, 2, kept.start_ms)
    assert before["sentence"].startswith("Such a page came once before on lab/n1 since ")
    assert [one["identity"] for one in before["last"]] == [kept.identity]
    assert made(run(STORAGE))["causes"][0]["before"]["sentence"].startswith(
        "No earlier page of this kind on lab/n1 since "
    )


def test_it_says_since_when_was_learned():
    sentence = made(run())["learning"]["sentence"]
    assert sentence.startswith("Learned from ")
    assert "a job that runs every day and is called a fault later is missed" in sentence


def test_charts_are_bounded_and_cover_the_onset():
    names = [channel(f"storage_{number}", Subsystem.STORAGE) for number in range(10)]
    wide = fault(N1, T0 + 300 * SECOND, 60, dict.fromkeys(names, 0.1))
    analysis = analyse(run(wide, SPREAD), Question(Topic.RANGE), JOBS, 1)
    (own, other) = charted(analysis)
    assert len(own.channels) == MOST_CHARTS
    assert len(other.channels) == 1
    assert (own.start_ms, own.end_ms) == (T0 + 240 * SECOND, T0 + 419 * SECOND)
    points = Points((T0, T0 + 1000), (1.0, math.nan), 1000)
    found = document(
        analysis, "0.1", rows={(0, N1, name): points for name in own.channels}, learned=Learned(), before=Before()
    )
    charts = [one["chart"] for one in found["causes"][0]["channels"] if one["chart"] is not None]
    assert charts == [{"times": [T0, T0 + 1000], "values": [1.0, None], "step_ms": 1000}] * MOST_CHARTS


def test_settings_and_runbooks_come_from_outside():
    one = {"host": "lab/n1", "setting": "governor", "value": "powersave"}
    found = made(run(STORAGE), settings=[one], runbooks="https://wiki/x/")
    assert found["settings"] == [one]
    assert found["causes"][0]["runbook"] == "https://wiki/x/HwsondeHostAnomaly.md"


def test_numbers_that_json_cannot_hold_become_null():
    broken = fault(N1, T0 + 300 * SECOND, 60, {IO_TIME: 1.0})
    top = (replace(broken[0].top[0], value=math.nan, upper=math.inf, deviation=-math.inf),)
    scores = [replace(score, top=top) for score in broken[1]]
    found = made(run((replace(broken[0], top=top, peak=math.inf), scores)))
    one = found["causes"][0]["channels"][0]
    assert (one["value"], one["upper"], one["deviation"], one["sentence"]) == (None, None, None, "no value")
    assert found["causes"][0]["hosts"][0]["peak"] is None


def test_the_same_run_gives_the_same_document():
    assert json.dumps(made(run(STORAGE, SPREAD))) == json.dumps(made(run(STORAGE, SPREAD)))


def test_every_subsystem_has_next_steps():
    assert set(STEPS) == set(Subsystem)
    assert all(len(steps) >= 2 for steps in STEPS.values())

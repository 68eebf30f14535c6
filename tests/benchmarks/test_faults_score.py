"""Scoring a recording with planted faults, thinning, and the tables."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.faults import cli
from benchmarks.faults.alarms import GAP_MS, Alarm, Runs, Voice
from benchmarks.faults.errors import BenchError
from benchmarks.faults.followers import Follower, MeanZ, Rules, Shipped
from benchmarks.faults.labels import DATA, Book, Injection, Session
from benchmarks.faults.report import document, markdown, summary
from benchmarks.faults.rules import BOUNDS, votes
from benchmarks.faults.score import Outcome, Result, follow, judge, presets, score, together
from benchmarks.faults.silence import Silence, down_ms
from benchmarks.faults.stage import RULES
from hwsonde_detector.config import load_profiles
from hwsonde_detector.types import Entity, Phase, SampleBatch, Series
from tests.benchmarks.faults_archive import START_MS, batches, record, session

SECONDS, LEARNED = 900, 400
PLANTED = {(500, 525): "cpu", (560, 585): "nothing", (620, 645): "loss", (700, 725): "disk"}
PRESET = """\
detectors: {members: [zscore, mahalanobis, extremes]}
learning: {first_rows: 60, calibrated_rows: 200}
episodes: {risk: 0.002}
state: {dir: null}
"""


def voice(*alarms: tuple[int, int, str], ready: int = 0) -> dict[str, Voice]:
    return {"n": Voice([Alarm("n", start, end, name) for start, end, name in alarms], ready)}


def labelled(*injections: Injection, end: int = 1_000_000) -> Session:
    return Session(
        1, "quiet", "n", {}, [], segments=[[0, end]], learned_ms=100_000, injections=list(injections), stage="done"
    )


def fault(start: int, end: int, *names: str, effective: bool = True) -> Injection:
    return Injection("kind", 1, names, "n", start, end, effective)


# --- what is found


def test_an_alarm_within_a_fault_or_its_grace_finds_it() -> None:
    one = labelled(
        fault(200_000, 225_000, "cpu"), fault(300_000, 325_000, "cpu"), fault(400_000, 425_000, "cpu", "network")
    )
    said = voice((203_000, 210_000, "cpu"), (334_000, 340_000, "memory"), (436_000, 440_000, "cpu"))
    result = judge("m", [one], said)
    assert [(out.found, out.seconds, out.right, out.single) for out in result.outcomes] == [
        (True, 3.0, True, True),
        (True, 34.0, False, True),
        (False, None, False, False),
    ]
    assert result.false_pages == 1
    assert result.quiet_ms == 900_000 - 3 * 35_000


def test_an_alarm_that_was_on_before_finds_nothing() -> None:
    result = judge("m", [labelled(fault(200_000, 225_000, "cpu"))], voice((190_000, 230_000, "cpu")))
    assert [(out.found, out.masked) for out in result.outcomes] == [(False, True)]
    assert result.false_pages == 1


def test_learning_and_killed_faults_count_for_nobody() -> None:
    killed = Injection("kind", 1, ("cpu",), "n", 300_000, 310_000, aborted=True)
    said = voice((50_000, 60_000, "cpu"), (301_000, 302_000, "cpu"))
    result = judge("m", [labelled(killed)], said)
    assert (result.outcomes, result.false_pages, result.quiet_ms) == ([], 0, 880_000)


def test_a_method_is_judged_from_when_it_is_ready() -> None:
    result = judge("m", [labelled(fault(200_000, 225_000, "cpu"))], voice(ready=550_000))
    assert not result.outcomes[0].judged
    assert (result.ready_share, result.quiet_ms) == (0.5, 450_000)
    silent = judge("m", [labelled(fault(200_000, 225_000, "cpu"))], {})
    assert (silent.ready_share, silent.outcomes[0].judged) == (0.0, False)


def test_a_fault_of_a_peer_is_looked_for_at_the_peer() -> None:
    one = labelled(Injection("peer", 1, ("memory",), "p", 200_000, 290_000, effective=True))
    said = {**voice(), "p": Voice([Alarm("p", 260_000, 270_000, "memory")], 0)}
    result = judge("m", [one], said)
    assert (result.outcomes[0].found, result.false_pages) == (True, 0)


@given(
    st.lists(st.tuples(st.integers(0, 999), st.integers(1, 30)), max_size=6),
    st.lists(st.tuples(st.integers(0, 999), st.integers(0, 30)), max_size=6),
)
def test_no_alarm_is_both_true_and_false(faults: list[tuple[int, int]], alarms: list[tuple[int, int]]) -> None:
    one = labelled(*(fault(1000 * start, 1000 * (start + long), "cpu") for start, long in sorted(faults)))
    said = voice(*((1000 * start, 1000 * (start + long), "cpu") for start, long in sorted(alarms)))
    result = judge("m", [one], said)
    false = {alarm.start_ms for alarm in result.false_alarms}
    for injection in one.injections:
        assert injection.end_ms is not None
        assert not any(injection.start_ms <= at < injection.end_ms + 10_000 for at in false)
    assert 0 <= result.quiet_ms <= 900_000


# --- alarms and rules


def test_loud_rows_near_each_other_are_one_alarm() -> None:
    runs = Runs("n")
    for at in (0, 1000, 2000, 2000 + GAP_MS, 2000 + 2 * GAP_MS + 1):
        runs.see(at, {"cpu": 1.0})
    assert [(alarm.start_ms, alarm.end_ms) for alarm in runs.alarms] == [(0, 12_000), (22_001, 22_001)]


def test_what_is_named_has_three_seconds_of_evidence() -> None:
    runs = Runs("n")
    for at, name, weight in ((0, "cpu", 3.0), (1000, "network", 2.0), (3000, "network", 2.0), (4000, "cpu", 99.0)):
        runs.see(at, {name: weight})
    assert runs.alarms[0].subsystem == "network"


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.channel)
def test_each_rule_fires_beyond_its_bound_only(bound: object) -> None:
    from benchmarks.faults.rules import Bound

    assert isinstance(bound, Bound)
    beyond, within = (bound.limit * 0.5, bound.limit * 1.5) if bound.low else (bound.limit * 1.5 + 1e-6, bound.limit)
    assert set(votes({bound.channel: beyond})) == {bound.subsystem}
    assert votes({bound.channel: within}) == {}
    assert votes({bound.channel: float("nan")}) == {}


def test_the_rules_channels_are_those_of_their_profile() -> None:
    names = {rule.name for rule in load_profiles((str(RULES),))[0].rules}
    assert names == {bound.channel for bound in BOUNDS}


# --- following a recording


def test_plain_methods_find_what_was_planted() -> None:
    one = session(SECONDS, LEARNED, PLANTED)
    learning = [(one.segments[0][0], START_MS + 1000 * LEARNED)]
    followers: dict[str, Follower] = {
        "z": MeanZ(load_profiles(("hwsonde",)), learning),
        "rules": Rules(load_profiles((str(RULES),))[0]),
    }
    follow(batches(SECONDS, PLANTED), followers, 1000)
    for follower in followers.values():
        result = judge("m", [one], follower.voices())
        found = {out.kind: out for out in result.outcomes}
        for kind in ("cpu", "loss", "disk"):
            assert found[kind].found, kind
            assert found[kind].right, (kind, found[kind])
            assert 0 <= (found[kind].seconds or 0) <= 3
        assert not found["nothing"].found
        assert result.false_pages <= 2
        assert result.ready_share > 0.95


def test_silence_is_an_alarm_of_the_data(tmp_path: Path) -> None:
    path = tmp_path / "recording.archive"
    record(path, 300, {}, silent=[(150, 175)])
    one = Session(
        1, "quiet", "host", {}, [("exporter_hang", 1)],
        segments=[[START_MS, START_MS + 300_000]], learned_ms=START_MS + 60_000, stage="done",
        injections=[Injection("exporter_hang", 1, (DATA,), "host", START_MS + 150_000, START_MS + 175_000, effective=True)],
    )  # fmt: skip
    _, results = score(path, [one], {})
    outcome = next(result for result in results if result.method == "threshold rules").outcomes[0]
    assert (outcome.found, outcome.right) == (True, True)
    assert outcome.seconds is not None
    assert 3 <= outcome.seconds <= 7


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as `record` leaves it."""
    folder = tmp_path_factory.mktemp("recording")
    record(folder / "recording.archive", SECONDS, PLANTED)
    book = Book(folder / "labels.json")
    book.sessions.append(session(SECONDS, LEARNED, PLANTED))
    book.save()
    (folder / "small.yaml").write_text(PRESET)
    return folder


def test_the_commands_score_and_show(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["score", str(recording), "--no-shipped", "--preset", f"small={recording / 'small.yaml'}"]) == 0
    scored = json.loads((recording / "scores.json").read_text())
    methods = scored["report"]["methods"]
    assert set(methods) == {"small", "mean abs z", "threshold rules"}
    small = methods["small"]
    assert small["kinds"]["cpu"]["found"] == 1
    assert small["kinds"]["cpu"]["right"] == 1
    assert small["kinds"]["cpu"]["median_seconds"] <= 8
    assert small["controls"] == 1
    assert methods["threshold rules"]["all"]["found"] == 3
    capsys.readouterr()
    assert cli.main(["report", str(recording)]) == 0
    text = capsys.readouterr().out
    assert text.strip() == (recording / "report.md").read_text().strip()
    assert "| threshold rules | 3 of 3 (1.00; 0.44 to 1.00) |" in text


def test_scoring_twice_gives_the_same_bytes(recording: Path) -> None:
    plans = presets({"small": recording / "small.yaml"})
    sessions = Book(recording / "labels.json").sessions
    first, _ = score(recording / "recording.archive", sessions, plans)
    second, _ = score(recording / "recording.archive", sessions, plans)
    assert json.dumps(first) == json.dumps(second)


def test_what_is_wrong_is_one_clear_line(recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.yaml").write_text("nonsense: 1\n")
    for arguments, wanted in (
        (["score", str(tmp_path)], "holds no recording"),
        (["score", str(recording), "--preset", "x"], "give NAME=FILE"),
        (["score", str(recording), "--preset", f"x={tmp_path / 'bad.yaml'}"], "preset x"),
        (["report", str(tmp_path)], "score"),
    ):
        assert cli.main(arguments) == 1
        said = capsys.readouterr().err
        assert said.startswith("faults: ")
        assert wanted in said
    with pytest.raises(SystemExit):
        cli.main(["record", str(tmp_path), "--kinds", "no_such"])
    assert "choose of" in capsys.readouterr().err
    with pytest.raises(BenchError):
        score(tmp_path / "bad.yaml", [], {})


# --- the report


def outcome(
    kind: str = "a", *, found: bool = True, right: bool = True, harm: float | None = 0.5, **more: object
) -> Outcome:
    values = {"effective": True, "judged": True, "single": True, "seconds": 2.0 if found else None, **more}
    return Outcome(kind, 1, harm=harm, found=found, right=right, **values)  # type: ignore[arg-type]


def test_copies_add_up_and_tell_no_more_than_one() -> None:
    outcomes = [outcome(), outcome(found=False, right=False)]
    one = Result("m", outcomes, 3_600_000, 1, [], 0.5)
    both = together([one, Result("m", outcomes, 3_600_000, 2, [], 1.0)])
    assert (len(both.outcomes), both.quiet_ms, both.false_pages, both.ready_share, both.copies) == (
        4,
        7_200_000,
        3,
        0.75,
        2,
    )
    single, double = (document([], [each], 15_000)["methods"]["m"] for each in (one, both))
    assert double["all"]["found_interval"] == single["all"]["found_interval"]
    assert double["false_pages_per_100_node_days"] == pytest.approx(1.5 * single["false_pages_per_100_node_days"])
    low, high = double["false_pages_interval"]
    assert low == pytest.approx(single["false_pages_interval"][0])
    assert high > single["false_pages_interval"][1]
    assert "judged 2 times" in markdown(document([], [both], 15_000))
    assert "times, by scrapes" not in markdown(document([], [one], 15_000))


def test_figures_count_what_acted_and_was_judged() -> None:
    found = summary(
        [
            outcome(seconds=1.0),
            outcome(seconds=4.0, single=False),
            outcome(seconds=9.0, right=False),
            outcome(found=False, right=False, masked=True),
            outcome(effective=False),
            outcome(judged=False),
        ]
    )
    assert (found["judged"], found["found"], found["right"], found["masked"]) == (4, 3, 2, 1)
    assert (found["single"], found["single_right"]) == (2, 1)
    assert (found["median_seconds"], found["slowest_seconds"]) == (4.0, 9.0)


def test_the_tables_hold_what_the_document_says() -> None:
    one = labelled(fault(200_000, 225_000, "cpu"))
    one.plan, one.skipped = [("kind", 1), ("other", 1)], {"other": "not here"}
    one.injections[0].harm = 0.3
    result = Result(
        "m", [outcome("kind", harm=0.3), outcome("kind", found=False, right=False, harm=0.02)], 43_200_000, 3
    )
    result.outcomes.append(outcome("kind", effective=False, found=True))
    found = document([one], [result, Result("silent")], 1000)
    assert json.loads(json.dumps(found)) == found
    method = found["methods"]["m"]
    assert method["false_pages_per_100_node_days"] == 600
    assert method["false_pages_interval"] == pytest.approx([123.7, 1753.5], rel=1e-3)
    assert (method["harmful"]["judged"], method["harmless"]["judged"]) == (1, 1)
    assert (method["controls"], method["controls_paged"]) == (1, 1)
    assert found["methods"]["silent"]["false_pages_per_100_node_days"] is None
    text = markdown(found)
    assert "| m | 1 of 2 (0.50; 0.09 to 0.91) | 1 of 1 (1.00; 0.21 to 1.00) | 2.0 |" in text
    assert "600 (124 to 1753); 3 pages" in text
    assert "| other | 0 | 0 |  | 0 |  | not here |" in text
    widths = {line.count("|") for line in text.splitlines() if line.startswith("| ---")}
    for block in text.split("\n\n"):
        rows = [line.count("|") for line in block.splitlines() if line.startswith("|")]
        assert len(set(rows)) <= 1
    assert widths


# --- what a detector may say besides


def test_faults_of_the_data_answer_no_question_about_the_host() -> None:
    one = labelled(fault(200_000, 225_000, "cpu"), fault(300_000, 325_000, DATA))
    said = voice((202_000, 210_000, DATA), (205_000, 210_000, "cpu"), (304_000, 320_000, DATA))
    result = judge("m", [one], said)
    assert [(out.seconds, out.right) for out in result.outcomes] == [(5.0, True), (4.0, True)]


def test_a_setting_that_differs_is_found_and_pages_nobody() -> None:
    said = voice()
    said["n"].findings = [Alarm("n", 260_000, 260_000, "memory"), Alarm("n", 500_000, 500_000, "cpu")]
    result = judge("m", [labelled(fault(200_000, 290_000, "memory"))], said)
    assert (result.outcomes[0].found, result.outcomes[0].right, result.false_pages) == (True, True, 0)


class Told:
    """An engine that says what a test wants."""

    def __init__(self, *outputs: object) -> None:
        self.outputs = list(outputs)

    def step(self, batch: SampleBatch, now_ms: int) -> object:
        return self.outputs.pop(0)


def test_what_the_detector_tells_of_data_and_settings_is_heard() -> None:
    entity = Entity((("cluster", "c"), ("node", "n")))
    episode = SimpleNamespace(identity="data n@1", entity=entity)
    differs, changed = (
        SimpleNamespace(setting="memory.swappiness", usual="60"),
        SimpleNamespace(setting="cpu.x", usual=None),
    )

    def outputs(*phases: tuple[Phase, int], settings: tuple[object, ...] = ()) -> object:
        events = tuple(SimpleNamespace(phase=phase, at_ms=at, episode=episode) for phase, at in phases)
        report = SimpleNamespace(entity=entity, scores=(), settings=settings)
        return SimpleNamespace(reports=(report,), events=(), fault_events=events)

    shipped = Shipped(presets({"default": None})["default"])
    shipped._engine = Told(  # type: ignore[assignment]
        outputs((Phase.OPENED, 4000), settings=(differs, changed)),
        outputs(settings=(differs,)),
        outputs((Phase.CLOSED, 13_000)),
        outputs(settings=(differs,)),
    )
    for now in (5000, 10_000, 15_000, 20_000):
        shipped.take(SampleBatch.empty(), now)
    said = shipped.voices()["n"]
    assert said.alarms == [Alarm("n", 4000, 13_000, DATA)]
    assert said.findings == [Alarm("n", 5000, 5000, "memory"), Alarm("n", 20_000, 20_000, "memory")]


def ups(values: list[float], begin_ms: int, node: str = "host", job: str = "hwsonde-exporter") -> SampleBatch:
    times = np.arange(len(values)) * 1000 + begin_ms
    series = (Series("up", (("job", job), ("node", node))),)
    return SampleBatch(series, np.array([0, len(values)]), times, np.array(values))


def test_an_exporter_is_down_after_the_rules_time_and_not_before() -> None:
    assert (down_ms(1000), down_ms(15_000)) == (45_000, 180_000)
    silence = Silence(45_000)
    silence.take(ups([1.0] * 10 + [0.0] * 44 + [1.0], 0))
    assert not silence.alarms, "it was started again in time"
    silence.take(ups([0.0] * 30, 100_000))
    silence.take(ups([0.0] * 30 + [1.0] * 5, 130_000))
    assert silence.alarms == {"host": [Alarm("host", 145_000, 159_000, DATA)]}
    silence.take(ups([0.0] * 60, 200_000, "third", job="another"))
    assert "third" not in silence.alarms
    silence.take(ups([0.0] * 60, 200_000, "other"))
    assert [alarm.start_ms for alarm in silence.alarms["other"]] == [245_000]

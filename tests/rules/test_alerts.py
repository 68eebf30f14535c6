"""Every alert fires when it should and stays silent when it should, in both profiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from alert_rules.timing import FAST, FLEET, Timing
from tests.rules.promtool import DETECTOR_UP, EXPORTER_UP, WINDOW_END, Case

RESTART = 20
INCIDENT = (
    'hwsonde_incident_active{job="hwsonde-detector",instance="%s",cluster="a",node="n1",subsystem="cpu",scope="host"}'
)


# The fast profile looks every second at what takes half an hour; that each alert of it fires, and does not, is in test_table.
PROFILES_HERE = [pytest.param(FAST, id="fast", marks=pytest.mark.slow), pytest.param(FLEET, id="fleet")]


@pytest.fixture(params=PROFILES_HERE)
def case(request: pytest.FixtureRequest) -> Case:
    timing: Timing = request.param
    return Case(timing)


def step(case: Case, seconds: int) -> int:
    """The first evaluation at or after that second."""
    return -(-seconds // case.timing.evaluation) * case.timing.evaluation


def test_anomaly_fires_in_the_round_that_sees_the_incident(case: Case, tmp_path: Path) -> None:
    case.series[INCIDENT % "d1"] = case.samples(("_", 60), ("1", 600))
    case.firing("HwsondeHostAnomaly", step(case, 60) - case.timing.evaluation, 0)
    case.firing("HwsondeHostAnomaly", step(case, 60), 1)
    case.check(tmp_path)


@pytest.mark.parametrize(
    "series",
    [
        'hwsonde_anomaly_score{cluster="a",node="n1",detector="fused"}',
        'hwsonde_shadow_incident_active{cluster="a",node="n1",subsystem="cpu",scope="host"}',
        'hwsonde_setting_differs{cluster="a",node="n1",setting="cpu.governor"}',
    ],
)
def test_anomaly_needs_an_open_live_episode(case: Case, tmp_path: Path, series: str) -> None:
    case.series[series] = case.samples(("1", 600))
    case.firing("HwsondeHostAnomaly", step(case, 300), 0)
    case.check(tmp_path)


@pytest.mark.parametrize("scope", ["device", "host", "job", "fabric"])
def test_an_episode_of_any_scope_pages(case: Case, tmp_path: Path, scope: str) -> None:
    case.series[(INCIDENT % "d1").replace('scope="host"', f'scope="{scope}"')] = case.samples(("1", 600))
    case.firing("HwsondeHostAnomaly", step(case, 300), 1)
    case.check(tmp_path)


def test_a_pair_of_detectors_gives_one_alert(case: Case, tmp_path: Path) -> None:
    case.series[INCIDENT % "d1"] = case.samples(("1", 600))
    case.series[INCIDENT % "d2"] = case.samples(("_", 60), ("1", 600))
    case.firing("HwsondeHostAnomaly", step(case, 300), 1)
    case.check(tmp_path)


def test_anomaly_outlives_a_restart_of_the_detector_and_ends_in_time(case: Case, tmp_path: Path) -> None:
    case.series[INCIDENT % "d1"] = case.samples(
        ("1", 60), ("stale", 0), ("_", RESTART), ("1", 60), ("stale", 0), ("_", 1200)
    )
    for second in range(0, 140 + case.timing.keep_firing - case.timing.evaluation, case.timing.evaluation):
        case.firing("HwsondeHostAnomaly", second, 1)
    case.firing("HwsondeHostAnomaly", step(case, 150 + case.timing.keep_firing + 4 * case.timing.evaluation), 0)
    case.check(tmp_path)


def test_anomaly_does_not_live_on_the_last_sample_before_a_restart_of_prometheus(case: Case, tmp_path: Path) -> None:
    case.series[INCIDENT % "d1"] = case.samples(("1", 60), ("_", 1200))
    end = case.timing.fresh + case.timing.keep_firing + 60
    case.firing("HwsondeHostAnomaly", step(case, end - 2 * case.timing.evaluation), 1)
    case.firing("HwsondeHostAnomaly", step(case, end + 2 * case.timing.evaluation), 0)
    case.check(tmp_path)


@pytest.mark.parametrize(
    ("series", "name"), [(EXPORTER_UP, "HwsondeExporterDown"), (DETECTOR_UP, "HwsondeDetectorDown")]
)
def test_down_fires_for_a_dead_a_vanished_and_a_missing_target(
    case: Case, tmp_path: Path, series: str, name: str
) -> None:
    limit = step(case, 120 + case.timing.down)
    for number, samples in enumerate(
        (case.samples(("1", 120), ("0", 1200)), case.samples(("1", 120), ("stale", 0)), "")
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        one = Case(case.timing, {series: samples} if samples else {})
        one.firing(name, limit - 2 * case.timing.evaluation if samples else 0, 0)
        one.firing(name, limit + 2 * case.timing.evaluation, 1)
        one.check(folder)


@pytest.mark.parametrize(
    ("series", "name"), [(EXPORTER_UP, "HwsondeExporterDown"), (DETECTOR_UP, "HwsondeDetectorDown")]
)
def test_down_ignores_a_target_that_only_moved(case: Case, tmp_path: Path, series: str, name: str) -> None:
    case.series[series] = case.samples(("1", 120), ("stale", 0))
    case.series[series.replace(":98", ":78")] = case.samples(("_", 120), ("1", 1200))
    case.firing(name, step(case, 600), 0)
    case.check(tmp_path)


def test_a_vanished_target_is_not_missed_for_ever(case: Case, tmp_path: Path) -> None:
    case.series[EXPORTER_UP] = case.samples(("1", 120), ("stale", 0))
    case.series[EXPORTER_UP.replace("n1", "n2")] = case.samples(("1", case.timing.vanished + 400))
    case.firing("HwsondeExporterDown", step(case, case.timing.vanished), 1)
    case.firing("HwsondeExporterDown", step(case, case.timing.vanished + 300), 0)
    case.check(tmp_path)


@pytest.fixture(
    params=[
        pytest.param(("d1:", "d2:"), id="on one host"),
        pytest.param(("d1", "d2"), id="on two hosts", marks=pytest.mark.slow),
    ]
)
def other(request: pytest.FixtureRequest) -> str:
    """The second detector of a pair."""
    return DETECTOR_UP.replace(*request.param)


def test_the_death_of_one_of_a_pair_of_detectors_is_a_warning(case: Case, tmp_path: Path, other: str) -> None:
    """Its own host's or the other's: the page stays away, and what the living one says still counts."""
    limit = step(case, 120 + case.timing.down)
    case.series[EXPORTER_UP] = case.samples(("1", 4000))
    beat = case.timing.evaluation
    case.series[WINDOW_END] = f"0+{beat}x{120 // beat - 1} stale"
    case.series[WINDOW_END.replace("d1:", "d2:")] = f"0+{beat}x4000"
    case.series[DETECTOR_UP] = case.samples(("1", 120), ("0", 4000))
    case.series[other] = case.samples(("1", 4000))
    case.firing("HwsondeDetectorReplicaDown", limit - 2 * beat, 0)
    case.firing("HwsondeDetectorReplicaDown", limit + 2 * beat, 1)
    case.value('count(count_over_time(ALERTS{severity="critical"}[30m])) or vector(0)', 1800, 0)
    case.check(tmp_path)


def test_a_vanished_detector_of_a_pair_is_a_warning_for_a_while(case: Case, tmp_path: Path) -> None:
    case.series[DETECTOR_UP] = case.samples(("1", 120), ("stale", 0))
    case.series[DETECTOR_UP.replace("d1", "d2")] = case.samples(("1", case.timing.vanished + 400))
    case.firing("HwsondeDetectorReplicaDown", step(case, 120 + case.timing.down) - 2 * case.timing.evaluation, 0)
    case.firing("HwsondeDetectorReplicaDown", step(case, case.timing.vanished), 1)
    case.firing("HwsondeDetectorReplicaDown", step(case, case.timing.vanished + 300), 0)
    case.firing("HwsondeDetectorDown", step(case, case.timing.vanished), 0)
    case.check(tmp_path)


@pytest.mark.parametrize("end", ["0", "stale"])
def test_the_death_of_the_last_detector_pages_once_and_ends_the_warning(
    case: Case, tmp_path: Path, other: str, end: str
) -> None:
    """The second one is scraped in vain or vanishes, while the first one is already away."""
    second = step(case, 600)
    limit = second + case.timing.down
    case.series[DETECTOR_UP] = case.samples(("1", 120), ("0", 4000))
    case.series[other] = case.samples(("1", second), (end, 4000))
    case.firing("HwsondeDetectorReplicaDown", second - case.timing.evaluation, 1)
    case.firing("HwsondeDetectorDown", limit - 2 * case.timing.evaluation, 0)
    case.firing("HwsondeDetectorDown", limit + 2 * case.timing.evaluation, 1)
    case.firing("HwsondeDetectorReplicaDown", limit + 2 * case.timing.evaluation, 0)
    case.check(tmp_path)


def test_a_pair_that_vanishes_whole_pages_once(case: Case, tmp_path: Path, other: str) -> None:
    for series in (DETECTOR_UP, other):
        case.series[series] = case.samples(("1", 120), ("stale", 0))
    case.firing("HwsondeDetectorDown", step(case, 120 + case.timing.down) + 2 * case.timing.evaluation, 1)
    case.firing("HwsondeDetectorReplicaDown", step(case, 120 + case.timing.down) + 2 * case.timing.evaluation, 0)
    case.check(tmp_path)


def test_a_detector_of_another_cluster_replaces_none(case: Case, tmp_path: Path) -> None:
    case.series[DETECTOR_UP] = case.samples(("0", 1200))
    case.series[DETECTOR_UP.replace('"a"', '"b"')] = case.samples(("1", 1200))
    case.firing("HwsondeDetectorDown", step(case, 900), 1)
    case.firing("HwsondeDetectorReplicaDown", step(case, 900), 0)
    case.check(tmp_path)


def test_the_warning_ignores_a_detector_that_only_moved_and_one_that_restarts(case: Case, tmp_path: Path) -> None:
    case.series[DETECTOR_UP] = case.samples(("1", 120), ("stale", 0))
    case.series[DETECTOR_UP.replace(":98", ":78")] = case.samples(("_", 120), ("1", 1200))
    case.series[DETECTOR_UP.replace("d1", "d2")] = case.samples(("1", 120), ("0", RESTART), ("1", 1200))
    for second in range(120, 900, 60):
        case.firing("HwsondeDetectorReplicaDown", step(case, second), 0)
    case.check(tmp_path)


def test_restarts_page_nobody(case: Case, tmp_path: Path) -> None:
    """Exporter, detector (its series go stale) and Prometheus itself (nothing is written) are each away for a while."""
    beat = case.timing.evaluation
    case.series[EXPORTER_UP] = case.samples(("1", 120), ("0", RESTART), ("1", 300), ("_", RESTART), ("1", 600))
    case.series[DETECTOR_UP] = case.samples(("1", 300), ("0", RESTART), ("1", 120), ("_", RESTART), ("1", 600))
    before, lost, after = 300 // beat, -(-RESTART // beat), 600 // beat
    resumed = (before + lost + 1) * beat
    case.series[WINDOW_END] = f"0+{beat}x{before - 1} stale _x{lost} {resumed}+{beat}x{after}"
    case.value('count(count_over_time(ALERTS{severity="critical",alertstate="firing"}[20m])) or vector(0)', 900, 0)
    case.check(tmp_path)


def test_stalled_fires_for_old_scores_while_the_exporter_answers(case: Case, tmp_path: Path) -> None:
    healthy = step(case, 300) // case.timing.evaluation
    case.series[EXPORTER_UP] = case.samples(("1", 3000))
    case.series[WINDOW_END] = f"0+{case.timing.evaluation}x{healthy} {step(case, 300)}+0x3000"
    late = step(case, 300) + case.timing.scores_age + case.timing.stalled
    case.firing("HwsondeDetectorStalled", step(case, late) - 2 * case.timing.evaluation, 0)
    case.firing("HwsondeDetectorStalled", step(case, late) + 2 * case.timing.evaluation, 1)
    case.check(tmp_path)


OTHER_UP = 'up{job="node",instance="n1:9100",cluster="a",node="n1"}'


def test_stalled_fires_for_hosts_that_have_only_another_exporter(case: Case, tmp_path: Path) -> None:
    case.series[OTHER_UP] = case.samples(("1", 3000))
    case.series[DETECTOR_UP] = case.samples(("1", 3000))
    case.series[WINDOW_END] = "0+0x3000"
    # Away, and its scores stand still: that is the other exporter's alert.
    case.series[OTHER_UP.replace("n1", "n2")] = case.samples(("0", 3000))
    case.series[WINDOW_END.replace("n1", "n2")] = "0+0x3000"
    case.firing("HwsondeDetectorStalled", step(case, 2 * (case.timing.scores_age + case.timing.stalled)), 1)
    case.check(tmp_path)


@pytest.mark.parametrize("job", ["node", "hwsonde-detector"])
def test_another_target_does_not_stand_for_an_exporter_that_is_away(case: Case, tmp_path: Path, job: str) -> None:
    case.series[EXPORTER_UP] = case.samples(("0", 3000))
    case.series[OTHER_UP.replace('"node"', f'"{job}"', 1)] = case.samples(("1", 3000))
    case.series[WINDOW_END] = "0+0x3000"
    case.firing("HwsondeDetectorStalled", step(case, 2 * (case.timing.scores_age + case.timing.stalled)), 0)
    case.check(tmp_path)


def test_stalled_is_silent_for_the_detectors_own_host_where_nothing_else_of_it_is_scraped(
    case: Case, tmp_path: Path
) -> None:
    case.series[DETECTOR_UP.replace("d1", "n1")] = case.samples(("1", 3000))
    case.series[WINDOW_END] = "0+0x3000"
    case.firing("HwsondeDetectorStalled", step(case, 2 * (case.timing.scores_age + case.timing.stalled)), 0)
    case.check(tmp_path)


def test_stalled_is_silent_while_learning_starts_and_while_the_exporter_is_away(case: Case, tmp_path: Path) -> None:
    case.series[EXPORTER_UP] = case.samples(("1", 3000))
    case.series[EXPORTER_UP.replace("n1", "n2")] = case.samples(("0", 3000))
    case.series[WINDOW_END.replace("n1", "n2")] = "0+0x3000"
    case.firing("HwsondeDetectorStalled", step(case, 2 * (case.timing.scores_age + case.timing.stalled)), 0)
    case.check(tmp_path)


def test_unscored_fires_for_a_host_that_never_gets_a_score(case: Case, tmp_path: Path) -> None:
    case.series[EXPORTER_UP] = case.samples(("1", case.timing.unscored + 300))
    case.series[EXPORTER_UP.replace("n1", "n2")] = case.samples(("1", case.timing.unscored + 300))
    case.series[WINDOW_END.replace("n1", "n2")] = f"0+{case.timing.evaluation}x3000"
    case.firing("HwsondeHostUnscored", step(case, case.timing.unscored) - 2 * case.timing.evaluation, 0)
    case.firing("HwsondeHostUnscored", step(case, case.timing.unscored) + 2 * case.timing.evaluation, 1)
    case.check(tmp_path)


def test_collector_failing_fires_unless_the_host_cannot_have_it(case: Case, tmp_path: Path) -> None:
    labels = 'job="hwsonde-exporter",instance="n1:9880",cluster="a",node="n1"'
    for collector, success, available in (("cpu", 0, 1), ("gpu", 0, 0), ("memory", 1, 1)):
        case.series[f'hwsonde_exporter_collector_success{{{labels},collector="{collector}"}}'] = case.samples(
            (str(success), 3000)
        )
        known = f'hwsonde_exporter_collector_available{{{labels},collector="{collector}",reason=""}}'
        case.series[known] = case.samples((str(available), 3000))
    case.firing("HwsondeExporterCollectorFailing", step(case, case.timing.collector) - 2 * case.timing.evaluation, 0)
    case.firing("HwsondeExporterCollectorFailing", step(case, case.timing.collector) + 2 * case.timing.evaluation, 1)
    case.check(tmp_path)


def reads(case: Case, failing: int) -> None:
    """A detector that reads once an evaluation; from second 120 on its reads fail for so many seconds."""
    labels, beat = 'job="hwsonde-detector",instance="d1:9881"', case.timing.evaluation
    good, bad = step(case, 120) // beat, -(-failing // beat)
    rest = 5000 // beat
    case.series[f"hwsonde_detector_reads_total{{{labels}}}"] = f"0+1x{good} {good}+0x{bad} {good}+1x{rest}"
    case.series[f'hwsonde_detector_read_errors_total{{{labels},reason="unreachable"}}'] = (
        f"0+0x{good} 0+1x{bad} {bad}+0x{rest}"
    )
    case.series[f'hwsonde_detector_read_errors_total{{{labels},reason="garbled"}}'] = f"0+0x{good + bad + rest}"


def test_read_errors_fire_when_reads_keep_failing(case: Case, tmp_path: Path) -> None:
    reads(case, 3600)
    case.firing("HwsondeDetectorReadErrors", step(case, 120), 0)
    case.firing("HwsondeDetectorReadErrors", step(case, 240 + case.timing.reads), 1)
    case.check(tmp_path)


def test_read_errors_of_a_restart_are_no_ticket(case: Case, tmp_path: Path) -> None:
    reads(case, RESTART)
    end = step(case, 240 + case.timing.reads_over + case.timing.reads)
    case.value(
        'count(count_over_time(ALERTS{alertname="HwsondeDetectorReadErrors",alertstate="firing"}[1h])) or vector(0)',
        end,
        0,
    )
    case.check(tmp_path)

"""A host that falls silent in the middle of an episode: the anomaly hands over to the exporter's alert, as its runbook says."""

from __future__ import annotations

from pathlib import Path

import pytest

from alert_rules.timing import FAST, PROFILES, Timing
from tests.rules.promtool import EXPORTER_UP, WINDOW_END, Case

INCIDENT = (
    'hwsonde_incident_active{job="hwsonde-detector",instance="d1",cluster="a",node="n1",subsystem="cpu",scope="host"}'
)
SILENT = 120


def silence(timing: Timing) -> tuple[Case, int, int]:
    """A case of it, and about when the anomaly ends and the exporter's alert begins; ten missed scrapes end the incident."""
    withdrawn = SILENT + 10 * timing.evaluation
    case = Case(timing)
    case.series[EXPORTER_UP] = case.samples(("1", SILENT), ("0", 1200))
    case.series[INCIDENT] = case.samples(("1", withdrawn), ("stale", 0))
    return case, withdrawn + timing.keep_firing, SILENT + timing.down


@pytest.mark.parametrize("timing", PROFILES.values(), ids=PROFILES)
def test_the_anomaly_of_a_silent_host_ends_and_its_exporter_is_reported(timing: Timing, tmp_path: Path) -> None:
    case, ends, reported = silence(timing)
    margin = 3 * timing.evaluation
    case.firing("HwsondeHostAnomaly", ends - margin, 1)
    case.firing("HwsondeHostAnomaly", ends + margin, 0)
    case.firing("HwsondeExporterDown", reported - margin, 0)
    case.firing("HwsondeExporterDown", reported + margin, 1)
    case.firing("HwsondeExporterDown", SILENT + 600, 1)
    case.check(tmp_path)


def test_which_of_the_two_comes_first_is_what_the_runbook_says() -> None:
    for timing in PROFILES.values():
        _, ends, reported = silence(timing)
        assert (ends < reported) == (timing is FAST)


CAUSE_ENDS, AFTERWARDS = 300, 600


@pytest.mark.parametrize(
    ("cause", "subsystem", "node", "scope", "told"),
    [
        ("HwsondeNetworkRdmaDown", "network", "n1", "host", False),
        pytest.param("HwsondeNetworkRdmaDown", "network", "n1", "device", False, marks=pytest.mark.slow),
        ("HwsondeStorageStuck", "storage", "n1", "host", False),
        ("HwsondeNetworkRdmaDown", "network", "n1", "job", True),
        pytest.param("HwsondeNetworkRdmaDown", "network", "n1", "fabric", True, marks=pytest.mark.slow),
        pytest.param("HwsondeNetworkRdmaDown", "cpu", "n1", "host", True, marks=pytest.mark.slow),
        ("HwsondeNetworkRdmaDown", "network", "n2", "host", True),
        pytest.param("HwsondeNetworkRdmaDown", "network", "", "host", True, marks=pytest.mark.slow),
        pytest.param("HwsondeStorageNvmeLost", "storage", "n1", "host", True, marks=pytest.mark.slow),
    ],
)
def test_what_a_page_of_the_cluster_explains_is_not_told_and_ends_by_its_rule(
    cause: str, subsystem: str, node: str, scope: str, *, told: bool, tmp_path: Path
) -> None:
    """Nor in the minutes after it, in which the incident comes to its end, nor while a Prometheus that was started again waits for the cause."""
    case = Case(FAST)
    incident = INCIDENT.replace('"cpu"', f'"{subsystem}"').replace('"host"', f'"{scope}"')
    if not node:
        incident = incident.replace(',node="n1"', "")
    case.series[incident] = case.samples(("1", 2000))
    firing = f'ALERTS{{alertname="{cause}",alertstate="firing",cluster="a",node="{node}"}}'
    case.series[firing] = case.samples(("1", CAUSE_ENDS), ("stale", 0))
    for second in (200, CAUSE_ENDS + 60, CAUSE_ENDS + AFTERWARDS - 60):
        case.firing("HwsondeHostAnomaly", second, int(told))
    case.firing("HwsondeHostAnomaly", CAUSE_ENDS + AFTERWARDS + 60, 1)
    case.check(tmp_path)


@pytest.mark.parametrize(("cluster", "fires"), [("a", 0), ("b", 1)])
def test_late_scores_of_a_cluster_without_a_detector_are_not_told_beside_it(
    cluster: str, fires: int, tmp_path: Path
) -> None:
    case = Case(FAST)
    case.series[EXPORTER_UP] = case.samples(("1", 900))
    case.series[WINDOW_END] = case.samples(("0", 900))
    case.series[f'ALERTS{{alertname="HwsondeDetectorDown",alertstate="firing",cluster="{cluster}"}}'] = case.samples(
        ("1", 900)
    )
    case.firing("HwsondeDetectorStalled", 600, fires)
    case.check(tmp_path)

"""A host that falls silent in the middle of an episode: the anomaly hands over to the exporter's alert, as its runbook says."""

from __future__ import annotations

from pathlib import Path

import pytest

from alert_rules.timing import FAST, PROFILES, Timing
from tests.rules.promtool import EXPORTER_UP, Case

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

"""What pages say of guessed passwords is what both programs do, and what the runbook says of one channel is what the settings are."""

from __future__ import annotations

import pytest

from hwsonde_detector import passwords as of_detector
from hwsonde_detector.settings import DetectorSettings, EpisodeSettings
from hwsonde_exporter import passwords as of_exporter
from tests.docs.markdown import ROOT


@pytest.mark.parametrize(
    "page", ["docs/incidents.md", "docs/how-to/restrict-access.md", "docs/exporter-configuration.md"]
)
def test_two_passwords_at_once_and_a_second_after_a_wrong_one(page: str) -> None:
    assert of_detector._MOST_CHECKS_OF_ONE == of_exporter._MOST_CHECKS_OF_ONE == 2
    assert of_detector._PENALTY_S == of_exporter._PENALTY_SECONDS == 1
    text = " ".join((ROOT / page).read_text().split())
    assert "at most two " in text
    assert "after a wrong one" in text
    for gone in ("once a second by each", "one a second for each"):
        assert gone not in text


def test_the_runbook_knows_pages_by_one_channel() -> None:
    assert (DetectorSettings().alone, DetectorSettings().alone_at, EpisodeSettings().alone_windows) == (
        ("bounds",),
        2,
        2,
    )
    text = " ".join((ROOT / "docs/runbooks/HwsondeHostAnomaly.md").read_text().split())
    for said in (
        "two in a row where one channel alone",
        'detector="bounds"',
        "`detectors.alone_at` (2:",
        "`episodes.alone_windows: 0`",
    ):
        assert said in text, said

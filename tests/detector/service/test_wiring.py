"""What stays and what begins anew when the configuration changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hwsonde_detector.config import Config, parse_config
from hwsonde_detector.engines.local import LocalEngine
from hwsonde_detector.errors import ConfigError
from hwsonde_detector.plan import Plan
from hwsonde_detector.service.wiring import build, rebuild, take_over, without_credentials
from hwsonde_detector.settings import WindowSettings
from tests.detector.worker.hosts import ENTITY, PLAN, PROFILE, SETTINGS, batches, rates


def config(text: str, folder: Path) -> Config:
    return parse_config(f"state: {{dir: '{folder}'}}\n{text}".encode(), "test")


@pytest.mark.parametrize(
    ("text", "models", "source"),
    [
        ("", True, True),
        ("mode: shadow\ntick: 5s\n", True, True),
        ("episodes: {raise_windows: 3}\n", True, True),
        ("data_faults: {missing: 10s}\n", True, True),
        ("source: {url: 'http://127.0.0.1:1'}\n", True, False),
        ("window: {rows: 5}\n", False, True),
        ("detectors: {seed: 7}\n", False, True),
        ("episodes: {risk: 0.002}\n", False, True),
        ("entity_labels: [node]\n", False, True),
        ("profiles: [node_exporter]\n", False, False),
    ],
)
def test_models_stay_while_what_shapes_them_stays(text: str, models: bool, source: bool, tmp_path: Path) -> None:
    before = config("", tmp_path)
    old = build(before)
    change = rebuild(config(text, tmp_path), old, before)
    assert (change.keep, change.parts.engine is old.engine) == (models, models)
    assert (change.parts.source is old.source) == source
    assert change.plan.settings == config(text, tmp_path).settings()


def learned() -> LocalEngine:
    engine = LocalEngine(PLAN)
    for batch, now_ms in batches(rates(200)):
        engine.step(batch, now_ms)
    return engine


def test_another_engine_goes_on_with_what_was_learned() -> None:
    old = learned()
    new = LocalEngine(Plan(replace(SETTINGS, window=WindowSettings(rows=5)), (PROFILE,)))
    assert take_over(new, old)
    assert new.last_row_ms() == old.last_row_ms() is not None
    later = batches(rates(220))[190:]
    told = [score for batch, now_ms in later for report in new.step(batch, now_ms).reports for score in report.scores]
    assert len(told) >= 14
    assert all(score.calibrated for score in told), "it learned the kept rows at once"


@pytest.mark.parametrize(
    "plan",
    [
        Plan(replace(SETTINGS, entity_labels=("node",)), (PROFILE,)),
        Plan(SETTINGS, (replace(PROFILE, rules=PROFILE.rules[15:]),)),
    ],
)
def test_hosts_of_other_names_and_other_channels_are_learned_anew(plan: Plan) -> None:
    new = LocalEngine(plan)
    assert not take_over(new, learned())
    assert new.last_row_ms() is None


def test_hosts_of_which_too_little_fits_are_lost_and_others_go_on() -> None:
    """Two kinds of hosts, and a profile that has changed for one of them."""
    rules = tuple(
        replace(one, name=f"x{one.name}", parts=(replace(one.parts[0], name=f"x{one.parts[0].name}"),))
        for one in PROFILE.rules
    )
    old = LocalEngine(Plan(SETTINGS, (PROFILE, replace(PROFILE, rules=rules))))
    for batch, now_ms in batches(rates(60)):
        labels = tuple((key, "n2" if key == "node" else value) for key, value in batch.series[0].labels)
        twin = tuple(replace(one, name=f"x{one.name}", labels=labels) for one in batch.series)
        old.step(batch, now_ms)
        old.step(replace(batch, series=twin), now_ms)
    assert len(old.entities()) == 2
    new = LocalEngine(Plan(SETTINGS, (PROFILE,)))
    assert take_over(new, old)
    assert new.entities() == {ENTITY}


def test_an_engine_that_knows_nothing_leaves_nothing() -> None:
    assert not take_over(LocalEngine(PLAN), LocalEngine(PLAN))


def test_a_configuration_that_cannot_be_used_leaves_the_old_parts_alone(tmp_path: Path) -> None:
    before = config("", tmp_path)
    old = build(before)
    plan = old.engine.plan
    with pytest.raises(ConfigError, match="'channel' is a label"):
        rebuild(config("entity_labels: [channel]\n", tmp_path), old, before)
    assert old.engine.plan is plan


def test_a_recording_goes_on_over_a_reload(tmp_path: Path) -> None:
    text = f"archive: {{record: '{tmp_path / 'a'}'}}\n"
    before = config(text, tmp_path)
    old = build(before)
    assert old.recorder is not None
    assert rebuild(config(text + "mode: shadow\n", tmp_path), old, before).parts.recorder is old.recorder
    assert rebuild(config("", tmp_path), old, before).parts.recorder is None
    old.recorder.close()


def test_a_recording_may_grow_further_after_a_reload(tmp_path: Path) -> None:
    text = f"archive: {{record: '{tmp_path / 'a'}', max_size: SIZE}}\n"
    before = config(text.replace("SIZE", "1MiB"), tmp_path)
    old = build(before)
    assert old.recorder is not None
    bigger = rebuild(config(text.replace("SIZE", "2MiB"), tmp_path), old, before).parts.recorder
    assert bigger is not None
    assert bigger is not old.recorder
    bigger.record_start({"filling": "x" * (3 << 19)}, {})
    assert (tmp_path / "a").stat().st_size > 1 << 20
    bigger.close()


def test_the_address_that_is_shown_holds_no_password() -> None:
    assert without_credentials("https://user:secret@host:9/x") == "https://host:9/x"
    assert without_credentials("http://host") == "http://host"

"""Presets: files with the sections that decide what is found, under what the configuration itself says."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwsonde_detector import settings as s
from hwsonde_detector.config import Config, load_config, parse_config
from hwsonde_detector.config.presets import SECTIONS, read_preset, shipped_presets
from hwsonde_detector.errors import ConfigError


def test_the_default_preset_is_what_holds_without_one() -> None:
    assert parse_config(b"preset: default", "f.yaml").settings() == Config().settings() == s.Settings()


def test_the_default_preset_writes_every_key_out() -> None:
    _, tree = read_preset("default")
    for section in SECTIONS:
        assert set(tree.value[section]) == set(type(getattr(Config(), section)).model_fields)


@pytest.mark.parametrize("name", shipped_presets())
def test_every_shipped_preset_is_right(name: str) -> None:
    assert parse_config(f"preset: {name}".encode(), "f.yaml").preset == name


def test_reveal_is_as_published() -> None:
    settings = parse_config(b"preset: reveal", "f.yaml").settings()
    assert (settings.window.rows, settings.window.step) == (3, 1)
    assert settings.detectors.members == ("zscore", "mahalanobis", "isolation_forest")
    assert (settings.detectors.agreement, settings.detectors.correlation) == (2, 0.5)
    assert (settings.episodes.risk, settings.episodes.budget) == (0.01, 0.0)
    assert not settings.detectors.residual


def test_the_file_wins_over_its_preset_key_by_key() -> None:
    config = parse_config(b"preset: reveal\ndetectors: {agreement: 3, trees:}\nwindow: {rows: 5}\n", "f.yaml")
    assert config.detectors.agreement == 3
    assert config.detectors.trees == 100
    assert config.detectors.members == ("zscore", "mahalanobis", "isolation_forest")
    assert (config.window.rows, config.window.step) == (5, 1)


def test_an_own_preset_is_found_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("episodes: {budget: 7}\n")
    (tmp_path / "detector.yaml").write_text("preset: mine.yaml\n")
    assert load_config(tmp_path / "detector.yaml").episodes.budget == 7


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "source: {url: x}\n",
            "mine.yaml:1: source: not a part of a preset; allowed: window, learning, detectors, episodes",
        ),
        ("window:\n  rows: 1\n", "mine.yaml:2: window.rows: 1"),
        ("window:\n  row: 1\n", "mine.yaml:2: window.row: unknown key, did you mean rows?"),
        ("- a\n", "mine.yaml:1: the file holds"),
        ("window: {\n", "mine.yaml:2: no valid YAML"),
    ],
)
def test_what_is_wrong_in_a_preset_is_told_with_its_own_place(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    (tmp_path / "detector.yaml").write_text("preset: mine.yaml\nmode: live\n")
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "detector.yaml")
    assert str(caught.value).startswith(f"{tmp_path}/{says}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("revel", "preset: 'revel' is not known; allowed: default, reveal, slow, or a path"),
        ("gone.yaml", r"preset: .*gone\.yaml: it cannot be read: No such file"),
    ],
)
def test_a_preset_that_is_not_there(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "detector.yaml").write_text(f"preset: {name}\n")
    with pytest.raises(ConfigError, match=says):
        load_config(tmp_path / "detector.yaml")

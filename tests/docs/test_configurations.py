"""Configurations that pages show are ones that the programs take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hwsonde_detector.config import Config
from hwsonde_detector.config.loading import parse_config
from hwsonde_detector.config.web_file import read_web_file
from hwsonde_exporter.config import load
from hwsonde_exporter.registry import load_collectors
from hwsonde_exporter.web_config import load_web_config
from tests.docs.markdown import ROOT, blocks, pages

DETECTOR = set(Config.model_fields)
WEB = {"tls_server_config", "basic_auth_users", "http_server_config", "rate_limit"}
# Sections of the exporter's file; `web` and `log` alone could be either program's.
EXPORTER = {"collector", "metrics", "path", "sampler", "nvml", "privacy"}
EITHER = {"web", "log"}


def shown(page: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Blocks that are a YAML mapping, with what they say."""
    for block in blocks(page):
        text = "\n".join(block.lines) + "\n"
        try:
            found = yaml.safe_load(text)
        except yaml.YAMLError:
            continue
        if isinstance(found, dict) and found and all(isinstance(key, str) for key in found):
            yield text, found


ALL = [(page, text, set(found)) for page in pages() for text, found in shown(page)]


def those(sections: set[str], either: set[str] | None = None) -> list[Any]:
    """Texts with sections of these, and no others but those of ``either``."""
    return [
        pytest.param(text, id=f"{page.relative_to(ROOT)}: {text.splitlines()[0].strip()[:40]}")
        for page, text, found in ALL
        if found & sections and found <= sections | (either or set())
    ]


def test_there_are_some_of_each_kind() -> None:
    assert len(those(DETECTOR)) >= 10
    assert len(those(WEB)) >= 3
    assert len(those(EXPORTER, EITHER)) >= 2


@pytest.mark.parametrize("text", those(DETECTOR))
def test_the_detector_takes_its_file(text: str) -> None:
    parse_config(text.encode(), "detector.yaml")


@pytest.mark.parametrize("text", those(WEB))
def test_both_programs_take_a_web_configuration_file(text: str, tmp_path: Path) -> None:
    file = tmp_path / "web.yml"
    file.write_text(text.replace("$2y$10$...", f"$2y$10${'a' * 53}"))
    assert load_web_config(file).tls is not None
    assert read_web_file(file).tls is not None


@pytest.mark.parametrize("text", those(EXPORTER, EITHER))
def test_the_exporter_takes_its_file(text: str, tmp_path: Path) -> None:
    file = tmp_path / "exporter.yaml"
    file.write_text(text)
    load([f"--config.file={file}"], load_collectors())

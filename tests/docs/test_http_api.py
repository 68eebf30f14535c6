"""The page about HTTP names what the programs answer: every path, and every key of the JSON."""

from __future__ import annotations

import re
from typing import Any

import pytest

from hwsonde_detector.web.app import App, Metrics
from hwsonde_exporter.web import Application
from tests.detector.web.data import NOW, StillClock, fleet
from tests.detector.web.test_app import answer, ask
from tests.docs.markdown import ROOT

PAGE = (ROOT / "docs" / "reference" / "http-api.md").read_text(encoding="utf-8")
EXPORTER, _, DETECTOR = PAGE.partition("## The detector")


def section(heading: str) -> str:
    return PAGE.partition(f"### `{heading}`\n")[2].partition("\n### ")[0]


def keys(text: str) -> set[str]:
    """First cells of the tables: keys in backticks."""
    cells = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", text, re.MULTILINE)
    return {key for cell in cells for key in re.findall(r"`(\w+)`", cell)}


@pytest.fixture(scope="module")
def detector() -> App:
    board, history = fleet("node23")
    return App(board, history, StillClock(NOW), Metrics("text/plain", lambda *_: b""))


def test_the_detectors_paths(detector: App) -> None:
    paths = re.findall(r"^\| `(/[^`]*)` \|", DETECTOR, re.MULTILINE)
    real = {"/api/v1/hosts/NAME": "/api/v1/hosts/a/node17", "/static/NAME": "/static/page.css"}
    for path in paths:
        assert ask(detector, real.get(path, path))[0] == 200, path
    # Browsers ask for an icon by themselves; there is none.
    assert set(detector._routes) - {"/favicon.ico"} <= set(paths)
    assert ask(detector, "/api/v1/hosts/a/nobody")[0] == 404
    assert ask(detector, "/", "POST")[0] == 405


def test_the_exporters_paths() -> None:
    class Nothing:
        ready = True

    paths = {path.partition("?")[0] for path in re.findall(r"^\| `(/[^`]*)` \|", EXPORTER, re.MULTILINE)}
    assert paths == set(Application(Nothing(), "host")._pages)  # type: ignore[arg-type]


def test_keys_of_the_hosts(detector: App) -> None:
    document = answer(detector, "/api/v1/hosts")
    whole, _, each = section("/api/v1/hosts").partition("Of each host:")
    assert keys(whole) == set(document)
    assert keys(each) == set(document["hosts"][0])
    for key in document["source"]:
        assert f"`{key}`" in whole
    for state in ("anomalous", "silent", "raised", "learning", "quiet"):
        assert f"`{state}`" in each


def test_keys_of_one_host(detector: App) -> None:
    document = answer(detector, "/api/v1/hosts/a/node17")
    more = set(document) - set(answer(detector, "/api/v1/hosts")["hosts"][0]) - {"now_ms"}
    text = section("/api/v1/hosts/NAME")
    assert keys(text) == more
    assert document["top"]
    named(text, document["top"][0])
    named(text, document["history"])
    named(text, document["episodes"])


def test_keys_of_an_episode(detector: App) -> None:
    document = answer(detector, "/api/v1/episodes")
    assert set(document) == {"open", "past"}
    assert keys(section("/api/v1/episodes")) == set(document["open"][0])


def named(text: str, document: dict[str, Any]) -> None:
    for key in document:
        assert f"`{key}`" in text, key

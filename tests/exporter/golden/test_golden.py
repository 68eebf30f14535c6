"""The whole output of every collector on every fixture host, compared with what is committed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from hwsonde_exporter.exposition import block_of, render
from hwsonde_exporter.metric import Sample
from tests.exporter.collectors.hosts import NAMES, collectors, fixture_host, samples_of

HERE = Path(__file__).resolve().parent


def _render(answers: Iterable[list[Sample]]) -> bytes:
    return render(block_of(samples) for samples in answers)


@pytest.mark.parametrize("name", NAMES)
def test_output_is_as_committed(name: str, request: pytest.FixtureRequest) -> None:
    golden = HERE / f"{name}.txt"
    text = _render(samples_of(fixture_host(name)).values())
    if request.config.getoption("--update-golden"):
        golden.write_bytes(text)
    assert text.decode().splitlines() == golden.read_text().splitlines(), (
        "run pytest with --update-golden if this is right"
    )


@pytest.mark.parametrize("name", NAMES)
def test_second_collection_gives_the_same(name: str) -> None:
    both = [(list(collector.collect()), list(collector.collect())) for collector in collectors(fixture_host(name))]
    assert all(first == second for first, second in both)


@pytest.mark.parametrize("name", NAMES)
def test_promtool_has_nothing_to_say(name: str) -> None:
    text = _render(samples_of(fixture_host(name)).values())
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")

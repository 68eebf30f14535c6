"""The output of every collector on every fixture host, one file each, compared with what is committed."""

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
    texts = {collector: _render([samples]) for collector, samples in samples_of(fixture_host(name)).items()}
    folder = HERE / name
    if request.config.getoption("--update-golden"):
        folder.mkdir(exist_ok=True)
        for file in folder.glob("*.txt"):
            file.unlink()
        for collector, text in texts.items():
            (folder / f"{collector}.txt").write_bytes(text)
    committed = {file.stem: file.read_bytes() for file in folder.glob("*.txt")}
    how = "run pytest with --update-golden if this is right"
    assert sorted(texts) == sorted(committed), how
    for collector, text in texts.items():
        assert text.decode().splitlines() == committed[collector].decode().splitlines(), f"{collector}: {how}"


@pytest.mark.parametrize("name", NAMES)
def test_second_collection_gives_the_same(name: str) -> None:
    both = [(list(collector.collect()), list(collector.collect())) for collector in collectors(fixture_host(name))]
    assert all(first == second for first, second in both)


@pytest.mark.parametrize("name", NAMES)
def test_promtool_has_nothing_to_say(name: str) -> None:
    text = _render(samples_of(fixture_host(name)).values())
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")

"""Samples of an incident out of a real Prometheus, in which some hosts have the label of the host and some have not."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hwsonde_detector.config import load_config
from hwsonde_detector.incidents.book import Book, Mode
from hwsonde_detector.incidents.store import Store
from hwsonde_detector.past.world import World
from hwsonde_detector.reports.evidence import Wanted, run_evidence
from hwsonde_detector.types import Entity
from hwsonde_detector.web.history import History
from tests.detector.incidents.made import episode
from tests.detector.reports.fleet import START_MS, configured
from tests.detector.reports.test_real_prometheus import served
from tests.detector.web.data import StillClock

START_S = START_MS // 1000
# Instances, and the labels of their hosts: two exporters of the first host, of which one names it; one with an address of its own.
TARGETS = (
    ("h0:9880", ""),
    ("h0:9100", ',node="h0"'),
    ("h1:9880", ""),
    ("h00:9880", ""),
    ("[fe80::1]:9880", ""),
    ("x:9880", ',node="n1"'),
)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory) -> Iterator[str]:
    text = [
        f'm_cpu_0_total{{cluster="lab",job="hwsonde-exporter",instance="{instance}"{node}}} {second} {START_S + second}'
        for instance, node in TARGETS
        for second in range(30)
    ]
    with served(tmp_path_factory.mktemp("prometheus"), "\n".join([*text, "# EOF", ""])) as url:
        yield url


@pytest.mark.parametrize(
    ("node", "instances"),
    [
        ("h0", {"h0:9880", "h0:9100"}),
        ("h1", {"h1:9880"}),
        ("fe80::1", {"[fe80::1]:9880"}),
        ("n1", {"x:9880"}),
        ("h2", set()),
    ],
)
def test_all_samples_of_a_host_and_of_no_other(prometheus: str, tmp_path: Path, node: str, instances: set[str]) -> None:
    path = configured(tmp_path, prometheus)
    path.write_text(path.read_text().replace("dir: null", f"dir: {tmp_path / 'state'}"))
    config = load_config(path, {})
    one = episode(START_MS + 10_000, Entity((("cluster", "lab"), ("node", node))), end_ms=START_MS + 20_000)
    book = Book(Store(tmp_path / "state" / "incidents"), History(), StillClock(START_MS + 60_000), Mode())
    book.resume([one])
    (entry,) = book.entries()
    out = io.StringIO()
    assert run_evidence(config, Wanted(entry.id, tmp_path / "a.tar.gz"), World(lambda: 0, lambda: 0.0, out=out)) == 0
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        content = archive.extractfile(f"{entry.id}/samples.jsonl").read()
    samples = [json.loads(line) for line in content.splitlines()]
    assert {one["metric"]["instance"] for one in samples} == instances
    assert sum(len(one["values"]) for one in samples) == 30 * len(instances)

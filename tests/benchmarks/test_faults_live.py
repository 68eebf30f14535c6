"""Two cheap faults for real, for seconds: the bench makes its workload, proves the faults, and leaves nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.faults import bench as bench_module
from benchmarks.faults import trial as trial_module
from benchmarks.faults.bench import Bench
from benchmarks.faults.cgroups import TOP, Cgroups
from benchmarks.faults.errors import BenchError
from benchmarks.faults.injectors.table import KINDS
from benchmarks.faults.network import NAMESPACES, PREFIX
from benchmarks.faults.record import RealClock
from benchmarks.faults.trial import trial


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    if os.geteuid():
        pytest.skip("control groups can be made by root only")
    monkeypatch.setattr(bench_module, "_MEMORY", 256 << 20)
    monkeypatch.setattr(trial_module, "WARM_SECONDS", 1.5)
    monkeypatch.setattr(trial_module, "PREPARED_SECONDS", 0.5)
    made = Bench(tmp_path, node="bench", load="quiet", seconds=60, watched=False, files_mib=(8, 8))
    if not made.cgroups.trees:
        pytest.skip("no control groups are mounted here")
    try:
        made.__enter__()
    except BenchError as error:
        pytest.skip(f"the bench cannot run here: {error}")
    yield made
    made.__exit__(None, None, None)


def test_two_faults_act_and_leave_nothing(bench: Bench, tmp_path: Path) -> None:
    said: list[str] = []
    kinds = {kind: KINDS[kind] for kind in ("handle_leak", "stopped_process")}
    assert trial(bench, kinds, 2.0, RealClock(), said.append) == 0, said
    assert len([line for line in said if " acted: " in line]) == 2, said
    assert bench.progress("training") > 0
    assert bench.progress("reader", 1) > 0
    bench.__exit__(None, None, None)
    assert not (tmp_path / "scratch").exists()
    assert not any((tree.base / TOP).exists() for tree in Cgroups.here().trees)
    assert not list(NAMESPACES.glob(f"{PREFIX}*"))

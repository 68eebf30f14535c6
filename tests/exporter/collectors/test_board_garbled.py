"""Whatever lies in the files of a board: its collectors give sound samples or say that they cannot, nothing else."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwsonde_exporter.collectors.clock import ClockCollector
from hwsonde_exporter.collectors.cpu_uncore import CpuUncoreCollector
from hwsonde_exporter.collectors.pcie import PcieCollector
from hwsonde_exporter.collectors.power_host import PowerHostCollector
from hwsonde_exporter.collectors.power_rapl import PowerRaplCollector
from hwsonde_exporter.collectors.power_rapl_limit import PowerRaplLimitCollector
from hwsonde_exporter.collectors.power_sensor import PowerSensorCollector
from hwsonde_exporter.collectors.thermal import ThermalCollector
from hwsonde_exporter.collectors.thermal_core import ThermalCoreCollector
from hwsonde_exporter.collectors.thermal_zone import ThermalZoneCollector
from hwsonde_exporter.collectors.voltage import VoltageCollector
from hwsonde_exporter.host import Host, Paths
from tests.exporter.collectors.hosts import CLOCK, NoController
from tests.exporter.contracts.test_collectors import check, check_observations, garbled_tree, samples_of
from tests.fixtures.make_node192 import write
from tests.fixtures.node192_board import files

MAKERS = [
    partial(ClockCollector, clock=lambda: CLOCK),
    CpuUncoreCollector,
    PcieCollector,
    partial(PowerHostCollector, controller=NoController()),
    PowerRaplCollector,
    PowerRaplLimitCollector,
    PowerSensorCollector,
    ThermalCollector,
    ThermalCoreCollector,
    ThermalZoneCollector,
    VoltageCollector,
]


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board")
    write(files(), folder)
    return folder


@given(seed=st.integers(0, 2**32))
@settings(max_examples=10, deadline=None)
def test_a_garbled_board(board: Path, seed: int) -> None:
    with TemporaryDirectory() as folder:
        tree = Path(folder)
        garbled_tree(board, tree, random.Random(seed))
        for make in MAKERS:
            host = Host(Paths(tree / "proc", tree / "sys", tree))
            collector = make(host)
            declared = type(collector).metrics
            check(samples_of(collector), declared)
            check(samples_of(collector), declared)
            if isinstance(collector, PowerRaplCollector):
                check_observations(collector)
            host.files.close()

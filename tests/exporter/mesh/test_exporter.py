import threading
import time
from pathlib import Path

from hwsonde_exporter.cell import Clocks
from hwsonde_exporter.collectors.network_probe import NetworkProbeCollector
from hwsonde_exporter.exporter import Exporter, ExporterSettings
from hwsonde_exporter.exposition import render
from hwsonde_exporter.host import Paths
from hwsonde_exporter.mesh.sender import Peer
from hwsonde_exporter.mesh.service import MeshSettings
from hwsonde_exporter.runner import RunnerSettings
from tests.exporter.mesh.test_mesh import wait_for

KINDS = {"network_probe": NetworkProbeCollector}
MESH = MeshSettings((Peer("a", "127.0.0.1", 9),), ("127.0.0.1", 0), 0.1)


def settings(mesh: MeshSettings, *, enabled: bool) -> ExporterSettings:
    return ExporterSettings(RunnerSettings(frozenset(KINDS) if enabled else frozenset()), 0.0, mesh)


def threads() -> int:
    return sum(thread.name.startswith("mesh-") for thread in threading.enumerate())


def test_the_mesh_runs_as_long_as_the_exporter_with_the_collector() -> None:
    wait_for(lambda: threads() == 0)
    exporter = Exporter(KINDS, Paths(Path("/proc")), settings(MESH, enabled=False), Clocks(time.monotonic, time.time))
    exporter.start()
    assert threads() == 0
    exporter.configure(settings(MESH, enabled=True))
    wait_for(lambda: b'probe_sent_total{peer="a"} 2' in render(exporter.scrape()))
    exporter.configure(settings(MeshSettings(), enabled=True))
    wait_for(lambda: threads() == 0)
    wait_for(lambda: b'available{collector="network_probe",reason="disabled"} 0' in render(exporter.scrape()))
    exporter.configure(settings(MESH, enabled=True))
    wait_for(lambda: threads() == 2)
    exporter.stop()
    wait_for(lambda: threads() == 0)

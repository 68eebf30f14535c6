"""The exporter as a whole: runner, sampler and its own metrics behind one call."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from hwsonde_exporter.cell import Clocks
from hwsonde_exporter.collectors.network_probe import NetworkProbeCollector
from hwsonde_exporter.errors import ThreadError
from hwsonde_exporter.exposition import Block, Shape, block_of
from hwsonde_exporter.host import Host, Ignored, Paths, RemoteGroup
from hwsonde_exporter.mesh.service import Mesh, MeshSettings
from hwsonde_exporter.nvml.client import Client, NvmlSettings
from hwsonde_exporter.privacy import Level
from hwsonde_exporter.registry import Collector, FastSource
from hwsonde_exporter.runner import Runner, RunnerSettings
from hwsonde_exporter.sampler import Sampler
from hwsonde_exporter.selection import Selection
from hwsonde_exporter.self_metrics import NAME, ScrapeCounts, own_samples, read_process
from hwsonde_exporter.snapshot import Snapshot
from hwsonde_exporter.state import State
from hwsonde_exporter.workload_options import WorkloadOptions


@dataclass(frozen=True, slots=True)
class ExporterSettings:
    """What may be configured while the exporter runs: see `RunnerSettings`; ``hertz`` is the sampler's rate, 0 for none.

    ``mesh`` is for the mesh probe, which runs where the collector ``network_probe`` does; ``remote_groups`` are names for the
    addresses of other hosts, ``workloads`` the bounds on workloads, ``nvml`` how NVIDIA's library is asked.

    ``once`` is for an exporter that is asked once: for how many seconds its collectors of GPUs wait for a driver that wakes them,
    and fail if it has not done so then. None for one that is asked again, whose GPUs may come later.
    """

    runner: RunnerSettings
    hertz: float = 10.0
    mesh: MeshSettings = field(default_factory=MeshSettings)
    remote_groups: tuple[RemoteGroup, ...] = ()
    workloads: WorkloadOptions = field(default_factory=WorkloadOptions)
    nvml: NvmlSettings = field(default_factory=NvmlSettings)
    once: float | None = None


class Exporter:
    """Answers scrapes.

    Parameters
    ----------
    kinds
        Collector classes by name.
    paths
        Where the host's kernel files are.
    settings
        See `ExporterSettings`.
    clocks
        Where time comes from.
    ignored
        What of the host is left out.
    textfiles
        Directory in which other programs leave metrics.
    """

    def __init__(
        self,
        kinds: Mapping[str, type[Collector]],
        paths: Paths,
        settings: ExporterSettings,
        clocks: Clocks,
        ignored: Ignored | None = None,
        textfiles: Path | None = None,
    ) -> None:
        self._kinds = dict(kinds)
        self._paths = paths
        self._ignored = ignored or Ignored()
        self._textfiles = textfiles
        self._clocks = clocks
        self._started = clocks.wall()
        self._settings = settings
        self._mesh = Mesh()
        until = None if settings.once is None else time.monotonic() + settings.once
        self._nvml = Client(settings.nvml, until=until)
        self._runner = Runner(kinds, self._new_host, settings.runner, clocks)
        self._sampler = Sampler(
            self._fast_sources(settings),
            settings.hertz,
            clocks.monotonic,
            self._runner.usable,
            selection=settings.runner.selection,
            privacy=settings.runner.privacy,
        )
        self._sampler.bound(settings.runner.limit)
        self._lock = threading.Lock()
        self._answered = self._refused = 0
        self._seconds = 0.0
        self._own_shape: tuple[Selection, Shape] | None = None
        self.reload_success = True
        self.protection_success: Callable[[], bool] = lambda: True
        self.turned_away: Callable[[], Mapping[str, int]] = dict
        self.ready = False

    @property
    def names(self) -> frozenset[str]:
        """Every name that a scrape may ask for."""
        return self._runner.names | {NAME}

    @property
    def enabled(self) -> frozenset[str]:
        """The names that a scrape gets if it does not say."""
        return self._runner.enabled | {NAME}

    @property
    def strict(self) -> bool:
        """Whether nothing may be shown that tells who or where this host is."""
        return self._settings.runner.privacy.level is Level.STRICT

    def start(self) -> None:
        """Start sampling and the background collectors; returns when the first readings are in or have timed out."""
        self._mesh.configure(_mesh(self._settings))
        # The sampler asks the probes' findings, so these come first.
        self._runner.start()
        self._sampler.start()
        self.ready = True

    def stop(self) -> None:
        """End all threads as soon as each can; returns at once."""
        self.ready = False
        self._sampler.stop()
        self._runner.stop()
        self._mesh.stop()
        self._nvml.stop()

    def settle(self, timeout: float) -> None:
        """Wait until each background collector has run once, for ``timeout`` seconds at most."""
        self._runner.settle(timeout)

    def configure(self, settings: ExporterSettings) -> None:
        """Take over new settings and probe every collector again; raises `ThreadError`."""
        if settings != self._settings:
            before, self._settings = self._settings, settings
            try:
                self._mesh.configure(_mesh(settings))
                self._nvml.configure(settings.nvml)
                self._runner.configure(settings.runner)
            except ThreadError:
                self._settings = before  # so that the same settings are taken over as a whole when they come again
                raise
            rules = settings.runner.selection, settings.runner.privacy
            self._sampler.bound(settings.runner.limit)
            self._sampler.configure(self._fast_sources(settings), settings.hertz, *rules)
        self._runner.probe_again()

    def scrape(self, names: Collection[str] | None = None, timeout: float | None = None) -> list[Block]:
        """Everything that is known now.

        Parameters
        ----------
        names
            Collectors to give, with `hwsonde_exporter.self_metrics.NAME` for the exporter's own; None means all.
        timeout
            Seconds to wait for collectors; None means as configured.
        """
        began = self._clocks.monotonic()
        snapshots = self._runner.snapshots(names, timeout)
        blocks = {name: snapshot.block for name, snapshot in snapshots.items()}
        moments = self._sampler.blocks(names)
        answer = [
            block for name in sorted({*blocks, *moments}) for block in (blocks.get(name), moments.get(name)) if block
        ]
        if names is None or NAME in names:
            answer.append(self._own_block(snapshots))
        with self._lock:
            self._answered += 1
            self._seconds += self._clocks.monotonic() - began
        return answer

    def refused(self) -> None:
        """Count a scrape that was refused."""
        with self._lock:
            self._refused += 1

    def states(self) -> list[State]:
        """State of every collector, in order of name."""
        return self._runner.states()

    def _own_block(self, published: Mapping[str, Snapshot]) -> Block:
        with self._lock:
            scrapes = ScrapeCounts(
                self._answered, self._refused, self._seconds, self._runner.incomplete, self.turned_away()
            )
        samples = own_samples(
            [_published(state, published.get(state.name)) for state in self._runner.states()],
            scrapes,
            self._sampler.counts() if self._settings.hertz > 0 else None,
            read_process(self._started),
            reload_success=self.reload_success and self.protection_success(),
        )
        selection, known = self._settings.runner.selection, self._own_shape
        block = block_of(samples, known[1] if known is not None and known[0] is selection else None, selection)
        self._own_shape = (selection, block.shape)
        return block

    def _new_host(self) -> Host:
        return Host(
            self._paths,
            ignored=self._ignored,
            remote_groups=lambda: self._settings.remote_groups,
            textfiles=self._textfiles,
            mesh=self._mesh.samples,
            workloads=lambda: self._settings.workloads,
            nvml=self._nvml,
        )

    def _fast_sources(self, settings: ExporterSettings) -> dict[str, tuple[type[FastSource], Callable[[], FastSource]]]:
        found = {}
        for name in settings.runner.enabled:
            kind = self._kinds[name]
            if hasattr(kind, "observe") and hasattr(kind, "quantities"):
                found[name] = (cast("type[FastSource]", kind), self._observer_maker(kind))
        return found

    def _observer_maker(self, kind: type[Collector]) -> Callable[[], FastSource]:
        return lambda: cast("FastSource", kind(self._new_host()))


def _mesh(settings: ExporterSettings) -> MeshSettings:
    return settings.mesh if NetworkProbeCollector.name in settings.runner.enabled else MeshSettings()


def _published(state: State, snapshot: Snapshot | None) -> State:
    """The state with the time of the values in this answer: a run may have ended since they were taken."""
    if snapshot is None or snapshot.wall == state.last_success:
        return state
    return replace(state, last_success=snapshot.wall)

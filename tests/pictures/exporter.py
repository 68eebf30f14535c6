"""The exporter on a fixture host that lives: it reads files that somebody else writes, and gets answers to its system calls that grow here.

``python -m tests.pictures.exporter`` takes the flags of ``hwsonde-exporter``. What it publishes has nothing of the machine that it runs on.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from hwsonde_exporter import logs
from hwsonde_exporter.collectors.filesystem import FilesystemCollector, Usage
from hwsonde_exporter.collectors.gpu_xid import GpuXidCollector
from hwsonde_exporter.collectors.network_latency import NetworkLatencyCollector
from hwsonde_exporter.collectors.nvme import NvmeCollector
from hwsonde_exporter.collectors.settings import SettingsCollector
from hwsonde_exporter.config import Command, load_with
from hwsonde_exporter.host import Host
from hwsonde_exporter.registry import Collector, load_collectors
from hwsonde_exporter.service import serve
from tests.exporter.collectors.answers import smart_log
from tests.exporter.collectors.ethtool_kernel import Card, fixture_cards
from tests.exporter.collectors.hosts import answers
from tests.exporter.collectors.sockets import Kernel, fixture_kernel
from tests.exporter.xid.logs import Log
from tests.pictures.growing import LEAST

TICK = 0.5
UPTIME = 864_000
# How much of its adapters' past rates a training makes use of: their counters are of nearly idle ports.
ADAPTERS = 10.0
# Settings are looked at often, so that a change of one is seen while the pictures' few minutes last.
SETTINGS_PERIOD = 10.0


# Adapters of the training host that wait or make their peers wait, and one that does not.
ILL, WELL = frozenset({"ens10np0", "ens11np0", "ens12np0"}), "ens13np0"


def used(path: bytes) -> Usage:
    """What a filesystem says of its size: some are fuller than others."""
    return Usage(100 << 30, (80 - 7 * (len(path) % 6)) << 30, 6_553_600, 6_000_000)


class Life:
    """Lets what a host answers beside its files go on: counters of its network adapters, and its connections."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(5)
        self._cards: Mapping[str, Card] = {}
        self._kernel: Kernel | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin."""
        threading.Thread(target=self._run, name="life", daemon=True).start()

    def answers(self, host: Host) -> dict[type[Any], dict[str, Any]]:
        """Those of the fixture host, of which some live, and with nothing from a time that is long past."""
        found = answers(host)
        with self._lock:
            if not self._cards:
                self._cards = fixture_cards(host)
                for name in ILL & self._cards.keys():
                    self._cards[name].statistics = dict(self._cards[WELL].statistics)
            self._kernel = self._kernel or fixture_kernel(host)
        found[NetworkLatencyCollector] = {"dump": self._kernel}
        # Neither a server that is gone, nor a disk that is worn out.
        found[FilesystemCollector] = {"ask": used}
        found[NvmeCollector]["ask"] = lambda path: smart_log(f"{path[:-1]}0")
        found[GpuXidCollector] = {"log": lambda: Log().open()}
        for kind in (SettingsCollector, GpuXidCollector):
            found[kind].pop("wall", None)
        return found

    def _run(self) -> None:
        while True:
            time.sleep(TICK)
            with self._lock:
                self.tick(TICK)

    def tick(self, seconds: float) -> None:
        """Let some time pass."""
        for card in self._cards.values():
            for name, value in card.statistics.items():
                if value >= LEAST:
                    card.statistics[name] = value + int(self._random.poisson(value / UPTIME * seconds * ADAPTERS))
        for connection in self._kernel.connections if self._kernel else ():
            info = connection.info
            # Of those that are in use: data is acknowledged, after times that differ a little.
            if info.get("last_data_sent", 0) < 1000 and "min_rtt" in info:
                info["bytes_acked"] += int(self._random.poisson(40_000 * seconds))
                info["data_segs_out"] += int(self._random.poisson(30 * seconds))
                info["rtt"] = int(info["min_rtt"] * (1.5 + abs(self._random.normal(0, 0.2))))


def living(life: Life) -> dict[str, type[Collector]]:
    """Every collector, made with the answers of the host that it is made for."""

    def begin(kind: type[Collector]) -> Callable[[Any, Host], None]:
        def made(self: Any, host: Host) -> None:
            cast("Any", kind).__init__(self, host, **life.answers(host).get(kind, {}))

        return made

    made: dict[str, type[Collector]] = {}
    for name, kind in load_collectors().items():
        more = {"period": SETTINGS_PERIOD} if kind is SettingsCollector else {}
        made[name] = type(kind.__name__, (kind,), {"__init__": begin(kind), **more})
    return made


def main(arguments: Sequence[str]) -> int:
    """Serve until a signal comes; gives the exit status."""
    life = Life()
    kinds = living(life)
    settings, _ = load_with(arguments, kinds, Command())
    logs.set_up(settings.log_level, settings.log_format)
    life.start()
    return serve(settings, kinds, lambda: load_with(arguments, kinds, Command())[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

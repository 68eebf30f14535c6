"""Which CPUs are online, and to which package and core each belongs."""

from __future__ import annotations

from collections.abc import Iterable

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._files import entries, read_or_none, sys_number, sys_text
from hwsonde_exporter.host import Host


class Topology:
    """CPUs of a host, from /sys/devices/system/cpu; their places are remembered, since those of offline CPUs are hidden."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.base = str(host.paths.sys("devices/system/cpu"))
        self._packages: dict[int, str] = {}
        self._cores: dict[int, str] = {}

    def online(self) -> list[int]:
        """Numbers of the CPUs online; none if the list cannot be read."""
        data = read_or_none(self.host, f"{self.base}/online")
        return parsing.cpu_list(data) if data else []

    def package(self, cpu: int) -> str:
        """Number of the package of a CPU, as a label."""
        package = self._packages.get(cpu)
        if package is None:
            # Some virtual machines and ARM boards give -1 or nothing: one package then.
            number = sys_number(self.host, f"{self.base}/cpu{cpu}/topology/physical_package_id")
            package = self._packages[cpu] = str(number or 0)
        return package

    def core(self, cpu: int) -> str:
        """What tells the core of a CPU from others of its package; where it has no number, each CPU is a core of its own."""
        core = self._cores.get(cpu)
        if core is None:
            core = sys_text(self.host, f"{self.base}/cpu{cpu}/topology/core_id") or f"cpu{cpu}"
            self._cores[cpu] = core
        return core

    def by_package(self, cpus: Iterable[int]) -> dict[str, list[int]]:
        """CPUs of each package, in the order in which they are given."""
        packages: dict[str, list[int]] = {}
        for cpu in cpus:
            packages.setdefault(self.package(cpu), []).append(cpu)
        return packages


def core_units(host: Host) -> dict[int, int]:
    """Type of the counter unit of each CPU where a processor has cores of several kinds; empty where it has not.

    There the generic events (cycles, cache misses) must say in the upper half of ``config`` which unit they mean.
    """
    base = str(host.paths.sys("bus/event_source/devices"))
    units: dict[int, int] = {}
    for name in entries(base):
        if not name.startswith("cpu_"):
            continue
        number = sys_number(host, f"{base}/{name}/type")
        cpus = read_or_none(host, f"{base}/{name}/cpus")
        if number is not None and cpus:
            units.update(dict.fromkeys(parsing.cpu_list(cpus), number))
    return units

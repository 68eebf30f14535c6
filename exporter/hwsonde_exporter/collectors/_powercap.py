"""The zones of /sys/class/powercap: which package and domain each speaks of, and energy counters that wrap."""

from __future__ import annotations

import re
from typing import NamedTuple

from hwsonde_exporter.collectors._files import entries, sys_number, sys_text
from hwsonde_exporter.host import Host

# A package of several dies has one zone a die.
_PACKAGE = re.compile(r"package-(\d{1,4})(?:-die-(\d{1,4}))?\Z")
_PLATFORM = re.compile(r"psys(?:-(\d{1,4}))?\Z")
_PARTS = frozenset({"core", "uncore", "dram"})
# Vendor of the processor in modalias; 0000 is Intel.
_INTEL = "ven0000"


class Zone(NamedTuple):
    """A power zone.

    ``package`` and ``domain`` (``package``, ``core``, ``uncore``, ``dram``, ``psys``) are its labels, ``die`` is empty where a
    package is one. ``energy_range`` is where the energy counter wraps, in microjoules, or None.
    """

    path: str
    package: str
    die: str
    domain: str
    energy_range: int | None


def package_of(name: str) -> tuple[str, str, str] | None:
    """Package, die and domain of the name of a zone at the top (``package-1-die-0``, ``psys``), or None for any other."""
    match = _PACKAGE.match(name)
    if match:
        return str(int(match[1])), match[2] or "", "package"
    match = _PLATFORM.match(name)
    if match:
        return str(int(match[1] or 0)), "", "psys"
    return None


def zones(host: Host) -> list[Zone]:
    """RAPL zones of the host, each domain of a die once.

    Client processors show a package both through its registers (``intel-rapl``) and through memory (``intel-rapl-mmio``):
    one counter, of which the first is taken. On AMD processors ``core`` is left out: the kernel reads it on one CPU of
    the package and gives the energy of that core alone.
    """
    base, names = _names(host)
    intel = _INTEL in sys_text(host, host.paths.sys("devices/system/cpu/modalias"))
    found: dict[tuple[str, str, str], Zone] = {}
    tops: dict[str, tuple[str, str, str]] = {}
    # Parents come before their parts, and memory-mapped doubles last.
    for name in sorted(names, key=lambda name: ("mmio" in name, name.count(":"), name)):
        path = f"{base}/{name}"
        title = sys_text(host, f"{path}/name")
        identity = package_of(title)
        if identity is not None:
            tops[name] = identity
        elif title in _PARTS and (intel or title != "core"):
            parent = tops.get(name.rpartition(":")[0])
            identity = (parent[0], parent[1], title) if parent else None
        if identity is not None and identity not in found:
            limit = sys_number(host, f"{path}/max_energy_range_uj")
            found[identity] = Zone(path, *identity, energy_range=limit or None)
    return list(found.values())


def hidden(host: Host) -> bool:
    """Whether there are zones that do not say their names: container runtimes put an empty folder over them."""
    base, names = _names(host)
    return bool(names) and not any(sys_text(host, f"{base}/{name}/name") for name in names)


def _names(host: Host) -> tuple[str, list[str]]:
    base = str(host.paths.sys("class/powercap"))
    return base, [name for name in entries(base) if ":" in name and "rapl" in name]


class Unwrapped:
    """Energy since the first reading of a counter that begins anew at 0 when its range is used up.

    A range lasts minutes (262 kJ on Intel servers: 15 at 300 W; 65 kJ on AMD's: nearly 3 at 400 W); a counter that is read
    less often than that loses whole ranges.
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self.total = 0

    def update(self, value: int, energy_range: int | None) -> bool:
        """Take a reading, in microjoules; False if it lies beyond the range, and so is none."""
        if energy_range is not None and value > energy_range:
            return False
        last, self._last = self._last, value
        if last is not None:
            # Without a range only what was counted since the wrap is known.
            rest = max(0, energy_range - last) if energy_range is not None else 0
            self.total += value - last if value >= last else rest + value
        return True

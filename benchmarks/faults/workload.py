"""What the host is there for: a training loop, an all-reduce ring, a reader of files, and other load where a session has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.faults.children import Child
from benchmarks.faults.network import LINKS, NAMESPACES, SIZE, namespace

MEASURED = ("training", "reader", "ring0")
"""Parts whose progress says what a fault costs."""


@dataclass(frozen=True, slots=True)
class Part:
    """One process of the workload: its worker, the control group and namespace that it runs in, and the unit that it starts with."""

    name: str
    worker: str
    unit: str
    group: str
    arguments: dict[str, Any] = field(default_factory=dict)
    netns: str = ""


def parts(data: Path, checkpoint: Path, *, ring: bool, background: int) -> list[Part]:
    """The workload.

    Parameters
    ----------
    data, checkpoint
        What is read, and where the training writes.
    ring
        Whether there are namespaces for it.
    background
        Busy processes that run beside it.
    """
    found = [
        Part("training", "training", "training", "training", {"data": str(data), "checkpoint": str(checkpoint)}),
        Part("reader", "reader", "reader", "reader", {"data": str(data)}),
    ]
    for link in LINKS if ring else ():
        before = LINKS[(link.number - 1) % SIZE]
        arguments = {"me": link.number, "size": SIZE, "listen": before.far_address, "next": link.far_address}
        place = str(NAMESPACES / namespace(link.number))
        found.append(Part(f"ring{link.number}", "ring", "ring", "ring", arguments, place))
    if background:
        found.append(Part("background", "spin", "background", "background", {"number": background}))
    return found


class Workload:
    """The parts while they run; those of one unit start and stop together.

    Parameters
    ----------
    wanted
        What `parts` gave.
    spawn
        Starts one, ready and waiting.
    """

    def __init__(self, wanted: Iterable[Part], spawn: Callable[[Part], Child]) -> None:
        self.parts = tuple(wanted)
        self._spawn = spawn
        self._children: dict[str, Child] = {}

    @property
    def units(self) -> tuple[str, ...]:
        """Names of what starts together, in order."""
        return tuple(dict.fromkeys(part.unit for part in self.parts))

    def start(self, unit: str) -> None:
        """Start a unit; all its parts are ready before the first begins."""
        mine = [part for part in self.parts if part.unit == unit]
        for part in mine:
            self._children[part.name] = self._spawn(part)
        for part in mine:
            self._children[part.name].go()

    def stop(self, unit: str) -> None:
        """Stop a unit."""
        for part in self.parts:
            if part.unit == unit and (child := self._children.pop(part.name, None)) is not None:
                child.stop()

    def restart(self, unit: str) -> None:
        """Stop and start it."""
        self.stop(unit)
        self.start(unit)

    def start_all(self) -> None:
        """Start everything."""
        for unit in self.units:
            self.start(unit)

    def stop_all(self) -> None:
        """Stop everything."""
        for unit in self.units:
            self.stop(unit)

    def pid(self, name: str) -> int:
        """Process of a part; 0 where it does not run."""
        child = self._children.get(name)
        return child.pid if child is not None and child.alive() else 0

    def tend(self) -> list[str]:
        """Start again what has ended; give the units."""
        gone = {part.unit for part in self.parts if part.name in self._children and not self.pid(part.name)}
        for unit in sorted(gone):
            self.restart(unit)
        return sorted(gone)

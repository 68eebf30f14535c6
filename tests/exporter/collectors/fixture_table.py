"""The page about the fixture hosts, made from what the collectors give on them.

python -m tests.exporter.collectors.fixture_table docs/fixture-hosts.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hwsonde_exporter.errors import Unavailable
from hwsonde_exporter.registry import FastSource
from hwsonde_exporter.sampler import derived_metrics
from tests.exporter.collectors.hosts import NAMES, fixture_host, made

COMMAND = "python -m tests.exporter.collectors.fixture_table docs/fixture-hosts.md"
# More series of one collector than this are looked at by somebody before they are published.
MANY = 400

_HOSTS = {
    "amd": "two AMD processors with 64 CPUs and eight memory nodes, four AMD GPUs, RoCE by Broadcom and by Mellanox, Kubernetes",
    "container": "a server of 16 CPUs seen from a container with the host's mounts, as nobody and in a network of its own",
    "node192": "a training node of 192 CPUs with eight GPUs, eight RDMA ports of 400 Gbit/s, Slurm, Lustre and NFS",
    "sick": "a small GPU server that is really ill, and whose files are garbled",
    "vm": "a virtual machine of two CPUs with Docker",
    "workstation": "one GPU, cores of two kinds, a desktop with Docker, Wi-Fi, a SATA disk with ZFS",
}
_HEAD = """# Fixture hosts

Made by `{command}`; do not edit by hand.

The exporter is tested on six hosts that exist only as copies of /proc and /sys, in `tests/fixtures/hosts`. They are made up, but
physically consistent except where they are meant to be ill; `python -m tests.fixtures.make_hosts` makes those that have a script.
What they answer beside their files (disks, drivers, counters of events) is in `tests/exporter/collectors/answers.py`.

{hosts}

Each cell gives metric types and series of a collector, or the word for why it is silent there (as the label `reason` of
`hwsonde_exporter_collector_available`). Collectors in brackets are off unless asked for, and are not in the sums. *Sampled* are
the quantities that are observed ten times a second, with five series each. The exporter's own metrics come on top.

"""


@dataclass(frozen=True)
class Cell:
    """What a collector gives on a host: types and series, or the reason why it gives none."""

    types: int = 0
    series: int = 0
    reason: str = ""

    def __str__(self) -> str:
        return self.reason or f"{self.types} / {self.series}"


def look(collector: Any) -> tuple[Cell, Cell]:
    """What a collector gives to a scrape, and to the sampler."""
    try:
        collector.probe()
    except Unavailable as error:
        return Cell(reason=error.reason.value), Cell()
    samples = list(collector.collect())
    cell = Cell(len({sample.metric for sample in samples}), len(samples))
    if not isinstance(collector, FastSource):
        return cell, Cell()
    observed = list(collector.observe())
    quantities = {quantity.metric.name: quantity for quantity, _, _ in observed}
    families = sum(len(derived_metrics(quantity)) for quantity in quantities.values())
    return cell, Cell(families, 5 * len(observed))


@dataclass(frozen=True)
class Table:
    """Cells by collector and host; which collectors run when nobody says otherwise."""

    cells: dict[str, dict[str, Cell]]
    enabled: frozenset[str]

    def total(self, host: str) -> Cell:
        """Sum over the collectors that run, and what is sampled."""
        counted = [row[host] for name, row in self.cells.items() if name in self.enabled]
        return Cell(sum(cell.types for cell in counted), sum(cell.series for cell in counted))


SAMPLED = "*sampled*"


def table() -> Table:
    """Every collector on every host."""
    cells: dict[str, dict[str, Cell]] = {}
    enabled = {SAMPLED}
    for name in NAMES:
        sampled = []
        for collector in made(fixture_host(name)):
            cell, fast = look(collector)
            cells.setdefault(collector.name, {})[name] = cell
            sampled.append(fast)
            if collector.enabled:
                enabled.add(collector.name)
        cells.setdefault(SAMPLED, {})[name] = Cell(
            sum(cell.types for cell in sampled), sum(cell.series for cell in sampled)
        )
    return Table({key: cells[key] for key in (*sorted(cells.keys() - {SAMPLED}), SAMPLED)}, frozenset(enabled))


def to_markdown(found: Table) -> str:
    """The page."""
    hosts = "\n".join(f"- `{name}`: {text}." for name, text in _HOSTS.items())
    lines = [_HEAD.format(command=COMMAND, hosts=hosts)]
    lines.append(_row(["collector", *(f"`{name}`" for name in NAMES)]))
    lines.append(_row(["---"] * (1 + len(NAMES))))
    for name, cells in found.cells.items():
        title = name if name in found.enabled else f"({name})"
        lines.append(_row([title, *(str(cells[host]) for host in NAMES)]))
    lines.append(_row(["**all**", *(f"**{found.total(host)}**" for host in NAMES)]))
    most = ", ".join(f"{name} on `{host}` ({series})" for name, host, series in flood(found))
    lines.append(f"\nMore than {MANY} series: {most}.\n")
    return "".join(lines)


def flood(found: Table) -> list[tuple[str, str, int]]:
    """Collectors that run by default and give more than `MANY` series, where, and how many."""
    return [
        (name, host, cell.series)
        for name, cells in found.cells.items()
        if name in found.enabled and name != SAMPLED
        for host, cell in cells.items()
        if cell.series > MANY
    ]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def main(arguments: Sequence[str]) -> int:
    """Write the page; gives the exit status."""
    if len(arguments) != 1:
        sys.stderr.write(f"usage: {COMMAND}\n")
        return 2
    Path(arguments[0]).write_text(to_markdown(table()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

"""The reference of all metrics, made from the code: a page to read and a table to load.

python -m hwsonde_exporter.reference docs/metrics.md docs/metric_catalogue.csv
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from hwsonde_exporter import self_metrics
from hwsonde_exporter.metric import Kind, Metric
from hwsonde_exporter.registry import Quantity, load_collectors
from hwsonde_exporter.sampler import derived_metrics

_SUBSYSTEMS = {
    "cpu": "CPU",
    "gpu": "GPU",
    "memory": "Memory",
    "network": "Network",
    "storage": "Storage",
    "power": "Power",
    "thermal": "Temperature",
    "pcie": "PCIe",
    "workload": "Workloads",
    "exporter": "Host and exporter",
}
_HEAD = """# Metrics

Made from the code by `python -m hwsonde_exporter.reference`; do not edit by hand. `metric_catalogue.csv` holds the same
rows. Counters are read when Prometheus asks, unless the collector has a period of its own.

A *sampled* quantity is observed ten times a second (`--sampler.hertz`) and published as cumulative moments: a summary
without quantiles (`_sum`, `_count`), the sum of squared deviations from a reference (`_squared_deviation_total`), and the
extremes of the last minute (`_minimum`, `_maximum`). From the increases *n* of `_count`, *s* of `_sum` and *q* of
`_squared_deviation_total` between two scrapes, with the reference *c* that the help of the last one states:

    mean     = s / n
    variance = q / n - (mean - c)^2
"""


class Row(NamedTuple):
    """One metric family as the reference shows it; ``labels`` are joined by commas."""

    name: str
    type: str
    unit: str
    labels: str
    source: str
    subsystem: str
    collector: str
    help: str


def rows() -> list[Row]:
    """Every metric that the exporter can give, in the order of subsystem, collector and table."""
    found: list[Row] = []
    for name, collector in load_collectors().items():
        found += _rows(name, collector.metrics)
        quantities: Sequence[Quantity] = getattr(collector, "quantities", ())
        for quantity in quantities:
            found += _rows(name, derived_metrics(quantity))
    found += _rows(self_metrics.NAME, self_metrics.METRICS)
    order = list(_SUBSYSTEMS)
    return sorted(found, key=lambda row: order.index(row.subsystem))


def _rows(collector: str, metrics: Iterable[Metric]) -> list[Row]:
    return [
        Row(
            metric.name,
            metric.kind.value,
            metric.unit,
            ",".join(metric.labels),
            metric.source,
            metric.subsystem,
            collector,
            metric.help,
        )
        for metric in metrics
    ]


def to_csv(table: Iterable[Row]) -> str:
    """Give the rows as comma-separated values with a line of headings."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Row._fields)
    writer.writerows(table)
    return text.getvalue()


def to_markdown(table: Sequence[Row]) -> str:
    """Give the rows as a page with one table a subsystem."""
    parts = [_HEAD]
    for subsystem, title in _SUBSYSTEMS.items():
        chosen = [row for row in table if row.subsystem == subsystem]
        if not chosen:
            continue
        parts.append(
            f"\n## {title}\n\n| metric | type | labels | collector | meaning | source |\n| --- | --- | --- | --- | --- | --- |\n"
        )
        parts += [_line(row) for row in chosen]
    return "".join(parts)


def _line(row: Row) -> str:
    name = f"`{row.name}`"
    if row.type == Kind.SUMMARY:
        name = f"`{row.name}_sum`, `{row.name}_count`"
    elif row.type == Kind.HISTOGRAM:
        name = f"`{row.name}_bucket`, `{row.name}_sum`, `{row.name}_count`"
    cells = (name, row.type, row.labels.replace(",", ", "), row.collector, row.help, row.source)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n"


def main(arguments: Sequence[str]) -> int:
    """Write the page and the table; gives the exit status."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python -m hwsonde_exporter.reference PAGE.md TABLE.csv\n")
        return 2
    table = rows()
    for path, text in zip(arguments, (to_markdown(table), to_csv(table)), strict=True):
        try:
            Path(path).write_text(text, encoding="utf-8")
        except OSError as error:
            sys.stderr.write(f"hwsonde_exporter.reference: {path}: {error.strerror}\n")
            return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

"""What reading a large host costs: each collector on the fixture host of 192 CPUs, 8 GPUs' slots and 8 RDMA ports, parsing only.

``python -m benchmarks.parsing_cost [--host node192]`` prints CPU time a run for each collector (best of several), and sums: of what a scrape
reads, and of what runs in the background, by its period, as a share of a core. "Parsing only": a fixture's files lack the time that the
kernel itself takes to write them, about four fifths of the cost of small ones.
"""

from __future__ import annotations

import argparse
import sys
import time

from hwsonde_exporter.errors import CollectorError
from tests.exporter.collectors.hosts import NAMES, fixture_host, made

ROUNDS = 7


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--host", choices=NAMES, default="node192")
    host = fixture_host(parser.parse_args().host)
    rows: list[tuple[float, str, float | None, int]] = []
    for collector in made(host):
        try:
            collector.probe()
            best, series = float("inf"), 0
            for _ in range(ROUNDS):
                began = time.thread_time()
                series = len(list(collector.collect()))
                best = min(best, time.thread_time() - began)
        except CollectorError:
            continue
        rows.append((best, collector.name, collector.period, series))
    print(f"{'collector':<20} {'ms a run':>9} {'period s':>9} {'series':>7}")
    for best, name, period, series in sorted(rows, reverse=True):
        print(f"{name:<20} {best * 1e3:>9.2f} {'scrape' if period is None else f'{period:g}':>9} {series:>7}")
    scrape = sum(best for best, _, period, _ in rows if period is None)
    behind = sum(best / period for best, _, period, _ in rows if period is not None)
    print(f"read by a scrape: {scrape * 1e3:.1f} ms; in the background: {behind * 100:.2f} % of a core")
    return 0


if __name__ == "__main__":
    sys.exit(main())

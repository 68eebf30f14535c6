"""Many scrapes of one exporter: is its memory flat, and do two scrapers see the same truth?

``python -m benchmarks.scrape_soak --scrapes 10000`` scrapes as fast as the exporter answers and prints resident memory on the way.
``python -m benchmarks.scrape_soak --seconds 3600`` lets two scrapers ask once a second each, a third of a second apart, and counts for
every counter series falls, and for the CPU time of the host (which passes at a known rate) rates of less than half and of more
than one and a half times the truth: a snapshot taken at the wrong moment shows as 0 and as double. Exit status 1 if there was one.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Mapping

from benchmarks.exporter_cost import Running

CPU_TIME = "hwsonde_cpu_seconds_total"
LOW, HIGH = 0.5, 1.5


def counters(text: str) -> dict[str, float]:
    """Value of each counter series."""
    kinds = {}
    found = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ", 3)
            kinds[name] = kind
        elif line and not line.startswith("#"):
            series, value = line.rsplit(" ", 1)
            if kinds.get(series.split("{", 1)[0]) == "counter":
                found[series] = float(value)
    return found


class Scraper(threading.Thread):
    """Scrapes once a second and compares each answer with the one before."""

    def __init__(self, program: Running, phase: float, seconds: float) -> None:
        super().__init__()
        self.program, self.phase, self.seconds = program, phase, seconds
        self.scrapes = self.compared = self.falls = self.odd = 0
        self.fallen: dict[str, int] = {}

    def run(self) -> None:
        """Until the time is over."""
        began = time.monotonic() + self.phase
        before: tuple[float, Mapping[str, float]] | None = None
        for second in range(int(self.seconds)):
            time.sleep(max(0.0, began + second - time.monotonic()))
            asked = time.monotonic()
            text = self.program.session.get(f"http://127.0.0.1:{self.program.port}/metrics", timeout=10).text
            now = counters(text)
            self.scrapes += 1
            if before is not None:
                self.compare(before[1], now, asked - before[0])
            before = (asked, now)

    def compare(self, before: Mapping[str, float], after: Mapping[str, float], passed: float) -> None:
        """Count what is wrong between two scrapes."""
        for series in before.keys() & after.keys():
            self.compared += 1
            if after[series] < before[series]:
                self.falls += 1
                self.fallen[series] = self.fallen.get(series, 0) + 1
        grown = sum(after[one] - before.get(one, 0.0) for one in after if one.startswith(CPU_TIME))
        rate = grown / (passed * (os.cpu_count() or 1))
        self.odd += not LOW <= rate <= HIGH


def memory(program: Running, scrapes: int) -> int:
    """Scrape without pause; print memory."""
    first = 0.0
    for number in range(1, scrapes + 1):
        program.scrape()
        if number == scrapes // 10:
            first = program.resident_mib()
        if number % max(scrapes // 10, 1) == 0:
            print(f"{number:>7} scrapes: {program.resident_mib():.1f} MiB")
    grown = program.resident_mib() - first
    print(f"growth after the first tenth: {grown:+.1f} MiB")
    return int(grown > 2)


def consistency(program: Running, seconds: float) -> int:
    """Two scrapers at once."""
    scrapers = [Scraper(program, phase, seconds) for phase in (0.0, 0.37)]
    for scraper in scrapers:
        scraper.start()
    for scraper in scrapers:
        scraper.join()
    scrapes, compared = sum(s.scrapes for s in scrapers), sum(s.compared for s in scrapers)
    falls, odd = sum(s.falls for s in scrapers), sum(s.odd for s in scrapers)
    print(
        f"{scrapes} scrapes, {compared} pairs of counter values: {falls} falls, {odd} rates of CPU time off by half or more"
    )
    for scraper in scrapers:
        for series, count in scraper.fallen.items():
            print(f"  fell {count} times: {series}")
    return int(falls + odd > 0)


def main() -> int:
    """Run one of the two."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--scrapes", type=int)
    what.add_argument("--seconds", type=float)
    options = parser.parse_args()
    program = Running("ours", [sys.executable, "-P", "-m", "hwsonde_exporter"])
    program.start()
    try:
        time.sleep(3)
        if options.scrapes:
            return memory(program, options.scrapes)
        return consistency(program, options.seconds)
    finally:
        program.stop()


if __name__ == "__main__":
    sys.exit(main())

"""Spoils kernel files of the fixture hosts, one after the other and each in one of twenty ways, and counts collectors that fail.

``python -m benchmarks.fuzz_files --cases 10000`` runs so many cases (see tests/exporter/collectors/mutations.py) and prints a
line for each that fails, then the number of cases by what was done. A case that failed is run again by its number: ``--first
NUMBER --cases 1``. As root it goes on as nobody, so that files and folders without permission are really refused. Exit status 1 if
a case failed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.exporter.collectors.hosts import NAMES
from tests.exporter.collectors.mutations import KINDS, Bench, failures

_NOBODY = 65534


def become_nobody(folder: Path) -> None:
    """Give up root's rights, which overrule permissions, and keep those to the copies of the hosts."""
    if os.geteuid() != 0:
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, _NOBODY, _NOBODY, follow_symlinks=False)
    os.setgroups([])
    os.setgid(_NOBODY)
    os.setuid(_NOBODY)


def run(first: int, cases: int, hosts: Sequence[str], kind: str, folder: Path) -> int:
    """Run the cases and print what came of them; gives the number that failed."""
    bench = Bench(folder, tuple(hosts))
    become_nobody(folder)
    began = time.monotonic()
    failed = 0
    for line in failures(bench, range(first, first + cases), kind):
        failed += 1
        print(line, flush=True)
    kinds = Counter(kind or bench.case(number).kind for number in range(first, first + cases))
    for way, count in sorted(kinds.items()):
        print(f"{count:>7} {way}")
    print(f"{cases} cases from {first} on {len(hosts)} hosts: {failed} failed, {time.monotonic() - began:.0f} s")
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Give the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--host", choices=NAMES, action="append", help="only this host; may be given several times")
    parser.add_argument("--kind", choices=KINDS, default="", help="spoil in this way only")
    chosen = parser.parse_args(arguments)
    # Removing the folder may need the rights that were given up: a process of its own does the work.
    with TemporaryDirectory() as name:
        child = os.fork()
        if child == 0:
            failed = -1
            try:
                Path(name).chmod(0o755)
                failed = run(chosen.first, chosen.cases, chosen.host or NAMES, chosen.kind, Path(name))
            finally:
                sys.stdout.flush()
                os._exit(0 if failed == 0 else 1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    raise SystemExit(main())

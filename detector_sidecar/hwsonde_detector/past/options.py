"""Options of the command line that every command about the past has. Light: it is read before any command runs."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_range_options(parser: argparse.ArgumentParser, first: str, last: str, out: str, files: str) -> None:
    """Give a parser ``--from``, ``--to``, ``--archive``, ``--learn`` and ``--out``.

    Parameters
    ----------
    parser
        Of the subcommand.
    first, last
        What holds where ``--from`` and ``--to`` are not given, in words.
    out
        Folder for the results where ``--out`` is not given.
    files
        What is written there, in words.
    """
    parser.add_argument(
        "--from",
        dest="first",
        metavar="TIME",
        help=f"begin: RFC 3339, Unix seconds, or back from now such as -6h (default: {first})",
    )
    parser.add_argument("--to", dest="last", metavar="TIME", help=f"end (default: {last})")
    parser.add_argument(
        "--archive", metavar="FILE", type=Path, help="a recorded archive to read instead of a Prometheus"
    )
    parser.add_argument(
        "--learn",
        metavar="DURATION",
        help="how much before --from is learned from (default: source.history; of an archive all)",
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, default=Path(out), help=f"folder for {files} (default: {out})"
    )

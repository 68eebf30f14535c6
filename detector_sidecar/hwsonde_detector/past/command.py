"""The command line of `hwsonde-detector backtest`. It loads nothing heavy before it is run."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from hwsonde_detector.config import Config

HELP = "score history as the service would have done, and count pages and faults found"
FLAGS = ("--source.url", "--log.level", "--log.format")


def add_backtest(parser: argparse.ArgumentParser, load: Callable[[argparse.Namespace], Config]) -> None:
    """Give the parser of the subcommand its options.

    Parameters
    ----------
    parser
        Has those of the configuration already.
    load
        Gives the configuration that the options name.
    """
    parser.add_argument(
        "--from",
        dest="first",
        metavar="TIME",
        help="begin: RFC 3339, Unix seconds, or back from now such as -6h (an archive's default: all of it)",
    )
    parser.add_argument(
        "--to", dest="last", metavar="TIME", default="now", help="end (default: now; of an archive its end)"
    )
    parser.add_argument(
        "--archive", metavar="FILE", type=Path, help="a recorded archive to read instead of a Prometheus"
    )
    parser.add_argument(
        "--labels", metavar="FILE", type=Path, help="what really failed: CSV or JSON with entity, start, end"
    )
    parser.add_argument(
        "--preset",
        dest="presets",
        metavar="NAME",
        nargs="+",
        help="presets to compare: configured, shipped ones, or files",
    )
    parser.add_argument(
        "--learn",
        metavar="DURATION",
        help="how much before --from is learned from (default: source.history; of an archive all)",
    )
    parser.add_argument(
        "--step",
        metavar="DURATION",
        help="read one value for each such step, for ranges too long to read every sample of",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path("hwsonde-backtest"),
        help="folder for the results (default: hwsonde-backtest)",
    )
    parser.add_argument("--anew", action="store_true", help="do not go on with an interrupted run in that folder")
    parser.set_defaults(command=lambda options: _run(options, load))


def _run(options: argparse.Namespace, load: Callable[[argparse.Namespace], Config]) -> int:
    config = load(options)
    from hwsonde_detector.past.program import Asked, World, run_backtest  # noqa: PLC0415 - other commands need none of its weight

    asked = Asked(
        first=options.first,
        last=options.last,
        archive=options.archive,
        labels=options.labels,
        presets=tuple(options.presets or ()),
        learn=options.learn,
        step=options.step,
        out=options.out,
        anew=options.anew,
    )
    return run_backtest(config, asked, World.real())

"""The command line of `hwsonde-detector backtest`. It loads nothing heavy before it is run."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from hwsonde_detector.config import Config
from hwsonde_detector.past.options import add_range_options

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
    add_range_options(
        parser,
        "all of an archive; of a Prometheus it must be said",
        "now; of an archive its end",
        "hwsonde-backtest",
        "the results",
    )
    parser.add_argument(
        "--labels", metavar="FILE", type=Path, help="what really failed: CSV or JSON with entity, start, end"
    )
    parser.add_argument(
        "--preset",
        dest="presets",
        metavar="NAME",
        nargs="+",
        action="extend",
        help="presets to compare: configured, shipped ones, or files; may be given again",
    )
    parser.add_argument(
        "--step",
        metavar="DURATION",
        help="read one value for each such step, for ranges too long to read every sample of",
    )
    parser.add_argument("--anew", action="store_true", help="do not go on with an interrupted run in that folder")
    parser.set_defaults(command=lambda options: _run(options, load))


def _run(options: argparse.Namespace, load: Callable[[argparse.Namespace], Config]) -> int:
    config = load(options)
    from hwsonde_detector.past.program import Asked, run_backtest  # noqa: PLC0415 - other commands need none of its weight
    from hwsonde_detector.past.world import World  # noqa: PLC0415

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
    return run_backtest(config, asked, World.stoppable())

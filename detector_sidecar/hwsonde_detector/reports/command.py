"""The command line of `hwsonde-detector report`. It loads nothing heavy before it is run."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from hwsonde_detector.config import Config
from hwsonde_detector.past.options import add_range_options

HELP = "explain a stretch of the past, an episode or a job: what failed first, or that it was not the hardware"
FLAGS = ("--source.url", "--log.level", "--log.format")


def add_report(parser: argparse.ArgumentParser, load: Callable[[argparse.Namespace], Config]) -> None:
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
        "around --episode; an archive's beginning",
        "now; around --episode; an archive's end",
        "hwsonde-report",
        "report.json and report.html",
    )
    about = parser.add_mutually_exclusive_group()
    about.add_argument("--entity", metavar="NAME", help="one host, such as n17 or lab/n17 (default: all hosts)")
    about.add_argument(
        "--job", metavar="NAME", help="the hosts of one job, for as long as it ran: slurm:4711, 4711, or a pod's name"
    )
    about.add_argument("--episode", metavar="ID", help="one episode, such as lab/n17@2026-11-29T19:23:41Z")
    parser.add_argument(
        "--runbooks-url",
        dest="runbooks",
        metavar="URL",
        default="docs/runbooks",
        help="where the runbook pages are (default: docs/runbooks)",
    )
    parser.set_defaults(command=lambda options: _run(options, load))


def _run(options: argparse.Namespace, load: Callable[[argparse.Namespace], Config]) -> int:
    config = load(options)
    from hwsonde_detector.past.world import World  # noqa: PLC0415
    from hwsonde_detector.reports.program import Asked, run_report  # noqa: PLC0415 - other commands need none of its weight

    asked = Asked(
        first=options.first,
        last=options.last,
        entity=options.entity,
        job=options.job,
        episode=options.episode,
        archive=options.archive,
        learn=options.learn,
        out=options.out,
        runbooks=options.runbooks,
    )
    return run_report(config, asked, World.real())

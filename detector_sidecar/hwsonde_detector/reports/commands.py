"""The command lines of `hwsonde-detector evidence` and `kpi`. They load nothing heavy before they are run."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from hwsonde_detector.config import Config

EVIDENCE_HELP = "pack a closed incident with its raw samples into one archive, for a ticket or a vendor"
EVIDENCE_FLAGS = ("--state.dir", "--source.url", "--log.level", "--log.format")
KPI_HELP = "figures of a month: incidents, time to tell and to end, pages per 100 node-days, useful share"
KPI_FLAGS = ("--state.dir", "--log.level", "--log.format")

Load = Callable[[argparse.Namespace], Config]


def add_evidence(parser: argparse.ArgumentParser, load: Load) -> None:
    """Give the parser of the subcommand its options; ``load`` gives the configuration that they name."""
    parser.add_argument(
        "incident", metavar="ID", help="the incident: its id, the address of its page, or the episode's name"
    )
    parser.add_argument("--out", metavar="FILE", type=Path, help="the archive (default: ID.tar.gz)")
    parser.add_argument(
        "--archive", metavar="FILE", type=Path, help="a recorded archive to read samples from instead of a Prometheus"
    )
    parser.add_argument("--no-samples", action="store_true", help="leave raw samples out")
    parser.add_argument(
        "--kernel-log",
        metavar="FILE",
        type=Path,
        help="a file to add, such as what `journalctl -k` printed on the host",
    )
    parser.add_argument(
        "--redact",
        metavar="LABEL",
        action="append",
        default=[],
        help="a label whose values are replaced in all files, besides web.redact; may be given again",
    )
    parser.set_defaults(command=lambda options: _evidence(options, load))


def add_kpi(parser: argparse.ArgumentParser, load: Load) -> None:
    """Give the parser of the subcommand its options; ``load`` gives the configuration that they name."""
    parser.add_argument("--from", dest="first", metavar="TIME", default="-30d", help="begin (default: -30d)")
    parser.add_argument("--to", dest="last", metavar="TIME", default="now", help="end (default: now)")
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path("hwsonde-kpi"),
        help="folder for kpi.json and kpi.html (default: hwsonde-kpi)",
    )
    parser.set_defaults(command=lambda options: _kpi(options, load))


def _evidence(options: argparse.Namespace, load: Load) -> int:
    config = load(options)
    from hwsonde_detector.past.world import World  # noqa: PLC0415
    from hwsonde_detector.reports.evidence import Wanted, run_evidence  # noqa: PLC0415 - other commands need none of its weight

    wanted = Wanted(
        options.incident,
        options.out,
        options.archive,
        options.kernel_log,
        tuple(options.redact),
        samples=not options.no_samples,
    )
    return run_evidence(config, wanted, World.real())


def _kpi(options: argparse.Namespace, load: Load) -> int:
    config = load(options)
    from hwsonde_detector.past.world import World  # noqa: PLC0415
    from hwsonde_detector.reports.kpi_program import KpiAsked, run_kpi  # noqa: PLC0415

    return run_kpi(config, KpiAsked(options.out, options.first, options.last), World.real())

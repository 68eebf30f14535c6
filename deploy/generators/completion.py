"""Shell completion of both programs, made by shtab from their parsers, so that neither program needs a library for it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import shtab

from hwsonde_detector.cli import make_parser as detector_parser
from hwsonde_exporter.cli import commands
from hwsonde_exporter.config import make_parser
from hwsonde_exporter.options import options
from hwsonde_exporter.registry import load_collectors

# Where each shell looks for it below share/.
PLACES = {
    "bash": "bash-completion/completions/{program}",
    "zsh": "zsh/site-functions/_{program}",
    "fish": "fish/vendor_completions.d/{program}.fish",
}
_FILES = {"FILE", "ARCHIVE", "DIR|FILE.tar.gz"}
_FOLDERS = {"DIR", "DIRECTORY", "PROCFS", "SYSFS", "ROOTFS"}


def files() -> dict[str, str]:
    """Name below ``deploy/completion``, and text, of each file."""
    parsers = {"hwsonde-exporter": exporter_parser(), "hwsonde-detector": detector_parser()}
    found = {}
    for program, parser in parsers.items():
        _complete_paths(parser)
        for shell, place in PLACES.items():
            text = shtab.complete(parser, shell=shell)
            # No blanks at the ends of lines: editors take them away, and then the file seems changed.
            lines = [line.rstrip() for line in text.splitlines()]
            found[place.format(program=program)] = "\n".join(lines).rstrip() + "\n"
    return found


def exporter_parser() -> argparse.ArgumentParser:
    """All commands of the exporter as one parser; the program itself looks at its first word and makes the one that is asked for."""
    table, known = options(load_collectors()), commands()
    whole = make_parser(table, known.pop(""))
    below = whole.add_subparsers(metavar="COMMAND", parser_class=argparse.ArgumentParser)
    for name, command in known.items():
        single = make_parser(table, command)
        below.add_parser(name, help=command.help, parents=[single], add_help=False)
    return whole


def _complete_paths(parser: argparse.ArgumentParser) -> None:
    for action in _actions(parser):
        if action.metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined] # the library looks for it there
        elif action.metavar in _FOLDERS:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to list them; shtab goes it as well
        yield action
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for below in action.choices.values():
                yield from _actions(below)

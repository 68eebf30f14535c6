"""The command ``hwsonde-exporter``: it serves, unless its first word is another command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import cast

from hwsonde_exporter import logs, streams
from hwsonde_exporter.config import Command, load_with
from hwsonde_exporter.early import serves
from hwsonde_exporter.errors import ExporterError
from hwsonde_exporter.registry import load_collectors
from hwsonde_exporter.service import print_once, serve

# Commands with a module of their own, whose ``main(arguments)`` gives the exit status.
_MODULES = {
    "doctor": "hwsonde_exporter.doctor",
    "capture": "hwsonde_exporter.capture",
    "check": "hwsonde_exporter.check",
}
_PASSING, _WRONG = 1, 2
_INTERRUPTED = 130  # as a shell has it: 128 and the number of the signal
_SERVE = Command(
    epilog="""commands, each with --help of its own:
  hwsonde-exporter           serve until a signal comes
  hwsonde-exporter once      print one exposition on standard output and end
  hwsonde-exporter doctor    say which collectors work here, which do not, and what to change
  hwsonde-exporter capture   record this host's kernel files, without personal details, for a bug report
  hwsonde-exporter check     say whether this host is fit for a job

examples:
  hwsonde-exporter                                               port 9880 of all interfaces
  hwsonde-exporter --web.listen-address 127.0.0.1:9880           for this host only
  hwsonde-exporter --config.file /etc/hwsonde/exporter.yaml      options from a file
  hwsonde-exporter --no-collector.perf --collector.series-limit rdma=5000

SIGHUP reads the file again; SIGTERM and SIGINT end the program.

exit status:
  0    a signal ended it, or the command is done
  1    it cannot serve now, and may be able to later with the same flags and files: an address that is not there yet or is
       taken, too few threads, too little memory; start it again
  2    a flag or file is wrong, or a right is missing: one line on standard error says which and what to do
  130  interrupted while it printed
check and doctor have others.

Every option with its default: docs/exporter-configuration.md; every metric: docs/metrics.md (with a wheel they are installed in
share/hwsonde/)."""
)
_ONCE = Command(
    "once",
    "Prints one exposition on standard output and ends.",
    """examples:
  hwsonde-exporter once                                          what a scrape would give
  hwsonde-exporter once --collector.disable-defaults --collector.rdma

exit status:
  0  printed, whatever single collectors had to say
  2  the command line or a file is wrong""",
)


def commands() -> dict[str, Command]:
    """Every command by its word, of which the empty one serves: what shell completion is made of."""
    own = {name: cast("Command", import_module(module).COMMAND) for name, module in _MODULES.items()}
    return {_SERVE.name: _SERVE, _ONCE.name: _ONCE, **own}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives the exit status: 0, or 1 or 2 after one line on standard error. Commands have others of their own."""
    streams.open_all()
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    # A service that ends with this is started again. Of other commands it says something else, or nothing.
    passing = _PASSING if serves(arguments) else _WRONG
    try:
        status = _command(arguments)
        sys.stdout.flush()
    except ExporterError as error:
        return _fail(str(error), passing if error.passing else _WRONG)
    except BrokenPipeError:
        # Whoever read standard output has seen enough.
        streams.drop(sys.stdout)
        return 0
    except KeyboardInterrupt:
        return _INTERRUPTED
    except MemoryError:
        return _fail("there is not enough memory; raise MemoryMax= or `ulimit -v`", passing)
    except OSError as error:
        streams.drop(sys.stdout)
        where = error.filename if error.filename is not None else "standard output or a file"
        # Flags and files that are wrong are told as such; this is what the system could not do for us.
        return _fail(f"{where}: {error.strerror or error}", passing)
    return status


def _command(arguments: Sequence[str]) -> int:
    try:
        if arguments and arguments[0] in _MODULES:
            return cast("int", import_module(_MODULES[arguments[0]]).main(arguments[1:]))
        return _run(arguments)
    except SystemExit as end:
        # --help and --version end so, with their text not yet written.
        return end.code if isinstance(end.code, int) else 0


def _fail(text: str, status: int) -> int:
    streams.tell(sys.stderr, f"hwsonde-exporter: {text}\n")
    return status


def _run(arguments: Sequence[str]) -> int:
    kinds = load_collectors()
    command, rest = (_ONCE, arguments[1:]) if arguments[:1] == ["once"] else (_SERVE, arguments)
    settings, _ = load_with(rest, kinds, command)
    logs.set_up(settings.log_level, settings.log_format)
    if settings.once or command is _ONCE:
        return print_once(settings, kinds, _write)
    return serve(settings, kinds, lambda: load_with(rest, kinds, command)[0])


def _write(text: bytes) -> None:
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()

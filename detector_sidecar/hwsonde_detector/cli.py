"""The command line: run, check-config, replay, capture, backtest, report, evidence, kpi."""

from __future__ import annotations

import argparse
import errno
import fcntl
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from hwsonde_detector import __version__, logs
from hwsonde_detector.early import serves
from hwsonde_detector.errors import (
    ArchiveError,
    ConfigError,
    DetectorError,
    ListenError,
    SourceError,
    shortage,
)
from hwsonde_detector.help import EPILOGS, MAIN

try:
    from hwsonde_detector.config import Config, format_duration, load_config, place
    from hwsonde_detector.config.loading import FLAGS
    from hwsonde_detector.past import command as backtest
    from hwsonde_detector.past.when import joined, parse_span
    from hwsonde_detector.reports import command as report
    from hwsonde_detector.reports import commands
except ModuleNotFoundError as error:
    if str(error.name).startswith("hwsonde"):
        raise
    # The command is installed with the exporter, too, which needs none of the detector's libraries.
    sys.stderr.write(f"hwsonde-detector: {error.name} is not installed; install hwsonde[detector]\n")
    raise SystemExit(2) from None

if TYPE_CHECKING:
    from hwsonde_detector.config.tree import Path as KeyPath
    from hwsonde_detector.sources.auth import Secret

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - the library gives its type no other name

_HELP = {
    "--web.listen-address": ("HOST:PORT", "where the page and /metrics listen (web.listen)"),
    "--web.config.file": ("FILE", "TLS and users of the page and /metrics (web.config_file)"),
    "--state.dir": ("DIR", "where models and episodes are kept (state.dir)"),
    "--source.url": ("URL", "the Prometheus to read (source.url)"),
    "--log.level": ("LEVEL", "debug, info, warning or error (log.level)"),
    "--log.format": ("FORM", "logfmt or json (log.format)"),
}


# How long a capture is, and how often it reads.
_SHORTEST_MS = 50


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; give the exit status.

    0 is good, 2 an error that the operator can mend, 1 a defect, or an address or memory that may be had later: then a service is started again.
    """
    if sys.stdout is None or sys.stderr is None:
        _open_closed_streams()
    given = sys.argv[1:] if arguments is None else arguments
    try:
        return _do(joined(given))
    except DetectorError as error:
        for line in str(error).splitlines():
            _complain(line)
        try:
            sys.stdout.flush()
        except OSError:
            _let_go(sys.stdout)
        return 1 if isinstance(error, ListenError) else 2
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        _let_go(sys.stdout)
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - the last line of defence: a defect is named on one line, too
        return _give_up(error, given)


def _give_up(error: Exception, arguments: Sequence[str]) -> int:
    """Name what nothing else caught; gives the status."""
    if line := shortage(error):
        _complain(line)
        # Whatever else takes memory on this host may have ended by the time that the service is started again.
        return 1 if serves(arguments) else 2
    if not (isinstance(error, OSError) and _is_output(error)):
        logs.report(error)
        return 1
    _let_go(sys.stdout)
    where = f"{error.filename}: it" if error.filename else "the output"
    _complain(f"{where} cannot be written: {error.strerror or error}; make room, or send it elsewhere")
    return 2


def _do(arguments: Sequence[str]) -> int:
    """Do it; what was printed is written when this returns, also where it was ``--help``."""
    try:
        options = make_parser().parse_args(arguments)
    except SystemExit:
        sys.stdout.flush()
        raise
    logs.set_up()
    status: int = options.command(options)
    sys.stdout.flush()
    return status


def _is_output(error: OSError) -> bool:
    """Whether it is what we write that cannot be taken: by a full or failing disk, a quota or a size limit, or a stream for reading only."""
    if error.errno != errno.EBADF:
        return error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
    try:
        return fcntl.fcntl(sys.stdout.fileno(), fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    except (OSError, ValueError):
        return False


def _complain(line: str) -> None:
    """One line on standard error, which may lie on the same full disk."""
    try:
        _say(f"hwsonde-detector: {line}", sys.stderr)
        sys.stderr.flush()
    except OSError:
        _let_go(sys.stderr)


def _let_go(stream: TextIO) -> None:
    """Write what is left of a stream to nowhere: the interpreter would try again when it ends, and change the status."""
    with suppress(OSError, ValueError):
        number = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
        stream.flush()


def _open_closed_streams() -> None:
    """Write to nowhere what has no stream: otherwise the next file that is opened would take its place."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands; the options that it gives hold the function to call as ``command``."""
    parser = argparse.ArgumentParser(
        prog="hwsonde-detector",
        description="Scores the hardware metrics of hosts and says which part is failing.",
        epilog=MAIN,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"hwsonde-detector {__version__}")
    parsers = parser.add_subparsers(required=True, metavar="COMMAND")

    run = _command(parsers, "run", "read, score and publish until it is ended")
    _configured(run, FLAGS)
    run.set_defaults(command=_run)

    check = _command(parsers, "check-config", "check a configuration and the profiles it names")
    check.add_argument("config_file", metavar="FILE", type=Path)
    check.set_defaults(command=_check, flags=())

    again = _command(parsers, "replay", "score a recorded archive again and print JSON lines")
    again.add_argument("archive", metavar="ARCHIVE", type=Path)
    _configured(again, ("--log.level", "--log.format"))
    again.set_defaults(command=_replay)

    record = _command(parsers, "capture", "record the source's answers without scoring them")
    record.add_argument("--out", metavar="ARCHIVE", type=Path, required=True, help="file to append to")
    record.add_argument("--for", dest="length", metavar="DURATION", required=True, help="how long, such as 60s")
    record.add_argument("--every", metavar="DURATION", help="how often (default: tick, and 1s where that is auto)")
    _configured(record, ("--source.url", "--log.level", "--log.format"))
    record.set_defaults(command=_capture)

    past = _command(parsers, "backtest", backtest.HELP)
    _configured(past, backtest.FLAGS)
    backtest.add_backtest(past, _load)

    explained = _command(parsers, "report", report.HELP)
    _configured(explained, report.FLAGS)
    report.add_report(explained, _load)

    packed = _command(parsers, "evidence", commands.EVIDENCE_HELP)
    _configured(packed, commands.EVIDENCE_FLAGS)
    commands.add_evidence(packed, _load)

    counted = _command(parsers, "kpi", commands.KPI_HELP)
    _configured(counted, commands.KPI_FLAGS)
    commands.add_kpi(counted, _load)
    return parser


def _command(commands: Commands, name: str, text: str) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=EPILOGS[name],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _configured(parser: argparse.ArgumentParser, flags: Sequence[str] | Mapping[str, object]) -> None:
    parser.add_argument(
        "--config.file",
        dest="config_file",
        metavar="FILE",
        type=Path,
        help="the configuration; without it the defaults hold",
    )
    for flag in flags:
        metavar, text = _HELP[flag]
        parser.add_argument(flag, dest=flag, metavar=metavar, help=text)
    parser.set_defaults(flags=tuple(flags))


def _load(options: argparse.Namespace) -> Config:
    given = {flag: getattr(options, flag) for flag in options.flags}
    config = load_config(options.config_file, {flag: value for flag, value in given.items() if value is not None})
    logs.set_up(config.log.level, config.log.format)
    return config


def _run(options: argparse.Namespace) -> int:
    config = _load(options)
    from hwsonde_detector.service import run  # noqa: PLC0415 - check-config and --version need none of its weight

    return run(config, config_path=options.config_file)


def _check(options: argparse.Namespace) -> int:
    config = _load(options)
    from hwsonde_detector.connect import metric_names, open_source  # noqa: PLC0415
    from hwsonde_detector.service.wiring import make_plan  # noqa: PLC0415

    profiles = make_plan(config).profiles
    source = open_source(config, profiles)
    source.close()
    _check_files(config)
    tick = config.tick if isinstance(config.tick, str) else format_duration(config.tick)
    asked = f"{len(metric_names(profiles))} metrics in {len(source.selectors)} request(s)"
    detectors, names = config.detectors, ", ".join(config.entity_labels)
    _say(f"ok: {options.config_file}: mode {config.mode}, tick {tick}, hosts named by {names}")
    _say(f"  source: {config.source.backend} at {config.source.url}, selector {config.source.selector or 'none'}")
    _say(f"  profiles: {', '.join(config.profiles)}, which ask for {asked}")
    _say(f"  detectors: {', '.join(detectors.members)}, of which {detectors.agreement} must agree")
    _say(
        f"  learning: first scores after {config.learning.first_rows} rows, pages after {config.learning.calibrated_rows}"
    )
    return 0


def _check_files(config: Config) -> None:
    """See that what the configuration names is there, which a start would only find out later."""
    problems = [*_bad_secrets(config), *_bad_files(config), *_bad_protection(config)]
    if problems:
        raise ConfigError("\n".join(problems))


def _bad_secrets(config: Config) -> Iterator[str]:
    for path, secret in _secrets(config):
        try:
            secret.get()
        except SourceError as error:
            yield f"{place(config, path)}: {error}"


def _bad_protection(config: Config) -> Iterator[str]:
    from hwsonde_detector.config.web_file import read_web_file  # noqa: PLC0415
    from hwsonde_detector.protection import Keeper  # noqa: PLC0415

    try:
        Keeper(config.web.config_file, read_web_file)
    except ConfigError as error:
        yield f"{place(config, ('web', 'config_file'))}: {error}"


def _secrets(config: Config) -> Iterator[tuple[KeyPath, Secret]]:
    from hwsonde_detector.sources.auth import EnvSecret, FileSecret  # noqa: PLC0415

    source = config.source
    for where, owner in (("source", source), ("alertmanager", config.alertmanager)):
        for section, name in (("basic", "password"), ("bearer", "token")):
            found = getattr(owner, section)
            if found is not None:
                file, variable = getattr(found, f"{name}_file"), getattr(found, f"{name}_env")
                if file is not None:
                    yield (where, section, f"{name}_file"), FileSecret(file)
                else:
                    yield (where, section, f"{name}_env"), EnvSecret(variable)
    for name, file in source.header_files.items():
        yield ("source", "header_files", name), FileSecret(file)
    if config.automation.token_file is not None:
        yield ("automation", "token_file"), FileSecret(config.automation.token_file)


def _bad_files(config: Config) -> Iterator[str]:
    for where, tls in (("source", config.source.tls), ("alertmanager", config.alertmanager.tls)):
        for key in ("ca_file", "cert_file", "key_file"):
            path = getattr(tls, key)
            if path is not None and (why := _unusable(path)):
                yield f"{place(config, (where, 'tls', key))}: {path}: {why}; check the path and its permissions"
    path = config.archive.record
    if path is not None and (why := _unusable(path, may_be_new=True)):
        yield f"{place(config, ('archive', 'record'))}: {path}: {why}; choose another file"


def _unusable(path: Path, *, may_be_new: bool = False) -> str | None:
    """Why a file cannot be read, None where it can; one that does not exist needs a folder if it ``may_be_new``."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            return "it is no regular file"
        return None if os.access(path, os.R_OK) else "it cannot be read"
    except FileNotFoundError as error:
        return None if may_be_new and path.parent.is_dir() else error.strerror
    except OSError as error:
        return error.strerror


def _replay(options: argparse.Namespace) -> int:
    config = _load(options)
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    from hwsonde_detector.replay import replay  # noqa: PLC0415
    from hwsonde_detector.service.wiring import make_plan  # noqa: PLC0415
    from hwsonde_detector.sources.archive import ArchiveSource  # noqa: PLC0415

    archive = ArchiveSource(options.archive)
    # As many threads in the linear algebra as the service has: another number may round sums differently.
    with threadpool_limits(limits=1):
        for line in replay(archive.records(), make_plan(config)):
            sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
    if archive.warning:
        _say(f"hwsonde-detector: {archive.warning}", sys.stderr)
    return 0


def _capture(options: argparse.Namespace) -> int:
    config = _load(options)
    length, every = (
        parse_span("--for", options.length, _SHORTEST_MS),
        config.tick if isinstance(config.tick, int) else 1000,
    )
    if options.every is not None:
        every = parse_span("--every", options.every, _SHORTEST_MS)
    from hwsonde_detector.capture import capture  # noqa: PLC0415
    from hwsonde_detector.connect import open_source  # noqa: PLC0415
    from hwsonde_detector.service.wiring import make_plan  # noqa: PLC0415
    from hwsonde_detector.sources.archive import ArchiveRecorder  # noqa: PLC0415

    source = open_source(config, make_plan(config).profiles)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with ArchiveRecorder(options.out, config.archive.max_size) as recorder:
        done = capture(source, recorder, length, every, lambda: time.time_ns() // 1_000_000, ended.wait)
        whole = not recorder.stopped
    source.close()
    if not done.reads:
        raise ArchiveError(
            f"{options.out}: nothing was recorded, all {done.failures} reads failed; check the section source"
        )
    _say(f"{options.out}: {done.reads} reads with {done.samples} samples, {done.failures} reads failed")
    return 0 if whole else 2


def _say(line: str, stream: TextIO | None = None) -> None:
    print(line, file=stream or sys.stdout)

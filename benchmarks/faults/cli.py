"""The command line: record, score, report, try, clean."""

from __future__ import annotations

import argparse
import json
import signal
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import NoReturn

from benchmarks.faults.bench import Bench, leftovers
from benchmarks.faults.errors import BenchError
from benchmarks.faults.injectors.table import KINDS
from benchmarks.faults.labels import Book, Session
from benchmarks.faults.record import Durations, Line, RealClock, Recorder, order
from benchmarks.faults.trial import trial

LABELS = "labels.json"
ARCHIVE = "recording.archive"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(BaseException):
    """Somebody asked this program to end; not an error, so that no handler of errors swallows it."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="python -m benchmarks.faults", description="Real faults on this host: found, named, false."
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    usual = Durations()

    make = commands.add_parser(
        "record", help="make faults and record what the exporter says; continues a session that was killed"
    )
    make.add_argument("folder", type=Path)
    _kinds(make)
    make.add_argument("--repetitions", type=int, default=5, help="of each kind (default: %(default)s)")
    make.add_argument("--seed", type=int, help="of the order (default: the number of the session)")
    make.add_argument(
        "--load", choices=("quiet", "full"), default="quiet", help="what else runs (default: %(default)s)"
    )
    make.add_argument("--peers", type=int, default=4, help="simulated hosts beside this one (default: %(default)s)")
    for name, text in (
        ("learn", "healthy, only learned from"),
        ("before", "healthy, judged, before the first fault"),
        ("on", "a fault"),
        ("off", "healthy, before each fault"),
        ("after", "healthy, judged, after the last fault"),
    ):
        make.add_argument(
            f"--{name}", type=_seconds, default=getattr(usual, name), help=f"seconds: {text} (default: %(default)g)"
        )
    make.add_argument("--node", default=socket.gethostname() or "bench", help="this host's name (default: %(default)s)")

    rate = commands.add_parser("score", help="drive the detector and plain methods over a recording")
    rate.add_argument("folder", type=Path)
    rate.add_argument(
        "--preset",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="a configuration of the detector to score, beside the defaults",
    )
    rate.add_argument(
        "--every",
        type=_seconds,
        default=1.0,
        help="seconds between scrapes that the recording is thinned to (default: 1)",
    )

    rate.add_argument(
        "--phases",
        type=int,
        default=1,
        help="with --every: how many such recordings are scored, whose scrapes come at other moments (default: 1)",
    )
    rate.add_argument("--no-shipped", action="store_true", help="leave out the defaults and the shipped presets")

    show = commands.add_parser("report", help="print the tables of the last score, and write report.md")
    show.add_argument("folder", type=Path)
    show.add_argument("--every", type=_seconds, default=1.0, help="of which interval (default: 1)")

    attempt = commands.add_parser(
        "try", help="make faults one after the other for some seconds and say which act on this host; records nothing"
    )
    attempt.add_argument("folder", type=Path)
    _kinds(attempt)
    attempt.add_argument("--on", type=_seconds, default=5.0, help="seconds of each fault (default: 5)")
    attempt.add_argument(
        "--load", choices=("quiet", "full"), default="quiet", help="what else runs (default: %(default)s)"
    )
    attempt.add_argument("--watched", action="store_true", help="with exporter, Prometheus and simulated hosts")

    commands.add_parser("clean", help="remove what a killed run has left on this host")
    return top


def _kinds(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--kinds",
        type=_names,
        default=tuple(KINDS),
        metavar="A,B",
        help=f"kinds of fault (default: all): {', '.join(KINDS)}",
    )


def _names(text: str) -> tuple[str, ...]:
    found = tuple(name for name in text.split(",") if name)
    unknown = [name for name in found if name not in KINDS]
    if unknown or not found:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown) or 'nothing'}: choose of {', '.join(KINDS)}")
    return found


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e7:
        raise argparse.ArgumentTypeError(f"{text}: give a number of seconds above 0")
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; what the user can mend is one line and status 1."""
    given = parser().parse_args(arguments)
    before = {each: signal.signal(each, _stop_here) for each in _SIGNALS}
    try:
        return _COMMANDS[given.command](given)
    except BenchError as error:
        print(f"faults: {error}", file=sys.stderr)
        return 1
    except Ended:
        print("faults: ended", file=sys.stderr)
        return 130
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _stop_here(number: int, frame: FrameType | None) -> NoReturn:
    """Leave by an exception once; while everything ends, further signals change nothing."""
    del frame
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise Ended(number)


def _record(given: argparse.Namespace) -> int:
    if given.repetitions < 1 or not 0 <= given.peers <= 16:
        raise BenchError("--repetitions takes 1 or more, --peers 0 to 16")
    try:
        given.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BenchError(f"{given.folder}: {error.strerror}: give another folder") from None
    book, line = Book(given.folder / LABELS), Line()
    session = book.unfinished()
    if session is not None:
        line.say("the last session was not ended: it goes on as it was begun")
        durations, peers = Durations(**session.about["durations"]), int(session.about["peers"])
        node, load, left = session.node, session.load, session.plan[session.done :]
    else:
        durations, peers = Durations(given.learn, given.before, given.on, given.off, given.after), given.peers
        seed = given.seed if given.seed is not None else len(book.sessions) + 1
        node, load, left = given.node, given.load, order(given.kinds, given.repetitions, seed)
    seconds = durations.total(len(left))
    with Bench(given.folder, node=node, load=load, seconds=2 * seconds + 3600, peers=peers) as bench:
        for words in bench.found:
            line.say(words)
        if session is None:
            about = {**bench.about(), "peers": peers, "durations": asdict(durations)}
            session = Session(seed, load, node, about, left)
            book.sessions.append(session)
        line.say(f"session {len(book.sessions)}: {len(left)} faults, about {seconds / 3600:.1f} hours")
        Recorder(book, session, bench, KINDS, durations, RealClock(), line).run()
    line.say(f"{given.folder}: recorded; next: python -m benchmarks.faults score {given.folder}")
    return 0


def _score(given: argparse.Namespace) -> int:
    from benchmarks.faults.report import document, markdown  # noqa: PLC0415 - record needs none of their weight
    from benchmarks.faults.score import REVEAL, presets, score  # noqa: PLC0415

    named: dict[str, Path | None] = {} if given.no_shipped else {"default": None}
    if REVEAL.is_file() and not given.no_shipped:
        named["reveal"] = REVEAL
    for text in given.preset:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise BenchError(f"--preset {text}: give NAME=FILE")
        named[name] = Path(path)
    sessions = _labels(given.folder)
    every_ms = round(1000 * given.every)
    began = time.monotonic()
    if not 1 <= given.phases <= max(round(given.every), 1):
        raise BenchError(f"--phases {given.phases}: give 1 to the seconds of --every")
    scored, results = score(given.folder / ARCHIVE, sessions, presets(named), every_ms, given.phases)
    found = document(sessions, results, every_ms)
    _files(given.folder, given.every)["scores"].write_text(
        json.dumps({**scored, "report": found}, indent=1) + "\n", encoding="utf-8"
    )
    print(markdown(found))
    print(f"scored in {time.monotonic() - began:.0f} s", file=sys.stderr)
    return 0


def _report(given: argparse.Namespace) -> int:
    from benchmarks.faults.report import markdown  # noqa: PLC0415 - as above

    files = _files(given.folder, given.every)
    try:
        found = json.loads(files["scores"].read_text(encoding="utf-8"))["report"]
    except FileNotFoundError:
        raise BenchError(f"{files['scores']} is not there: score {given.folder} first") from None
    except (ValueError, KeyError) as error:
        raise BenchError(f"{files['scores']} is damaged ({type(error).__name__}): score {given.folder} again") from None
    text = markdown(found)
    files["report"].write_text(text, encoding="utf-8")
    print(text)
    return 0


def _files(folder: Path, every: float) -> dict[str, Path]:
    mark = "" if every == 1 else f"-{every:g}"
    return {"scores": folder / f"scores{mark}.json", "report": folder / f"report{mark}.md"}


def _labels(folder: Path) -> list[Session]:
    if not (folder / LABELS).is_file():
        raise BenchError(f"{folder} holds no recording: record one first")
    book = Book(folder / LABELS)
    book.unfinished()
    return book.sessions


def _try(given: argparse.Namespace) -> int:
    limit = 60.0 * len(given.kinds) + 600
    peers = 4 if given.watched else 0
    with Bench(given.folder, node="bench", load=given.load, seconds=limit, peers=peers, watched=given.watched) as bench:
        for words in bench.found:
            print(words)
        return trial(bench, {kind: KINDS[kind] for kind in given.kinds}, given.on, RealClock(), print)


def _clean(given: argparse.Namespace) -> int:
    del given

    for words in leftovers() or ["nothing was left"]:
        print(words)
    return 0


_COMMANDS = {"record": _record, "score": _score, "report": _report, "try": _try, "clean": _clean}

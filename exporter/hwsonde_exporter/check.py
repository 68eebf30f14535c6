"""``hwsonde-exporter check``: whether this host is fit for a job, in two seconds and one line a reason.

The collectors run in a child process. A device that hangs keeps a process from ending, however it is killed; here it keeps
the child, and the answer is given in time all the same.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hwsonde_exporter import baseline, logs, streams
from hwsonde_exporter.baseline import Baseline
from hwsonde_exporter.cell import Clocks
from hwsonde_exporter.check_rules import RULES, Finding, Limits, Reading, Severity, ignored, judge
from hwsonde_exporter.config import Command, Settings, load_with
from hwsonde_exporter.errors import ConfigError, ExporterError, Reason
from hwsonde_exporter.host import Host
from hwsonde_exporter.nvml.check_rules import ASKING, UNASKED
from hwsonde_exporter.nvml.client import Client
from hwsonde_exporter.registry import Collector, load_collectors
from hwsonde_exporter.runner import Runner, RunnerSettings
from hwsonde_exporter.state import State
from hwsonde_exporter.yaml_file import read_bytes

HEALTHY, UNHEALTHY, UNKNOWN = 0, 1, 2
_TIMEOUT = 1.5
# What a collector waits for one device, as a share of the whole: it must have time left to say which one hangs.
_PATIENCE = 0.6
# How long before the end collectors say that their GPUs are still being woken, or that share of a short time.
_TELLING = 0.3
_TELLING_SHARE = 0.4
# For the child to judge and to write.
_GRACE = 0.3
_DESCRIPTORS = 1 << 16
_FAILED, _REFUSED, _END = "\x15", "\x16", "\x04"
_CLOCKS = Clocks(time.monotonic, time.time)
_EPILOG = (
    """examples, as root:
  hwsonde-exporter check                                            what no host should have
  hwsonde-exporter check --write-baseline /etc/hwsonde/node.yaml    on a good host
  hwsonde-exporter check --baseline /etc/hwsonde/node.yaml          on others of its kind
  hwsonde-exporter check --ignore rdma_down:mlx5_8/1 --quiet        the status only, and one port left out

exit status:
  0  healthy
  1  unhealthy: at least one line on standard output begins with that word
  2  unknown: something could not be looked at, or the command line or a file is wrong

rules, each of which --ignore takes, alone or with a device behind a colon:
"""
    + "\n".join(f"  {rule.name:<22}{rule.help}" for rule in RULES)
    + """
  setting               a setting is not as in the baseline; the subject is its name
  expected_*            a device is missing or slower than in the baseline
  collector             something could not be looked at; the subject is the collector's name"""
)


@dataclass(frozen=True, slots=True)
class Report:
    """What was found; ``seconds`` is how long it took, ``collectors`` how many answered."""

    findings: tuple[Finding, ...]
    collectors: int
    seconds: float

    @property
    def status(self) -> int:
        """The exit status."""
        found = {finding.severity for finding in self.findings}
        return UNHEALTHY if Severity.UNHEALTHY in found else UNKNOWN if Severity.UNKNOWN in found else HEALTHY


def main(arguments: Sequence[str]) -> int:
    """Run the command; gives its exit status. Raises `ConfigError`."""
    kinds = load_collectors()
    settings, given = load_with(arguments, kinds, COMMAND)
    logs.set_up("error", settings.log_format)
    wanted = _baseline(given["baseline"])
    limits = Limits(given["free"])

    def work() -> str:
        reading, states, seconds = read(settings, kinds, given["timeout"])
        report = examine(reading, states, seconds, wanted, limits, given["ignore"])
        whole = given["write_baseline"] and not lacking(report)
        return json.dumps([as_values(report), baseline.dump(baseline.of(reading)) if whole else ""])

    answer = in_child(work, given["timeout"] + _GRACE)
    if answer is None:
        text = f"no answer within {given['timeout'] + _GRACE:g} s; a device or driver hangs, or the host is overloaded"
        report = Report((Finding(Severity.UNKNOWN, "collector", "", text),), 0, given["timeout"] + _GRACE)
        made = ""
    else:
        values, made = json.loads(answer)
        report = Report(tuple(Finding(Severity(found[0]), *found[1:]) for found in values["findings"]), *values["rest"])
    if not given["quiet"]:
        # A baseline on standard output is a file, in which the report would be a mistake.
        stream = sys.stderr if given["write_baseline"] == "-" else sys.stdout
        # What was found counts, whether anybody reads it or not: the status must not say that a host is fit, or unfit, for want
        # of a reader.
        problem = streams.tell(stream, as_json(report) if given["format"] == "json" else as_text(report))
        if problem is not None and not isinstance(problem, BrokenPipeError):
            streams.tell(sys.stderr, f"hwsonde-exporter: check: the reasons cannot be written: {problem.strerror}\n")
    if given["write_baseline"]:
        _write(given["write_baseline"], made, lacking(report))
    return report.status


def read(
    settings: Settings, kinds: Mapping[str, type[Collector]], timeout: float
) -> tuple[Reading, list[State], float]:
    """Run the collectors that rules and baselines want, once; for a process that ends then.

    What asks NVIDIA's driver ends with that process. Nobody ends it here: a driver that holds it would keep waiting who has found the
    rest.

    Parameters
    ----------
    settings
        Paths, what is ignored, and which collectors may run.
    kinds
        Collector classes by name.
    timeout
        Seconds until what has not answered is left behind.
    """
    began = time.monotonic()
    wanted = {name for rule in RULES for name in rule.collectors} | set(baseline.COLLECTORS)
    chosen = {name: hasty(kinds[name], timeout * _PATIENCE) for name in sorted(wanted & kinds.keys())}
    configured = settings.exporter.runner
    enabled = frozenset(chosen) & configured.enabled
    nvml = Client(settings.exporter.nvml, until=began + timeout - min(_TELLING, timeout * _TELLING_SHARE))
    runner = Runner(
        chosen,
        lambda: Host(settings.paths, ignored=settings.ignored, nvml=nvml),
        RunnerSettings(enabled, timeout, configured.series_limit, configured.series_limits),
        _CLOCKS,
    )
    runner.start()
    runner.settle(max(0.0, began + timeout - time.monotonic()))
    blocks = runner.collect(timeout=max(0.05, began + timeout - time.monotonic()))
    states = runner.states()
    runner.stop()
    samples = [sample for block in blocks.values() for sample in block.samples]
    return Reading(samples), states, time.monotonic() - began


def hasty(kind: type[Collector], timeout: float) -> type[Collector]:
    """The collector, waiting no longer than so many seconds for a device, if it is one that waits for devices."""
    if "timeout" not in inspect.signature(kind).parameters:
        return kind

    def make(self: Collector, host: Host) -> None:
        kind.__init__(self, host, timeout=timeout)  # type: ignore[call-arg]

    return type(kind.__name__, (kind,), {"__init__": make})


def examine(
    reading: Reading,
    states: Sequence[State],
    seconds: float,
    wanted: Baseline,
    limits: Limits,
    patterns: Collection[str] = (),
) -> Report:
    """Put together what the rules, the baseline and the collectors that did not answer have to say."""
    silent = {state.name: text for state in states if (text := silence(state))}
    judged = judge(reading, limits)
    # One line says of all GPUs that they could not be asked. What they are is not known then, whatever has come of it.
    unasked = ASKING if any(found.rule == UNASKED for found in judged) else frozenset()
    findings = [found for found in judged if not baseline.overrules(wanted, found)]
    findings += baseline.compare(wanted, reading, {*silent, *unasked})
    findings += [
        Finding(Severity.UNKNOWN, "collector", name, text) for name, text in silent.items() if name not in unasked
    ]
    passed = (*patterns, *wanted.ignore)
    kept = tuple(found for found in findings if not ignored(found, passed))
    answered = sum(1 for state in states if state.available and not silence(state))
    return Report(kept, answered, seconds)


def silence(state: State) -> str:
    """Why a collector that should have answered did not; empty if it did, or has nothing to look at on this host."""
    if not state.available:
        return state.detail if state.reason == Reason.NO_PERMISSION else ""
    if state.success is None:
        return "did not answer in time; a device hangs, or the host is overloaded"
    return "" if state.success else f"failed: {state.problem}"


def lacking(report: Report) -> list[str]:
    """What a baseline would not have since it could not be looked at, in the form that ``--ignore`` takes."""
    unknown = [finding for finding in report.findings if finding.severity is Severity.UNKNOWN]
    return [
        UNASKED if finding.rule == UNASKED else f"collector:{finding.subject}"
        for finding in unknown
        if finding.rule == UNASKED or (finding.rule == "collector" and finding.subject in baseline.COLLECTORS)
    ]


def in_child(work: Callable[[], str], timeout: float) -> str | None:
    """Result of ``work``, done in a child process; None if it has not come within so many seconds.

    The child holds none of this process's open files, so that whoever reads them is not kept waiting by it. Once its result is there
    its end is not waited for: a device may hold a thread of it for longer.

    Raises
    ------
    ExporterError
        If the work ended with an error, or without a word.
    """
    receiving, sending = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _serve(work, sending)
    os.close(sending)
    deadline = time.monotonic() + timeout
    pieces: list[bytes] = []
    ended = False
    waiting = select.poll()  # unlike select(2) it takes any descriptor
    waiting.register(receiving, select.POLLIN)
    with open(receiving, "rb", buffering=0) as pipe:
        while True:
            if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
                break
            piece = pipe.read(1 << 16)
            ended = not piece
            if ended:
                break
            pieces.append(piece)
            if piece.endswith(_END.encode()):
                break
    with suppress(OSError):
        os.kill(child, signal.SIGKILL)
    # One that a device holds in the kernel is left to process 1.
    with suppress(OSError):
        os.waitpid(child, os.WNOHANG)
    text = b"".join(pieces).decode("utf-8", "replace")
    if not text.endswith(_END):
        if ended:
            raise ExporterError(
                "check: its child process was ended by somebody else, perhaps for want of memory; try again"
            )
        return None
    if text.startswith(_REFUSED):
        raise ExporterError(f"check: {text.removeprefix(_REFUSED).removesuffix(_END)}")
    if text.startswith(_FAILED):
        raise ExporterError(f"check: ended with {text.removeprefix(_FAILED).removesuffix(_END)}; report this as a bug")
    return text.removesuffix(_END)


def _serve(work: Callable[[], str], sending: int) -> None:
    """Do the work in the child, write its result or what it ended with, and end without a word."""
    try:
        empty = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(empty, stream)
        os.closerange(3, sending)
        os.closerange(sending + 1, _DESCRIPTORS)
        try:
            text = work()
        except ExporterError as error:
            text = f"{_REFUSED}{error}"
        except Exception as error:  # noqa: BLE001  (nobody else would tell of it)
            text = f"{_FAILED}{type(error).__name__}: {' '.join(str(error).split())}"
        data = memoryview(f"{text}{_END}".encode())
        while data:
            data = data[os.write(sending, data) :]
    finally:
        os._exit(0)


def as_values(report: Report) -> dict[str, Any]:
    """The report as lists and numbers."""
    return {"findings": [list(found) for found in report.findings], "rest": [report.collectors, report.seconds]}


def as_text(report: Report) -> str:
    """One line for each finding, the worst first, or one that says that there is none."""
    if not report.findings:
        return f"healthy: {report.collectors} collectors found nothing wrong in {report.seconds:.1f} s\n"
    order = sorted(report.findings, key=lambda found: found.severity is not Severity.UNHEALTHY)
    return "".join(f"{' '.join(found.line.split())}\n" for found in order)


def as_json(report: Report) -> str:
    """The report as one JSON object on one line."""
    status = ("healthy", "unhealthy", "unknown")[report.status]
    findings = [found._asdict() for found in report.findings]
    answer = {
        "status": status,
        "seconds": round(report.seconds, 3),
        "collectors": report.collectors,
        "findings": findings,
    }
    return json.dumps(answer) + "\n"


def _baseline(path: str | None) -> Baseline:
    return Baseline() if path is None else baseline.parse(read_bytes(Path(path), "--baseline"), path)


def _write(place: str, text: str, missing: Sequence[str] = ()) -> None:
    """Write a baseline file, whole or not at all; ``-`` is standard output. ``missing`` is why there is no text, if it is known."""
    if missing:
        named = ", ".join(missing)
        raise ConfigError(
            f"{place}: not written, since it would lack what could not be looked at: {named}; try a longer --timeout, or --ignore them"
        )
    if not text:
        raise ConfigError(f"{place}: not written, since the collectors did not answer in time; try a longer --timeout")
    if place == "-":
        problem = streams.tell(sys.stdout, text)
        if problem is not None:
            raise ConfigError(f"the baseline cannot be written to standard output: {problem.strerror}")
        return
    target = Path(place)
    made: Path | None = None
    try:
        with tempfile.NamedTemporaryFile("w", dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
            made = Path(file.name)
            file.write(text)
        made.chmod(0o644)
        made.replace(target)
    except OSError as error:
        if made is not None:
            made.unlink(missing_ok=True)
        raise ConfigError(f"{place}: cannot be written: {error.strerror or error}; see --write-baseline") from error


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--baseline", metavar="FILE", help="compare with this file, which --write-baseline made on a good host"
    )
    parser.add_argument(
        "--write-baseline", metavar="FILE", help="write what this host looks like now; - for standard output"
    )
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="one line a reason (default), or one JSON object"
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing; the exit status tells")
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=_between(0.2, 60.0), default=_TIMEOUT,
        help=f"seconds until what has not answered is left behind (default {_TIMEOUT:g})",
    )  # fmt: skip
    parser.add_argument(
        "--free", metavar="RATIO", type=_between(0.0, 1.0), default=Limits().free_ratio,
        help=f"least share of space and inodes that a local filesystem must have free (default {Limits().free_ratio:g})",
    )  # fmt: skip
    parser.add_argument(
        "--ignore", metavar="RULE[:SUBJECT]", action="append", default=[],
        help="pass these findings over; * and ? stand for anything; may be repeated",
    )  # fmt: skip


COMMAND = Command("check", "Says whether this host is fit for a job.", _EPILOG, _add_arguments)


def _between(least: float, greatest: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not least <= value <= greatest:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not allowed; allowed: a number from {least:g} to {greatest:g}"
            )
        return value

    return parse

"""``hwsonde-exporter doctor``: which collectors work here, which do not, why, and what to change."""

from __future__ import annotations

import argparse
import json
import os
import platform
import pwd
import resource
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from hwsonde_exporter import __version__, logs
from hwsonde_exporter.collectors._gpu_collector import nvidia_gpus
from hwsonde_exporter.config import Command, Settings, load_with
from hwsonde_exporter.errors import ConfigError, Reason
from hwsonde_exporter.host import Host
from hwsonde_exporter.nvml.check_rules import ASKING
from hwsonde_exporter.registry import load_collectors
from hwsonde_exporter.service import make_exporter
from hwsonde_exporter.state import State

# As long as the slowest collector may need for its first answer.
_SETTLE_SECONDS = 10.0
# A host needs descriptors for each CPU's counters and for the files that stay open.
_DESCRIPTORS = 1024
# From linux/capability.h; those that collectors ask for.
_CAPABILITIES = {
    2: "CAP_DAC_READ_SEARCH",
    19: "CAP_SYS_PTRACE",
    21: "CAP_SYS_ADMIN",
    34: "CAP_SYSLOG",
    38: "CAP_PERFMON",
}
_LAST_CAPABILITY = 40


class Verdict(StrEnum):
    """What is said of a collector."""

    WORKS = "works"
    FAILS = "fails"
    BLOCKED = "blocked"  # it could work here, if something were changed
    ABSENT = "absent"  # this host or its kernel has nothing for it
    OFF = "off"


_TITLES = {
    Verdict.FAILS: "fails",
    Verdict.BLOCKED: "could work, but something is in the way",
    Verdict.WORKS: "works",
    Verdict.ABSENT: "has nothing to read on this host",
    Verdict.OFF: "switched off",
}
_COLOURS = {Verdict.WORKS: 32, Verdict.FAILS: 31, Verdict.BLOCKED: 33, Verdict.ABSENT: 2, Verdict.OFF: 2}
_BLOCKING = frozenset({Reason.NO_PERMISSION.value, Reason.MISSING_TOOL.value})


@dataclass(frozen=True, slots=True)
class Finding:
    """What is said of one collector; ``seconds`` is how long its latest run took, ``text`` says what is wrong."""

    name: str
    verdict: Verdict
    series: int = 0
    seconds: float | None = None
    reason: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about the whole: good, or to be changed."""

    good: bool
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that is said."""

    version: str
    kernel: str
    python: str
    user: str
    capabilities: str
    findings: tuple[Finding, ...]
    remarks: tuple[Remark, ...]

    @property
    def to_change(self) -> tuple[str, ...]:
        """One line for each thing that the operator can put right."""
        wrong = [
            f"{found.name}: {found.text}"
            for found in self.findings
            if found.verdict in {Verdict.FAILS, Verdict.BLOCKED}
        ]
        return (*wrong, *(remark.text for remark in self.remarks if not remark.good))


def main(arguments: Sequence[str]) -> int:
    """Run the command; gives 0 where there is nothing to change and 1 where there is. Raises `ConfigError`."""
    kinds = load_collectors()
    settings, given = load_with(arguments, kinds, COMMAND)
    # Everything that collectors would log is in the report.
    logs.set_up("error", settings.log_format)
    exporter = make_exporter(settings, kinds, lasting=False)
    exporter.start()
    exporter.settle(_SETTLE_SECONDS)
    report = examine(exporter.states(), settings)
    exporter.stop()
    if given["format"] == "json":
        text = as_json(report)
    else:
        terminal = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if terminal else 120
        text = as_text(report, width, colour=terminal and "NO_COLOR" not in os.environ)
    sys.stdout.write(text)
    sys.stdout.flush()
    return 1 if report.to_change else 0


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text for people (default) or json")


COMMAND = Command(
    "doctor",
    "Says which collectors work here, which do not, why, and what to change.",
    """examples:
  hwsonde-exporter doctor                                   this host, as this user
  hwsonde-exporter doctor --config.file exporter.yaml       with the service's options
  hwsonde-exporter doctor --format json                     for programs

exit status:
  0    nothing to change
  1    something can be put right; the report names it
  2    the command line or a file is wrong""",
    _add_arguments,
)


def examine(states: Iterable[State], settings: Settings) -> Report:
    """Put together what is known of the collectors, the process and its settings."""
    gpus = bool(nvidia_gpus(Host(settings.paths)))
    return Report(
        __version__,
        f"{platform.system()} {platform.release()}",
        platform.python_version(),
        _user(),
        _capabilities(),
        tuple(judge(state, gpus=gpus) for state in states),
        tuple(_remarks(settings)),
    )


def judge(state: State, *, gpus: bool = False) -> Finding:
    """What is said of a collector in this state; ``gpus`` is whether there are GPUs of NVIDIA's on the bus, for a driver to use."""
    if not state.available:
        # The driver is the kernel's part of a GPU: where there is one, it is not the host that has nothing to read.
        unused = gpus and state.name in ASKING and state.reason == Reason.NO_KERNEL_SUPPORT
        verdict = Verdict.BLOCKED if unused or state.reason in _BLOCKING else Verdict.ABSENT
        verdict = Verdict.OFF if state.reason == Reason.DISABLED else verdict
        return Finding(state.name, verdict, reason=state.reason, text=state.detail)
    if state.hanging is not None:
        return Finding(
            state.name,
            Verdict.FAILS,
            reason="timeout",
            text=f"it has not answered for {state.hanging:.0f} s; its device or driver hangs",
        )
    if not state.success:
        return Finding(
            state.name,
            Verdict.FAILS,
            0,
            state.duration,
            state.problem.partition(":")[0],
            state.problem or "not read yet",
        )
    if state.dropped:
        lost = ", ".join(f"{count} ({reason})" for reason, count in sorted(state.dropped.items()))
        help_text = (
            f"raise --collector.series-limit {state.name}=N" if "limit" in state.dropped else "report this as a bug"
        )
        return Finding(
            state.name,
            Verdict.FAILS,
            state.series,
            state.duration,
            "dropped",
            f"samples are dropped: {lost}; {help_text}",
        )
    return Finding(state.name, Verdict.WORKS, state.series, state.duration)


def _remarks(settings: Settings) -> Iterable[Remark]:
    from hwsonde_exporter.protection import Keeper  # noqa: PLC0415  (TLS is loaded only where it is asked for)

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _DESCRIPTORS:
        yield Remark(
            good=False,
            text=f"only {soft} files may be open (of {hard} at most); raise LimitNOFILE= or `ulimit -n` to {_DESCRIPTORS} or more",
        )
    if not settings.paths.proc("1").is_dir():
        yield Remark(
            good=False,
            text=f"{settings.paths.proc('1')} cannot be seen (hidepid=, or a container without the host's processes): the network values "
            "are those of this process's own namespace; mount the host's /proc and give --path.procfs",
        )
    if settings.web_config is None:
        shown = ", ".join(f"{host or '*'}:{port}" for host, port in settings.listen)
        if all(host in {"127.0.0.1", "::1", "localhost"} for host, _ in settings.listen):
            yield Remark(good=True, text=f"only this host reaches {shown}")
        else:
            yield Remark(
                good=True,
                text=f"whoever reaches {shown} reads the metrics; --web.config.file asks for TLS and passwords",
            )
        return
    try:
        protection = Keeper(settings.web_config).current
    except ConfigError as error:
        yield Remark(good=False, text=str(error))
        return
    asked = [
        name
        for name, there in (
            ("TLS", protection.context is not None),
            ("users and passwords", protection.passwords is not None),
            ("a rate limit", protection.limiter is not None),
        )
        if there
    ]
    yield Remark(good=True, text=f"{settings.web_config} asks for {', '.join(asked) or 'nothing'}")
    if protection.passwords is not None and protection.context is None:
        yield Remark(
            good=False,
            text=f"{settings.web_config}: passwords without TLS cross the network in the clear; add tls_server_config",
        )


def _user() -> str:
    number = os.geteuid()
    name = str(number)
    with suppress(KeyError):
        name = pwd.getpwuid(number).pw_name
    return f"{name} (uid {number})"


def _capabilities(status: Path = Path("/proc/self/status")) -> str:
    """Those of the effective capabilities that collectors ask for."""
    try:
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
        mask = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return "unknown"
    if mask == 0:
        return "no capabilities"
    if all(mask >> bit & 1 for bit in range(_LAST_CAPABILITY)):
        return "all capabilities"
    held = [name for bit, name in _CAPABILITIES.items() if mask >> bit & 1]
    lacking = [name for bit, name in _CAPABILITIES.items() if not mask >> bit & 1]
    return "; ".join(f"{what} {', '.join(names)}" for what, names in (("with", held), ("without", lacking)) if names)


def as_json(report: Report) -> str:
    """One JSON object on one line."""
    whole: dict[str, Any] = {**asdict(report), "to_change": report.to_change}
    return json.dumps(whole, ensure_ascii=False) + "\n"


def as_text(report: Report, width: int = 120, *, colour: bool = False) -> str:
    """Give the report as plain words; ``width`` is that of the lines, in characters."""
    width = max(60, min(width, 160))

    def paint(text: str, code: int) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if colour else text

    lines = [
        f"hwsonde-exporter {report.version} on {report.kernel}, Python {report.python}, as {report.user}, {report.capabilities}",
    ]
    groups: Mapping[Verdict, list[Finding]] = {verdict: [] for verdict in _TITLES}
    for finding in report.findings:
        groups[finding.verdict].append(finding)
    column = max((len(finding.name) for finding in report.findings), default=0) + 4
    for verdict, title in _TITLES.items():
        if groups[verdict]:
            lines += ["", paint(f"{title} ({len(groups[verdict])})", _COLOURS[verdict])]
            lines += [line for finding in groups[verdict] for line in _lines_of(finding, column, width)]
    lines += [
        "",
        *(_wrapped(f"{'note' if remark.good else 'wrong'}: {remark.text}", width) for remark in report.remarks),
    ]
    changes = report.to_change
    lines.append("")
    if changes:
        lines.append(paint(f"{len(changes)} to change" if len(changes) > 1 else "1 thing to change", 33))
        lines += [_wrapped(f"{number}. {text}", width, "   ") for number, text in enumerate(changes, 1)]
    else:
        lines.append(paint("nothing to change", 32))
    return "\n".join(lines) + "\n"


def _lines_of(finding: Finding, column: int, width: int) -> list[str]:
    start = f"  {finding.name}".ljust(column)
    if finding.verdict is Verdict.WORKS:
        took = f"{finding.seconds * 1000:.1f} ms" if finding.seconds is not None else ""
        return [f"{start}{finding.series:>6} series {took:>10}"]
    text = finding.text if finding.verdict in {Verdict.OFF, Verdict.FAILS} else f"{finding.text} [{finding.reason}]"
    return [_wrapped(start + text, width, " " * column)]


def _wrapped(text: str, width: int, indent: str = "  ") -> str:
    return textwrap.fill(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    )

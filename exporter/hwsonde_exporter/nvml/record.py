"""Records what NVML answers on this host, for bug reports and tests: ``python -m hwsonde_exporter.nvml.record FILE``.

A host whose recording is wanted is often a sick one, so the library is asked in a child process that tells before each call
what it is about to ask. One that does not answer is killed, the call is noted as a fault, and another child goes on without
it. The recording says everything that was answered, in the form of JSON that tests replay; identities are replaced.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hwsonde_exporter.nvml._record_calls import VALUE_TYPES, counts
from hwsonde_exporter.nvml._record_names import Names

FORMAT = "hwsonde-nvml 1"
_CHILD = "hwsonde_exporter.nvml._record_child"
_FUNCTION_NOT_FOUND, _NOT_SUPPORTED = 13, 3
_MAX_CHILDREN = 12
_MAX_LINE = 4 << 20
_DEATH_SECONDS = 0.5
_INIT_SECONDS = 60.0


class NotRecorded(Exception):
    """There is nothing to record; the text is one sentence for the operator."""


@dataclass
class _Found:
    """What the children have told so far."""

    devices: int = 0
    first: dict[tuple[str, str], tuple[Any, float]] = field(default_factory=dict)
    second: dict[tuple[str, str], tuple[Any, float]] = field(default_factory=dict)
    hung: list[tuple[str, str]] = field(default_factory=list)
    at: tuple[str, str] | None = None
    failed: str = ""
    done: bool = False

    def take(self, message: Mapping[str, Any]) -> None:
        if "at" in message:
            self.at = (str(message["at"][0]), str(message["at"][1]))
        elif "devices" in message:
            self.devices = int(message["devices"])
        elif "failed" in message:
            self.failed = str(message["failed"])
        elif "done" in message:
            self.done = True
        else:
            where = self.second if message["again"] else self.first
            where[message["scope"], message["function"]] = (message["answer"], float(message["time"]))

    def begin(self) -> None:
        """Let another child start from the beginning; what the others found out stays where it finds nothing."""
        self.at, self.failed = None, ""
        self.second.clear()

    def note_hang(self) -> bool:
        """Remember where the child hung, or died; False if that is not in a GPU."""
        if self.at is None or not self.at[0][:1].isdigit():
            return False
        self.hung.append((self.at[0].partition(".")[0], self.at[1]))
        return True

    def skip(self) -> list[tuple[str, str]]:
        """What the next child leaves out: each call that hung, and the whole of a GPU that hung twice."""
        scopes = [scope for scope, _ in self.hung]
        return [
            *self.hung,
            *((scope, "*") for scope in sorted(set(scopes)) if scopes.count(scope) > 1),
        ]


def record(
    library: Path | None = None, *, deadline: float = 5.0, seconds: float = 2.0, about: str = ""
) -> dict[str, Any]:
    """Everything that NVML answers on this host, with its identities.

    Parameters
    ----------
    library
        Library to load in place of libnvidia-ml.so.1.
    deadline
        Seconds after which a call hangs.
    seconds
        Time between two readings of counters, from which their rates are made.
    about
        What the host is.

    Raises
    ------
    NotRecorded
        If the library does not start.
    """
    found = _Found()
    for _ in range(_MAX_CHILDREN):
        if _one_child(found, library, deadline, seconds) or not found.note_hang():
            break
    if not found.first:
        raise NotRecorded(f"NVIDIA's library does not work here: {found.failed or 'it does not answer'}")
    return _assembled(found, about)


def _one_child(found: _Found, library: Path | None, deadline: float, seconds: float) -> bool:
    """Let one child ask; False if it hung and was killed, so that another may go on."""
    found.begin()
    arguments = {"library": str(library) if library else None, "skip": found.skip(), "seconds": seconds}
    path = os.pathsep.join(place for place in sys.path if Path(place).is_absolute())
    process = subprocess.Popen(  # noqa: S603  (our own interpreter and module)
        [sys.executable, "-P", "-m", _CHILD, json.dumps(arguments)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd="/", env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    try:
        if _heard_out(found, process, deadline, seconds):
            return found.done or bool(found.failed)
    finally:
        # Also where somebody gives up waiting: a call that hangs would keep the process for ever.
        if process.returncode is None:
            process.kill()
    try:
        process.wait(_DEATH_SECONDS)
    except subprocess.TimeoutExpired:
        # The kernel holds it, and would hold the next one, too. What is known has to do.
        found.note_hang()
        return True
    return False


def _heard_out(found: _Found, process: subprocess.Popen[bytes], deadline: float, seconds: float) -> bool:
    """Take what a child says until it ends; False if it falls silent."""
    assert process.stdout is not None  # noqa: S101  (it was asked for)
    with process.stdout as output:
        # Until it counts the GPUs the driver may be waking them up, one after the other.
        for line in _lines(
            output.fileno(), lambda: deadline + (seconds if found.at and found.at[0] != "s" else _INIT_SECONDS)
        ):
            if line is None:
                return False
            with suppress(ValueError, KeyError, TypeError):
                found.take(json.loads(line))
    with suppress(subprocess.TimeoutExpired):
        process.wait(_DEATH_SECONDS)
    return True


def _lines(descriptor: int, deadline: Callable[[], float]) -> Iterator[bytes | None]:
    """Lines as they come; None if none comes in time, or one without an end."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    rest = b""
    while True:
        if not poll.poll(deadline() * 1000):
            yield None
            return
        data = os.read(descriptor, 1 << 16)
        if not data:
            return
        *whole, rest = (rest + data).split(b"\n")
        yield from whole
        if len(rest) > _MAX_LINE:
            yield None
            return


def _assembled(found: _Found, about: str) -> dict[str, Any]:
    devices: list[dict[str, Any]] = [{"calls": {}} for _ in range(found.devices)]
    faults: list[dict[str, Any]] = []
    missing: set[str] = set()
    system: dict[str, Any] = {}
    for (scope, function), (answer, taken) in found.first.items():
        code = answer.get("error") if isinstance(answer, dict) else None
        if code == _FUNCTION_NOT_FOUND:
            missing.add(function)
        elif code == _NOT_SUPPORTED or answer == {} or function == "nvmlGpmSampleGet":
            continue
        elif scope == "s":
            system[function] = answer
        elif function == "nvmlDeviceGetHandleByIndex_v2":
            faults.append({"device": int(scope), "error": code})
        else:
            later = found.second.get((scope, function))
            _place(devices, scope)[function] = (
                answer if later is None else _with_rates(function, answer, later[0], later[1] - taken)
            )
    for scope, function in found.hung:
        if scope.isdigit():
            faults.append({"device": int(scope), "function": function, "hang": "asleep"})
    return {
        "format": FORMAT,
        "about": about or f"recorded on a host with {found.devices} GPUs",
        "missing": sorted(missing),
        "system": system,
        "devices": devices,
        "faults": faults,
    }


def _place(devices: list[dict[str, Any]], scope: str) -> dict[str, Any]:
    number, _, mig = scope.partition(".")
    device = devices[int(number)]
    if not mig:
        calls: dict[str, Any] = device["calls"]
        return calls
    parts = device.setdefault("mig", [])
    while len(parts) <= int(mig):
        parts.append({"calls": {}})
    found: dict[str, Any] = parts[int(mig)]["calls"]
    return found


def _with_rates(function: str, first: Any, second: Any, seconds: float, key: str = "") -> Any:  # noqa: ANN401  (JSON)
    """The first answer, with counters that have grown made numbers that grow."""
    if isinstance(first, dict) and "mean" not in first:
        other = second if isinstance(second, dict) else {}
        return {
            name: _with_rates(function, value, other.get(name), seconds, key or name) for name, value in first.items()
        }
    before, after = _number(first), _number(second)
    if before is None or after is None or after <= before or seconds <= 0 or not counts(function, key):
        return first
    kind = {"type": first["type"]} if isinstance(first, dict) and first["type"] in VALUE_TYPES else {}
    return {"start": before, "rate": round((after - before) / seconds, 3), **kind}


def _number(answer: object) -> int | None:
    value = answer.get("mean") if isinstance(answer, dict) else answer
    return value if type(value) is int else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Write a recording to a file; gives the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m hwsonde_exporter.nvml.record", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("file", type=Path, help="where to write the recording (JSON)")
    parser.add_argument("--library", type=Path, help="another library in place of libnvidia-ml.so.1")
    parser.add_argument(
        "--deadline", type=float, default=5.0, help="seconds after which a call hangs (default: %(default)s)"
    )
    parser.add_argument(
        "--keep-identities", action="store_true", help="leave serial numbers, UUIDs and PCI addresses as they are"
    )
    options = parser.parse_args(arguments)
    try:
        recording = record(options.library, deadline=options.deadline)
    except NotRecorded as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)  # noqa: T201  (a command)
        return 2
    if not options.keep_identities:
        recording = Names().replace(recording)
    options.file.write_text(json.dumps(recording, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

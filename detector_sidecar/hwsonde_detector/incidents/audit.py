"""What automation decided and did: a file of JSON lines that is only appended to, from which its limits are counted again after a restart."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hwsonde_detector.incidents.index import ends_whole
from hwsonde_detector.incidents.policy import Act
from hwsonde_detector.state import sync_directory

_MOST = 8 << 20
# What is acted on counts from its beginning: whoever acts may not be there any more when it ends.
_BEGUN = "begun"
_ACTED = (_BEGUN, "done", "failed")
# Of this nothing is counted, and of a storm there may be thousands.
_REFUSED = "refused"
_ENDED = ("done", "failed")
_UNKNOWN = "unknown"


def append_record(path: Path, at_ms: int, result: str, act: Act, text: str, actions: int = 1) -> None:
    """Append what became of an incident; it is on the disk when this returns, but for what was refused.

    The file is for its owner alone. One that has grown large is put aside under another name, in place of the one before. Of what is begun,
    ``actions`` says how many ends are to be written.

    Raises
    ------
    OSError
        It could not be written.
    """
    record = {"at_ms": at_ms, "result": result, "incident": act.incident, "host": act.host, "text": text}
    if result == _BEGUN:
        record["actions"] = actions
    line = json.dumps(record).encode() + b"\n"
    with suppress(FileNotFoundError):
        if path.stat().st_size >= _MOST:
            path.replace(path.with_name(f"{path.name}.1"))
    with open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        # What a crash or a full disk cut off ends here, so that only that line is lost.
        file.write(line if ends_whole(path) else b"\n" + line)
        file.flush()
        if result != _REFUSED:
            os.fsync(file.fileno())
    if result != _REFUSED:
        sync_directory(path.parent)


def read_audit(path: Path, *, dry_run: bool) -> list[Act]:
    """What was done, by the newest part of an audit file; with ``dry_run`` what would have been, too. Damaged lines are passed over."""
    counted = (*_ACTED, "dry_run") if dry_run else _ACTED
    found: dict[str, Act] = {}
    for result, act, _ in _records(path):
        if result in counted:
            found.setdefault(act.incident, act)
    return list(found.values())


def read_unfinished(path: Path) -> list[Act]:
    """What was begun and has an action without an end, by the newest part of an audit file."""
    found: dict[str, Act] = {}
    owed: Counter[str] = Counter()
    for result, act, actions in _records(path):
        if result == _BEGUN:
            found[act.incident], owed[act.incident] = act, actions
        elif result in _ENDED:
            owed[act.incident] -= 1
        elif result == _UNKNOWN:
            owed[act.incident] = 0
    return [act for incident, act in found.items() if owed[incident] > 0]


def _records(path: Path) -> Iterator[tuple[str, Act, int]]:
    """What became of it, of what, and how many actions were begun."""
    refused = f'"result": "{_REFUSED}"'.encode()
    lines: list[bytes] = []
    for one in (path.with_name(f"{path.name}.1"), path):
        with suppress(OSError), open(one, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - _MOST, 0))
            lines += [line for line in file.read().splitlines() if refused not in line]
    for line in lines:
        with suppress(ValueError, KeyError, TypeError, OverflowError):
            record = json.loads(line)
            act = Act(int(record["at_ms"]), str(record["host"]), str(record["incident"]))
            yield str(record["result"]), act, int(record.get("actions", 1))

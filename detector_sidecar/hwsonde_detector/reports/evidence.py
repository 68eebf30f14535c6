"""`hwsonde-detector evidence`: an incident's files with the raw samples around it, in one archive."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hwsonde_detector import __version__
from hwsonde_detector.config import Config
from hwsonde_detector.errors import ConfigError, StateError
from hwsonde_detector.files import read_regular
from hwsonde_detector.incidents.entry import Entry
from hwsonde_detector.incidents.evidence import evidence_files, packed, redacted, sample_lines
from hwsonde_detector.incidents.pages import summary
from hwsonde_detector.incidents.store import FOLDER, Store
from hwsonde_detector.keys import derived, load_key
from hwsonde_detector.past.reading import open_records
from hwsonde_detector.past.world import World
from hwsonde_detector.redaction import Redactor
from hwsonde_detector.reports.finding import narrowed
from hwsonde_detector.types import Entity

# Samples of so long before and after it are packed, and of a long incident no more than this in all.
_AROUND_MS = 600_000
_MOST_MS = 6 * 3_600_000
_MOST_SAMPLES = 256 << 20
_MOST_KERNEL = 4 << 20


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of the command, as they were given."""

    incident: str
    out: Path | None = None
    archive: Path | None = None
    kernel_log: Path | None = None
    redact: tuple[str, ...] = ()
    samples: bool = True


def run_evidence(config: Config, wanted: Wanted, world: World) -> int:
    """Write the archive; give the exit status.

    Raises
    ------
    ConfigError, StateError, ArchiveError, SourceError
        One line that says what to do.
    """
    store = kept(config)
    entry = find(store.entries(), wanted.incident)
    document = dict(store.document(entry.id) or {})
    named = [
        Entity(tuple((str(name), str(value)) for name, value in pairs)) for pairs in document.pop("hosts_named", ())
    ]
    labels = tuple(dict.fromkeys((*config.web.redact, *wanted.redact)))
    notes: list[str] = []
    files: dict[str, bytes] = {}
    values: dict[str, set[str]] = {label: set() for label in labels}
    if wanted.samples:
        files["samples.jsonl"] = _samples(config, wanted, entry, notes, values)
    if wanted.kernel_log is not None:
        files["kernel.log"] = _kernel(wanted.kernel_log)
    notes += [f"Values of the label {label} are replaced by others." for label in labels]
    files |= evidence_files({"incident": summary(entry), **document}, __version__, notes)
    redactor = redactor_of(config, labels)
    found = [Entity(((label, value),)) for label, some in values.items() for value in sorted(some)]
    content = packed(entry, redacted(files, redactor.known([entry.entity, *named, *found])))
    target = wanted.out or Path(f"{entry.id}.tar.gz")
    try:
        target.write_bytes(content)
    except OSError as error:
        raise ConfigError(
            f"--out: {target}: it cannot be written: {error.strerror or error}; name another file"
        ) from None
    world.out.write(f"written: {target} ({len(content)} bytes: {', '.join(sorted(files))})\n")
    return 0


def kept(config: Config) -> Store:
    """Closed incidents beside the state, read and not touched.

    Raises
    ------
    ConfigError, StateError
        There is no state, or it cannot be read.
    """
    if config.state.dir is None:
        raise ConfigError("state.dir: null keeps no incidents; name the folder of the running detector")
    store = Store(config.state.dir / FOLDER)
    store.peek()
    return store


def find(entries: Sequence[Entry], name: str) -> Entry:
    """The incident of an id, an address that ends in it, or an episode's own name.

    Raises
    ------
    ConfigError
        There is none.
    """
    last = name.rstrip("/").rpartition("/")[2]
    for entry in entries:
        if name == entry.identity or last == entry.id:
            return entry
    raise ConfigError(
        f"{name[:80]!r} is not among the {len(entries)} closed incidents that are kept; give an id as the page shows it, "
        "or take /incidents/ID.tar.gz of an open one from the running detector"
    )


def redactor_of(config: Config, labels: tuple[str, ...]) -> Redactor:
    """Replaces these labels as the page does; where there are none no key is looked for, or made."""
    return Redactor(labels, derived(load_key(config.state.dir), "redaction") if labels else b"")


def _samples(config: Config, wanted: Wanted, entry: Entry, notes: list[str], values: Mapping[str, set[str]]) -> bytes:
    start_ms = entry.onset_ms - _AROUND_MS
    end_ms = (entry.end_ms or entry.onset_ms) + _AROUND_MS
    if end_ms - start_ms > _MOST_MS:
        end_ms = start_ms + _MOST_MS
        notes.append("samples.jsonl holds the first six hours only.")
    only = narrowed(config, [entry.entity], [])
    batches = (batch for batch, _ in open_records(only, start_ms, end_ms, wanted.archive, 0))
    labels = {name: value for name, value in entry.entity.labels if value}
    lines: list[bytes] = []
    size = 0
    for one in sample_lines(batches, labels):
        _note_values(one["metric"], values)
        lines.append(json.dumps(one, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n")
        size += len(lines[-1])
        if size > _MOST_SAMPLES:
            notes.append("samples.jsonl is cut off where it was too long.")
            break
    if not lines:
        notes.append("samples.jsonl is empty: no sample of that time is to be had any more.")
    return b"".join(lines)


def _note_values(metric: Mapping[str, Any], values: Mapping[str, set[str]]) -> None:
    for label, some in values.items():
        if metric.get(label):
            some.add(str(metric[label]))


def _kernel(path: Path) -> bytes:
    try:
        content = read_regular(path, _MOST_KERNEL)
    except OSError as error:
        raise ConfigError(f"--kernel-log: {path}: it cannot be read: {error.strerror or error}") from None
    # What follows one another on one line of a terminal may hide what stands before.
    text = content.decode("utf-8", "replace")
    return "".join(one if one.isprintable() or one in "\n\t" else "\N{REPLACEMENT CHARACTER}" for one in text).encode()


__all__ = ["StateError", "Wanted", "find", "kept", "run_evidence"]

"""`hwsonde-detector evidence`: an incident's files with the raw samples around it, in one archive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hwsonde_detector import __version__
from hwsonde_detector.config import Config
from hwsonde_detector.errors import ConfigError, StateError
from hwsonde_detector.files import read_regular
from hwsonde_detector.incidents.entry import Entry
from hwsonde_detector.incidents.evidence import evidence_files, packed
from hwsonde_detector.incidents.pages import summary
from hwsonde_detector.incidents.store import FOLDER, Store
from hwsonde_detector.keys import derived, load_key
from hwsonde_detector.past.world import World, write_result
from hwsonde_detector.redaction import Redactor
from hwsonde_detector.reports.names import Names
from hwsonde_detector.reports.samples import Samples, Stretch, read_samples
from hwsonde_detector.service.wiring import make_plan
from hwsonde_detector.types import Entity

# Samples of so long before and after it are packed, and of a long incident no more than this in all.
_AROUND_MS = 600_000
_MOST_MS = 6 * 3_600_000
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
    names = Names(redactor_of(config, labels), make_plan(config).profiles if labels else ())
    names.hear_hosts([entry.entity, *named])
    notes: list[str] = []
    kernel = _kernel(wanted.kernel_log) if wanted.kernel_log is not None else None
    samples = _samples(config, wanted, entry, names, notes) if wanted.samples else None
    # From here on all names are known.
    notes += names.notes()
    replacing = names.replacing()
    files = evidence_files({"incident": summary(entry), **document}, __version__, notes, replacing)
    if samples is not None:
        files["samples.jsonl"] = samples.text(lambda labels: names.shown(labels, replacing))
    if kernel is not None:
        files["kernel.log"] = _printable(replacing.of(kernel))
    content = packed(entry, files)
    target = _write(wanted.out or Path(f"{entry.id}.tar.gz"), content)
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


def _samples(config: Config, wanted: Wanted, entry: Entry, names: Names, notes: list[str]) -> Samples:
    start_ms = entry.onset_ms - _AROUND_MS
    end_ms = (entry.end_ms or entry.onset_ms) + _AROUND_MS
    if end_ms - start_ms > _MOST_MS:
        end_ms = start_ms + _MOST_MS
        notes.append("samples.jsonl holds the first six hours only.")
    samples = read_samples(config, entry.entity, Stretch(start_ms, end_ms, wanted.archive))
    for series in samples.series():
        names.hear_series(series, entry.entity)
    if samples.cut:
        notes.append("samples.jsonl is cut off where it was too long.")
    if not samples:
        notes.append("samples.jsonl is empty: no sample of that time is to be had any more.")
    return samples


def _kernel(path: Path) -> str:
    try:
        return read_regular(path, _MOST_KERNEL).decode("utf-8", "replace")
    except OSError as error:
        raise ConfigError(f"--kernel-log: {path}: it cannot be read: {error.strerror or error}") from None


def _printable(text: str) -> bytes:
    """What follows one another on one line of a terminal may hide what stands before."""
    made = "".join(one if one.isprintable() or one in "\n\t" else "\N{REPLACEMENT CHARACTER}" for one in text)
    return made.encode("utf-8", "replace")


def _write(target: Path, content: bytes) -> Path:
    """Put the archive in the place of the one before, which stays where that fails; a pipe or a device is written to."""
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(content)
            return target
        # The file itself and not a link to it, which would be replaced.
        place = target.resolve()
        there = place.parent.is_dir()
    except (OSError, RuntimeError) as error:
        said = getattr(error, "strerror", None) or error
        raise ConfigError(f"--out: {target}: it cannot be written: {said}; name another file") from None
    if not there:
        raise ConfigError(f"--out: {target}: there is no folder {place.parent}; make it, or name another file")
    write_result(place, content)
    return target


__all__ = ["StateError", "Wanted", "find", "kept", "run_evidence"]

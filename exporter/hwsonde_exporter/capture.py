"""``hwsonde-exporter capture``: what the collectors read here, without personal details, for a bug report or a fixture."""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import pwd
import re
import shutil
import socket
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hwsonde_exporter import __version__, capture_gpus, logs
from hwsonde_exporter.anonymous import Anonymiser
from hwsonde_exporter.cell import Clocks
from hwsonde_exporter.config import Command, Settings, load_with
from hwsonde_exporter.errors import ConfigError, ExporterError
from hwsonde_exporter.host import FileReader, Host, Paths
from hwsonde_exporter.nvml.client import Client
from hwsonde_exporter.recording import Builder, Parts, RecordingReader, Seen, Tree, watched
from hwsonde_exporter.registry import Collector, load_collectors
from hwsonde_exporter.runner import Runner

_SETTLE_SECONDS = 10.0
_NOTE = "capture.json"
_ARCHIVES = (".tar.gz", ".tgz")

Series = Mapping[str, Counter[str]]


class CaptureError(ExporterError):
    """The capture cannot be written."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was captured.

    Attributes
    ----------
    tree
        The files, personal details replaced.
    replaced
        What was replaced, one line a kind.
    withheld
        Files that still held what should have been replaced, and were left out.
    differs
        Collectors that give other series when the capture is replayed, with the number before and after.
    series
        Series of all collectors here, but for what the driver of GPUs tells.
    gpus
        One line about the GPUs.
    """

    tree: Tree
    replaced: tuple[str, ...]
    withheld: tuple[str, ...]
    differs: Mapping[str, tuple[int, int]]
    series: int
    gpus: str = ""


def main(arguments: Sequence[str]) -> int:
    """Run the command; gives 0. Raises `ExporterError` with one line."""
    kinds = load_collectors()
    settings, given = load_with(arguments, kinds, COMMAND)
    logs.set_up("error", settings.log_format)
    target = Path(given["target"])
    _check_target(target)
    outcome = capture(settings, kinds)
    note = json.dumps(_note(outcome), indent=1, ensure_ascii=False).encode() + b"\n"
    try:
        _write(outcome.tree, note, target)
    except OSError as error:
        raise CaptureError(f"{target}: cannot be written: {error.strerror or error}") from error
    sys.stdout.write(summary(outcome, target))
    return 0


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="DIR|FILE.tar.gz", help="a new directory, or an archive")


COMMAND = Command(
    "capture",
    "Records the kernel files that the collectors read on this host, and what NVIDIA's driver tells of its GPUs, for a bug report "
    "or a fixture. Names of hosts, users and processes, serial numbers, UUIDs and addresses are replaced, the same one by the same "
    "one everywhere. Look through it before you pass it on.",
    """examples:
  hwsonde-exporter capture /tmp/host                a new directory
  hwsonde-exporter capture /tmp/host.tar.gz         an archive
replay a directory:
  hwsonde-exporter once --path.procfs DIR/proc --path.sysfs DIR/sys --path.rootfs DIR/root

exit status:
  0  recorded
  2  the command line is wrong, or the target cannot be written""",
    _add_arguments,
)


def _check_target(target: Path) -> None:
    if target.name.endswith(_ARCHIVES):
        if target.exists():
            raise ConfigError(f"{target}: is there already; give another name or remove it")
    elif target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(f"{target}: is there already and not empty; give another name or remove it")
    if not target.absolute().parent.is_dir():
        raise ConfigError(f"{target.absolute().parent}: is no directory; make it first")


def capture(settings: Settings, kinds: Mapping[str, type[Collector]]) -> Outcome:
    """Run every enabled collector once while it is watched, copy what it looked at, replace personal details, and replay the copy.

    GPUs are asked apart: a replay has no driver, and what it is compared with must have none either.
    """
    seen = Seen()
    driver = Client(settings.exporter.nvml)
    try:
        with watched(seen):
            before = series_of(settings, kinds, settings.paths, seen)
            none = _look_at_gpus(settings, kinds, seen, driver)
        tree = Builder(settings.paths).build(seen)
        anonymiser = Anonymiser(_host_names(settings.paths), _user_names(settings.paths), os.urandom(32))
        clean, withheld = anonymised(tree, anonymiser)
        _add_mount_points(clean)
        # While the worker runs the GPUs stay awake, and answer the sooner.
        gpus = capture_gpus.Recorded(None, none) if none else capture_gpus.recorded(settings, anonymiser)
    finally:
        driver.stop()
    try:
        with TemporaryDirectory() as folder:
            write_folder(clean, b"", Path(folder) / "host")
            after = series_of(settings, kinds, _paths_of(Path(folder) / "host"), None)
    except OSError as error:
        where = error.filename or "a temporary directory"
        raise CaptureError(
            f"{where}: cannot be written: {error.strerror or error}; TMPDIR names another place"
        ) from error
    differs = {
        name: (before.get(name, Counter()).total(), after.get(name, Counter()).total())
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    }
    total = sum(counts.total() for counts in before.values())
    if gpus.data is not None and not clean.put((capture_gpus.FILE,), gpus.data):
        gpus = capture_gpus.Recorded(None, "not recorded, there is no more room")
    return Outcome(clean, tuple(anonymiser.summary()), tuple(withheld), differs, total, gpus.told)


def _look_at_gpus(settings: Settings, kinds: Mapping[str, type[Collector]], seen: Seen, driver: Client) -> str:
    """Let the collectors of GPUs look at the files that they want beside the driver's answers; gives why there are none to look at."""
    chosen = capture_gpus.of_gpus(settings, kinds)
    none = capture_gpus.why_not(chosen, Host(settings.paths, RecordingReader(seen), nvml=driver))
    if not none:
        series_of(chosen, kinds, settings.paths, seen, driver)
    return none


def series_of(
    settings: Settings,
    kinds: Mapping[str, type[Collector]],
    paths: Paths,
    seen: Seen | None,
    driver: Client | None = None,
) -> Series:
    """Number of series by metric and collector; what is read goes into ``seen``, and ``driver`` is asked for GPUs."""

    def make_host() -> Host:
        return Host(paths, FileReader() if seen is None else RecordingReader(seen), settings.ignored, nvml=driver)

    runner = Runner(
        kinds, make_host, replace(settings.exporter.runner, timeout=_SETTLE_SECONDS), Clocks(time.monotonic, time.time)
    )
    runner.start()
    runner.settle(_SETTLE_SECONDS)
    blocks = runner.collect()
    for name in settings.exporter.runner.enabled:
        if seen is not None and hasattr(kinds[name], "observe"):
            # The fast sampler may read files that the collector itself does not.
            with suppress(Exception):
                kinds[name](make_host()).observe()  # type: ignore[attr-defined]
    runner.stop()
    return {name: Counter(sample.metric.name for sample in block.samples) for name, block in blocks.items()}


def anonymised(tree: Tree, anonymiser: Anonymiser) -> tuple[Tree, list[str]]:
    """Tree without personal details, and the files that were left out because something that was replaced elsewhere is still in them."""
    clean = Tree(left_out={"/".join(anonymiser.path(path.split("/"))): why for path, why in tree.left_out.items()})
    links = {}
    for parts, content in tree.entries.items():
        place = anonymiser.path(parts)
        if content is None:
            clean.directory(place)
        elif isinstance(content, str):
            links[place] = "/".join(anonymiser.path(content.split("/")))
        else:
            clean.put(place, anonymiser.content(parts, content))
    for place, target in links.items():
        clean.put(place, target)
    originals = [text.encode("latin-1", "replace") for text in anonymiser.originals]
    withheld = []
    for place, content in list(clean.entries.items()):
        data = content.encode() if isinstance(content, str) else content or b""
        whole = ("/".join(place).encode() + b"\n" + data).lower()
        if any(original in whole for original in originals):
            withheld.append("/".join(place))
            del clean.entries[place]
    return clean, withheld


def _write(tree: Tree, note: bytes, target: Path) -> None:
    """Write the capture, whole or not at all: half of one would be taken for a host that lacks the rest."""
    if target.name.endswith(_ARCHIVES):
        archive = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            write_archive(tree, note, archive, target.name)
            archive.rename(target)
        finally:
            archive.unlink(missing_ok=True)
        return
    there = target.is_dir()
    try:
        write_folder(tree, note, target)
    except BaseException:
        for child in target.iterdir() if target.is_dir() else ():
            shutil.rmtree(child) if child.is_dir() and not child.is_symlink() else child.unlink()
        if not there:
            target.rmdir()
        raise


def _add_mount_points(tree: Tree) -> None:
    """Let there be a directory for each mount point, so that a replay can ask for its size."""
    table = tree.entries.get(("proc", "1", "mountinfo"), b"")
    for line in (table if isinstance(table, bytes) else b"").decode("utf-8", "replace").splitlines():
        fields = line.split(" ")
        parts = (
            tuple(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4]).split("/")[1:])
            if len(fields) > 4
            else ()
        )
        if parts and parts[0] not in {"", "proc", "sys"} and ".." not in parts:
            tree.directory(("root", *parts))


def write_folder(tree: Tree, note: bytes, target: Path) -> None:
    """Write the tree below a new directory, with proc, sys, root and a note of what it is."""
    target.mkdir(exist_ok=True)
    for name in ("proc", "sys", "root"):
        (target / name).mkdir()
    for parts, content in _ordered(tree):
        path = target.joinpath(*parts)
        if content is None:
            path.mkdir(exist_ok=True)
        elif isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(content)
    if note:
        (target / _NOTE).write_bytes(note)


def write_archive(tree: Tree, note: bytes, target: Path, name: str = "") -> None:
    """Write the tree as a compressed archive with one directory at its top; nothing in it tells who wrote it.

    ``name`` is the one that the archive will have, if ``target`` is not yet it.
    """
    top = name or target.name
    for ending in _ARCHIVES:
        top = top.removesuffix(ending)
    with tarfile.open(target, "x:gz", compresslevel=6) as archive:
        for parts, content in [
            ((), None),
            *(((name,), None) for name in ("proc", "root", "sys")),
            *_ordered(tree),
            ((_NOTE,), note),
        ]:
            if content is None and len(parts) == 1 and parts in tree.entries:
                continue
            member = tarfile.TarInfo("/".join((top or "capture", *parts)))
            member.mode = 0o644
            data = b""
            if content is None:
                member.type, member.mode = tarfile.DIRTYPE, 0o755
            elif isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
            else:
                data = content
                member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def _ordered(tree: Tree) -> list[tuple[Parts, bytes | str | None]]:
    """Entries with each directory before what lies in it."""
    return sorted(tree.entries.items(), key=lambda entry: entry[0])


def _paths_of(folder: Path) -> Paths:
    return Paths(folder / "proc", folder / "sys", folder / "root")


def _host_names(paths: Paths) -> set[str]:
    names = {socket.gethostname()}
    with suppress(OSError):
        names.add(paths.proc("sys", "kernel", "hostname").read_text(encoding="utf-8", errors="replace").strip())
    return names | {name.partition(".")[0] for name in names}


def _user_names(paths: Paths) -> set[str]:
    """Names of people's accounts, of this system and of the one whose root filesystem is given."""
    names = {entry.pw_name for entry in pwd.getpwall() if 1000 <= entry.pw_uid < 65534}
    with suppress(OSError):
        for line in (paths.rootfs / "etc" / "passwd").read_text(encoding="utf-8", errors="replace").splitlines():
            fields = line.split(":")
            if len(fields) > 3 and fields[2].isdigit() and 1000 <= int(fields[2]) < 65534:
                names.add(fields[0])
    return names


def _note(outcome: Outcome) -> dict[str, object]:
    return {
        "made_by": f"hwsonde-exporter {__version__}",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "files": sum(isinstance(content, bytes) for content in outcome.tree.entries.values()),
        "bytes": outcome.tree.size,
        "series": outcome.series,
        "gpus": outcome.gpus,
        "replaced": list(outcome.replaced),
        "left_out": outcome.tree.left_out,
        "withheld": list(outcome.withheld),
        "replay_differs": {name: {"here": here, "replayed": there} for name, (here, there) in outcome.differs.items()},
    }


def summary(outcome: Outcome, target: Path) -> str:
    """What was written and what was replaced, for the one who did it."""
    note = _note(outcome)
    lines = [
        f"wrote {target}: {note['files']} files, {outcome.tree.size / 1024:.0f} KiB, from collectors that give {outcome.series} series here",
        f"replaced: {', '.join(outcome.replaced) or 'nothing'}",
    ]
    if outcome.gpus:
        lines.append(f"GPUs: {outcome.gpus}")
    if outcome.withheld:
        lines.append(f"left out because a personal detail was found in them: {', '.join(outcome.withheld)}")
    if outcome.tree.left_out:
        lines.append(
            f"left out because they could not be read or are too large: {len(outcome.tree.left_out)}, named in {_NOTE}"
        )
    if outcome.differs:
        shown = ", ".join(
            f"{name} ({here} series here, {there} replayed)" for name, (here, there) in outcome.differs.items()
        )
        lines.append(
            f"other series when replayed, most of them because these ask the system and not files alone: {shown}"
        )
    else:
        lines.append("replayed, it gives the same series")
    lines.append("look through it before you pass it on")
    return "\n".join(lines) + "\n"

"""Metrics that other programs leave in files: ``*.prom`` in a directory, as for node_exporter."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._textfile_format import Family, FormatError, Labels, metric_of, parse_textfile
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

_LOG = logging.getLogger(__name__)

_ENDING = ".prom"
_MAX_BYTES = 1 << 20
_MAX_FILES = 256
_MAX_SERIES = 10_000
_UNREADABLE = "unreadable"

_gauge = partial(Metric, kind=Kind.GAUGE, subsystem="exporter")

MTIME = _gauge(
    name="hwsonde_exporter_textfile_mtime_seconds",
    help="Unix time at which a file of the textfile directory was last written.",
    labels=("file",),
    unit="seconds",
    source="st_mtime of the file",
)
ERROR = _gauge(
    name="hwsonde_exporter_textfile_error",
    help="Whether a file of the textfile directory is left out (1) or published (0), and why it is left out.",
    labels=("file", "reason"),
    source="reading and parsing of the file",
)

# What identifies the content of a file: device, inode, size, and the times of its content and of its inode.
Stamp = tuple[int, int, int, int, int]


class Refused(Exception):
    """Why a file is left out: a word for a label, and a sentence for the log."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Content:
    """A file as it was last read: its families, or why it is left out."""

    stamp: Stamp | None
    families: tuple[Family, ...]
    refused: Refused | None


def check_trust(status: os.stat_result, own: int) -> None:
    """Raise `Refused` if a file or directory is not only root's or user ``own``'s to write (and a trusted group's)."""
    if status.st_uid not in {0, own}:
        raise Refused("owner", "its owner is neither root nor the user of this program")
    if status.st_mode & stat.S_IWOTH:
        raise Refused("writable", "everybody may write to it; chmod o-w")


def read_file(path: str, own: int) -> tuple[bytes, os.stat_result]:
    """Content of a file that is small, regular and trusted; raises `Refused` or OSError."""
    # Without waiting: a pipe or a device in the file's place must hold up nobody.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Refused("not_regular", "it is no regular file")
        check_trust(status, own)
        data = b""
        while len(data) <= _MAX_BYTES and (piece := os.read(descriptor, _MAX_BYTES + 1 - len(data))):
            data += piece
    finally:
        os.close(descriptor)
    if len(data) > _MAX_BYTES:
        raise Refused("too_big", f"larger than {_MAX_BYTES} bytes")
    return data, status


def merge(files: Iterable[tuple[str, tuple[Family, ...]]]) -> tuple[dict[str, Family], dict[str, Refused]]:
    """All families of several files by name, and the files that cannot be merged with those before them.

    Files may share a family if they agree on its type; the help text is that of the first.
    """
    merged: dict[str, Family] = {}
    claims: dict[str, str] = {}
    refused: dict[str, Refused] = {}
    for file, families in files:
        problem = _conflict(merged, claims, families)
        if problem:
            refused[file] = problem
            continue
        for family in families:
            known = merged.setdefault(family.name, Family(family.name, family.kind, family.help))
            known.series |= family.series
            claims.update(dict.fromkeys(family.names, family.name))
    return merged, refused


def _conflict(merged: dict[str, Family], claims: dict[str, str], families: Iterable[Family]) -> Refused | None:
    for family in families:
        known = merged.get(family.name)
        if known is not None and known.kind is not family.kind:
            return Refused(
                "collision", f"another file says that {family.name} is a {known.kind}, this one {family.kind}"
            )
        if any(claims.get(name, family.name) != family.name for name in family.names):
            return Refused("collision", f"another file has a metric whose names clash with those of {family.name}")
        if known is not None and not known.series.keys().isdisjoint(family.series):
            return Refused("duplicate", f"another file has a series of {family.name} with the same labels")
    return None


def family_samples(family: Family) -> list[Sample]:
    """Samples of a family; those of a histogram or summary that belong together stand together."""
    own = {Kind.HISTOGRAM: "le", Kind.SUMMARY: "quantile"}.get(family.kind)
    groups: dict[Labels, list[Sample]] = {}
    metrics: dict[tuple[str, ...], Metric] = {}
    for (suffix, labels), value in family.series.items():
        names = tuple(name for name, _ in labels)
        metric = metrics.get(names)
        if metric is None:
            metric = metrics[names] = metric_of(family, labels)
        group = groups.setdefault(tuple(pair for pair in labels if pair[0] != own), [])
        group.append(Sample(metric, tuple(text for _, text in labels), value, suffix))
    return [sample for group in groups.values() for sample in group]


@register
class TextfileCollector:
    """Metrics from the ``*.prom`` files of a directory that ``collector.textfile.directory`` names.

    A file is published whole or not at all, so that half a file never looks like metrics that are gone (only the limit on
    the collector's series may cut one, which is counted). Only files that nobody but root, the exporter's user and their
    groups can write to are read: what lies in them is published in the host's name. A file is parsed when it has changed;
    how old it is, its time of writing tells.
    """

    name: ClassVar[str] = "textfile"
    help: ClassVar[str] = "Metrics from *.prom files of a directory, see --collector.textfile.directory"
    metrics: ClassVar[tuple[Metric, ...]] = (MTIME, ERROR)
    period: ClassVar[float | None] = 5.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._own = os.geteuid()
        self._contents: dict[str, Content] = {}
        self._samples: list[Sample] = []
        self._told: dict[str, str] = {}

    def probe(self) -> None:
        """Raise `Unavailable` where no directory is named, or it may not be listed or trusted."""
        if self.host.textfiles is None:
            raise Unavailable(Reason.DISABLED, "no directory is named; --collector.textfile.directory names one")
        with suppress(ReadError):  # one that is missing is told by each run that fails, until somebody makes it
            self._list(self.host.textfiles)

    def collect(self) -> Iterable[Sample]:
        """Look at each file, parse those that have changed, and give everything that can be merged."""
        directory = self.host.textfiles
        if directory is None:
            return []
        contents = {}
        for number, (label, name) in enumerate(self._list(directory).items()):
            content = self._content(f"{directory}/{name}", self._contents.get(label), crowded=number >= _MAX_FILES)
            if content is not None:
                contents[label] = content
        if contents != self._contents:
            self._contents = contents
            self._samples = self._merge(contents)
        return self._samples

    def _merge(self, contents: Mapping[str, Content]) -> list[Sample]:
        good = [(label, content.families) for label, content in contents.items() if content.refused is None]
        merged, conflicts = merge(good)
        problems = {label: content.refused or conflicts.get(label) for label, content in contents.items()}
        self._tell(problems)
        samples: list[Sample] = []
        for label, problem in problems.items():
            stamp = contents[label].stamp
            if stamp is not None:
                samples.append(Sample(MTIME, (label,), stamp[3] / 1e9))
            samples.append(Sample(ERROR, (label, problem.reason if problem else ""), int(problem is not None)))
        for family in merged.values():
            samples += family_samples(family)
        return samples

    def _list(self, directory: Path) -> dict[str, str]:
        """Names of the files by their label."""
        try:
            check_trust(directory.stat(), self._own)
            names = sorted(name for name in os.listdir(directory) if name.endswith(_ENDING))  # noqa: PTH208  (names only)
        except PermissionError as error:
            detail = f"{directory}: {error.strerror}; the directory of --collector.textfile.directory must be readable"
            raise Unavailable(Reason.NO_PERMISSION, detail) from error
        except OSError as error:
            raise ReadError(f"{directory}: {error.strerror or error}; see --collector.textfile.directory") from error
        except Refused as error:
            raise Unavailable(Reason.NO_PERMISSION, f"{directory}: {error}") from error
        return {parsing.text(os.fsencode(name)): name for name in names[: 2 * _MAX_FILES]}

    def _content(self, path: str, known: Content | None, *, crowded: bool) -> Content | None:
        """The file as it is now; None if it has just vanished, as when another is renamed to its name."""
        if crowded:
            return Content(None, (), Refused("too_many", f"there are more than {_MAX_FILES} files"))
        stamp: Stamp | None = None
        try:
            stamp = _stamp(os.stat(path))  # noqa: PTH116  (a Path for each file would cost more)
            # What could not be read may be readable now without any change of the file.
            if (
                known is not None
                and known.stamp == stamp
                and not (known.refused and known.refused.reason == _UNREADABLE)
            ):
                return known
            data, status = read_file(path, self._own)
            return Content(_stamp(status), tuple(parse_textfile(data, _MAX_SERIES)), None)
        except FileNotFoundError:
            return None
        except OSError as error:
            refused = Refused(_UNREADABLE, f"cannot be read: {error.strerror or error}")
        except FormatError as error:
            refused = Refused(error.reason, str(error))
        except Refused as error:
            refused = error
        return Content(stamp, (), refused)

    def _tell(self, problems: Mapping[str, Refused | None]) -> None:
        """Write one line when a file begins or ceases to be left out."""
        for label, problem in problems.items():
            before = self._told.get(label, "")
            if problem and str(problem) != before:
                _LOG.warning("textfile: %s is left out: %s", label, problem)
            elif before and not problem:
                _LOG.info("textfile: %s is published again", label)
        self._told = {label: str(problem) for label, problem in problems.items() if problem}


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

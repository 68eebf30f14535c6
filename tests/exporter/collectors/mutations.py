"""Spoils one file of a fixture host at a time, in every way that is known, and looks at what the collectors make of it.

A case is a number: it chooses the host, the file, the way and the bytes, so that a case that failed can be run again. In each
case the collectors that look at the file are asked while it is whole, while it is spoilt, and when it is whole again.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

from hwsonde_exporter.errors import CollectorError, ReadError
from hwsonde_exporter.host import Host, Paths
from hwsonde_exporter.metric import Sample
from hwsonde_exporter.registry import Collector, FastSource
from tests.exporter.collectors.hosts import DENIED, HOSTS, NAMES, DenyingReader, made
from tests.exporter.contracts.test_collectors import check, check_observations

_NUMBER = re.compile(rb"\d+")
_DIGITS = re.compile(r"[0-9a-f]*\d[0-9a-f]*")
_NONSENSE = (
    b"", b"-1", b"-9223372036854775808", b"18446744073709551615", b"18446744073709551616", b"4294967295", b"9" * 400, b"nan", b"inf",
    b"1e999", b"0x1f", b"0", b"65261850", b"-128000", b"1_000", b"\xd9\xa3", b"+5", b" ", b"\t", b"1.5", b"N/A", b"<unknown>", b"\xff\xfe",
)  # fmt: skip
_SEPARATORS = (b"\n", b" ", b":", b"=", b",", b"-", b"/", b"\t", b"(", b")", b'"', b"[", b"]")

# Of those who may look at a file that none of them reads so many are asked.
_ENOUGH = 12

Change = Callable[[bytes, Random], bytes]


def _cut(data: bytes, random: Random) -> bytes:
    return data[: random.randint(0, len(data))]


def _flip(data: bytes, random: Random) -> bytes:
    spoilt = bytearray(data)
    for _ in range(random.randint(1, 8)):
        if spoilt:
            spoilt[random.randrange(len(spoilt))] ^= 1 << random.randrange(8)
    return bytes(spoilt)


def _noise(data: bytes, random: Random) -> bytes:
    return random.randbytes(random.choice((1, 7, 64, len(data), 4097)))


def _nuls(data: bytes, random: Random) -> bytes:
    place = random.randint(0, len(data))
    return data[:place] + bytes(random.choice((1, 8, 512))) + data[place:]


def _numbers(data: bytes, random: Random) -> bytes:
    """Some numbers become others that no counter has."""
    share = random.choice((0.02, 0.3, 1.0))
    return _NUMBER.sub(lambda match: random.choice(_NONSENSE) if random.random() < share else match[0], data)


def _separators(data: bytes, random: Random) -> bytes:
    return data.replace(random.choice(_SEPARATORS), random.choice((*_SEPARATORS, b"", b"\0")))


def _lines(data: bytes, random: Random) -> bytes:
    """Lines come twice, in another order, or not at all."""
    lines = data.split(b"\n")
    lines += random.choices(lines, k=random.randint(0, 9))
    random.shuffle(lines)
    return b"\n".join(lines[random.randrange(len(lines)) :])


def _longer(data: bytes, random: Random) -> bytes:
    return data * random.randint(2, 9)


CHANGES: dict[str, Change] = {
    "truncated": _cut,
    "bits flipped": _flip,
    "random bytes": _noise,
    "empty": lambda _data, _random: b"",
    "nul bytes": _nuls,
    "other numbers": _numbers,
    "other separators": _separators,
    "lines mixed": _lines,
    "repeated": _longer,
}
PLACES = (
    "missing",
    "a folder",
    "a link to itself",
    "a dangling link",
    "without permission",
    "unreadable",
    "an I/O error",
)
# What happens to the folder that the file is in, and to all in it: a device that vanishes.
FOLDERS = ("its folder missing", "its folder a file", "its folder without permission")
# Forty files of a host at once, each in a way of its own.
TOGETHER = "many files"
_SO_MANY = 40
KINDS = (*CHANGES, *PLACES, *FOLDERS, TOGETHER)
ERRORS = {"unreadable": errno.EACCES, "an I/O error": errno.EIO}


class FailingReader(DenyingReader):
    """Refuses one file; reads each file anew where ``keeps`` is false, as if its descriptor had been lost."""

    def __init__(self, denied: tuple[str, ...], *, keeps: bool = False) -> None:
        super().__init__(denied)
        self.keeps = keeps
        self.failing: dict[str, int] = {}
        self.paths: set[str] = set()

    def read(self, path: Path | str) -> bytes:
        return super().read(path) if self.keeps else self.read_once(path)

    def check(self, path: Path | str) -> None:
        key = os.fspath(path)
        self.paths.add(key)
        number = self.failing.get(key)
        if number is not None:
            raise ReadError(f"{key}: {os.strerror(number)}") from OSError(number, os.strerror(number))
        super().check(path)


@dataclass(frozen=True)
class Case:
    """What is done to which file."""

    number: int
    host: str
    file: str
    kind: str

    def __str__(self) -> str:
        return f"case {self.number}: {self.host} {self.file} {self.kind}"


def kind_of(file: str) -> str:
    """What a file has in common with others: all but the numbers, of control groups all but the path."""
    if file.startswith("sys/fs/cgroup/"):
        return f"sys/fs/cgroup/#/{file.rpartition('/')[2]}"
    return _DIGITS.sub("#", file)


Keys = frozenset[tuple[str, tuple[str, ...], str]]


@dataclass
class Bench:
    """Copies of the fixture hosts in a folder, whose files are spoilt and made whole again.

    ``only`` limits the hosts.
    """

    folder: Path
    only: tuple[str, ...] = NAMES
    _files: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    _readers: dict[str, dict[str, set[str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.only:
            root = self.folder / name
            shutil.copytree(HOSTS / name, root, symlinks=True)
            kinds: dict[str, list[str]] = {}
            for path in sorted(root.rglob("*")):
                if path.is_symlink() or path.is_file():
                    file = path.relative_to(root).as_posix()
                    kinds.setdefault(kind_of(file), []).append(file)
            self._files[name] = kinds
            self._readers[name] = self._watch(name)

    def host(self, name: str, *, keeps: bool = False) -> tuple[Host, FailingReader]:
        """A host of the bench and its reader."""
        root = self.folder / name
        reader = FailingReader(DENIED.get(name, ()), keeps=keeps)
        return Host(Paths(root / "proc", root / "sys", root / "root"), reader), reader

    def kinds(self, name: str) -> dict[str, str]:
        """One file of each kind of a host."""
        return {kind: files[0] for kind, files in self._files[name].items()}

    def case(self, number: int) -> Case:
        """The case of a number."""
        random = Random(number)
        name = random.choice(self.only)
        kinds = self._files[name]
        file = random.choice(kinds[random.choice(sorted(kinds))])
        return Case(number, name, file, random.choice(KINDS))

    def run(self, case: Case) -> None:
        """Raise `AssertionError` if a collector does not stand a case."""
        random = Random(case.number + 1)
        keeps = case.kind in CHANGES and random.random() < 0.3
        host, reader = self.host(case.host, keeps=keeps)
        path = self.folder / case.host / case.file
        chosen = self.looking(case, host)
        if len(chosen) > _ENOUGH:
            chosen = random.sample(chosen, _ENOUGH)
        before = {collector.name: ask(collector) for collector in chosen}
        with ExitStack() as stack:
            for other in self._others(case, random):
                stack.enter_context(spoilt(other, random.choice((*CHANGES, *PLACES)), random, reader))
            if case.kind != TOGETHER:
                stack.enter_context(spoilt(path, case.kind, random, reader))
            for collector in chosen:
                if before[collector.name]:
                    collect(collector)
                ask(collector)
        for collector in chosen:
            lost = before[collector.name] - ask(collector)
            assert not lost, f"{collector.name} does not recover {sorted(lost)[:3]}"
        host.files.close()

    def _others(self, case: Case, random: Random) -> list[Path]:
        """Files that are spoilt together, of as many kinds as there is room for; none if only one is."""
        if case.kind != TOGETHER:
            return []
        kinds = self._files[case.host]
        chosen = random.sample(sorted(kinds), min(_SO_MANY, len(kinds)))
        return [self.folder / case.host / random.choice(kinds[kind]) for kind in chosen]

    def looking(self, case: Case, host: Host, *, unread: bool = True) -> list[Collector]:
        """Collectors that read the file; if ``unread``, all where nobody reads it, because somebody may list or open it."""
        path = os.fspath(self.folder / case.host / case.file)
        readers = {name for name, paths in self._readers[case.host].items() if path in paths}
        if case.kind == TOGETHER:
            readers = set()
        if not readers and not unread:
            return []
        return list(made(host, readers or None))

    def _watch(self, name: str) -> dict[str, set[str]]:
        """Files that each collector reads."""
        host, reader = self.host(name)
        found = {}
        for collector in made(host):
            reader.paths = set()
            ask(collector)
            # A file that is read through a link (/proc/net) is read all the same.
            found[collector.name] = reader.paths | {os.path.realpath(path) for path in reader.paths}
        return found


def ask(collector: Any) -> Keys:
    """Probe, collect and observe; check every answer. Gives the series, none if it says that it cannot work here."""
    try:
        collector.probe()
    except CollectorError as error:
        _check_words(error)
        return frozenset()
    return collect(collector)


def collect(collector: Any) -> Keys:
    """Collect and observe, as between two probes."""
    samples: list[Sample] = []
    try:
        samples = list(collector.collect())
    except CollectorError as error:
        _check_words(error)
    check(samples, type(collector).metrics)
    if isinstance(collector, FastSource):
        check_observations(collector)
    return frozenset((sample.metric.name, sample.labels, sample.suffix) for sample in samples)


def _check_words(error: CollectorError) -> None:
    assert str(error), "an error without words"
    assert "\n" not in str(error), str(error)


@contextmanager
def spoilt(path: Path, kind: str, random: Random, reader: FailingReader) -> Iterator[None]:
    """Spoil a file or link for as long as the block lasts."""
    if kind in FOLDERS:
        with _without_folder(path.parent, kind):
            yield
        return
    link = path.readlink() if path.is_symlink() else None
    data = b"" if link is not None else path.read_bytes()
    mode = path.lstat().st_mode
    if kind in CHANGES and link is None:
        # In place: descriptors that are kept must see it.
        path.write_bytes(CHANGES[kind](data, random))
    elif kind in ERRORS:
        reader.failing[os.fspath(path)] = ERRORS[kind]
    elif kind == "without permission" and link is None:
        path.chmod(0)
    else:
        path.unlink()
        _replace(path, kind)
    try:
        yield
    finally:
        reader.failing.clear()
        if kind in CHANGES and link is None:
            path.write_bytes(data)
        elif kind == "without permission" and link is None:
            path.chmod(mode & 0o7777)
        elif kind not in ERRORS:
            _remove(path)
            path.symlink_to(link) if link is not None else path.write_bytes(data)


@contextmanager
def _without_folder(folder: Path, kind: str) -> Iterator[None]:
    mode = folder.stat().st_mode & 0o7777
    aside = folder
    if kind == "its folder without permission":
        folder.chmod(0)
    else:
        # Out of the tree, so that no collector finds it under another name.
        aside = Path(mkdtemp(dir=_root_of(folder).parent)) / "aside"
        folder.rename(aside)
        if kind == "its folder a file":
            folder.write_bytes(b"1\n")
    try:
        yield
    finally:
        if kind == "its folder without permission":
            folder.chmod(mode)
        else:
            _remove(folder)
            aside.rename(folder)
            aside.parent.rmdir()


def _root_of(path: Path) -> Path:
    """The folder that holds a host's proc, sys and root."""
    return next(parent for parent in path.parents if (parent / "proc").is_dir() and (parent / "sys").is_dir())


def _replace(path: Path, kind: str) -> None:
    if kind == "a folder":
        path.mkdir()
        (path / "this").write_bytes(b"1\n")
    elif kind == "a link to itself":
        path.symlink_to(path.name)
    elif kind == "a dangling link":
        path.symlink_to("../nowhere/at_all")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):
            path.unlink()


def failures(bench: Bench, numbers: Iterable[int], kind: str = "") -> Iterator[str]:
    """Run the cases of these numbers, all in one way if there is a ``kind``; give a line for each that fails."""
    for number in numbers:
        case = bench.case(number)
        case = replace(case, kind=kind) if kind else case
        try:
            bench.run(case)
        except Exception as error:  # noqa: BLE001  (whatever it is, it is what is looked for)
            yield f"{case}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"

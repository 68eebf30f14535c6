"""Recorded answers: an append-only file that a crash cannot spoil, and its replay.

The file is a magic line and then records. A record is a header (length of the payload, CRC-32 of the payload, CRC-32 of these two;
three little-endian 32-bit numbers) and a payload, whose first byte says its kind:

- 1, a read: the time it was scored at and the time up to which samples were left out (two signed 64-bit numbers), the warnings
  (32-bit length, JSON) and the server's answers, compressed by zlib;
- 2, a start: the state that the detector began with (32-bit length, JSON, then arrays as npz), or nothing after a cold start;
- 3, what people told before the next read, and what counts as normal from then on (JSON);
- 4, the same, while it is not known yet what else counts as normal: whoever did before does so on, until the next record of kind 2, 3 or 4.

A version that has more to record gives it a new kind and leaves the magic line as it is, as 3 was added after 1 and 2, and 4 after these: what a
reader does not know might change all that follows, so a record of another kind is never passed over. Reading ends there with one line that names
the place and the kind. Recording into such an archive goes on behind it.

A record that a crash or a full disk cut off can only be the last one: reading ends before it, and appending overwrites it.
"""

from __future__ import annotations

import fcntl
import io
import logging
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from hwsonde_detector.errors import ArchiveError, SourceError
from hwsonde_detector.files import open_at_once
from hwsonde_detector.sources.base import Read
from hwsonde_detector.sources.decode import SeriesTable, decode_answers, without_future
from hwsonde_detector.types import SampleBatch
from hwsonde_detector.types.guidance import UNGUIDED, Guidance, guidance_document, read_guidance

Arrays: TypeAlias = Mapping[str, NDArray[Any]]

MAGIC = b"HWSONDE ARCHIVE 1\n"
_HEADER = struct.Struct("<III")
_CHECKED = struct.Struct("<II")
_READ = struct.Struct("<Bqq?I")
_START = struct.Struct("<B?I")
_KIND_READ, _KIND_START, _KIND_GUIDANCE, _KIND_UNSURE = 1, 2, 3, 4
_KINDS = frozenset({_KIND_READ, _KIND_START, _KIND_GUIDANCE, _KIND_UNSURE})
_LEVEL = 1  # of zlib: a tick's cost matters more than the last tenth of the size
_MAX_PAYLOAD = 1 << 31
_UNREADABLE = (struct.error, ValueError, KeyError, TypeError, zlib.error, OSError, EOFError)

logger = logging.getLogger("hwsonde_detector.archive")


@dataclass(frozen=True, slots=True)
class Start:
    """The detector began (again): with this state, or cold where ``document`` is None."""

    document: Mapping[str, Any] | None = None
    arrays: Arrays = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tick:
    """An answer, the time that it was scored at, and what people told with it."""

    now_ms: int
    read: Read
    guidance: Guidance = UNGUIDED


class ArchiveRecorder:
    """Appends answers to a file; never raises while recording.

    Parameters
    ----------
    path
        The file; made where it does not exist, continued where it is an archive.
    max_bytes
        Recording stops before the file is larger.

    Raises
    ------
    ArchiveError
        The file cannot be opened, is no archive, or another process records into it.
    """

    def __init__(self, path: Path, max_bytes: int = 1 << 30) -> None:
        self.path = path
        self.stopped = False
        self._told = UNGUIDED
        self._max_bytes = max_bytes
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise ArchiveError(
                f"{path}: the archive cannot be opened: {error.strerror}; choose another archive.record"
            ) from None
        try:
            self._end = self._begin()
        except OSError as error:
            os.close(self._file)
            raise ArchiveError(
                f"{path}: the archive cannot be continued: {error.strerror}; choose another archive.record"
            ) from None
        except ArchiveError:
            os.close(self._file)
            raise

    def record(self, now_ms: int, read: Read) -> None:
        """Append an answer that was scored at ``now_ms``."""
        if not self.stopped:
            warnings = orjson.dumps(read.warnings)
            head = _READ.pack(_KIND_READ, now_ms, read.since_ms, read.raw is not None, len(warnings))
            self._append(head + warnings + zlib.compress(read.raw or b"", _LEVEL))

    def record_guidance(self, guidance: Guidance) -> None:
        """Append what people told before the next answer; nothing where it is what was told before."""
        lasting = replace(guidance, marks=())
        if not self.stopped and (guidance.marks or lasting != self._told):
            kind = _KIND_UNSURE if guidance.unsure else _KIND_GUIDANCE
            self._append(bytes([kind]) + orjson.dumps(guidance_document(guidance)))
            self._told = lasting

    def record_start(self, document: Mapping[str, Any] | None, arrays: Arrays) -> None:
        """Append that the detector begins with this state (None: cold), so that a replay begins with it too."""
        if self.stopped:
            return
        # A replay that begins here knows of nothing that is normal.
        self._told = UNGUIDED
        if document is None:
            self._append(_START.pack(_KIND_START, False, 0))  # noqa: FBT003 - a field of the record
            return
        text, packed = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY), io.BytesIO()
        # The prefix keeps a name from meeting one of numpy's own parameters.
        np.savez_compressed(packed, allow_pickle=False, **{f"_{name}": array for name, array in arrays.items()})
        self._append(_START.pack(_KIND_START, True, len(text)) + text + packed.getvalue())  # noqa: FBT003

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self.stopped = True

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def _begin(self) -> int:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ArchiveError(
                f"{self.path}: another process records into this archive; choose another archive.record"
            ) from None
        size = os.fstat(self._file).st_size
        if size <= len(MAGIC) and MAGIC.startswith(os.pread(self._file, len(MAGIC), 0)):
            os.ftruncate(self._file, 0)
            self._write(MAGIC, 0)
            return len(MAGIC)
        with os.fdopen(os.dup(self._file), "rb") as file:
            end = _end_of_good(file, self.path, size)
        if end < size:
            logger.warning("%s: the last record was cut off; recording goes on in its place", self.path)
            os.ftruncate(self._file, end)
        return end

    def _append(self, payload: bytes) -> None:
        checked = _CHECKED.pack(len(payload), zlib.crc32(payload))
        record = checked + zlib.crc32(checked).to_bytes(4, "little") + payload
        if self._end + len(record) > self._max_bytes:
            self._stop(
                f"it has reached its largest size of {self._max_bytes} bytes; raise archive.max_size or choose a new archive.record"
            )
            return
        try:
            self._write(record, self._end)
        except OSError as error:
            self._stop(f"{error.strerror}; make room and restart")
        else:
            self._end += len(record)

    def _write(self, data: bytes, at: int) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self._file, view, at)
            view, at = view[written:], at + written

    def _stop(self, why: str) -> None:
        self.stopped = True
        logger.error("%s: recording stopped: %s; scoring goes on", self.path, why)
        try:
            os.ftruncate(self._file, self._end)
        except OSError:
            logger.warning("%s: the cut-off record at its end could not be removed; a replay ends before it", self.path)


class ArchiveSource:
    """Gives recorded answers as they were, in the order in which they were scored.

    Parameters
    ----------
    path
        The archive.

    Attributes
    ----------
    warning
        After all was read: one line where the last record was cut off, None where it was whole.

    Raises
    ------
    ArchiveError
        The file cannot be read, is no archive, is damaged before its last record, or has a record of a kind that is not known (the text names
        the offset).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.warning: str | None = None
        with self._open():
            pass

    def records(self) -> Iterator[Start | Tick]:
        """Give everything, in order."""
        known = SeriesTable()
        self.warning = None
        told, unsure = UNGUIDED, False
        with self._open() as file:
            size, end = os.fstat(file.fileno()).st_size, len(MAGIC)
            for at, length, crc in _walk(file, self.path, size):
                payload = file.read(length)
                if zlib.crc32(payload) != crc:
                    if at + _HEADER.size + length < size:
                        raise ArchiveError(_damaged(self.path, at))
                    break
                _check_kind(payload[0], self.path, at)
                try:
                    record = _decode(payload, known)
                except (*_UNREADABLE, SourceError) as error:
                    raise ArchiveError(f"{_damaged(self.path, at)} ({type(error).__name__})") from None
                end = at + _HEADER.size + length
                if isinstance(record, Guidance):
                    # Versions that knew no kind 4 told so by 3 here and there, and it held for one answer.
                    told, unsure = record, payload[0] == _KIND_UNSURE
                elif isinstance(record, Tick):
                    yield replace(record, guidance=told)
                    told = Guidance(normal=told.normal, unsure=unsure)
                else:
                    told, unsure = UNGUIDED, False
                    yield record
            if end < size:
                self.warning = f"{self.path}: the last record was cut off; all before it was used"

    def span(self) -> tuple[int, int] | None:
        """Times of the earliest and the latest answer, None where there is none; only the heads of the records are read.

        Raises
        ------
        ArchiveError
            The archive is damaged before its last record, or has one of a kind that is not known.
        """
        times: list[int] = []
        with self._open() as file:
            for at, length, crc in _walk(file, self.path, os.fstat(file.fileno()).st_size):
                head = file.read(min(_READ.size, length))
                # What is damaged is of no kind at all, and is told of when it is read.
                if head[0] not in _KINDS and zlib.crc32(head + file.read(length - len(head))) == crc:
                    _check_kind(head[0], self.path, at)
                if len(head) == _READ.size and head[0] == _KIND_READ:
                    times.append(_READ.unpack(head)[1])
        return (min(times), max(times)) if times else None

    def _open(self) -> BinaryIO:
        try:
            file = open_at_once(self.path)
            head = file.read(len(MAGIC))
        except OSError as error:
            raise ArchiveError(f"{self.path}: the archive cannot be read: {error.strerror}; check the path") from None
        if head != MAGIC:
            file.close()
            raise ArchiveError(
                f"{self.path}: this is no archive of this version; give a file that archive.record or `capture` made"
            )
        return file


def _walk(file: BinaryIO, path: Path, size: int) -> Iterator[tuple[int, int, int]]:
    """Give offset, length and CRC of each whole record, the file standing at its payload; end at a record that was cut off."""
    at = len(MAGIC)
    while at < size:
        file.seek(at)
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size:
            return
        length, crc, own = _HEADER.unpack(header)
        if zlib.crc32(header[: _CHECKED.size]) != own or not 0 < length <= _MAX_PAYLOAD:
            if _only_zeros(file, at):
                return
            raise ArchiveError(_damaged(path, at))
        if at + _HEADER.size + length > size:
            return
        yield at, length, crc
        at += _HEADER.size + length


def _end_of_good(file: BinaryIO, path: Path, size: int) -> int:
    """Give the end of the last good record; what lies behind was cut off."""
    if file.read(len(MAGIC)) != MAGIC:
        raise ArchiveError(f"{path}: the file exists and is no archive of this version; choose another archive.record")
    end, last = len(MAGIC), None
    for at, length, crc in _walk(file, path, size):
        end, last = at + _HEADER.size + length, (at, length, crc)
    if last is not None:
        at, length, crc = last
        file.seek(at + _HEADER.size)
        if zlib.crc32(file.read(length)) != crc:
            return at
    return end


def _only_zeros(file: BinaryIO, at: int) -> bool:
    """Whether nothing but zeros follows: a file system may leave them after the power went."""
    file.seek(at)
    while block := file.read(1 << 20):
        if block.strip(b"\0"):
            return False
    return True


def _damaged(path: Path, at: int) -> str:
    return f"{path}: the record at byte {at} is damaged; restore the archive from a copy, or record anew"


def _check_kind(kind: int, path: Path, at: int) -> None:
    if kind not in _KINDS:
        raise ArchiveError(
            f"{path}: the record at byte {at} is of kind {kind}, which this version does not know; read it with the version that recorded it"
        )


def _decode(payload: bytes, known: SeriesTable) -> Start | Tick | Guidance:
    if payload[0] in {_KIND_GUIDANCE, _KIND_UNSURE}:
        return read_guidance(orjson.loads(payload[1:]))
    if payload[0] == _KIND_START:
        _, warm, length = _START.unpack_from(payload)
        if not warm:
            return Start()
        text = payload[_START.size : _START.size + length]
        with np.load(io.BytesIO(payload[_START.size + length :]), allow_pickle=False) as packed:
            return Start(orjson.loads(text), {name[1:]: packed[name] for name in packed.files})
    _, now_ms, since_ms, asked, length = _READ.unpack_from(payload)
    warnings = tuple(orjson.loads(payload[_READ.size : _READ.size + length]))
    if not asked:
        return Tick(now_ms, Read(SampleBatch.empty(), warnings, None, since_ms))
    raw = zlib.decompress(payload[_READ.size + length :])
    batch, _ = decode_answers(raw, since_ms, known)
    batch, future = without_future(batch, now_ms)
    return Tick(now_ms, Read(batch, warnings, raw, since_ms, future))

"""Models and episodes on disk: one file, written whole or not at all, never pickle.

The file ``state.npz`` is an ordinary npz archive that holds a JSON document beside the arrays. Its archive comment, the last bytes of
the file, names the version and the SHA-256 of everything before that digest, so that a single changed or missing byte is noticed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shlex
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.errors import StateError
from hwsonde_detector.files import read_regular

VERSION = 1
FILE_NAME = "state.npz"
_DOCUMENT = "document.json"
_TEMPORARY = FILE_NAME + ".new-"
_TRAILER = re.compile(rb"hwsonde state (\d{6}) sha256 ([0-9a-f]{64})\Z")
_DIGEST_BYTES = 64
_TRAILER_BYTES = len(b"hwsonde state 000000 sha256 ") + _DIGEST_BYTES
# Files set aside are for a person to look at; more of them would only fill the disk.
_KEPT_ASIDE = 3


def save_state(directory: Path, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Replace the state on disk.

    Written to a temporary name in the same directory, flushed to the disk and renamed, so that a reader or a crash sees the old
    state or the new one. The directory is made, for its owner only, if it does not exist.

    Parameters
    ----------
    directory
        Where ``state.npz`` lies.
    document
        JSON values; NaN and Inf are allowed.
    arrays
        Any names; any numeric, boolean or fixed-width text arrays.

    Raises
    ------
    StateError
        If the directory cannot be made or written, the disk is full, or a value cannot be kept. The old file is then untouched.
    """
    content = _encode(document, arrays)
    target = directory / FILE_NAME
    handle, temporary = _begin(directory)
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        sync_directory(directory)
    except OSError as error:
        raise StateError(
            f"{target}: state not written ({error.strerror or error}); the former state is kept"
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def check_directory(directory: Path) -> None:
    """See that a state can be kept there; the directory is made if it does not exist.

    Raises
    ------
    StateError
        If the directory cannot be made or written.
    """
    handle, temporary = _begin(directory)
    os.close(handle)
    with suppress(OSError):
        temporary.unlink()


def _begin(directory: Path) -> tuple[int, Path]:
    """Make the directory and a temporary file in it, open for writing."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=_TEMPORARY, dir=directory)
    except OSError as error:
        how = "name a directory that can be written by state.dir"
        if error.errno in {errno.EACCES, errno.EPERM}:
            how = f"{_permitted(directory)}, or {how}"
        raise StateError(f"{directory}: cannot keep state there ({error.strerror or error}); {how}") from error
    return handle, Path(name)


def _permitted(directory: Path) -> str:
    """What makes a directory writable for this user. What lies in one that exists is to be readable, too."""
    user, named = os.geteuid(), shlex.quote(str(directory))
    try:
        owner = directory.stat().st_uid
    except OSError:
        return f"make it as root by `install -d -m 0700 -o {user} {named}`"
    if owner == user:
        return f"make it writable by `chmod u+rwx {named}`"
    return f"give it to this user as root by `chown -R {user} {named}`"


def load_state(directory: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
    """Read the state, None if there is none.

    A file that is damaged or was written by a newer version is renamed to ``state.npz.damaged-N`` or ``state.npz.newer-N`` (the last 3 of
    each are kept), so the next call finds none and the detector starts cold. Temporary files that a crash left behind are removed.

    Raises
    ------
    StateError
        If the file cannot be read, or was set aside; its text says which and where to.
    """
    target = directory / FILE_NAME
    _remove_temporaries(directory)
    try:
        content = read_regular(target)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{target}: cannot be read ({error.strerror or error}); starting without it") from error
    trailer = _TRAILER.match(content[-_TRAILER_BYTES:])
    if trailer is None or hashlib.sha256(content[:-_DIGEST_BYTES]).hexdigest().encode() != trailer[2]:
        raise StateError(f"{target}: damaged or cut short; {_set_aside(target, 'damaged')}, learning starts anew")
    version = int(trailer[1])
    if version > VERSION:
        aside = _set_aside(target, "newer")
        raise StateError(
            f"{target}: version {version} is newer than this program's {VERSION}; {aside}, learning starts anew"
        )
    try:
        return _decode(content)
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise StateError(
            f"{target}: damaged ({error}); {_set_aside(target, 'damaged')}, learning starts anew"
        ) from error


def peek_state(directory: Path) -> dict[str, Any] | None:
    """Read the document of the state and change nothing: for programs beside the running detector. None where there is no state.

    Raises
    ------
    StateError
        The file cannot be read, is damaged or was written by a newer version; it is left as it is.
    """
    target = directory / FILE_NAME
    try:
        content = read_regular(target)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{target}: cannot be read ({error.strerror or error})") from error
    trailer = _TRAILER.match(content[-_TRAILER_BYTES:])
    if trailer is None or hashlib.sha256(content[:-_DIGEST_BYTES]).hexdigest().encode() != trailer[2]:
        raise StateError(f"{target}: damaged or cut short; it was left as it is")
    if int(trailer[1]) > VERSION:
        raise StateError(
            f"{target}: version {int(trailer[1])} is newer than this program's {VERSION}; it was left as it is"
        )
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            document: dict[str, Any] = json.loads(archive.read(_DOCUMENT))["document"]
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise StateError(f"{target}: damaged ({error}); it was left as it is") from error
    return document


def set_aside(directory: Path) -> str:
    """Rename a state that is whole but fits nothing that runs here to ``state.npz.unfit-N`` (the last 3 are kept).

    Returns
    -------
    str
        What was done, for a line in the log: it never raises, because the detector goes on anyway.
    """
    return _set_aside(directory / FILE_NAME, "unfit")


def _encode(document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    buffer = BytesIO()
    names = sorted(arrays)
    try:
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
            # Arrays go by number and their names into the document: any text is then a safe member of the archive.
            head = {"names": names, "document": document}
            archive.writestr(zipfile.ZipInfo(_DOCUMENT), json.dumps(head, sort_keys=True))
            for number, name in enumerate(names):
                with archive.open(zipfile.ZipInfo(f"{number}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asanyarray(arrays[name]), allow_pickle=False)
            archive.comment = b"hwsonde state %06d sha256 " % VERSION + b"0" * _DIGEST_BYTES
    except (TypeError, ValueError) as error:
        raise StateError(f"state not written, a value cannot be kept: {error}") from error
    content = buffer.getvalue()[:-_DIGEST_BYTES]
    return content + hashlib.sha256(content).hexdigest().encode()


def _decode(content: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    with zipfile.ZipFile(BytesIO(content)) as archive:
        head = json.loads(archive.read(_DOCUMENT))
        arrays = {}
        for number, name in enumerate(head["names"]):
            with archive.open(f"{number}.npy") as member:
                arrays[name] = np.lib.format.read_array(member, allow_pickle=False)
    return head["document"], arrays


def _set_aside(target: Path, why: str) -> str:
    """Rename the file out of the way, over the oldest of its kind if there are enough; say what was done."""
    places = [target.with_name(f"{target.name}.{why}-{number}") for number in range(1, _KEPT_ASIDE + 1)]
    try:
        free = [place for place in places if not place.exists()]
        place = free[0] if free else min(places, key=lambda path: path.stat().st_mtime_ns)
        # Its time becomes that of the renaming, so that the order of setting aside is known next time.
        os.utime(target)
        target.replace(place)
    except OSError as error:
        return f"it could not be renamed ({error.strerror or error})"
    return f"kept as {place.name}"


def _remove_temporaries(directory: Path) -> None:
    for leftover in directory.glob(f"{_TEMPORARY}*"):
        with suppress(OSError):
            leftover.unlink()


def sync_directory(directory: Path) -> None:
    """Flush the names in a directory to the disk; raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

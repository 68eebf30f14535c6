"""A secret of this installation, kept beside the state: for names that stand for others, and for signed links."""

from __future__ import annotations

import hmac
import logging
import os
from contextlib import suppress
from pathlib import Path

log = logging.getLogger("hwsonde_detector.keys")

FILE_NAME = "web.key"
_BYTES = 32


def load_key(directory: Path | None) -> bytes:
    """Read the key, or make one; without a folder, or where none can be kept, it lasts as long as the process (one line says so).

    Parameters
    ----------
    directory
        ``state.dir``.
    """
    if directory is None:
        return os.urandom(_BYTES)
    file = directory / FILE_NAME
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = _read(file)
        if key is None:
            _write(file, os.urandom(_BYTES))
            key = _read(file)
        if key is not None:
            return key
        log.warning("%s: holds no key; remove it, and a new one is made at the next start", file)
    except OSError as error:
        log.warning(
            "%s: no key can be kept (%s); links and names of this run end with it", file, error.strerror or error
        )
    return os.urandom(_BYTES)


def derived(key: bytes, purpose: str) -> bytes:
    """A key for one purpose, which tells nothing of those for others."""
    return hmac.digest(key, purpose.encode(), "sha256")


def _read(file: Path) -> bytes | None:
    try:
        with open(file, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as source:
            content = source.read(_BYTES + 1)
    except FileNotFoundError:
        return None
    return content if len(content) == _BYTES else None


def _write(file: Path, key: bytes) -> None:
    """Under another name first, so that nobody reads half of it; who comes first wins."""
    new = file.with_name(f"{file.name}.new-{os.getpid()}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with open(handle, "wb") as target:
            target.write(key)
            target.flush()
            os.fsync(target.fileno())
        with suppress(FileExistsError):
            os.link(new, file)
    finally:
        new.unlink()

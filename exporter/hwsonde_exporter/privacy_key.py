"""The secret of a host that pseudonyms are made with."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from hwsonde_exporter.privacy import host_key

_MAX_BYTES = 256


def read_host_key(rootfs: Path, procfs: Path) -> bytes:
    """Key of this host: the same after every restart where /etc/machine-id can be read, else until the next boot, else only now."""
    for path in (rootfs / "etc" / "machine-id", procfs / "sys" / "kernel" / "random" / "boot_id"):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                identity = os.read(descriptor, _MAX_BYTES).strip()
            finally:
                os.close(descriptor)
            # An image that was never started holds the word "uninitialized".
            if len(identity) >= 32:
                return host_key(identity)
    return secrets.token_bytes(32)

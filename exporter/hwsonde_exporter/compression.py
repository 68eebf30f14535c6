"""Gzip that costs little: a scrape is compressed once and read once."""

from __future__ import annotations

import gzip
from functools import partial
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable


def gzip_compressor() -> Callable[[bytes], bytes]:
    """Give isal's fast gzip, or the standard library's at level 1 where isal does not exist for the machine."""
    try:
        from isal import igzip  # noqa: PLC0415  (not there on every architecture)
    except ImportError:
        return partial(gzip.compress, compresslevel=1, mtime=0)
    return cast("Callable[[bytes], bytes]", partial(igzip.compress, compresslevel=1))

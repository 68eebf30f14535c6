"""PNG files with a palette, a third of the size of a browser's."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

# Evaluated by the browser, which can read its own pictures.
SCRIPT = Path(__file__).resolve().parents[1] / "render" / "palette.js"
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PALETTE_KIND = 3


def png(width: int, height: int, palette: Sequence[int], indexes: str) -> bytes:
    """The file.

    Parameters
    ----------
    width, height
        Size in pixels.
    palette
        Red, green and blue of each colour, from 0 to 255.
    indexes
        A byte for each pixel, row by row, in base64.
    """
    pixels = base64.b64decode(indexes)
    # Each row begins with the number of its filter; 0 leaves it as it is, which is best for a palette.
    rows = b"".join(b"\0" + pixels[start : start + width] for start in range(0, width * height, width))
    return (
        _SIGNATURE
        + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, _PALETTE_KIND, 0, 0, 0))
        + _chunk(b"PLTE", bytes(palette))
        + _chunk(b"IDAT", zlib.compress(rows, 9))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

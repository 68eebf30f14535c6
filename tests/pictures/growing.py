"""Kernel files whose counters grow as they have grown since the host started."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from tests.e2e.simulated import NUMBER

# What is smaller is a version, a device's number, or an event that a healthy host does not have.
LEAST = 1000
MOST = 2**62
# How much the rate of a counter differs from one look to the next.
NOISE = 0.06


class Growing:
    """A text with counters in it.

    Parameters
    ----------
    text
        As the kernel wrote it ``uptime`` seconds after its start.
    uptime
        In seconds.
    random
        Of the noise.
    every
        Whether all numbers are counters, also the small ones.

    Attributes
    ----------
    values
        The counters' present values, in order.
    """

    def __init__(self, text: bytes, uptime: float, random: np.random.Generator, *, every: bool = False) -> None:
        found: list[int] = []

        def place(match: re.Match[bytes]) -> bytes:
            # One that begins with 0 is a mask of processors.
            number = int(match[0])
            if number > MOST or (match[0].startswith(b"0") and len(match[0]) > 1) or not (every or number >= LEAST):
                return match[0]
            found.append(number)
            return b"%d"

        self._form = NUMBER.sub(place, text.replace(b"%", b"%%"))
        self.values = np.array(found, dtype=np.int64)
        self._rates = np.where(self.values >= LEAST, self.values / uptime, 0.0)
        self._random = random

    def grow(self, seconds: float, factor: float = 1.0) -> None:
        """Let time pass in which everything happens ``factor`` times as often as usual."""
        noise = self._random.normal(1, NOISE, len(self.values)).clip(0)
        self.values += self._random.poisson(self._rates * noise * (seconds * factor))

    def text(self) -> bytes:
        """The text as it is now."""
        return self._form % tuple(self.values.tolist())


class GrowingFile:
    """A `Growing` text in a file that the exporter may keep open."""

    def __init__(self, path: Path, uptime: float, random: np.random.Generator, *, every: bool = False) -> None:
        self.growing = Growing(path.read_bytes(), uptime, random, every=every)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def tick(self, seconds: float, factor: float = 1.0) -> None:
        """Let time pass, and write the file anew."""
        self.growing.grow(seconds, factor)
        self.put(self.growing.text())

    def put(self, text: bytes) -> None:
        """Write a text in place, by one call, so that no reader sees half of it."""
        os.pwrite(self._descriptor, text, 0)
        os.ftruncate(self._descriptor, len(text))

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)


def growing_files(paths: Iterable[Path], uptime: float, random: np.random.Generator) -> list[GrowingFile]:
    """Those of some files that hold counters worth growing."""
    lively = []
    for path in paths:
        file = GrowingFile(path, uptime, random)
        if len(file.growing.values):
            lively.append(file)
        else:
            file.close()
    return lively

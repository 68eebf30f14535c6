"""Values with the time at which they were read; nothing is repeated for longer than it is true."""

from __future__ import annotations

from dataclasses import dataclass

from hwsonde_exporter.exposition import Block

# A scrape that comes this soon after a reading shares it.
COALESCE_SECONDS = 0.1
# A background collector's values are dropped when so many of its periods have passed without new ones.
STALE_PERIODS = 3


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A collector's values.

    ``taken`` is in seconds of the monotonic clock and ``wall`` in seconds since the epoch; both when the reading ended.
    """

    block: Block
    taken: float
    wall: float

    def fresh(self, now: float, period: float | None) -> bool:
        """Whether the values may still be published at monotonic time ``now``.

        Parameters
        ----------
        now
            Seconds of the same clock as ``taken``.
        period
            The collector's period in seconds; None for one that is read when a scrape asks.
        """
        age = now - self.taken
        return age <= (COALESCE_SECONDS if period is None else STALE_PERIODS * period)

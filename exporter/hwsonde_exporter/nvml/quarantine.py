"""What the worker keeps away from, because it hung there before."""

from __future__ import annotations

from dataclasses import dataclass

WHOLE = "*"  # in place of a group: all of the GPU
_FIRST_SECONDS = 30.0
_LONGEST_SECONDS = 600.0
# So long after its end a hang is still remembered, and the next one doubles the time.
_MEMORY_SECONDS = 600.0


@dataclass(slots=True)
class _Entry:
    until: float
    seconds: float


class Quarantine:
    """Groups of calls of a GPU, or all of it, that are left alone for a while.

    The first hang costs a GPU the group that it hung in; one in another group, while the first is remembered, costs it
    everything: each hang costs all other GPUs a restart of the worker, and a card that hangs in two places hangs everywhere.

    GPUs are known here by the driver's number, since one that hangs may not even tell its UUID.
    """

    def __init__(self) -> None:
        self._entries: dict[tuple[int, str], _Entry] = {}

    def add(self, number: int, group: str, *, whole: bool, now: float) -> str:
        """Note a hang at monotonic time ``now``; gives the group that is left out from now on, or `WHOLE`.

        ``whole`` says that the group is not to be had alone, as finding the GPU is not.
        """
        self._forget(now)
        elsewhere = any(known == number and other != group for known, other in self._entries)
        name = WHOLE if whole or elsewhere else group
        again = self._entries.get((number, name))
        seconds = _FIRST_SECONDS if again is None else min(2 * again.seconds, _LONGEST_SECONDS)
        self._entries[number, name] = _Entry(now + seconds, seconds)
        return name

    def devices(self, now: float) -> list[int]:
        """Numbers of the GPUs that are left alone altogether."""
        return sorted(
            number for (number, group), entry in self._entries.items() if group == WHOLE and now < entry.until
        )

    def groups(self, now: float) -> list[tuple[int, str]]:
        """Pairs of GPU and group that are left out."""
        return sorted(
            (number, group) for (number, group), entry in self._entries.items() if group != WHOLE and now < entry.until
        )

    def remaining(self, number: int, now: float) -> dict[str, float]:
        """Seconds until each group of a GPU is tried again, by its name or `WHOLE`."""
        return {
            group: entry.until - now
            for (known, group), entry in sorted(self._entries.items())
            if known == number and now < entry.until
        }

    def clear(self) -> None:
        """Forget everything: the driver was loaded anew."""
        self._entries.clear()

    def _forget(self, now: float) -> None:
        for key in [key for key, entry in self._entries.items() if now > entry.until + _MEMORY_SECONDS]:
            del self._entries[key]

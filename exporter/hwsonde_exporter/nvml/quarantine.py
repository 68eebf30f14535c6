"""What the worker keeps away from, because it hung there before."""

from __future__ import annotations

from dataclasses import dataclass, field

WHOLE = "*"  # in place of a group: all of the GPU
# Groups without which a GPU cannot be asked at all.
FINDING = frozenset({"attach", "identify"})
_FIRST_SECONDS = 30.0
_LONGEST_SECONDS = 600.0
# So long after it was let go a GPU is still remembered, and its next hang is waited out for longer.
_MEMORY_SECONDS = 600.0


@dataclass(slots=True)
class _Case:
    """A GPU that the worker hung in."""

    groups: set[str] = field(default_factory=set)  # where it hung
    whole: bool = True  # nothing is asked of it; else all but the groups
    due: float = 0.0  # when it is tried again
    seconds: float = 0.0  # how long it was waited for
    let_go: float | None = None  # when it was found sound again


class Quarantine:
    """GPUs, and groups of calls to them, that are left alone.

    Each hang costs all other GPUs a restart of the worker. So the first one costs its GPU everything, and what of it still works
    is for a scout to find out (see `hwsonde_exporter.nvml.scout`), in whose way nobody stands. If all works but the group that hung,
    only that is left out, and tried again by a scout after a while; otherwise all is, and tried again ever less often.

    GPUs are known here by the driver's number, since one that hangs may not even tell its UUID.
    """

    def __init__(self) -> None:
        self._cases: dict[int, _Case] = {}

    def hang(self, number: int, group: str, now: float) -> None:
        """Note that the worker hung in a group of a GPU at monotonic time ``now``."""
        case = self._cases.get(number)
        if case is None or (case.let_go is not None and now - case.let_go > _MEMORY_SECONDS):
            # What else works is found out at once.
            case = self._cases[number] = _Case(due=now)
        else:
            case.seconds = min(max(2 * case.seconds, _FIRST_SECONDS), _LONGEST_SECONDS)
            case.due = now + case.seconds
            if case.let_go is not None:
                case.groups.clear()
        case.whole, case.let_go = True, None
        case.groups.add(group)

    def due(self, now: float) -> tuple[int, set[str]] | None:
        """Give a GPU that is to be tried, and the groups that are not to be tried with it; None if there is none now."""
        for number, case in sorted(self._cases.items()):
            if case.let_go is None and now >= case.due:
                first = case.whole and len(case.groups) == 1 and not case.seconds
                return number, set(case.groups) - FINDING if first else set()
        return None

    def passed(self, number: int, left_out: set[str], now: float) -> None:
        """Note that a trial without the groups that were left out came back."""
        case = self._cases.get(number)
        if case is None or case.let_go is not None:
            return
        case.whole = False
        case.groups = set(left_out)
        case.seconds = min(max(2 * case.seconds, _FIRST_SECONDS), _LONGEST_SECONDS)
        case.due = now + case.seconds
        if not left_out:
            case.let_go = now

    def failed(self, number: int, group: str, now: float) -> None:
        """Note that a trial hung in a group, or did not come back for another reason (an empty text)."""
        case = self._cases.get(number)
        if case is None or case.let_go is not None:
            return
        if group and group not in case.groups:
            case.groups.add(group)
            case.whole = case.whole or len(case.groups) > 1
        case.seconds = min(max(2 * case.seconds, _FIRST_SECONDS), _LONGEST_SECONDS)
        case.due = now + case.seconds

    def devices(self) -> list[int]:
        """Numbers of the GPUs that are left alone altogether."""
        return sorted(number for number, case in self._cases.items() if case.whole)

    def groups(self) -> list[tuple[int, str]]:
        """Pairs of GPU and group that are left out of those that are asked."""
        return sorted(
            (number, group) for number, case in self._cases.items() if not case.whole for group in case.groups
        )

    def remaining(self, number: int, now: float) -> dict[str, float]:
        """Seconds until each group of a GPU is tried again, by its name or `WHOLE`."""
        case = self._cases.get(number)
        if case is None or case.let_go is not None:
            return {}
        names = [WHOLE] if case.whole else sorted(case.groups)
        return dict.fromkeys(names, max(0.0, case.due - now))

    def clear(self) -> None:
        """Forget everything: the driver was loaded anew."""
        self._cases.clear()

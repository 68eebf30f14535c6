"""How much memory this process may still take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PROC, _GROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def memory_left(proc: Path = _PROC, groups: Path = _GROUPS) -> int | None:
    """Bytes: what the machine has available, or what the control groups of this process allow, whichever is less; None where nobody says.

    Parameters
    ----------
    proc, groups
        Where the kernel tells of processes and of control groups.
    """
    known = [*_of_machine(proc), *_of_groups(proc, groups)]
    return max(min(known), 0) if known else None


def _of_machine(proc: Path) -> Iterator[int]:
    for line in _read(proc / "meminfo").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            yield int(rest.split()[0]) * 1024


def _of_groups(proc: Path, groups: Path) -> Iterator[int]:
    """What each group that this process is in, and each one above, leaves; of both versions of control groups."""
    for line in _read(proc / "self" / "cgroup").splitlines():
        _, kinds, path = (*line.split(":", 2), "", "")[:3]
        if kinds and "memory" not in kinds.split(","):
            continue
        root = groups / "memory" if kinds else groups
        most, used = ("memory.limit_in_bytes", "memory.usage_in_bytes") if kinds else ("memory.max", "memory.current")
        below = Path(path.lstrip("/"))
        # In a container the group may be called as its host calls it, and be seen at the root.
        for place in dict.fromkeys([root / below, *(root / one for one in below.parents), root]):
            limit, now = _number(place / most), _number(place / used)
            if limit is not None and now is not None:
                yield limit - now + _cached(place / "memory.stat")


def _cached(path: Path) -> int:
    """Bytes of files that the kernel lets go of before it refuses anything."""
    for line in _read(path).splitlines():
        name, _, value = line.partition(" ")
        if name in {"inactive_file", "total_inactive_file"} and value.strip().isdecimal():
            return int(value)
    return 0


def _number(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if text.isdecimal() else None


def _read(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="ascii", errors="replace")
    return ""

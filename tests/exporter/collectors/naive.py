"""Slow, obvious twins of the fast parsers."""

from __future__ import annotations

import re


def number_after(data: bytes, key: bytes) -> int | None:
    """Try every line from the last to the first; the key is the line's beginning, with the end of the line before it."""
    rows = data.split(b"\n")
    for row in reversed(range(1, len(rows))):
        if rows[row].startswith(key[1:]):
            if row == len(rows) - 1:
                return None  # its end was not read
            token = rows[row][len(key) - 1 :].split(b" ")[0]
            return int(token) if re.fullmatch(rb"[0-9]{1,20}", token) else None
    return None


def cpu_list(data: bytes) -> list[int]:
    """Ask of every CPU whether some part of the list names it."""
    found = []
    for cpu in range(300):
        for part in data.strip().split(b","):
            match = re.fullmatch(rb"([0-9]{1,20})(?:-([0-9]{1,20}))?", part)
            if match and int(match[1]) <= cpu <= int(match[2] or match[1]) < 1 << 16:
                found.append(cpu)
                break
    return found


def busy_share(before: list[int], after: list[int]) -> float:
    """Share of the time between two first lines of /proc/stat (8 columns each) that was neither idle nor iowait."""
    spent = [last - first for first, last in zip(before, after, strict=True)]
    return (sum(spent) - spent[3] - spent[4]) / sum(spent)

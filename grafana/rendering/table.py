"""What the pictures show: a table of panels, and which of them are empty that must not be."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

# What a table says whose board gives no reason for being empty.
NO_REASON = frozenset({"", "nothing"})
_KINDS = {"timeseries": ("line", "lines"), "table": ("row", "rows"), "stat": ("number", "numbers")}


@dataclass(frozen=True, slots=True)
class Shown:
    """What one panel of one board shows.

    Attributes
    ----------
    board, row, title, kind
        Which panel; ``kind`` as Grafana has it.
    count
        Lines with a value, rows, or numbers.
    excuse
        What the board says where it may rightly be empty; "" where it may not.
    error
        What went wrong; "" if nothing did.
    """

    board: str
    row: str
    title: str
    kind: str
    count: int
    excuse: str = ""
    error: str = ""

    @classmethod
    def of(cls, board: str, report: Mapping[str, Any]) -> Shown:
        """From what the page says of a panel."""
        excuse = report["excuse"]
        return cls(
            board, report["row"], report["title"], report["type"], report["shown"],
            "" if excuse in NO_REASON else excuse, report["error"],
        )  # fmt: skip

    def is_wrong(self, *, strict: bool = False) -> bool:
        """Whether it failed, or is empty without an excuse that counts."""
        return bool(self.error) or (self.count == 0 and (strict or not self.excuse))

    def words(self) -> str:
        """What it shows, in words."""
        if self.error:
            return f"fails: {self.error}"
        if self.count == 0:
            return f"empty: {self.excuse}" if self.excuse else "EMPTY"
        one, many = _KINDS.get(self.kind, ("series", "series"))
        return f"{self.count} {one if self.count == 1 else many}"


def markdown(shown: Sequence[Shown]) -> str:
    """The table."""
    lines = ["| board | row | panel | shows |", "| --- | --- | --- | --- |"]
    lines += [f"| {one.board} | {one.row} | {one.title} | {one.words()} |".replace("\n", " ") for one in shown]
    return "\n".join(lines) + "\n"


def to_json(shown: Sequence[Shown]) -> str:
    """The same for programs."""
    return json.dumps([asdict(one) for one in shown], indent=1, ensure_ascii=False) + "\n"


def verdict(shown: Sequence[Shown], *, strict: bool = False) -> str:
    """One line about all panels that are wrong; "" if there is none."""
    wrong = list(
        dict.fromkeys(f"{one.board} / {one.title} ({one.words()})" for one in shown if one.is_wrong(strict=strict))
    )
    return f"{len(wrong)} of {len(shown)} panels must be repaired: {'; '.join(wrong)}" if wrong else ""

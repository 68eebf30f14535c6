"""The page that shows the pictures, with the table of their panels below."""

from __future__ import annotations

from collections.abc import Sequence

from grafana.generate import BOARDS
from grafana.render_boards import file_name
from grafana.rendering.table import Shown

COMMAND = "python -m tests.pictures docs/images"
_HEAD = f"""# Pictures of the boards

Made by `{COMMAND}`; do not edit by hand.

Every board, drawn by Grafana's own components from a real Prometheus. The cluster is made up: `gpu-01` trains on eight GPUs, and five virtual
machines are alike, but for a setting of `node-02` and one that was just changed on `node-04`. At the right edge of the graphs the cooling of a GPU of
`gpu-01` fails, and `node-03` is busy; tables and tiles show this moment. Each picture has a twin in light colours.
"""
_TABLE = """
## What the panels show

Lines are counted that have a value in the time that is shown; a panel without any fails the command that makes this page.
"""


def page(shown: Sequence[Shown]) -> str:
    """The page's text."""
    parts = [_HEAD]
    for board in BOARDS:
        dark, light = (file_name(board.name, theme) for theme in ("dark", "light"))
        parts.append(
            f"\n## {board.name}\n\n{board.text} [The same in light colours]({light}).\n\n![The board {board.name}]({dark})\n"
        )
    parts += [_TABLE, "\n| board | row | panel | shows |\n| --- | --- | --- | --- |\n"]
    parts += [f"| {one.board} | {one.row} | {one.title} | {one.words()} |\n" for one in shown]
    return "".join(parts)

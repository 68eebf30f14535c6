"""For every alert one case in which it fires and one in which it stays silent."""

from __future__ import annotations

from tests.rules.table import alive, boards, gpus, hosts, networks, storages, upkeeps
from tests.rules.table.row import Row

ROWS: tuple[Row, ...] = (
    *alive.ROWS, *hosts.ROWS, *gpus.ROWS, *networks.ROWS, *storages.ROWS, *boards.ROWS, *upkeeps.ROWS,
)  # fmt: skip

"""Cases of the alerts about targets that do not answer."""

from __future__ import annotations

from tests.rules.table.row import DETECTOR, Row, series, steady, turned

OTHER = {**DETECTOR, "instance": "d2:9881", "node": "d2"}

ROWS = (
    Row("HwsondeExporterDown", {series("up"): turned(1, 0)}, {series("up"): "1+0x60 0 1+0x200"}),
    Row("HwsondeDetectorDown", {series("up", DETECTOR): turned(1, 0)}, {series("up", DETECTOR): turned(1, 0), series("up", OTHER): steady(1)}),
    Row(
        "HwsondeDetectorReplicaDown",
        {series("up", DETECTOR): turned(1, 0), series("up", OTHER): steady(1)},
        {series("up", DETECTOR): steady(1), series("up", OTHER): steady(1)},
    ),
)  # fmt: skip

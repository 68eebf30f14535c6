"""Writes the dashboards' JSON: ``python -m grafana.generate`` renews the committed files.

``--detector-url`` sets where links to the detector's page lead, ``--output`` the folder, for a site of one's own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from grafana.boards import detector, explorer, fleet, gpu, host, network, settings
from grafana.boards.frame import Board, build

FOLDER = Path(__file__).resolve().parent / "dashboards"
DETECTOR_URL = "http://localhost:9881"


BOARDS: tuple[Board, ...] = (
    fleet.BOARD, host.BOARD, gpu.BOARD, network.BOARD, settings.BOARD, explorer.BOARD, detector.BOARD,
)  # fmt: skip


def document(board: Board, detector_url: str) -> dict[str, Any]:
    """A board as plain values: what the SDK makes, with numbered panels and with texts for the annotations."""
    made: dict[str, Any] = json.loads(JSONEncoder(sort_keys=True).encode(build(board, detector_url).build()))
    for number, panel in enumerate(made["panels"], start=1):
        panel["id"] = number
    for variable in made["templating"]["list"]:
        # The SDK gives every variable the keys of an interval variable, which Grafana's schema refuses elsewhere.
        for key in ("auto", "auto_count", "auto_min"):
            variable.pop(key, None)
    for annotation in made["annotations"]["list"]:
        # The SDK's model has no room for these, which Grafana's Prometheus source reads.
        annotation |= {
            "titleFormat": "{{subsystem}} deviates" if board.of_host else "{{node}}: {{subsystem}} deviates",
            "textFormat": "open episode",
            "tagKeys": "subsystem" if board.of_host else "node,subsystem",
            "step": "5s",
        }
    return made


def text(board: Board, detector_url: str) -> str:
    """A board's file."""
    return json.dumps(document(board, detector_url), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files; status 2 and one line when the folder cannot be written."""
    parser = argparse.ArgumentParser(prog="python -m grafana.generate", description="Write the dashboards.")
    parser.add_argument(
        "--detector-url", default=DETECTOR_URL, help="the detector's page, as operators reach it (default: %(default)s)"
    )
    parser.add_argument("--output", type=Path, default=FOLDER, help="folder to write to (default: grafana/dashboards)")
    given = parser.parse_args(arguments)
    try:
        given.output.mkdir(parents=True, exist_ok=True)
        for board in BOARDS:
            path = given.output / f"{board.name}.json"
            path.write_text(text(board, given.detector_url), encoding="utf-8")
    except OSError as error:
        print(f"generate: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

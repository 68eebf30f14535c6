"""Where things are: ports, directories, and the options that a stack is made from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from quickstart.errors import QuickstartError

ROOT = Path(__file__).resolve().parents[2]
PORT_BASE = 19880
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Ports:
    """Loopback ports of the five programs."""

    exporter: int
    detector: int
    prometheus: int
    alertmanager: int
    events: int

    @staticmethod
    def from_base(base: int) -> Ports:
        """Five ports in a row, beginning with ``base``.

        Raises
        ------
        QuickstartError
            If they would not all be ports that an ordinary user may open.
        """
        if not 1024 <= base <= 65535 - len(fields(Ports)):
            raise QuickstartError(f"--port-base {base}: give a number from 1024 to {65535 - len(fields(Ports))}")
        return Ports(*range(base, base + len(fields(Ports))))

    def named(self) -> dict[str, int]:
        """Port by the name of its program."""
        return {place.name: getattr(self, place.name) for place in fields(self)}


@dataclass(frozen=True, slots=True)
class Options:
    """What a stack is made from.

    Attributes
    ----------
    data
        Directory that keeps everything that is written.
    ports
        Where the programs listen, on loopback.
    node, cluster
        Entity labels of this host.
    key_file
        File with a PagerDuty Events v2 integration key; None: pages go to the stand-in on loopback.
    scrape_ms
        Scrape and rule interval in milliseconds.
    detector
        Merged over the detector's generated configuration, section by section.
    exporter
        More of the exporter's flags.
    """

    data: Path
    ports: Ports
    node: str
    cluster: str = "local"
    key_file: Path | None = None
    scrape_ms: int = 1000
    detector: Mapping[str, Any] = field(default_factory=dict)
    exporter: tuple[str, ...] = ()

    @property
    def scrape_timeout_ms(self) -> int:
        """How long a scrape may take, in milliseconds."""
        return self.scrape_ms * 9 // 10

    @property
    def config(self) -> Path:
        """Generated configuration files."""
        return self.data / "config"

    @property
    def logs(self) -> Path:
        """One log a program."""
        return self.data / "logs"

    @property
    def state(self) -> Path:
        """The detector's models and episodes."""
        return self.data / "detector"

    @property
    def events_log(self) -> Path:
        """What the stand-in for PagerDuty received, one JSON object a line."""
        return self.data / "events.jsonl"


def default_data(environment: Mapping[str, str] = os.environ) -> Path:
    """The user's state directory for this program, by the XDG rules."""
    state = environment.get("XDG_STATE_HOME", "")
    # A relative path there must be ignored, says the XDG base directory specification.
    base = Path(state) if state.startswith("/") else Path(environment.get("HOME") or "/tmp") / ".local" / "state"  # noqa: S108  # the last resort of an account without a home
    return base / "hwsonde"


def url(port: int, path: str = "") -> str:
    """Address of a port on loopback."""
    return f"http://{LOOPBACK}:{port}{path}"

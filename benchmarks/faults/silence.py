"""The shipped rule for an exporter that does not answer (`HwsondeExporterDown`), followed over a recording. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from alert_rules.timing import FAST, FLEET
from benchmarks.faults.alarms import Alarm
from benchmarks.faults.labels import DATA
from benchmarks.faults.stage import JOB
from hwsonde_detector.types import SampleBatch

_FAST_MS = 1000 * FAST.evaluation
"""Scrapes that come no slower have the profile ``fast``."""


def down_ms(every_ms: int) -> int:
    """How long a target must be away before the rule of the profile for this scrape interval fires."""
    return 1000 * (FAST if every_ms <= _FAST_MS else FLEET).down


@dataclass(slots=True)
class Silence:
    """Alarms of hosts whose scrapes fail for so long.

    Parameters
    ----------
    wait_ms
        How long.
    """

    wait_ms: int
    alarms: dict[str, list[Alarm]] = field(default_factory=dict)
    _since: dict[str, int] = field(default_factory=dict)
    _open: dict[str, Alarm] = field(default_factory=dict)

    def take(self, batch: SampleBatch) -> None:
        """Take one tick's samples of the exporter's ``up``."""
        for place, series in enumerate(batch.series):
            labels = dict(series.labels)
            if series.name == "up" and labels.get("job") == JOB:
                node = labels.get("node", "")
                begin, end = int(batch.offsets[place]), int(batch.offsets[place + 1])
                for at_ms, value in zip(batch.times[begin:end].tolist(), batch.values[begin:end].tolist(), strict=True):
                    self._see(node, at_ms, answered=value != 0)

    def _see(self, node: str, at_ms: int, *, answered: bool) -> None:
        if answered:
            self._since.pop(node, None)
            self._open.pop(node, None)
            return
        since = self._since.setdefault(node, at_ms)
        if node in self._open:
            self._open[node].end_ms = at_ms
        elif at_ms - since >= self.wait_ms:
            self._open[node] = alarm = Alarm(node, at_ms, at_ms, DATA)
            self.alarms.setdefault(node, []).append(alarm)

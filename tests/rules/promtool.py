"""Runs promtool's unit tests on rules that are made in memory."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from alert_rules.generate import rule_file
from alert_rules.rules import Links
from alert_rules.timing import Timing

EXPORTER_UP = 'up{job="hwsonde-exporter",instance="n1:9880",cluster="a",node="n1"}'
DETECTOR_UP = 'up{job="hwsonde-detector",instance="d1:9881",cluster="a",node="d1"}'
WINDOW_END = (
    'hwsonde_anomaly_window_end_timestamp_seconds{job="hwsonde-detector",instance="d1:9881",cluster="a",node="n1"}'
)
LONG = 100_000  # samples: longer than any case looks


@dataclass(slots=True)
class Case:
    """Samples of some series, one every evaluation, and how many alerts fire at which second."""

    timing: Timing
    series: dict[str, str] = field(default_factory=dict)
    expected: list[dict[str, Any]] = field(default_factory=list)

    def samples(self, *parts: tuple[str, int]) -> str:
        """Give promtool's notation: each part is a value (``_`` missing, ``stale``) and for how many seconds it lasts."""
        written = []
        for value, seconds in parts:
            count = -(-seconds // self.timing.evaluation)
            written.append(
                "stale" if value == "stale" else f"{value}x{count}" if value == "_" else f"{value}+0x{count - 1}"
            )
        return " ".join(written)

    def firing(self, alertname: str, at: int, count: int) -> None:
        """Expect that many alerts of that name at that second."""
        self.value(f'count(ALERTS{{alertname="{alertname}",alertstate="firing"}}) or vector(0)', at, count)

    def value(self, expr: str, at: int, value: float) -> None:
        """Expect one sample without labels."""
        self.expected.append({"expr": expr, "eval_time": f"{at}s", "exp_samples": [{"labels": "{}", "value": value}]})

    def run(self, folder: Path) -> subprocess.CompletedProcess[str]:
        """Ask promtool."""
        (folder / "rules.yml").write_text(rule_file(self.timing, Links()))
        interval = f"{self.timing.evaluation}s"
        series = [{"series": name, "values": values} for name, values in self.series.items()]
        test = {"interval": interval, "input_series": series, "promql_expr_test": self.expected}
        (folder / "test.yml").write_text(
            yaml.safe_dump({"rule_files": ["rules.yml"], "evaluation_interval": interval, "tests": [test]})
        )
        return subprocess.run(
            ["promtool", "test", "rules", "test.yml"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def check(self, folder: Path) -> None:
        """Fail with promtool's own words."""
        assert self.expected
        done = self.run(folder)
        assert done.returncode == 0, done.stdout + done.stderr

"""Runs promtool's unit tests on rules that are made in memory."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from alert_rules.generate import to_yaml
from alert_rules.rules import groups
from alert_rules.timing import FAST, Timing
from alert_rules.writing import Links

EXPORTER_UP = 'up{job="hwsonde-exporter",instance="n1:9880",cluster="a",node="n1"}'
DETECTOR_UP = 'up{job="hwsonde-detector",instance="d1:9881",cluster="a",node="d1"}'
WINDOW_END = (
    'hwsonde_anomaly_window_end_timestamp_seconds{job="hwsonde-detector",instance="d1:9881",cluster="a",node="n1"}'
)
LONG = 100_000  # samples: longer than any case looks


def rules_about(timing: Timing, expressions: Iterable[str]) -> str:
    """Give a rule file with those groups whose alerts are named (or their names begun), or with all where none is.

    promtool evaluates every group of a file at every step, whether anybody asks for it or not.
    """
    named = {name for expr in expressions for name in re.findall(r"Hwsonde\w+", expr)}
    every = groups(timing, Links())
    found = [
        group
        for group in every
        if any(str(rule.get("alert", "")).startswith(name) for rule in group["rules"] for name in named)
    ]
    return to_yaml({"groups": found or every})


def run_promtool(folder: Path, *files: str) -> None:
    """Run promtool's unit tests; fail with promtool's own words."""
    done = subprocess.run(
        ["promtool", "test", "rules", *files], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def check_words(file: Path, folder: Path) -> None:
    """Run a file of tests that pin what pages say, with the rules that they need."""
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert document["rule_files"] == ["../../alert_rules/fast.yml"]
    names = {str(case["alertname"]) for test in document["tests"] for case in test["alert_rule_test"]}
    (folder / "rules.yml").write_text(rules_about(FAST, names), encoding="utf-8")
    document["rule_files"] = ["rules.yml"]
    (folder / "test.yml").write_text(yaml.safe_dump(document, width=1_000_000), encoding="utf-8")
    run_promtool(folder, "test.yml")


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
        (folder / "rules.yml").write_text(rules_about(self.timing, [one["expr"] for one in self.expected]))
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

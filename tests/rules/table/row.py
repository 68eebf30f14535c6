"""One alert's two cases, and how they become promtool's tests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from alert_rules.writing import Links, Rule

STEP = 30  # seconds between two samples, in both profiles
LOOK = 3600  # second at which a firing alert is looked at: all that an alert waits for is over
LONG = 2 * LOOK // STEP
HOST = {"job": "hwsonde-exporter", "instance": "n1:9880", "cluster": "a", "node": "n1"}
DETECTOR = {"job": "hwsonde-detector", "instance": "d1:9881", "cluster": "a", "node": "d1"}
JUDGED = {"job": "hwsonde-detector", "instance": "d1:9881", "cluster": "a", "node": "n1"}


def series(name: str, base: Mapping[str, str] = HOST, /, **labels: str) -> str:
    """Give a series of the host n1, or of another ``base``, as promtool reads it."""
    named = ",".join(f'{label}="{value}"' for label, value in {**base, **labels}.items())
    return f"{name}{{{named}}}"


def steady(value: float) -> str:
    """Samples that stay as they are."""
    return f"{value}+0x{LONG}"


def turned(before: float, after: float) -> str:
    """Samples that are one value for a quarter of an hour, and another one from then on."""
    return f"{before}+0x29 {after}+0x{LONG}"


def grown(a_minute: float) -> str:
    """A counter that grows by so much a minute."""
    return f"0+{a_minute * STEP / 60}x{LONG}"


def jumped(count: int) -> str:
    """A counter that stands at 0 until it jumps, ten minutes before it is looked at."""
    return f"0+0x{(LOOK - 600) // STEP} {count}+0x{LONG}"


@dataclass(frozen=True, slots=True)
class Row:
    """An alert with the series that make it fire and those, of the same names, that must not.

    Attributes
    ----------
    labels
        Labels of the alert beyond severity and team.
    summary
        What its page says; None where a file of pinned words has it.
    look
        Second at which it is looked at.
    also
        Further series of which each alone must make it fire: one for each further branch of its condition.
    """

    name: str
    fires: Mapping[str, str]
    silent: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=lambda: dict(HOST))
    summary: str | None = None
    look: int = LOOK
    also: tuple[Mapping[str, str], ...] = ()

    def metrics(self, of: Mapping[str, str]) -> set[str]:
        """Names of the series of one of the cases."""
        return {name.split("{", maxsplit=1)[0] for name in of}

    def words(self, rule: Rule, links: Links) -> dict[str, Any]:
        """What promtool is to find of its page: that it fires, once, and says what it should."""
        own = rule["annotations"]
        ours = rule["labels"]
        assert isinstance(own, dict)
        assert isinstance(ours, dict)
        assert "{{" not in own["description"], "pin the words of this alert by hand"
        node, cluster = self.labels.get("node"), self.labels.get("cluster")
        host = f"{f'{cluster}%2F' if cluster else ''}{node}" if node else ""
        alert = {
            "exp_labels": {**self.labels, **ours},
            "exp_annotations": {
                **own,
                "summary": self.summary,
                "dashboard_url": f"{links.detector}/{f'#host={host}' if host else ''}",
                "incidents_url": f"{links.detector}/incidents?{f'node={host}&' if host else ''}state=open",
                "runbook_url": f"{links.runbooks}/{self.name}.md",
            },
        }
        return {"eval_time": f"{self.look}s", "alertname": self.name, "exp_alerts": [alert]}

    def expectations(self, firing: int, cluster: str) -> list[dict[str, Any]]:
        """What promtool is to find in that cluster: the alert fires, or never did; for a test that holds many rows."""
        matcher = f'ALERTS{{alertname="{self.name}",alertstate="firing",cluster="{cluster}"}}'
        counted = matcher if firing else f"count_over_time({matcher}[{self.look}s])"
        samples = [{"labels": "{}", "value": firing}]
        return [
            {"expr": f"count({counted}) or vector(0)", "eval_time": f"{self.look}s", "exp_samples": samples},
        ]

    def in_cluster(self, cluster: str) -> Row:
        """The same in another cluster."""
        labels = {**self.labels, "cluster": cluster} if "cluster" in self.labels else self.labels
        fires = {name.replace('cluster="a"', f'cluster="{cluster}"'): values for name, values in self.fires.items()}
        summary = (
            self.summary.replace("a/", f"{cluster}/", 1) if self.summary and "cluster" in self.labels else self.summary
        )
        return replace(self, fires=fires, labels=labels, summary=summary)

    def without_cluster(self) -> Row:
        """The same where no target has the label ``cluster``."""

        def bare(of: Mapping[str, str]) -> dict[str, str]:
            return {re.sub(r'cluster="a",', "", name): values for name, values in of.items()}

        labels = {label: value for label, value in self.labels.items() if label != "cluster"}
        summary = self.summary.replace("a/", "", 1) if self.summary and "cluster" in self.labels else self.summary
        return Row(
            self.name, bare(self.fires), bare(self.silent), labels, summary, self.look, tuple(map(bare, self.also))
        )


def moved(of: Mapping[str, str], cluster: str) -> dict[str, str]:
    """Give the series in a cluster of their own, with GPUs of their own, so that many cases fit into one test."""

    def place(name: str) -> str:
        return name.replace('cluster="a"', f'cluster="{cluster}"').replace('"GPU-', f'"GPU-{cluster}-')

    return {place(name): values for name, values in of.items()}


def inputs(of: Mapping[str, str]) -> list[dict[str, str]]:
    """Give the series as promtool reads them."""
    return [{"series": name, "values": values} for name, values in of.items()]

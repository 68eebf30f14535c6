"""The Alertmanager configuration of one timing profile, as plain values. No input, no output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from alert_rules.timing import Timing, duration

# PagerDuty refuses an event without a source, and an alert may have no host: a cluster without a detector, a job without targets.
_HOST = (
    "{{ if or .CommonLabels.node .CommonLabels.instance }}{{ with .CommonLabels.cluster }}{{ . }}/{{ end }}"
    '{{ or .CommonLabels.node .CommonLabels.instance }}{{ else }}{{ or .CommonLabels.cluster "several hosts" }}{{ end }}'
)

# PagerDuty refuses an event without a summary and the page is lost. Alerts of one group whose summaries differ have no common
# one, and rules of others may have none at all; both must still page.
_SUMMARY = (
    "{{ if .CommonAnnotations.summary }}{{ .CommonAnnotations.summary }}"
    f'{{{{ else }}}}{{{{ or .CommonLabels.alertname "Alert" }}}} on {_HOST}'
    "{{ range .Alerts.Firing }}{{ with .Annotations.summary }} | {{ . }}{{ end }}{{ end }}{{ end }}"
)


@dataclass(frozen=True, slots=True)
class PagerDuty:
    """Where pages go.

    Attributes
    ----------
    url
        Address of the Events API v2.
    routing_key_file
        File with the integration's key, read by Alertmanager for every page; the key itself is in no configuration.
    """

    url: str = "https://events.pagerduty.com/v2/enqueue"
    routing_key_file: str = "/etc/hwsonde/pagerduty.key"

    def __post_init__(self) -> None:
        address = urlsplit(self.url)
        if address.scheme not in {"http", "https"} or not address.netloc:
            raise ValueError(f"PagerDuty's address {self.url!r}: give an http or https address")
        if not self.routing_key_file:
            raise ValueError("the routing key's file: give a path")


def _each(annotation: str) -> str:
    """Give an annotation of every firing alert, one a line; the lines of a resolve are empty."""
    return f"{{{{ range $i, $a := .Alerts.Firing }}}}{{{{ if $i }}}}\n{{{{ end }}}}{{{{ $a.Annotations.{annotation} }}}}{{{{ end }}}}"


def _web_address(annotation: str) -> str:
    """Give an annotation's address if it is one for a browser; Alertmanager leaves out a link whose address is empty."""
    return f'{{{{ if match "^https?://" .CommonAnnotations.{annotation} }}}}{{{{ .CommonAnnotations.{annotation} }}}}{{{{ end }}}}'


def _receiver() -> dict[str, Any]:
    return {
        "send_resolved": True,
        "description": _SUMMARY,
        "severity": '{{ or .CommonLabels.severity "critical" }}',
        "client": "hwsonde",
        "source": _HOST,
        "client_url": "{{ or .CommonAnnotations.dashboard_url .ExternalURL }}",
        "class": "{{ .CommonLabels.alertname }}",
        "component": "{{ .CommonLabels.subsystem }}",
        "group": _HOST,
        "details": {
            "host": _HOST,
            "subsystem": _each("subsystem"),
            "score": _each("score"),
            "top_channels": _each("top_channels"),
            "description": _each("description"),
            "runbook": "{{ .CommonAnnotations.runbook_url }}",
            "page": "{{ .CommonAnnotations.dashboard_url }}",
        },
        "links": [
            {"href": _web_address("dashboard_url"), "text": "The host on the detector's page"},
            {"href": _web_address("runbook_url"), "text": "Runbook"},
        ],
    }


def _inhibition(cause: str, symptoms: str, equal: list[str]) -> dict[str, Any]:
    return {
        "source_matchers": [f'alertname="{cause}"'],
        "target_matchers": [f'alertname=~"{symptoms}"'],
        "equal": equal,
    }


def configuration(timing: Timing, target: PagerDuty) -> dict[str, Any]:
    """Give the whole configuration: critical alerts of the team page, everything else only shows in Alertmanager and on our page."""
    times = {
        "group_wait": duration(timing.group_wait),
        "group_interval": duration(timing.group_interval),
        "repeat_interval": duration(timing.repeat),
    }
    return {
        "global": {"pagerduty_url": target.url},
        "route": {
            "receiver": "shown-only",
            "group_by": ["alertname", "cluster", "node"],
            **times,
            "routes": [
                {
                    "matchers": ['team="hardware"', 'severity="critical"'],
                    "receiver": "pagerduty",
                    "routes": [
                        # One detector that stalls is one incident, however many hosts it judges.
                        {"matchers": ['alertname=~"HwsondeDetector.*"'], "group_by": ["alertname", "cluster"]},
                    ],
                },
            ],
        },
        # Cause over symptom.
        "inhibit_rules": [
            _inhibition(
                "HwsondeExporterDown",
                "HwsondeHostAnomaly|HwsondeExporterCollectorFailing|HwsondeDataFault|HwsondeDataFaultWarning",
                ["cluster", "node"],
            ),
            _inhibition(
                "HwsondeDetectorDown",
                "HwsondeDetectorStalled|HwsondeDetectorReadErrors|HwsondeHostUnscored",
                ["cluster"],
            ),
            # The error that a GPU died of says more than its silence, as long as it is shown.
            _inhibition("HwsondeGpuXid", "HwsondeGpuLost|HwsondeGpuMemoryFailed", ["cluster", "node", "gpu"]),
            # A GPU that is known to be lost sends nothing: one page is enough.
            _inhibition("HwsondeGpuLost", "HwsondeDataFault", ["cluster", "node"]),
            _inhibition("HwsondeGpuXid", "HwsondeDataFault", ["cluster", "node"]),
        ],
        "receivers": [
            {"name": "shown-only"},
            {"name": "pagerduty", "pagerduty_configs": [{"routing_key_file": target.routing_key_file, **_receiver()}]},
        ],
    }

"""What Alertmanager sends where: PagerDuty, Slack, webhooks. No input, no output; no secret is in any of it, only files that hold them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

# PagerDuty refuses an event without a source, and an alert may have no host: a cluster without a detector, a job without targets.
HOST = (
    "{{ if or .CommonLabels.node .CommonLabels.instance }}{{ with .CommonLabels.cluster }}{{ . }}/{{ end }}"
    '{{ or .CommonLabels.node .CommonLabels.instance }}{{ else }}{{ or .CommonLabels.cluster "several hosts" }}{{ end }}'
)

# PagerDuty refuses an event without a summary and the page is lost. Alerts of one group whose summaries differ have no common
# one, and rules of others may have none at all; both must still page.
SUMMARY = (
    r'{{ if match "\\S" .CommonAnnotations.summary }}{{ .CommonAnnotations.summary }}'
    f'{{{{ else }}}}{{{{ or .CommonLabels.alertname "Alert" }}}} on {HOST}'
    "{{ range .Alerts.Firing }}{{ with .Annotations.summary }} | {{ . }}{{ end }}{{ end }}{{ end }}"
)

# What was said of a fault must not be taken for what still is.
_OVER = '{{ if eq .Status "resolved" }}Over: {{ end }}'

# Each alert of a message: what it is, then where to read on.
_LINES = (
    f"{{{{ range .Alerts }}}}{_OVER}"
    "{{ or .Annotations.summary .Labels.alertname }}"
    '{{ if match "^https?://" .Annotations.dashboard_url }} <{{ .Annotations.dashboard_url }}|Page>{{ end }}'
    '{{ if match "^https?://" .Annotations.incidents_url }} <{{ .Annotations.incidents_url }}|Incidents>{{ end }}'
    '{{ if match "^https?://" .Annotations.runbook_url }} <{{ .Annotations.runbook_url }}|Runbook>{{ end }}\n{{ end }}'
)


class Receiver(Protocol):
    """Something that Alertmanager can notify."""

    def settings(self) -> tuple[str, dict[str, Any]]:
        """Give the key of Alertmanager's configuration under which it stands, and its entry there."""


def web_address(text: str, what: str) -> str:
    """Give an http or https address as it is.

    Raises
    ------
    ValueError
        Naming ``what`` it was to be the address of.
    """
    address = urlsplit(text)
    if address.scheme not in {"http", "https"} or not address.netloc:
        raise ValueError(f"{what} {text!r}: give an http or https address")
    return text


def _each(annotation: str) -> str:
    """Give an annotation of every firing alert, one a line; the lines of a resolve are empty."""
    return f"{{{{ range $i, $a := .Alerts.Firing }}}}{{{{ if $i }}}}\n{{{{ end }}}}{{{{ $a.Annotations.{annotation} }}}}{{{{ end }}}}"


def _link(annotation: str) -> str:
    """Give an annotation's address if it is one for a browser; Alertmanager leaves out a link whose address is empty."""
    return f'{{{{ if match "^https?://" .CommonAnnotations.{annotation} }}}}{{{{ .CommonAnnotations.{annotation} }}}}{{{{ end }}}}'


@dataclass(frozen=True, slots=True)
class PagerDuty:
    """PagerDuty's Events API v2.

    Attributes
    ----------
    url
        Its address.
    routing_key_file
        File with the integration's key, read by Alertmanager for every page; the key itself is in no configuration.
    """

    url: str = "https://events.pagerduty.com/v2/enqueue"
    routing_key_file: str = "/etc/hwsonde/pagerduty.key"

    def __post_init__(self) -> None:
        web_address(self.url, "PagerDuty's address")
        if not self.routing_key_file:
            raise ValueError("the routing key's file: give a path")

    def settings(self) -> tuple[str, dict[str, Any]]:
        """Give the key of Alertmanager's configuration under which it stands, and its entry there."""
        return "pagerduty_configs", {
            "routing_key_file": self.routing_key_file,
            "send_resolved": True,
            "description": f"{_OVER}{SUMMARY}",
            "severity": '{{ or .CommonLabels.severity "critical" }}',
            "client": "hwsonde",
            "source": HOST,
            "client_url": "{{ or .CommonAnnotations.dashboard_url .ExternalURL }}",
            "class": "{{ .CommonLabels.alertname }}",
            "component": "{{ or .CommonLabels.subsystem .CommonAnnotations.subsystem }}",
            "group": HOST,
            "details": {
                "host": HOST,
                "subsystem": _each("subsystem"),
                "score": _each("score"),
                "top_channels": _each("top_channels"),
                "description": _each("description"),
                "runbook": _each("runbook_url"),
                "page": "{{ .CommonAnnotations.dashboard_url }}",
                "incidents": "{{ .CommonAnnotations.incidents_url }}",
            },
            "links": [
                {"href": _link("dashboard_url"), "text": "The host on the detector's page"},
                {"href": _link("incidents_url"), "text": "Its open incidents"},
                {"href": _link("runbook_url"), "text": "Runbook"},
            ],
        }


@dataclass(frozen=True, slots=True)
class Slack:
    """A channel of Slack, or of what takes Slack's messages.

    Attributes
    ----------
    url_file
        File with the address of the incoming webhook, which is a secret.
    channel
        Name of the channel; empty: the one that the address was made for.
    """

    url_file: str = "/etc/hwsonde/slack.url"
    channel: str = ""

    def __post_init__(self) -> None:
        if not self.url_file:
            raise ValueError("the file with Slack's address: give a path")

    def settings(self) -> tuple[str, dict[str, Any]]:
        """Give the key of Alertmanager's configuration under which it stands, and its entry there."""
        return "slack_configs", {
            "api_url_file": self.url_file,
            **({"channel": self.channel} if self.channel else {}),
            "send_resolved": True,
            "color": '{{ if eq .Status "resolved" }}good{{ else if eq .CommonLabels.severity "critical" }}danger{{ else }}warning{{ end }}',
            "title": f"{_OVER}{SUMMARY}",
            "title_link": _link("dashboard_url"),
            "text": _LINES,
            "fallback": SUMMARY,
        }


@dataclass(frozen=True, slots=True)
class Webhook:
    """A program that takes Alertmanager's own JSON: a ticket system, a bot, a dead man's switch.

    Attributes
    ----------
    url
        Its address, where that is no secret.
    url_file
        File with the address, where it is one; Alertmanager reads it since 0.26.
    token_file
        File with a token to show to it; empty: none.
    resolved
        Whether it is told that an alert is over.
    """

    url: str = ""
    url_file: str = ""
    token_file: str = ""
    resolved: bool = True

    def __post_init__(self) -> None:
        if bool(self.url) == bool(self.url_file):
            raise ValueError("a webhook's address: give either the address or the file that holds it")
        if self.url:
            web_address(self.url, "a webhook's address")

    def settings(self) -> tuple[str, dict[str, Any]]:
        """Give the key of Alertmanager's configuration under which it stands, and its entry there."""
        access = {"http_config": {"authorization": {"credentials_file": self.token_file}}} if self.token_file else {}
        address = {"url": self.url} if self.url else {"url_file": self.url_file}
        return "webhook_configs", {**address, "send_resolved": self.resolved, **access}


@dataclass(frozen=True, slots=True)
class Receivers:
    """Who hears of what.

    Attributes
    ----------
    pages
        Of critical alerts: whoever must act at once.
    tickets
        Of warnings; nobody: they are only shown.
    watchdog
        Of the alert that always fires: what raises the alarm when it stays away; nobody: it is only shown.
    """

    pages: tuple[Receiver, ...] = (PagerDuty(),)
    tickets: tuple[Receiver, ...] = ()
    watchdog: tuple[Receiver, ...] = ()


def receiver(name: str, members: tuple[Receiver, ...]) -> dict[str, Any]:
    """Give Alertmanager's receiver of that name, which notifies all members."""
    made: dict[str, Any] = {"name": name}
    for member in members:
        key, entry = member.settings()
        made.setdefault(key, []).append(entry)
    return made

"""How alert rules are written: their severities, links and the labels that every one of them has. No input, no output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, TypedDict
from urllib.parse import urlsplit

from alert_rules import wording
from alert_rules.timing import duration

# A page now; a ticket for working hours; something to know that asks for nothing.
CRITICAL, WARNING, INFO = "critical", "warning", "info"
SEVERITIES = (CRITICAL, WARNING, INFO)

# What tells the two detectors of a high-availability pair apart; their answers to one question are one answer.
PAIR = "job, instance, replica, pod"

Rule: TypeAlias = dict[str, str | dict[str, str]]


class Group(TypedDict):
    """One group of rules, evaluated in order, so that alerts see what was recorded in the same round."""

    name: str
    interval: str
    rules: list[Rule]


@dataclass(frozen=True, slots=True)
class Links:
    """Where a page's links lead.

    Attributes
    ----------
    detector
        The detector's own page, as operators reach it.
    runbooks
        Folder or address of the runbook pages, one ``<AlertName>.md`` each.
    """

    detector: str = "http://localhost:9881"
    runbooks: str = "docs/runbooks"

    def __post_init__(self) -> None:
        url = urlsplit(self.detector)
        if url.scheme not in {"http", "https"} or not url.netloc:
            raise ValueError(
                f"detector's page {self.detector!r}: give an http or https address, such as http://host:9881"
            )
        for address in (self.detector, self.runbooks):
            if not address.strip() or "{{" in address or not address.isprintable():
                raise ValueError(f"link {address!r}: give a plain address, in one line and without template marks")


@dataclass(frozen=True, slots=True)
class Writer:
    """Makes alert rules with the labels and links that every one of them has."""

    links: Links

    def alert(self, name: str, severity: str, expr: str, annotations: dict[str, str], **timing: int) -> Rule:
        """Give an alert rule; ``timing`` is ``wait`` (Prometheus's ``for``) and ``keep_firing``, both in seconds."""
        rule: Rule = {"alert": name, "expr": expr}
        if "wait" in timing:
            rule["for"] = duration(timing["wait"])
        if "keep_firing" in timing:
            rule["keep_firing_for"] = duration(timing["keep_firing"])
        rule["labels"] = {"severity": severity, "team": "hardware"}
        runbook = f"{self.links.runbooks.rstrip('/')}/{name}.md"
        links = {"dashboard_url": self.page(), "incidents_url": self.incidents(), "runbook_url": runbook}
        rule["annotations"] = {**annotations, **links}
        return rule

    def page(self) -> str:
        """Template of the address of the detector's page, opened at the host of the alert where it has one."""
        return f"{self.links.detector.rstrip('/')}/{wording.HOST_QUERY}"

    def incidents(self) -> str:
        """Template of the address of the open incidents, of the host of the alert where it has one."""
        return f"{self.links.detector.rstrip('/')}/incidents{wording.INCIDENTS_QUERY}"


def record(name: str, expr: str) -> Rule:
    """Give a recording rule; its name is ``level:metric:operation``."""
    return {"record": name, "expr": expr}


def largest(name: str, expr: str) -> Rule:
    """Give a recording rule that makes one answer of what the detectors of a pair say."""
    return record(name, f"max without ({PAIR}) ({expr})")


def was(series: str, state: int) -> str:
    """Give the condition that a series had this value within the last day.

    Looked at every five minutes: all samples of a day, at one a second, would cost more than the answer is worth.
    """
    reached = "max" if state else "min"
    return f"{reached}_over_time({series}[1d:5m]) == {state}"

"""What whoever is on call sees of an incident: one page, one resolve with its key, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from quickstart.pages import Event


def refused(log: Path) -> list[str]:
    """Events that the stand-in did not take, as PagerDuty would not: those pages are lost."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return [line for line in lines if not json.loads(line)["ok"]]


def told_once(incident: str, events: Sequence[Event], began: float, ended: float) -> Event:
    """The page of an incident, the only one in these events; prints one line about it.

    Parameters
    ----------
    incident
        What it is called in that line.
    events
        Everything that was received from before it began until long after it was over.
    began, ended
        When the fault was made and when it was undone, in seconds since the epoch.
    """
    triggers = [event for event in events if event.action == "trigger"]
    resolves = [event for event in events if event.action == "resolve"]
    assert triggers, f"{incident}: no page; {events}"
    assert len({event.key for event in events}) == 1, f"{incident}: more than one page; {events}"
    assert [event.key for event in resolves] == [triggers[0].key], f"{incident}: not one resolve; {events}"
    page, resolve = triggers[0], resolves[0]
    assert began <= page.received <= ended < resolve.received, f"{incident}: {began}, {ended}; {events}"
    after = page.received - began, resolve.received - ended
    later = dict.fromkeys(event.summary for event in triggers if event.summary != page.summary)
    words = "; later in the same page: ".join((page.summary, *later))
    print(f"\n{incident}: page after {after[0]:.1f} s, resolve after {after[1]:.1f} s: {words}")
    return page

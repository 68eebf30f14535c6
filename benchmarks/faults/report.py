"""Tables of what was found, named and false, as Markdown and as a document for JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from benchmarks.faults.intervals import poisson, wilson
from benchmarks.faults.labels import Session, length
from benchmarks.faults.score import DAY_MS, Outcome, Result

HARM = 0.1
"""Faults that cost the workload less than this are reported apart."""
_PER = 100


def summary(outcomes: Sequence[Outcome], copies: int = 1) -> dict[str, Any]:
    """Figures of some injections that acted and were judged; intervals as if ``copies`` of the same told nothing new."""
    judged = [one for one in outcomes if one.effective and one.judged]
    found = [one for one in judged if one.found]
    single = [one for one in found if one.single]
    seconds = sorted(one.seconds for one in found if one.seconds is not None)
    return {
        "judged": len(judged),
        "found": len(found),
        "found_interval": list(wilson(len(found) / copies, len(judged) / copies)),
        "median_seconds": median(seconds) if seconds else None,
        "slowest_seconds": seconds[-1] if seconds else None,
        "right": sum(one.right for one in found),
        "right_interval": list(wilson(sum(one.right for one in found) / copies, len(found) / copies)),
        "single": len(single),
        "single_right": sum(one.right for one in single),
        "masked": sum(one.masked for one in judged),
    }


def document(sessions: Sequence[Session], results: Iterable[Result], every_ms: int) -> dict[str, Any]:
    """Everything that the tables show."""
    kinds = list(dict.fromkeys(kind for session in sessions for kind, _ in session.plan))
    return {
        "every_ms": every_ms,
        "sessions": [_about(session) for session in sessions],
        "injections": {kind: _injected(kind, sessions) for kind in kinds},
        "methods": {result.method: _method(result, kinds) for result in results},
    }


def _about(session: Session) -> dict[str, Any]:
    return {
        "load": session.load,
        "seed": session.seed,
        "node": session.node,
        "stage": session.stage,
        "about": session.about,
        "judged_seconds": length(session.observed()) / 1000,
        "benign": len(session.benign),
        "skipped": session.skipped,
    }


def _injected(kind: str, sessions: Iterable[Session]) -> dict[str, Any]:
    mine = [one for session in sessions for one in session.injections if one.kind == kind]
    harms = [one.harm for one in mine if one.effective and one.harm is not None]
    why = {reason: None for session in sessions if (reason := session.skipped.get(kind))}
    return {
        "injected": len(mine),
        "effective": sum(one.effective for one in mine),
        "aborted": sum(one.aborted for one in mine),
        "harmful": sum(harm >= HARM for harm in harms),
        "median_harm": median(harms) if harms else None,
        "skipped": list(why),
    }


def _method(result: Result, kinds: Iterable[str]) -> dict[str, Any]:
    copies, days = result.copies, result.quiet_ms / DAY_MS
    # Outwards, where copies of the same make fractions.
    low, high = poisson(result.false_pages // copies)[0], poisson(-(-result.false_pages // copies))[1]
    controls = [one for one in result.outcomes if not one.effective and one.judged]
    return {
        "copies": copies,
        "all": summary(result.outcomes, copies),
        "harmful": summary([one for one in result.outcomes if one.harm is not None and one.harm >= HARM], copies),
        "harmless": summary([one for one in result.outcomes if one.harm is None or one.harm < HARM], copies),
        "kinds": {kind: summary([one for one in result.outcomes if one.kind == kind], copies) for kind in kinds},
        "controls": len(controls),
        "controls_paged": sum(one.found for one in controls),
        "quiet_hours": result.quiet_ms / 3_600_000,
        "ready_share": result.ready_share,
        "false_pages": result.false_pages,
        "false_pages_per_100_node_days": _PER * result.false_pages / days if days else None,
        "false_pages_interval": [_PER * copies * low / days, _PER * copies * high / days] if days else None,
    }


def markdown(found: dict[str, Any]) -> str:
    """The document as tables."""
    lines = [
        "# Live fault bench",
        "",
        f"Scrape interval {found['every_ms'] / 1000:g} s. A fault counts as found if an alarm begins while it acts or within 10 s after it. Times",
        "count from its start. What is named counts with at most 3 s of evidence. Intervals are of 95 %: Wilson's for shares, the exact Poisson",
        "interval for false pages. Only faults that were measured to act are counted; the others are negative controls.",
        *_copies(found["methods"]),
        "",
        *_sessions(found["sessions"]),
        "",
        *_overall(found["methods"]),
        "",
        *_injections(found["injections"]),
    ]
    for name, method in found["methods"].items():
        lines += ["", f"## By kind: {name}", "", *_kinds(method["kinds"])]
    return "\n".join(lines) + "\n"


def _copies(methods: dict[str, dict[str, Any]]) -> list[str]:
    copies = max((one.get("copies", 1) for one in methods.values()), default=1)
    if copies == 1:
        return []
    return [
        f"Every fault is judged {copies} times, by scrapes that came at other moments; intervals are those of judging it once."
    ]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    every = (head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows))
    return [f"| {' | '.join(row)} |" for row in every]


def _sessions(sessions: Iterable[dict[str, Any]]) -> list[str]:
    rows = [
        [
            one["load"],
            str(one["seed"]),
            str(one["about"].get("training", "")),
            str(one["about"].get("cpus", "")),
            f"{one['judged_seconds'] / 3600:.2f} h",
            str(one["benign"]),
            one["stage"],
        ]
        for one in sessions
    ]
    return _table(["load", "seed", "training by", "CPUs", "judged", "benign events", "stage"], rows)


def _overall(methods: dict[str, dict[str, Any]]) -> list[str]:
    rows = []
    for name, one in methods.items():
        everything, harmful = one["all"], one["harmful"]
        rows.append(
            [
                name,
                _share(everything, "found", "judged", "found_interval"),
                _share(harmful, "found", "judged", "found_interval"),
                _seconds(everything["median_seconds"]),
                _share(everything, "right", "found", "right_interval"),
                f"{everything['single_right']} of {everything['single']}",
                _pages(one),
                f"{one['quiet_hours']:.2f} h",
                f"{one['controls_paged']} of {one['controls']}",
                f"{one['ready_share']:.0%}",
            ]
        )
    head = [
        "method", "found", "found, harm of 10 % and more", "median seconds", "first subsystem right", "the same, one right answer",
        "false pages per 100 node-days", "time without faults", "paged at controls", "able to judge",
    ]  # fmt: skip
    return _table(head, rows)


def _injections(injections: dict[str, dict[str, Any]]) -> list[str]:
    rows = [
        [
            kind,
            str(one["injected"]),
            str(one["effective"]),
            str(one["aborted"] or ""),
            str(one["harmful"]),
            "" if one["median_harm"] is None else f"{one['median_harm']:.0%}",
            "; ".join(one["skipped"]),
        ]
        for kind, one in injections.items()
    ]
    return [
        "## Faults",
        "",
        *_table(["kind", "injected", "effective", "cut off", "harm of 10 % and more", "median harm", "skipped"], rows),
    ]


def _kinds(kinds: dict[str, dict[str, Any]]) -> list[str]:
    rows = [
        [
            kind,
            f"{one['found']} of {one['judged']}",
            _seconds(one["median_seconds"]),
            _seconds(one["slowest_seconds"]),
            f"{one['right']} of {one['found']}",
            str(one["masked"] or ""),
        ]
        for kind, one in kinds.items()
        if one["judged"]
    ]
    return _table(["kind", "found", "median seconds", "slowest", "first subsystem right", "alarm was on already"], rows)


def _share(one: dict[str, Any], hits: str, trials: str, interval: str) -> str:
    if not one[trials]:
        return "none"
    low, high = one[interval]
    return f"{one[hits]} of {one[trials]} ({one[hits] / one[trials]:.2f}; {low:.2f} to {high:.2f})"


def _pages(one: dict[str, Any]) -> str:
    if one["false_pages_per_100_node_days"] is None:
        return "no time"
    low, high = one["false_pages_interval"]
    return f"{one['false_pages_per_100_node_days']:.0f} ({low:.0f} to {high:.0f}); {one['false_pages']} pages"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"

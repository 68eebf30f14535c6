"""The page at ``/``: what each collector does, for a person with a browser."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from hwsonde_exporter import __version__
from hwsonde_exporter.errors import Reason
from hwsonde_exporter.state import State

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1b1f24;background:#fff}"
    "table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid #d8dee4;"
    "vertical-align:top}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}"
    ".failing{color:#b3261e;font-weight:600}.off{color:#5c6670}"
    "@media(prefers-color-scheme:dark){body{color:#e6e9ec;background:#15181c}th,td{border-color:#30363d}"
    ".failing{color:#ff8a80}.off{color:#98a2ad}a{color:#7ab7ff}}"
)
_COLUMNS = (
    '<tr><th scope="col">Collector</th><th scope="col">State</th><th scope="col" class="n">Series</th>'
    '<th scope="col" class="n">Latest run</th><th scope="col">Read</th><th scope="col">What it gives</th></tr>'
)


def landing_page(states: Iterable[State], host: str) -> str:
    """HTML of the page.

    Parameters
    ----------
    states
        State of every collector.
    host
        Name of this host, for the title; empty where it is not to be shown.
    """
    known = list(states)
    rows = "\n".join(map(_row, known))
    title = f"hwsonde exporter on {escape(host)}" if host else "hwsonde exporter"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n"
        f'<p>Version {escape(__version__)}. <a href="/metrics">Metrics</a> (one collector: '
        '<a href="/metrics?collect[]=cpu">/metrics?collect[]=cpu</a>), '
        '<a href="/-/healthy">healthy</a>, <a href="/-/ready">ready</a>.</p>\n'
        f"<p>{_summary(known)} <code>hwsonde-exporter doctor</code> on the host says the same in a terminal, with what to change.</p>\n"
        f"<table><thead>{_COLUMNS}</thead>\n<tbody>\n{rows}\n</tbody></table></body></html>\n"
    )


def _summary(states: list[State]) -> str:
    kinds = [_condition(state)[0] for state in states]
    failing = kinds.count("failing")
    parts = [f"{kinds.count('ok')} of {len(states)} collectors work"]
    if failing:
        parts.append(f'<span class="failing">{failing} fail{"s" if failing == 1 else ""}</span>')
    off = sum(state.reason == Reason.DISABLED for state in states)
    absent = sum(not state.available for state in states) - off
    if absent:
        parts.append(f"{absent} cannot work here")
    if off:
        parts.append(f"{off} switched off")
    return f"{', '.join(parts)}."


def _row(state: State) -> str:
    kind, text = _condition(state)
    name = escape(state.name)
    link = f'<a href="/metrics?collect[]={name}">{name}</a>' if state.available else name
    series = str(state.series) if state.success else ""
    duration = f"{state.duration * 1000:.1f} ms" if state.duration is not None and state.available else ""
    read = "at each scrape" if state.period is None else f"every {state.period:g} s"
    return (
        f'<tr><td>{link}</td><td class="{kind}">{escape(text)}</td><td class="n">{series}</td>'
        f'<td class="n">{duration}</td><td>{read}</td><td>{escape(state.help)}</td></tr>'
    )


def _condition(state: State) -> tuple[str, str]:
    if not state.available:
        return "off", f"{state.reason}: {state.detail}"
    if state.hanging is not None:
        return "failing", f"no answer for {state.hanging:.0f} s"
    if state.success is None:
        return "off", "not read yet"
    if not state.success:
        return "failing", state.problem
    if state.dropped:
        return "failing", "samples dropped: " + ", ".join(
            f"{reason} {count}" for reason, count in sorted(state.dropped.items())
        )
    return "ok", "ok"

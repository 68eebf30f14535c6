"""Addresses in other programs, made safe to be put on a page. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import urlencode, urlsplit

from hwsonde_detector.types import Entity

_AROUND_MS = 900_000


def safe(url: str) -> str | None:
    """The address if a browser may follow it from our page, else None: only http and https, never a script."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return url.rstrip("/") if parts.scheme in ("http", "https") and parts.netloc else None


def score_query(entity: Entity) -> str:
    """PromQL for the fused score of a host."""
    pairs = ['detector="fused"', *(f'{name}="{_quoted(value)}"' for name, value in entity.labels if value)]
    return f"hwsonde_anomaly_score{{{', '.join(pairs)}}}"


def host_links(links: Mapping[str, str], entity: Entity) -> dict[str, str]:
    """Links for one host by name of the program: Prometheus shows the score, Grafana the host's board, others their start page."""
    out: dict[str, str] = {}
    for name, url in links.items():
        base = safe(url)
        if base is None:
            continue
        if name == "prometheus":
            query = urlencode({"g0.expr": score_query(entity), "g0.tab": "0", "g0.range_input": "1h"})
            out[name] = f"{base}/graph?{query}"
        elif name == "grafana":
            query = urlencode([(f"var-{label}", value) for label, value in entity.labels])
            out[name] = f"{base}/d/hwsonde-host?{query}"
        else:
            out[name] = base
    return out


def incident_links(links: Mapping[str, str], entity: Entity, onset_ms: int, end_ms: int | None) -> dict[str, str]:
    """The same for an incident, with its range of time and a quarter of an hour around it."""
    begin_ms = onset_ms - _AROUND_MS
    last_ms = None if end_ms is None else end_ms + _AROUND_MS
    out: dict[str, str] = {}
    for name, url in host_links(links, entity).items():
        if name == "prometheus":
            length_s = ((last_ms if last_ms is not None else onset_ms + 4 * _AROUND_MS) - begin_ms) // 1000
            moment = {"g0.range_input": f"{max(length_s, 60)}s"}
            if last_ms is not None:
                moment["g0.end_input"] = datetime.fromtimestamp(last_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
            query = urlencode({"g0.expr": score_query(entity), "g0.tab": "0", **moment})
            out[name] = f"{url.partition('?')[0]}?{query}"
        elif name == "grafana":
            out[name] = f"{url}&{urlencode({'from': begin_ms, 'to': 'now' if last_ms is None else last_ms})}"
        else:
            out[name] = url
    return out


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

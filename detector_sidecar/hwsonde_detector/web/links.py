"""Addresses in other programs, made safe to be put on a page. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode, urlsplit

from hwsonde_detector.types import Entity


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


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

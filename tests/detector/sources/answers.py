"""Answers as Prometheus writes them, made from plain series; and a slow, obvious reader of them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

Identity = tuple[tuple[str, str], ...]  # labels with __name__, in any order
Samples = Sequence[tuple[int, float]]  # (ms, value)


def number(value: float) -> str:
    """As strconv.FormatFloat('f', -1) of the server, near enough: shortest text that reads back equally."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


def answer(series: Sequence[tuple[Identity, Samples]], **more: Any) -> bytes:
    """The body of a good answer."""
    result = [
        {"metric": dict(identity), "values": [[ms / 1000, number(value)] for ms, value in samples]}
        for identity, samples in series
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}, **more}).encode()


def identity(name: str, **labels: str) -> Identity:
    return tuple({"__name__": name, **labels}.items())


EMPTY = answer([])


def naive(body: bytes, since_ms: int) -> dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[int, float]]]:
    """Series -> samples later than `since_ms`, one at a time."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[int, float]]] = {}
    for entry in json.loads(body)["data"]["result"]:
        labels: Mapping[str, str] = entry["metric"]
        key = (labels["__name__"], tuple(sorted((name, value) for name, value in labels.items() if name != "__name__")))
        by_time = {round(second * 1000): float(value) for second, value in entry["values"]}
        kept = [(ms, by_time[ms]) for ms in sorted(by_time) if ms > since_ms]
        if kept:
            found[key] = kept
    return found

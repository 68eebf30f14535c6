"""Samples to the text exposition format 0.0.4. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from hwsonde_detector.telemetry import Family, Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def escape_value(text: str) -> str:
    r"""Label value with ``\``, ``"`` and line feed escaped."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def escape_help(text: str) -> str:
    r"""Help text with ``\`` and line feed escaped."""
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def number(value: float) -> str:
    """Shortest text that reads back equal; whole numbers without a point."""
    if value == math.floor(value) and abs(value) < 1e15:
        return str(int(value))
    return repr(float(value))


def render(families: Sequence[Family], samples: Iterable[Sample]) -> bytes:
    """Text of all samples, families contiguous and in the given order.

    A family without samples is left out, as are values that are not finite (not known is not a number) and labels without a
    value (to Prometheus they are absent anyway). Of two samples of one series the first stays: one double would cost the whole scrape.
    """
    lines: dict[str, dict[str, float]] = {family.name: {} for family in families}
    for sample in samples:
        if math.isfinite(sample.value):
            lines[sample.family.name].setdefault(
                sample.family.name + sample.suffix + _labels(sample.labels), sample.value
            )
    out: list[str] = []
    for family in families:
        if own := lines[family.name]:
            out += (f"# HELP {family.name} {escape_help(family.help)}", f"# TYPE {family.name} {family.kind}")
            out += (f"{series} {number(value)}" for series, value in own.items())
    return ("\n".join(out) + "\n").encode("utf-8", "replace") if out else b""


def _labels(labels: Iterable[tuple[str, str]]) -> str:
    pairs = ",".join(f'{name}="{escape_value(value)}"' for name, value in labels if value)
    return f"{{{pairs}}}" if pairs else ""

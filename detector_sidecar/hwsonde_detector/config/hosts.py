"""The sections on what hosts do: regimes of one, comparison of several."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hwsonde_detector import settings as s
from hwsonde_detector.config.section import Section
from hwsonde_detector.config.values import Items, Real, Span, Switch, Text, Whole

SECOND = 1000
HOUR = 3600 * SECOND
_LABEL_NAME = Text(r"[a-zA-Z_][a-zA-Z0-9_]*", "the name of a label: letters, digits, underscores")
_REGIMES = s.RegimeSettings()
_PEERS = s.PeerSettings()


class Regimes(Section):
    """Ways in which a host works: how another one is learned, recognised and remembered."""

    learn_rows: Annotated[int, Whole(10, 1_000_000)] = Field(
        default=_REGIMES.learn_rows,
        description="Rows that a change of workloads is learned from; nothing that a workload explains opens an episode meanwhile.",
    )
    confirm_rows: Annotated[int, Whole(1, 1000)] = Field(
        default=_REGIMES.confirm_rows,
        description="A former regime is in force again when it knows this many rows that the present one does not.",
    )
    kept: Annotated[int, Whole(0, 100)] = Field(
        default=_REGIMES.kept, description="Former regimes of a host that are remembered."
    )
    rebase_rows: Annotated[int, Whole(20, 1_000_000)] = Field(
        default=_REGIMES.rebase_rows,
        description="An episode of so many rows that are steady by themselves is the new normal; it ends, and is learned.",
    )
    long_rows: Annotated[int, Whole(120, 100_000)] = Field(
        default=_REGIMES.long_rows,
        description="Rows of each regime that are remembered for longer than `learning.memory_rows`, as unlike each other as can be had.",
    )
    forget_after: Annotated[int, Span(HOUR, 400 * 24 * HOUR)] = Field(
        default=_REGIMES.forget_ms, description="How long those are remembered."
    )


class Peers(Section):
    """Comparing hosts with each other, the parts of a host, and their settings."""

    enabled: Annotated[bool, Switch()] = Field(default=_PEERS.enabled, description="Compare, and read settings.")
    by: Annotated[tuple[str, ...], Items(_LABEL_NAME, 0, 20)] = Field(
        default=_PEERS.by,
        description="Hosts with equal values are peers: labels of their series, `workload` (the job) and `hardware` (models of CPU and GPU).",
    )
    minimum: Annotated[int, Whole(3, 1000)] = Field(
        default=_PEERS.minimum, description="Fewer hosts, or parts of a kind, are not compared."
    )
    risk: Annotated[float, Real(1e-12, 0.1)] = Field(
        default=_PEERS.risk, description="Chance of a healthy scrape of a host to score above 1 among its peers."
    )
    settings_every: Annotated[int, Span(SECOND, HOUR)] = Field(
        default=_PEERS.settings_every_ms, description="How often settings and jobs are read."
    )
    settings_before: Annotated[int, Span(SECOND, 30 * 24 * HOUR)] = Field(
        default=_PEERS.settings_before_ms,
        description="For how long the change of a setting is told, and counts as evidence.",
    )

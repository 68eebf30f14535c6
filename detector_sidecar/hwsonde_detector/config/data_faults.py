"""The section ``data_faults`` of the configuration."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hwsonde_detector.config.section import Section
from hwsonde_detector.config.values import Real, Span, Whole
from hwsonde_detector.settings import DataFaultSettings

_SECOND = 1000
_DAY = 24 * 3600 * _SECOND
_DEFAULTS = DataFaultSettings()


class DataFaults(Section):
    """When data count as faulty."""

    usual: Annotated[int, Span(10 * _SECOND, 30 * _DAY)] = Field(
        default=_DEFAULTS.usual_ms, description="A part, a collector or a metric that was there for so long is missed."
    )
    missing: Annotated[int, Span(_SECOND, _DAY)] = Field(
        default=_DEFAULTS.missing_ms,
        description="How long a part must be away, and at least five scrapes; a collector twice, a metric or a target four times as long.",
    )
    grace: Annotated[int, Span(0, _DAY)] = Field(
        default=_DEFAULTS.grace_ms, description="How long after a start of the exporter nothing is missed yet."
    )
    accept: Annotated[int, Span(60 * _SECOND, 365 * _DAY)] = Field(
        default=_DEFAULTS.accept_ms, description="What has been away for so long is missed no more."
    )
    sustained: Annotated[int, Span(_SECOND, _DAY)] = Field(
        default=_DEFAULTS.sustained_ms,
        description="How long something must be slow or a clock be off, and at least ten scrapes.",
    )
    events: Annotated[int, Whole(1, 1000)] = Field(
        default=_DEFAULTS.events,
        description="How many resets, gaps between scrapes or steps of a clock in about ten minutes make a fault.",
    )
    skew: Annotated[int, Span(10, _DAY)] = Field(
        default=_DEFAULTS.skew_ms, description="How far a host's clock may be from the server's."
    )
    clear_at: Annotated[float, Real(0, 1)] = Field(
        default=_DEFAULTS.clear_at, description="An episode ends when every score was below this"
    )
    clear: Annotated[int, Span(_SECOND, _DAY)] = Field(default=_DEFAULTS.clear_ms, description="for so long.")

    def settings(self) -> DataFaultSettings:
        """Give the knobs of the pure rooms."""
        values = self.model_dump()
        clear_at, events = values.pop("clear_at"), values.pop("events")
        return DataFaultSettings(
            clear_at=clear_at, events=events, **{f"{name}_ms": value for name, value in values.items()}
        )

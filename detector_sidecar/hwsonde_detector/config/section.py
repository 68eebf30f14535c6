"""What all sections of the configuration share."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator


class Section(BaseModel):
    """What all sections share: unknown keys are refused, values are not converted, nothing changes after loading."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, arbitrary_types_allowed=True)

    @model_validator(mode="before")
    @classmethod
    def _empty_means_default(cls, data: Any) -> Any:  # noqa: ANN401 - whatever YAML gave
        """Let a key without a value stand for the default, unless null is a value of its own."""
        if not isinstance(data, dict):
            return data
        known = cls.model_fields

        def stays(key: object, value: object) -> bool:
            return (
                value is not None
                or key not in known
                or type(None) in getattr(known[str(key)].annotation, "__args__", ())
            )

        return {key: value for key, value in data.items() if stays(key, value)}

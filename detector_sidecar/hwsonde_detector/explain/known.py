"""What is known of hosts without any score: who fell silent, which part vanished, what the running detector told of. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hwsonde_detector.types import Device, Entity

MOST_TOLD = 20
_MOST_LISTED = 100


class Matter(StrEnum):
    """What it is that is known."""

    SILENT = "silent"
    DATA_FAULT = "data_fault"
    INCIDENT = "incident"


@dataclass(frozen=True, slots=True)
class Known:
    """One thing.

    Attributes
    ----------
    matter, entities
        What, and of which hosts.
    start_ms, end_ms
        Since when, and until when; None where it lasts, or nobody knows for how long it did.
    sentence
        What people are told: a host's name or ``The detector`` comes first, a full stop last.
    cause
        Whether it is what went wrong. Otherwise it only forbids to say that nothing did.
    device
        The part that it is about.
    runbook, page
        Name of the runbook's page, and address of the page that explains it; empty where there is none.
    """

    matter: Matter
    entities: tuple[Entity, ...]
    start_ms: int
    end_ms: int | None
    sentence: str
    cause: bool = False
    device: Device | None = None
    runbook: str = ""
    page: str = ""


def ranked(known: Sequence[Known]) -> tuple[Known, ...]:
    """Causes first, and of those hosts that fell silent: whatever else they show came before that or follows from it."""
    return tuple(
        sorted(known, key=lambda one: (not one.cause, one.matter is not Matter.SILENT, one.start_ms, one.entities))
    )


def limits(known: Sequence[Known]) -> tuple[str, ...]:
    """Sentences of those that are no cause, a bounded number of them."""
    told = [one.sentence for one in known if not one.cause]
    if len(told) <= MOST_TOLD:
        return tuple(told)
    return (*told[:MOST_TOLD], f"{len(told) - MOST_TOLD} more such things are known.")


def known_document(known: Sequence[Known], runbooks: str) -> list[dict[str, Any]]:
    """As JSON values; ``runbooks`` is the folder or the address of the runbook pages."""
    return [
        {
            "matter": str(one.matter),
            "cause": one.cause,
            "hosts": [str(entity) or "unnamed" for entity in one.entities],
            "start_ms": one.start_ms,
            "end_ms": one.end_ms,
            "sentence": one.sentence,
            "device": None if one.device is None else {"class": one.device.kind, "name": one.device.name},
            "runbook": f"{runbooks.rstrip('/')}/{one.runbook}.md" if one.runbook else None,
            "page": one.page or None,
        }
        for one in known[:_MOST_LISTED]
    ]

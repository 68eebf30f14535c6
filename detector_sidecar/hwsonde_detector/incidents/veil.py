"""Incidents as they are shown where some labels are replaced. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from hwsonde_detector.incidents.entry import Entry
from hwsonde_detector.redaction import Redactor, replaced
from hwsonde_detector.types import Entity


class Veil:
    """Gives incidents other names.

    Parameters
    ----------
    redactor
        Which labels, and how.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._entries: dict[str, tuple[Entry, Entry]] = {}

    def entries(self, entries: Iterable[Entry]) -> list[Entry]:
        """A list; what was seen before is not made anew."""
        entries = list(entries)
        if not self._redactor.active:
            return entries
        known: dict[str, str] = {}
        shown: dict[str, tuple[Entry, Entry]] = {}
        for entry in entries:
            before = self._entries.get(entry.id)
            if before is not None and before[0] is entry:
                shown[entry.id] = before
                continue
            known = known or self._redactor.known(one.entity for one in entries)
            shown[entry.id] = entry, self._entry(entry, known)
        self._entries = shown
        return [shown[entry.id][1] for entry in entries]

    def incident(
        self, entry: Entry, document: Mapping[str, Any], alerts: Mapping[str, Any], links: Mapping[str, str]
    ) -> tuple[Entry, dict[str, Any], Mapping[str, Any], Mapping[str, str]]:
        """One incident; links to other programs are left out, they name the host."""
        if not self._redactor.active:
            return entry, dict(document), alerts, links
        named = [
            Entity(tuple((str(label), str(value)) for label, value in pairs))
            for pairs in document.get("hosts_named", ())
        ]
        known = self._redactor.known([entry.entity, *named])
        return self._entry(entry, known), replaced(dict(document), known), replaced(alerts, known), {}

    def _entry(self, entry: Entry, known: Mapping[str, str]) -> Entry:
        texts = {name: replaced(getattr(entry, name), known) for name in ("identity", "title", "because", "normal")}
        return replace(entry, entity=self._redactor.entity(entry.entity), **texts)

"""The counter units of memory controllers, as sysfs describes them to perf_event_open(2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._files import entries, sys_number, sys_text
from hwsonde_exporter.collectors._perf_event import Event
from hwsonde_exporter.host import Host

_UNIT_NAME = re.compile(r"uncore_imc(_free_running)?(_\d+)?\Z|amd_umc_\d+\Z")
# Servers count the column accesses of each channel, in two sub-channels since Granite Rapids; desktops the data requests.
_SERVER_EVENT = re.compile(r"cas_count_(read|write)(_sch\d+)?\Z")
_DESKTOP_EVENT = re.compile(r"data_(read|write)s?\Z")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?\Z")
_LINE_BYTES = 64  # what one column access moves
_MAX_BYTES = 4096
_UNIT_BYTES = {"MiB": 1 << 20, "KiB": 1 << 10, "Bytes": 1, "": 1}
# The kernel names no events for AMD's controllers. umc_cas_cmd in AMD's manuals: 0x0a, for reads only or for writes only.
_AMD_EVENTS = {"read": "event=0x0a,rdwrmask=0x1", "write": "event=0x0a,rdwrmask=0x2"}

Formats = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """One event of a unit: ``direction`` is read or write, ``size`` the bytes that one count stands for."""

    event: Event
    direction: str
    size: int


@dataclass(frozen=True, slots=True)
class MemoryUnit:
    """The counter unit of a memory controller: its events are opened on each of ``cpus``, one a socket."""

    name: str
    cpus: tuple[int, ...]
    events: tuple[MemoryEvent, ...]


def parse_terms(text: str) -> dict[str, int] | None:
    """Parse an event's description (``event=0x04,umask=0x03``); a term without a value is 1. None if it is anything else."""
    terms: dict[str, int] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        try:
            terms[name] = int(value, 0) if equals else 1
        except ValueError:
            return None
        if not name or terms[name] < 0:
            return None
    return terms


def encode(terms: Mapping[str, int], formats: Formats) -> tuple[int, int, int] | None:
    """Place terms in config, config1 and config2.

    Parameters
    ----------
    terms
        Value of each term.
    formats
        For each term the bits that hold it, from the lowest up, as in sysfs: ``config:0-7`` or ``config1:0-3,32``.

    Returns
    -------
    tuple or None
        None if a term has no place or does not fit.
    """
    words = {"config": 0, "config1": 0, "config2": 0}
    for name, value in terms.items():
        word, _, ranges = formats.get(name, "").partition(":")
        bits = _bits(ranges)
        if word not in words or not bits or value >> len(bits):
            return None
        for position, bit in enumerate(bits):
            words[word] |= (value >> position & 1) << bit
    return words["config"], words["config1"], words["config2"]


def _bits(ranges: str) -> list[int]:
    bits: list[int] = []
    for part in ranges.split(","):
        match = _RANGE.match(part.strip())
        if match is None or len(part) > 8:
            return []
        low, high = int(match[1]), int(match[2] or match[1])
        if not low <= high < 64:
            return []
        bits += range(low, high + 1)
    return bits


def size_of(scale: str, unit: str) -> int:
    """Bytes that one count stands for, of the texts beside an event; one cache line where they do not say."""
    try:
        size = float(scale) * _UNIT_BYTES[unit]
    except (ValueError, KeyError):
        return _LINE_BYTES
    return round(size) if 1 <= size <= _MAX_BYTES else _LINE_BYTES


def find_units(host: Host) -> list[MemoryUnit]:
    """The units of this host that count reads and writes.

    Where a host has the exact ones of a server, those of the desktop kind, which count the same bytes, are left out.
    """
    base = str(host.paths.sys("bus/event_source/devices"))
    names = [name for name in entries(base) if _UNIT_NAME.match(name)]
    for pattern in (_SERVER_EVENT, _DESKTOP_EVENT):
        found = (_unit(host, f"{base}/{name}", name, pattern) for name in names)
        units = [unit for unit in found if unit is not None]
        if units:
            return units
    return []


def _unit(host: Host, base: str, name: str, pattern: re.Pattern[str]) -> MemoryUnit | None:
    number = sys_number(host, f"{base}/type")
    cpus = parsing.cpu_list(sys_text(host, f"{base}/cpumask").encode())
    if number is None or number >> 32 or not cpus:
        return None
    formats = {term: sys_text(host, f"{base}/format/{term}") for term in entries(f"{base}/format")}
    events = []
    for direction, event_name, text, size in _described(host, base, name, pattern):
        terms = parse_terms(text)
        words = encode(terms, formats) if terms else None
        if words is not None:
            events.append(MemoryEvent(Event(event_name, number, *words), direction, size))
    return MemoryUnit(name, tuple(cpus), tuple(events)) if events else None


def _described(host: Host, base: str, name: str, pattern: re.Pattern[str]) -> Iterable[tuple[str, str, str, int]]:
    """Direction, name, description and size of each event."""
    if name.startswith("amd_"):
        if pattern is _SERVER_EVENT:
            for direction, text in _AMD_EVENTS.items():
                yield direction, direction, text, _LINE_BYTES
        return
    folder = f"{base}/events"
    for event in entries(folder):
        match = pattern.match(event)
        if match is not None:
            size = size_of(sys_text(host, f"{folder}/{event}.scale"), sys_text(host, f"{folder}/{event}.unit"))
            yield match[1], event, sys_text(host, f"{folder}/{event}"), size

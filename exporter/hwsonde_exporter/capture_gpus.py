"""The GPUs of a capture: what NVIDIA's driver answers on this host, recorded under the same replaced names as its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from hwsonde_exporter.anonymous import Anonymiser
from hwsonde_exporter.collectors._gpu_collector import client_of
from hwsonde_exporter.config import Settings
from hwsonde_exporter.errors import Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.nvml._record_names import Names
from hwsonde_exporter.nvml.record import NotRecorded, record
from hwsonde_exporter.registry import Collector

# Beside proc, sys and root.
FILE = "nvml.json"


class Recorded(NamedTuple):
    """A recording as JSON, or None where there is none; and one sentence about it."""

    data: bytes | None
    told: str


def of_gpus(settings: Settings, kinds: Mapping[str, type[Collector]]) -> Settings:
    """The settings with no other collectors than those of GPUs that are enabled."""
    names = frozenset(name for name in settings.exporter.runner.enabled if name in kinds and name.startswith("gpu"))
    exporter = settings.exporter
    return replace(settings, exporter=replace(exporter, runner=replace(exporter.runner, enabled=names)))


def why_not(settings: Settings, host: Host) -> str:
    """Why there are no GPUs to record, or an empty text; ``settings`` are those of the collectors of GPUs."""
    if not settings.exporter.runner.enabled:
        return "not recorded, their collectors are off"
    try:
        client_of(host)
    except Unavailable as error:
        return f"none ({error.detail.partition(';')[0]})"
    return ""


def recorded(settings: Settings, anonymiser: Anonymiser) -> Recorded:
    """Ask the driver everything in a process that is killed where it hangs, and replace identities.

    The numbers of versions stay as they are, although some have the form of an address.
    """
    nvml = settings.exporter.nvml
    try:
        found = record(nvml.library, deadline=nvml.deadline)
    except (NotRecorded, OSError) as error:
        return Recorded(None, f"not recorded: {error}")
    clean = Names(bus=False, uuid=anonymiser.name, serial=anonymiser.serial).replace(found)
    text = json.dumps(clean["devices"]).lower()
    if any(original in text for original in anonymiser.originals):
        return Recorded(None, "not recorded, a personal detail was found in what the driver told")
    hung = sum("hang" in fault for fault in clean["faults"])
    lost = sum("error" in fault for fault in clean["faults"])
    told = f"{len(clean['devices'])} recorded in {FILE}"
    if lost:
        told += f", {lost} of them lost"
    if hung:
        told += f", {hung} calls hung and are noted as faults"
    return Recorded(json.dumps(clean, indent=1, ensure_ascii=False).encode() + b"\n", told)

"""Readings that are taken less often than GPUs are looked at, and dropped as soon as their GPU is lost."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from hwsonde_exporter.nvml.answer import Answer, Device, Reading

# A collector that comes a little early need not wait for its next turn.
_EARLY_SECONDS = 0.1

_Key = tuple[str, ...]


class Kept:
    """The last readings of groups that are dear or change seldom."""

    def __init__(self) -> None:
        self._taken: dict[_Key, float] = {}
        self._readings: dict[_Key, dict[str, tuple[Reading, ...]]] = {}

    def due(self, groups: Collection[str], every: float, now: float) -> bool:
        """Whether these groups are to be read at monotonic time ``now``, if they are to be read every so many seconds."""
        taken = self._taken.get(tuple(groups))
        return taken is None or now - taken >= every - _EARLY_SECONDS

    def note(self, answer: Answer) -> None:
        """Forget what is known of GPUs that, by this answer to whatever was asked, are lost."""
        for device in answer.devices:
            if device.up is False and not device.readings:
                for known in self._readings.values():
                    known.pop(device.uuid, None)

    def store(self, groups: Collection[str], answer: Answer, now: float) -> None:
        """Keep what was read of these groups."""
        key = tuple(groups)
        self._taken[key] = now
        self._readings[key] = {
            device.uuid: device.readings for device in answer.devices if device.up or device.readings
        }

    def complete(self, groups: Collection[str], answer: Answer) -> Answer:
        """Give an answer the readings of these groups that were kept, for the GPUs that answer.

        One that answers again, or of which a group is left out since, is read anew the next time.
        """
        key = tuple(groups)
        return replace(answer, devices=tuple(self._completed(key, device) for device in answer.devices))

    def _completed(self, key: _Key, device: Device) -> Device:
        if not device.up:
            return device
        known = self._readings.get(key, {})
        readings = known.get(device.uuid)
        if readings is None or not device.skipped.keys().isdisjoint(key):
            self._taken.pop(key, None)
            return replace(device, readings=())
        return replace(device, readings=readings)

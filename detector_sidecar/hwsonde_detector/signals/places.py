"""Where devices sit: PCI addresses and slots out of the labels of info series. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hwsonde_detector.signals.profiles.rules import Place, Profile
from hwsonde_detector.types import Device, Series


def places_of(profiles: Iterable[Profile]) -> dict[str, tuple[Place, ...]]:
    """What tells where devices sit, by name of the series; only of classes that any channel's device has."""
    found: dict[str, tuple[Place, ...]] = {}
    for profile in profiles:
        kinds = {rule.device_kind for rule in profile.rules}
        for place in profile.places:
            if place.kind in kinds and place not in found.get(place.metric, ()):
                found[place.metric] = (*found.get(place.metric, ()), place)
    return found


def addresses(series: Iterable[Series], places: Mapping[str, tuple[Place, ...]]) -> dict[Device, str]:
    """Address of each device that the labels of series tell; a device of which two are told has none.

    Parameters
    ----------
    series
        In any order; those that no place reads are passed over.
    places
        As `places_of` gives them.
    """
    told: dict[Device, set[str]] = {}
    for one in series:
        labels = dict(one.labels)
        for place in places.get(one.name, ()):
            name, address = labels.get(place.label, ""), labels.get(place.place, "")
            if name and address:
                # A bare number says nothing without what it counts.
                text = f"{place.place} {address}" if address.isdigit() else address
                told.setdefault(Device(place.kind, name), set()).add(text)
    return {device: min(found) for device, found in told.items() if len(found) == 1}

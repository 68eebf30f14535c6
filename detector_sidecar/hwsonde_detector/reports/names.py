"""Which names an evidence archive must not hold, gathered from hosts and series before anything is replaced. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hwsonde_detector.redaction import Redactor, Replacing, is_number
from hwsonde_detector.signals.entities import entity_from_instance, host_label
from hwsonde_detector.signals.profiles.rules import Profile
from hwsonde_detector.types import Entity, Series

_INSTANCE = "instance"


class Names:
    """Values of the labels that are to be replaced.

    Parameters
    ----------
    redactor
        Which labels, and by what.
    profiles
        Their rules may trim a value, and what is left of it says the same (a pod's name without its end).
    """

    def __init__(self, redactor: Redactor, profiles: Iterable[Profile] = ()) -> None:
        self._redactor = redactor
        self._values: dict[str, set[str]] = {label: set() for label in sorted(redactor.labels)}
        self._hosts: dict[str, str] = {}
        self._trims = [
            (rule.labels[-1], rule.trimmed)
            for profile in profiles
            for rule in profile.groups
            if rule.trimmed is not None and rule.labels[-1] in redactor.labels
        ]

    def hear_hosts(self, hosts: Iterable[Entity]) -> None:
        """Take the labels of hosts."""
        self._hosts |= self._redactor.known(hosts)

    def hear_series(self, series: Series, host: Entity) -> None:
        """Take the labels of a series of a host."""
        names = [name for name, _ in host.labels]
        for label, value in series.labels:
            if label in self._values and value:
                self._values[label].add(value)
        if _INSTANCE in self._values and entity_from_instance(series, names):
            # The host is called so after the instance: its name is a part of that.
            self._values[_INSTANCE].add(dict(host.labels)[host_label(names) or ""])

    def shown(self, labels: Mapping[str, str], replacing: Replacing) -> dict[str, str]:
        """Labels of a series under other names: each value of a label that is replaced, and names within others."""
        return {
            label: self._redactor.stand_in(label, value) if label in self._values and value else replacing.of(value)
            for label, value in labels.items()
        }

    def replacing(self) -> Replacing:
        """What replaces all that was heard of."""
        names: dict[str, str] = {}
        numbers: dict[str, dict[str, str]] = {}
        for label, values in self._values.items():
            for value in sorted((values | self._trimmed(label, values)) - self._hosts.keys()):
                into = numbers.setdefault(label, {}) if is_number(value) else names
                into[value] = self._redactor.stand_in(label, value)
        return Replacing(names | self._hosts, numbers)

    def notes(self) -> list[str]:
        """What is replaced, a sentence each."""
        return [self._note(label, values) for label, values in self._values.items()]

    def _note(self, label: str, values: set[str]) -> str:
        known = {*values, *(name for name, stand_in in self._hosts.items() if stand_in.startswith(f"{label}-"))}
        if not known:
            return f"No value of the label {label} is known: if there is one, it is not replaced."
        if any(map(is_number, values - self._hosts.keys())):
            return (
                f"Values of the label {label} are replaced by others. Some are numbers: these are replaced as its values, behind its name "
                "and within longer names, and not where they may be quantities."
            )
        return f"Values of the label {label} are replaced by others."

    def _trimmed(self, label: str, values: Iterable[str]) -> set[str]:
        trims = [trim for name, trim in self._trims if name == label]
        return {trim.sub("", value) for trim in trims for value in values} - {""}

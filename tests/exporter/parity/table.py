"""docs/parity: which of our series says what one of another exporter's does."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "parity"
FILES = sorted(FOLDER.glob("*.csv"))
SELECTOR = re.compile(r"(?P<name>\w+)(\{(?P<labels>[^}]*)\})?(\*(?P<factor>[0-9.]+))?\Z")
LABEL = re.compile(r'(\w+)="([^"]*)"')

Labels = Mapping[str, str]
Exposition = dict[str, list[tuple[Labels, float]]]


@dataclass(frozen=True, slots=True)
class Selector:
    """Series by name and label values, and what their values are multiplied by."""

    name: str
    labels: Labels
    factor: float

    @staticmethod
    def parse(text: str) -> Selector:
        found = SELECTOR.match(text)
        assert found is not None, text
        return Selector(found["name"], dict(LABEL.findall(found["labels"] or "")), float(found["factor"] or 1))

    def sums(self, exposition: Exposition, by: tuple[str, ...]) -> dict[tuple[str, ...], float]:
        """Sum of the values of its series for each set of values of some labels."""
        result: dict[tuple[str, ...], float] = {}
        for labels, value in exposition.get(self.name, []):
            if all(labels.get(key) == wanted for key, wanted in self.labels.items()):
                key = tuple(labels[label] for label in by)
                result[key] = result.get(key, 0.0) + value * self.factor
        return result


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; ``kind`` says how values are compared, empty where they cannot be."""

    theirs: Selector
    ours: Selector | None
    kind: str
    by: tuple[str, ...]
    note: str


def rows(file: Path = FOLDER / "node_exporter.csv") -> list[Row]:
    """One of the tables."""
    with file.open(encoding="utf-8", newline="") as lines:
        return [
            Row(
                Selector.parse(line["theirs"]),
                Selector.parse(line["ours"]) if line["ours"] else None,
                line["kind"],
                tuple(line["by"].split()),
                line["note"],
            )
            for line in csv.DictReader(lines)
        ]


def parse(text: str) -> Exposition:
    """Values by name, as a Prometheus would read them."""
    result: Exposition = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            result.setdefault(sample.name, []).append((sample.labels, float(sample.value)))
    return result

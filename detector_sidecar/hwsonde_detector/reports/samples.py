"""Raw samples of one host around an incident, read for `evidence` and held as text until all names are known."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hwsonde_detector.config import Config
from hwsonde_detector.incidents.evidence import samples_of
from hwsonde_detector.past.reading import open_records
from hwsonde_detector.reports.finding import narrowed, narrowed_by_instance
from hwsonde_detector.types import Entity, SampleBatch, Series

_MOST_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Stretch:
    """What is read: later than ``start_ms``, up to ``end_ms``, of an archive or, where there is none, of the Prometheus."""

    start_ms: int
    end_ms: int
    archive: Path | None = None


@dataclass(slots=True)
class Samples:
    """Series with their samples as JSON text, in order; ``cut`` where there were too many."""

    parts: list[tuple[Series, str]] = field(default_factory=list)
    cut: bool = False

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.parts)

    def series(self) -> set[Series]:
        """The series, each once."""
        return {series for series, _ in self.parts}

    def text(self, shown: Callable[[Mapping[str, str]], Mapping[str, str]]) -> bytes:
        """One object a line, as Prometheus gives them; ``shown`` puts other names into the labels, and nothing into the numbers."""
        heads = {series: _json({"__name__": series.name, **shown(dict(series.labels))}) for series in self.series()}
        lines = [f'{{"metric":{heads[series]},"values":{values}}}\n' for series, values in self.parts]
        return "".join(lines).encode("utf-8", "replace")


def read_samples(config: Config, host: Entity, stretch: Stretch) -> Samples:
    """Read the samples of a host; as many as fit.

    Raises
    ------
    ArchiveError, ConfigError, SourceError
        Something cannot be read.
    """
    found, size = Samples(), 0
    heads: dict[Series, int] = {}
    for series, pairs in samples_of(_batches(config, host, stretch), host):
        values = _json(pairs)
        if series not in heads:
            heads[series] = len(_json(series.labels))
        found.parts.append((series, values))
        size += heads[series] + len(values)
        if size > _MOST_BYTES:
            found.cut = True
            break
    return found


def _batches(config: Config, host: Entity, stretch: Stretch) -> Iterator[SampleBatch]:
    """Batches with the host's series among others; of a Prometheus those with its labels, then those that are named after their instance."""
    asked = [config]
    if stretch.archive is None:
        asked = [narrowed(config, [host], []), *narrowed_by_instance(config, host)]
    for one in asked:
        for batch, _ in open_records(one, stretch.start_ms, stretch.end_ms, stretch.archive, 0):
            yield batch


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

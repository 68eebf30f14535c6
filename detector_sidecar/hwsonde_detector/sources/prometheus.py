"""Reading a Prometheus, or what speaks its API: raw samples by range selectors, history in bounded parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic as _monotonic

from hwsonde_detector.errors import ConfigError, SourceError, SourceRefused
from hwsonde_detector.sources.base import Read
from hwsonde_detector.sources.decode import SEPARATOR, SeriesTable, decode_answers, without_future
from hwsonde_detector.sources.http import Http
from hwsonde_detector.sources.options import SourceOptions
from hwsonde_detector.types import SampleBatch

_THANOS = {"partial_response": "false"}
_VICTORIAMETRICS = {"nocache": "1", "latency_offset": "1ms"}
BACKENDS: Mapping[str, Mapping[str, str]] = {
    # Who does not know a field passes over it, and many a server is taken for a Prometheus that is none: by default all are sent.
    "prometheus": {**_THANOS, **_VICTORIAMETRICS},
    "thanos": _THANOS,
    "mimir": {},
    "victoriametrics": _VICTORIAMETRICS,
}
"""Further fields of the form, by backend: no partial answers, no cached ones, nothing held back."""

OWN_PREFIXES = (
    "hwsonde_anomaly_",
    "hwsonde_anomalous_",
    "hwsonde_detector_",
    "hwsonde_incident_",
    "hwsonde_data_fault_",
    "hwsonde_shadow_",
    "hwsonde_setting_differs",
)
"""What the detector itself publishes: it never reads its own scores back."""

MAX_POINTS = 11_000
"""Most points of a series that Prometheus gives in one answer of ``query_range``."""

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)
_MAX_MATCHER = 1 << 15
_FIRST_STRETCH_MS = 60_000
_LONGEST_STRETCH_MS = 6 * 3_600_000
_FIRST_POINTS = 60
_TOO_MUCH = re.compile(r"exceed|too many|too large|limit|maximum", re.IGNORECASE)


class PrometheusSource:
    """A `hwsonde_detector.sources.base.Source` over the HTTP API.

    Parameters
    ----------
    options
        Where and how.
    names
        Names of the metrics that are asked for: the server sends nothing else.
    slow_names
        Names of those that are only asked for every `SourceOptions.slow_every_ms`.
    monotonic
        Clock of time limits, in seconds.

    Raises
    ------
    ConfigError
        A name is none, is the detector's own, or the backend is not known.
    """

    def __init__(
        self,
        options: SourceOptions,
        names: Sequence[str],
        monotonic: Callable[[], float] = _monotonic,
        *,
        slow_names: Sequence[str] = (),
    ) -> None:
        if options.backend not in BACKENDS:
            raise ConfigError(
                f"source.backend: {options.backend!r} is not known; allowed: one of {', '.join(BACKENDS)}"
            )
        self.options = options
        self.selectors = selectors(names, options.selector)
        self._extra = BACKENDS[options.backend]
        self._http = Http(options, monotonic)
        self._known = SeriesTable()
        # A table of its own, so that the series of neither kind of read need be built anew each time.
        self._slow = self.selectors if not slow_names else selectors((*names, *slow_names), options.selector)
        self._slow_known = SeriesTable()
        self._slow_ms: int | None = None

    def read(self, since_ms: int, now_ms: int) -> Read:
        """Give raw samples later than ``since_ms``, at most `SourceOptions.max_range_ms` back; see `Source`."""
        since = max(since_ms, now_ms - self.options.max_range_ms)
        if since >= now_ms:
            return Read(SampleBatch.empty(), since_ms=since)
        return self._raw(since, now_ms)

    def history(self, start_ms: int, end_ms: int, step_ms: int | None = None) -> Iterator[Read]:
        """Give the past in parts of about `SourceOptions.max_samples` samples; see `Source`.

        Notes
        -----
        The first part is small and the next ones grow or shrink with what came back. A part that the server finds too
        large is halved and asked for again, and no later one is larger.
        """
        if step_ms is not None and step_ms <= 0:
            raise ValueError("step_ms must be positive")
        return self._raw_parts(start_ms, end_ms) if step_ms is None else self._grid_parts(start_ms, end_ms, step_ms)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _raw(self, since_ms: int, until_ms: int) -> Read:
        # Rounded up; what is older than asked for is cut off when it is decoded.
        seconds = -(-(until_ms - since_ms) // 1000)
        slow = self._slow_due(until_ms)
        chosen, known = (self._slow, self._slow_known) if slow else (self.selectors, self._known)
        forms = [{"query": f"{selector}[{seconds}s]", "time": _seconds(until_ms)} for selector in chosen]
        read = self._ask("/api/v1/query", forms, since_ms, until_ms, known)
        # Only a read that brought something counts: the one before the first scrape would cost half a minute.
        if slow and read.batch.times.size:
            self._slow_ms = until_ms
        return read

    def _slow_due(self, until_ms: int) -> bool:
        if self._slow is self.selectors:
            return False
        last = self._slow_ms
        return last is None or not 0 <= until_ms - last < self.options.slow_every_ms

    def _raw_parts(self, start_ms: int, end_ms: int) -> Iterator[Read]:
        stretch, longest = _FIRST_STRETCH_MS, _LONGEST_STRETCH_MS
        while start_ms < end_ms:
            until = min(start_ms + stretch, end_ms)
            try:
                read = self._raw(start_ms, until)
            except SourceRefused as error:
                if not _TOO_MUCH.search(str(error)) or until - start_ms <= 1000:
                    raise
                stretch = longest = max((until - start_ms) // 2, 1000)
                continue
            per_ms = read.batch.times.size / (until - start_ms)
            aim = int(self.options.max_samples / per_ms) if per_ms else 4 * stretch
            stretch = min(max(aim, 1000), 4 * stretch, longest)
            start_ms = until
            yield read

    def _grid_parts(self, start_ms: int, end_ms: int, step_ms: int) -> Iterator[Read]:
        at, last = (start_ms // step_ms + 1) * step_ms, end_ms // step_ms * step_ms
        points, most = max(min(_FIRST_POINTS, self.options.max_samples), 1), MAX_POINTS
        while at <= last:
            until = min(at + (points - 1) * step_ms, last)
            span = {"start": _seconds(at), "end": _seconds(until), "step": f"{step_ms / 1000:.3f}"}
            try:
                forms = [{"query": selector, **span} for selector in self.selectors]
                read = self._ask("/api/v1/query_range", forms, at - 1, until, self._known)
            except SourceRefused as error:
                if not _TOO_MUCH.search(str(error)) or until == at:
                    raise
                points = most = max(((until - at) // step_ms + 1) // 2, 1)
                continue
            points = min(max(self.options.max_samples // max(len(read.batch.series), 1), 1), 4 * points, most)
            at = until + step_ms
            yield read

    def _ask(
        self, path: str, forms: Sequence[Mapping[str, str]], since_ms: int, until_ms: int, known: SeriesTable
    ) -> Read:
        raw = SEPARATOR.join(self._http.post(path, {**form, **self._extra}) for form in forms)
        try:
            batch, warnings = decode_answers(raw, since_ms, known)
        except SourceError as error:
            raise type(error)(f"{self._http.where}: {error}") from None
        batch, future = without_future(batch, until_ms)
        return Read(batch, warnings, raw, since_ms, future)


def selectors(names: Sequence[str], selector: str, longest: int = _MAX_MATCHER) -> tuple[str, ...]:
    """Instant vector selectors that together match all names once, each with a name matcher of at most ``longest`` characters.

    Parameters
    ----------
    names
        Metric names; repeated ones count once.
    selector
        Label matchers without braces, may be empty.
    longest
        Bound on a name matcher, in characters.

    Raises
    ------
    ConfigError
        A name is none or one of the detector's own, or there is no name.

    Examples
    --------
    >>> selectors(["up", "b"], 'job="x"')
    ('{__name__=~"b|up",job="x"}',)
    """
    if not names:
        raise ConfigError("profiles: the profiles name no metric; nothing would be read")
    parts: list[str] = []
    for name in sorted(set(names)):
        if not _NAME.fullmatch(name):
            raise ConfigError(f"profiles: {name!r} is no name of a metric; allowed: letters, digits, _ and :")
        if name.startswith(OWN_PREFIXES):
            raise ConfigError(
                f"profiles: {name} is what the detector itself publishes; it must not read its own scores"
            )
        if parts and len(parts[-1]) + 1 + len(name) <= longest:
            parts[-1] += f"|{name}"
        else:
            parts.append(name)
    more = f",{selector}" if selector else ""
    return tuple(f'{{__name__=~"{part}"{more}}}' for part in parts)


def _seconds(ms: int) -> str:
    return f"{ms // 1000}.{ms % 1000:03d}"

"""What is known of the running stack, from the samples that Prometheus really scraped. `Monitor` is pure; `read` asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from quickstart.configs import DETECTOR_JOB, EXPORTER_JOB
from quickstart.fetch import query
from quickstart.notes import Mishap

RANGE_SECONDS = 10
# An older sample says nothing of the present: its program or its episode is gone.
FRESH_SECONDS = 4.0
EXPORTER_ERRORS = "hwsonde_exporter_collector_errors_total"
# What each of the detector's counters of errors counts, in words.
DETECTOR_ERRORS = {
    "hwsonde_detector_read_errors_total": "the detector could not read Prometheus",
    "hwsonde_detector_step_errors_total": "a step of the detector failed",
    "hwsonde_detector_state_save_failures_total": "the detector could not save its state",
}
WINDOWS = "hwsonde_detector_windows_scored_total"
SCRAPE_SECONDS = "scrape_duration_seconds"
# A collector that says it cannot work on this host is not failing.
NOT_ERRORS = frozenset({"no_hardware", "no_permission", "no_kernel_support", "missing_tool", "disabled"})
NAMES = (
    "up",
    "scrape_samples_scraped",
    SCRAPE_SECONDS,
    "ALERTS",
    "hwsonde_exporter_collector_success",
    EXPORTER_ERRORS,
    WINDOWS,
    *DETECTOR_ERRORS,
    "hwsonde_anomaly_score",
    "hwsonde_anomaly_subsystem_score",
    "hwsonde_anomaly_calibrated",
    "hwsonde_anomaly_learning_rows",
    "hwsonde_anomaly_learning_rows_needed",
    "hwsonde_incident_active",
)


# Alerts of these severities page nobody; one of them fires always, to show that alerts arrive.
SHOWN_ONLY = frozenset({"warning", "info"})


class Series(NamedTuple):
    """Samples of one series: ``times`` in seconds since the epoch, ascending."""

    name: str
    labels: dict[str, str]
    times: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Health:
    """The present, and what was counted since the start.

    ``score`` is the newest fused score, None before the first; ``subsystem`` has the largest part of it. ``errors`` counts failed scrapes,
    failed collector runs, failed reads and steps of the detector and states that it could not save; ``late`` those of them that only missed
    a deadline; ``news`` are those that were not there at the look before.
    """

    exporter_series: int = 0
    collectors_ok: int = 0
    windows_scored: int = 0
    score: float | None = None
    max_score: float = 0.0
    subsystem: str = ""
    calibrated: bool = False
    learning_rows: int = 0
    learning_needed: int = 0
    alerts_firing: int = 0
    incidents: tuple[str, ...] = ()
    errors: int = 0
    late: int = 0
    news: tuple[Mishap, ...] = ()


@dataclass(slots=True)
class Monitor:
    """Counts over the samples of one run.

    Parameters
    ----------
    started
        Seconds since the epoch; older samples belong to an earlier run and are not looked at.
    settled
        When everything had come up; scrapes that failed before are no errors.
    scrape_timeout
        Seconds after which Prometheus gives up a scrape.

    Attributes
    ----------
    newest
        Time of the newest scrape that Prometheus has stored, well or failed; 0 before the first.
    """

    started: float
    settled: float
    scrape_timeout: float = 0.9
    newest: float = 0.0
    _seen: dict[tuple[object, ...], float] = field(default_factory=dict)
    _last: dict[tuple[object, ...], float] = field(default_factory=dict)
    _windows: int = 0
    _errors: int = 0
    _late: int = 0
    _max_score: float = 0.0

    def update(self, found: Iterable[Series], now: float) -> Health:
        """Take new samples and say how things stand at ``now``."""
        series = [self._new(one) for one in found]
        lasted = [one for one, _ in series if one.name == SCRAPE_SECONDS]
        durations = {(_key(one.labels), time): value for one in lasted for time, value in _samples(one)}
        news = tuple(mishap for one, fresh in series for mishap in self._count(one, fresh, durations))
        self._errors += sum(one.number for one in news)
        self._late += sum(one.number for one in news if one.late)
        current = [one for one, _ in series if one.times and now - one.times[-1] <= FRESH_SECONDS]
        newest = {(one.name, *_key(one.labels)): one.values[-1] for one in current}
        parts = _last(current, "hwsonde_anomaly_subsystem_score", "subsystem")
        fused = _last(current, "hwsonde_anomaly_score", "detector").get("fused")
        calibrated = [value for key, value in newest.items() if key[0] == "hwsonde_anomaly_calibrated"]
        series_of_jobs = _last(current, "scrape_samples_scraped", "job")
        return Health(
            exporter_series=int(series_of_jobs.get(EXPORTER_JOB, 0)),
            collectors_ok=int(sum(_last(current, "hwsonde_exporter_collector_success", "collector").values())),
            windows_scored=self._windows,
            score=fused,
            max_score=round(self._max_score, 3),
            subsystem=max(parts, key=lambda name: parts[name]) if parts else "",
            calibrated=bool(calibrated) and min(calibrated) == 1,
            learning_rows=_whole(newest, "hwsonde_anomaly_learning_rows"),
            learning_needed=_whole(newest, "hwsonde_anomaly_learning_rows_needed"),
            alerts_firing=sum(_pages(one) for one in current),
            incidents=tuple(sorted(_last(current, "hwsonde_incident_active", "subsystem"))),
            errors=self._errors,
            late=self._late,
            news=news,
        )

    def _new(self, one: Series) -> tuple[Series, list[tuple[float, float]]]:
        """The series from the start of this run on, and its samples that no earlier update saw."""
        inside = [(time, value) for time, value in _samples(one) if time >= self.started]
        key = (one.name, *_key(one.labels))
        seen = self._seen.get(key, 0.0)
        if inside:
            self._seen[key] = max(seen, inside[-1][0])
        times, values = zip(*inside, strict=True) if inside else ((), ())
        return Series(one.name, one.labels, times, values), [sample for sample in inside if sample[0] > seen]

    def _count(
        self, one: Series, fresh: list[tuple[float, float]], durations: Mapping[tuple[tuple[str, ...], float], float]
    ) -> list[Mishap]:
        """Count what is fresh; give the errors in it."""
        if one.name == "hwsonde_anomaly_score" and one.labels.get("detector") == "fused":
            self._max_score = max([self._max_score, *(value for _, value in fresh)])
        elif one.name == WINDOWS:
            self._windows += int(sum(grown for _, grown in self._growth(one, fresh)))
        elif one.name == "up" and fresh:
            self.newest = max(self.newest, fresh[-1][0])
            failed = [time for time, value in fresh if value == 0 and time >= self.settled]
            return [self._scrape(one, time, durations.get((_key(one.labels), time), 0.0)) for time in failed]
        elif one.name == EXPORTER_ERRORS or one.name in DETECTOR_ERRORS:
            reason = one.labels.get("reason", "")
            grown = [] if reason in NOT_ERRORS else [step for step in self._growth(one, fresh) if step[1] >= 1]
            late = one.name == EXPORTER_ERRORS and reason == "timeout"
            return [Mishap(time, _words(one), int(step), late) for time, step in grown]
        return []

    def _scrape(self, one: Series, time: float, seconds: float) -> Mishap:
        job = one.labels.get("job", "?")
        # A program that is not there refuses at once.
        if seconds >= self.scrape_timeout:
            return Mishap(time, f"the scrape of {job} was not answered within {self.scrape_timeout:g} s", late=True)
        return Mishap(time, f"the scrape of {job} failed")

    def _growth(self, one: Series, fresh: list[tuple[float, float]]) -> list[tuple[float, float]]:
        """By how much a counter grew with each sample."""
        key = (one.name, *_key(one.labels))
        steps = []
        for time, value in fresh:
            before = self._last.get(key, 0.0)
            # A counter that fell began anew with its program.
            steps.append((time, value - before if value >= before else value))
            self._last[key] = value
        return steps


def _pages(one: Series) -> bool:
    """Whether it is an alert that fires and that somebody is called for."""
    severity, state = one.labels.get("severity"), one.labels.get("alertstate")
    return one.name == "ALERTS" and state == "firing" and severity not in SHOWN_ONLY


def _words(one: Series) -> str:
    reason = one.labels.get("reason", "")
    what = DETECTOR_ERRORS.get(one.name) or f"collector {one.labels.get('collector', '?')} of the exporter failed"
    return f"{what} ({reason})" if reason else what


def _samples(one: Series) -> list[tuple[float, float]]:
    return list(zip(one.times, one.values, strict=True))


def _key(labels: dict[str, str]) -> tuple[str, ...]:
    return tuple(f"{name}={value}" for name, value in sorted(labels.items()))


def _last(current: Iterable[Series], name: str, label: str) -> dict[str, float]:
    return {one.labels.get(label, ""): one.values[-1] for one in current if one.name == name}


def _whole(newest: dict[tuple[str, ...], float], name: str) -> int:
    return int(min((value for key, value in newest.items() if key[0] == name), default=0))


def selector(names: Iterable[str] = NAMES, seconds: int = RANGE_SECONDS) -> str:
    """Raw range selector: true timestamps, and nothing that a lookback would repeat."""
    return f'{{__name__=~"{"|".join(names)}",job=~"{EXPORTER_JOB}|{DETECTOR_JOB}|"}}[{seconds}s]'


def read(port: int) -> list[Series]:
    """The last seconds of what `Monitor` wants; raises `quickstart.fetch.FetchError`."""
    return [decode(one) for one in query(port, selector())]


def decode(result: Mapping[str, Any]) -> Series:
    """One series of a matrix answer of Prometheus."""
    labels = dict(result["metric"])
    times = tuple(float(time) for time, _ in result["values"])
    values = tuple(float(value) for _, value in result["values"])
    return Series(labels.pop("__name__", ""), labels, times, values)

"""Accuracy on labelled data: python -m benchmarks.accuracy DATA_DIR --scores-out SCORES.npz [--preset NAME]...

DATA_DIR holds NAME.npz with `<entity>/train` (rows, channels), `<entity>/test`, `<entity>/label` and a meta.json with `interval_s` and,
optionally, `subsystem` by channel. A set whose meta.json has `phase_codes` holds `<run>/x` and `<run>/phase` of healthy runs instead: the
first half of the rows in the phase `steady` is learned, the second must stay quiet.

Each entity goes through `worker.step`, the code that scores live hosts, as the series of one host: the training part is
learned (in one piece, or row by row where the preset learns from what it said before it learned), then every test row is judged causally and
learned or refused as it would be live. Labels serve only for judging. NAME is a shipped preset or a path of a file; without it the preset that
suits the distance of the rows is taken, as docs/presets.md says. SCORES.npz holds the answer of the first.

On the same rows are printed: random scores, the plain mean of |z| against training, and a k-means of the last rows as Netdata trains it (each
channel's last six rows as one point, two clusters, the distance to the nearer centre over the largest of training, averaged over the channels), the
latter two with a threshold at the 99.9th percentile of training.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from benchmarks.event_metrics import Floats, Mask, average_precision, false_pages, hit_events, recall_at_budget, runs
from hwsonde_detector.config import parse_config
from hwsonde_detector.plan import Plan
from hwsonde_detector.settings import Settings
from hwsonde_detector.signals.profiles.rules import Formula, Part, Profile, Reading, Rule
from hwsonde_detector.types import Phase, SampleBatch, Score, Series, Subsystem
from hwsonde_detector.worker import WorkerState, step

# Rows further apart than this are slow: see docs/presets.md.
SLOW_MS = 15_000
_QUANTILE = 0.999
_DRAWS = 2000
_FALSE = 3
# Netdata's: points of so many rows, two clusters a channel; of so many rows of training at most.
_LAG, _CLUSTERS, _POINTS = 6, 2, 4000


def preset(name: str) -> Settings:
    """Settings of a shipped preset, or of a file by its path."""
    return parse_config(f"preset: {json.dumps(name)}\n".encode(), "--preset").settings()


def suited(interval_ms: int) -> str:
    """Name of the preset for rows so far apart."""
    return "slow" if interval_ms >= SLOW_MS else "default"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a method says of the test rows: scores (rows), alarms (rows) and parts of the score (rows, channels) if it has any."""

    score: Floats
    alarm: Mask
    contribution: Floats | None = None


@dataclass(slots=True)
class Tally:
    """Sums over the entities of a set."""

    entities: list[tuple[float, ...]] = field(default_factory=list)

    def add(self, answer: Answer, label: Mask, days: float) -> None:
        """Add one entity."""
        hit, events = recall_at_budget(label, answer.score)
        own, false = hit_events(answer.alarm, label), false_pages(answer.alarm, label)
        self.entities.append((average_precision(label, answer.score), events, hit, own, false, days))

    @property
    def totals(self) -> tuple[int, float]:
        """Events and entity-days."""
        return int(sum(one[1] for one in self.entities)), float(sum(one[5] for one in self.entities))

    def figures(self, chosen: NDArray[np.int64] | None = None) -> Floats:
        """Average precision, recall at the budget, own recall and false pages per 100 entity-days, of all entities or the chosen ones."""
        rows = np.array(self.entities)
        rows = rows if chosen is None else rows[chosen]
        known = rows[np.isfinite(rows[:, 0]), 0]
        _, events, hit, own, false, days = rows.sum(axis=0)
        precision = float(known.mean()) if len(known) else float("nan")
        return np.array([precision, hit / max(events, 1), own / max(events, 1), 100 * false / days])

    def line(self, name: str) -> str:
        """One row of the table."""
        precision, at_budget, own, false = self.figures().tolist()
        return f"{name:10s} {precision:9.3f} {at_budget:12.2f} {own:11.2f} {false:20.1f}"


def difference(ours: Tally, other: Tally, name: str, seed: int = 0) -> str:
    """How far ours is ahead of another method: each figure's difference, with what 90 of 100 draws of entities (with replacement) give."""
    rng = np.random.default_rng(seed)
    draws = rng.integers(0, len(ours.entities), size=(_DRAWS, len(ours.entities)))
    found = np.array([ours.figures(draw) - other.figures(draw) for draw in draws])
    cells = []
    for column, (value, width) in enumerate(
        zip((ours.figures() - other.figures()).tolist(), (9, 12, 11, 20), strict=True)
    ):
        known = found[np.isfinite(found[:, column]), column]
        low, high = np.percentile(known, [5, 95]) if len(known) else (np.nan, np.nan)
        digits = 0 if column == _FALSE else 2
        cells.append(f"{f'{value:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]':>{width + 8}s}")
    return f"{name:10s} {' '.join(cells)}"


HEADER = f"{'':10s} {'avg prec':>9s} {'rec@1/1000':>12s} {'own recall':>11s} {'false pages/100 days':>20s}"


def channel_floors(train: Floats) -> Floats:
    """Smallest deviation that matters (channels), standing in for what a profile knows: 1 % of the training range, 0.1 % of the level."""
    known = np.nan_to_num(train)
    floor = np.maximum(0.01 * np.ptp(known, axis=0), 0.001 * np.abs(np.median(known, axis=0)))
    return np.where(floor > 0, floor, 0.01)


def profile_of(train: Floats, subsystems: list[str] | None) -> Profile:
    """One gauge a channel, named by its number so that the order of names is that of the columns."""
    known = {subsystem.value: subsystem for subsystem in Subsystem}
    names = [f"channel_{number:04d}" for number in range(train.shape[1])]
    parts = subsystems or ["workload"] * len(names)
    rules = tuple(
        Rule(name, Formula.PLAIN, (Part(name, Reading.VALUE),), (), known.get(part, Subsystem.WORKLOAD), float(floor))
        for name, part, floor in zip(names, parts, channel_floors(train), strict=True)
    )
    return Profile("benchmark", rules)


def batch_of(entity: str, rows: Floats, first_ms: int, interval_ms: int) -> SampleBatch:
    """Rows (n, channels) as the series of one host, a sample each interval."""
    n, channels = rows.shape
    labels = (("instance", f"{entity}:1"), ("job", "benchmark"), ("node", entity))
    series = tuple(Series(f"channel_{number:04d}", labels) for number in range(channels))
    times = first_ms + interval_ms * np.arange(n, dtype=np.int64)
    offsets = n * np.arange(channels + 1, dtype=np.int64)
    return SampleBatch(series, offsets, np.tile(times, channels), np.ascontiguousarray(rows.T, np.float64).ravel())


def pipeline(
    entity: str, train: Floats, test: Floats, interval_ms: int, settings: Settings, subsystems: list[str] | None = None
) -> Answer:
    """Learn train, then judge test (rows, channels) with the shipped worker.

    A row that cannot be judged (an unknown value in its window) keeps the score before it.
    """
    profile = profile_of(train, subsystems)
    learning = replace(settings.learning, calibrated_rows=len(train))
    if settings.detectors.calibration != "live":
        learning = replace(learning, first_rows=len(train))
    plan = Plan(replace(settings, learning=learning), (profile,))
    begin = interval_ms * len(train)
    state, _ = step(WorkerState(), batch_of(entity, train, 0, interval_ms), begin, plan)
    end = begin + interval_ms * len(test)
    _, outputs = step(state, batch_of(entity, test, begin, interval_ms), end, plan)
    judged: dict[int, Score] = {}
    for report in outputs.reports:
        judged.update(((score.end_ms - begin) // interval_ms, score) for score in report.scores)
    alarm = np.zeros(len(test), np.bool_)
    opened: int | None = None
    for event in outputs.events:
        row = (event.at_ms - begin) // interval_ms
        if event.phase is Phase.OPENED:
            opened = row
        elif event.phase is Phase.CLOSED and opened is not None:
            alarm[opened:row] = True
            opened = None
    if opened is not None:
        alarm[opened:] = True
    score = np.zeros(len(test))
    contribution = np.zeros(test.shape)
    for row in range(len(test)):
        if row in judged:
            score[row] = judged[row].fused
            contribution[row] = spread(judged[row], profile)
        elif row:
            score[row] = score[row - 1]
    return Answer(score, alarm, contribution)


def spread(score: Score, profile: Profile) -> Floats:
    """Parts (channels) of a score: those of its top channels, and what is left of each subsystem evenly over its channels."""
    parts = np.zeros(len(profile.rules))
    left = dict(score.subsystems)
    for entry in score.top:
        value = entry.share * score.fused
        parts[int(entry.channel.name.removeprefix("channel_"))] += value
        left[entry.channel.subsystem] = left.get(entry.channel.subsystem, 0.0) - value
    for subsystem, value in left.items():
        places = [number for number, rule in enumerate(profile.rules) if rule.subsystem is subsystem]
        parts[places] += max(value, 0.0) / max(len(places), 1)
    return parts


def mean_abs_z(train: Floats, test: Floats) -> Answer:
    """Plain mean of |z| against training."""
    centre, scale = np.nanmean(train, axis=0), np.nanstd(train, axis=0)
    scale = np.maximum(scale, channel_floors(train))

    def score(rows: Floats) -> Floats:
        return np.asarray(np.nan_to_num(np.abs(rows - centre) / scale).mean(axis=1), np.float64)

    found = score(test)
    return Answer(found, found > np.quantile(score(train), _QUANTILE))


def k_means(train: Floats, test: Floats) -> Answer:
    """Mean over the channels of the distance of the last rows to the nearer of two centres, over the largest of training."""
    total, total_train = np.zeros(len(test)), np.zeros(len(train))
    for channel in range(train.shape[1]):
        known = np.nan_to_num(np.concatenate([train[:, channel], test[:, channel]]))
        points = np.lib.stride_tricks.sliding_window_view(np.concatenate([np.full(_LAG - 1, known[0]), known]), _LAG)
        learned = points[: len(train)]
        chosen = learned[:: max(len(learned) // _POINTS, 1)]
        if np.ptp(chosen) <= 0:
            distance = np.abs(points - chosen[0]).max(axis=1)
        else:
            centres = KMeans(_CLUSTERS, n_init=1, random_state=0).fit(chosen).cluster_centers_
            distance = np.sqrt(np.square(points[:, None, :] - centres).sum(axis=2)).min(axis=1)
        largest = max(float(distance[: len(train)].max()), 1e-12)
        scaled = np.minimum(distance / largest, 10.0)
        total_train += scaled[: len(train)] / train.shape[1]
        total += scaled[len(train) :] / train.shape[1]
    return Answer(total, total > np.quantile(total_train, _QUANTILE))


def noise(rows: int, number: int) -> Answer:
    """Random scores that alarm on one row in 1,000."""
    score = np.random.default_rng(number).random(rows)
    return Answer(score, score > _QUANTILE)


def labelled(data: Mapping[str, Any], meta: Mapping[str, Any], presets: Mapping[str, Settings]) -> dict[str, Any]:
    """Go through a labelled set; print the table, give what is to be written: the answers of the first preset."""
    interval_ms = int(1000 * meta["interval_s"])
    written: dict[str, Any] = {}
    tallies: dict[str, Tally] = {}
    entities = sorted(key.removesuffix("/label") for key in data if key.endswith("/label"))
    first = next(iter(presets))
    for number, entity in enumerate(entities):
        train, test = (np.asarray(data[f"{entity}/{part}"], np.float64) for part in ("train", "test"))
        label = np.asarray(data[f"{entity}/label"]).astype(np.bool_)
        answers = {
            name: pipeline(entity, train, test, interval_ms, settings, meta.get("subsystem"))
            for name, settings in presets.items()
        }
        ours = answers[first]
        answers |= {
            "mean |z|": mean_abs_z(train, test),
            "k-means": k_means(train, test),
            "random": noise(len(test), number),
        }
        for name, answer in answers.items():
            tallies.setdefault(name, Tally()).add(answer, label, len(test) * meta["interval_s"] / 86_400)
        written |= {
            f"{entity}/score": ours.score,
            f"{entity}/alarm": ours.alarm.astype(np.uint8),
            f"{entity}/contribution": np.asarray(ours.contribution, np.float32),
        }
        print(f"{number + 1}/{len(entities)} {entity}", file=sys.stderr, flush=True)
    events, days = tallies[first].totals
    print(f"{len(entities)} entities, {events} events, {days:.1f} entity-days")
    print(HEADER)
    for name, tally in tallies.items():
        print(tally.line(name))
    print(f"{first} less each other, with the range of 90 of 100 draws of entities")
    for name, tally in tallies.items():
        if name != first:
            print(difference(tallies[first], tally, name))
    return written


def healthy(data: Mapping[str, Any], meta: Mapping[str, Any], presets: Mapping[str, Settings]) -> dict[str, Any]:
    """Go through healthy runs: every alarm is false; print the table, give what is to be written."""
    interval_ms = int(1000 * meta["interval_s"])
    settings = next(iter(presets.values()))
    written: dict[str, Any] = {}
    print(f"{'run':10s} {'rows':>8s} {'hwsonde: alarms, share':>24s} {'mean |z|: alarms, share':>24s}")
    for run in sorted({key.split("/")[0] for key in data}):
        rows = np.asarray(data[f"{run}/x"], np.float64)
        steady = np.flatnonzero(data[f"{run}/phase"] == meta["phase_codes"]["steady"])
        train, test = rows[steady[: len(steady) // 2]], rows[steady[len(steady) // 2 :]]
        ours, plain = pipeline(run, train, test, interval_ms, settings), mean_abs_z(train, test)
        written[f"{run}/alarm"] = ours.alarm.astype(np.uint8)
        cells = [f"{len(runs(answer.alarm, 100)):14d} {answer.alarm.mean():9.3f}" for answer in (ours, plain)]
        print(f"{run:10s} {len(test):8d} {cells[0]} {cells[1]}", flush=True)
    return written


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--scores-out", type=Path, required=True)
    parser.add_argument("--preset", action="append", metavar="NAME", help="may be given several times")
    arguments = parser.parse_args()
    files = sorted(arguments.data_dir.glob("*.npz"))
    if len(files) != 1 or not (arguments.data_dir / "meta.json").is_file():
        parser.error(f"{arguments.data_dir}: one .npz file and a meta.json are needed")
    meta = json.loads((arguments.data_dir / "meta.json").read_text())
    with np.load(files[0]) as archive, threadpool_limits(1):
        data = {key: archive[key] for key in archive.files}
        judge = healthy if "phase_codes" in meta else labelled
        names = arguments.preset or [suited(int(1000 * meta["interval_s"]))]
        np.savez(arguments.scores_out, **judge(data, meta, {name: preset(name) for name in names}))


if __name__ == "__main__":
    main()

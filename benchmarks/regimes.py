"""Healthy recordings with phases: python -m benchmarks.regimes DATA_DIR [--runs b1,t2]

DATA_DIR holds NAME.npz with `<run>/x` (rows, channels) and `<run>/phase`, and a meta.json with `interval_s`, `phase_codes` and `runs`
(channels by run).
Everything goes through `worker.step`, the code that scores live hosts. All of it is healthy, so every episode is a false page. Three questions:

1. Within a run: the first half of the phase `steady` is learned, the second must stay quiet.
2. Across phases: the first phase with enough rows is learned, and the run goes on through all others.
3. Across runs: one run is learned, then another one begins, then the first one is repeated.

The last two are asked twice: without marks, and with a mark that says that the workload of a run (or of all phases behind the first) is
here. Printed are pages, the share of windows above 1, and after how many rows the scores were quiet: 50 windows in a row of which at most one
is above 1 (or never).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.accuracy import batch_of, profile_of
from benchmarks.event_metrics import Floats
from hwsonde_detector.plan import Plan
from hwsonde_detector.settings import Settings
from hwsonde_detector.signals.profiles.rules import Formula, Part, Profile, Reading, Rule
from hwsonde_detector.types import Phase, Role, SampleBatch, Series, Subsystem
from hwsonde_detector.worker import WorkerState, step

_QUIET_WINDOWS = 50
_MARK = Rule(
    "mark", Formula.PLAIN, (Part("mark", Reading.VALUE),), ("workload",), Subsystem.WORKLOAD, 1.0, role=Role.MARK
)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows (n, channels) and the workload that is marked meanwhile, empty: none."""

    rows: Floats
    workload: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was said of one stretch: pages, share of windows above 1, rows until quiet (None: never), changes of the model."""

    pages: int
    loud: float
    quiet_after: int | None
    changes: tuple[str, ...]

    def line(self, name: str) -> str:
        """One row of a table."""
        quiet = "never" if self.quiet_after is None else str(self.quiet_after)
        return f"{name:34s} {self.pages:5d} {self.loud:9.3f} {quiet:>12s}  {' '.join(self.changes)}"


HEADER = f"{'':34s} {'pages':>5s} {'above 1':>9s} {'rows to quiet':>12s}  model"


def marked(batch: SampleBatch, workload: str, rows: int) -> SampleBatch:
    """The batch with a mark that is on for all of its rows."""
    if not workload:
        return batch
    one = Series("mark", tuple(sorted((*batch.series[0].labels, ("workload", workload)))))
    count = len(batch.series)
    return SampleBatch(
        (*batch.series, one),
        rows * np.arange(count + 2, dtype=np.int64),
        np.append(batch.times, batch.times[:rows]),
        np.append(batch.values, np.ones(rows)),
    )


def play(stretches: Sequence[Stretch], interval_ms: int, settings: Settings) -> list[Answer]:
    """Learn the first stretch, then judge the others causally."""
    first = stretches[0].rows
    profile = profile_of(first, None)
    plan = Plan(settings, (Profile(profile.name, (*profile.rules, _MARK)),))
    state, begin, answers = WorkerState(), 0, []
    for stretch in stretches:
        count = len(stretch.rows)
        batch = marked(batch_of("run", stretch.rows, begin, interval_ms), stretch.workload, count)
        now = begin + interval_ms * count
        state, outputs = step(state, batch, now, plan)
        loud = [score.fused >= 1.0 for report in outputs.reports for score in report.scores]
        answers.append(
            Answer(
                sum(event.phase is Phase.OPENED for event in outputs.events),
                float(np.mean(loud)) if loud else 0.0,
                quiet_after(loud),
                tuple(
                    f"{name}:{number}" for report in outputs.reports for name, number in sorted(report.changes.items())
                ),
            )
        )
        begin = now
    return answers[1:]


def quiet_after(loud: Sequence[bool]) -> int | None:
    """Windows before the first 50 in a row of which at most one is loud; None if there are none."""
    counted = np.cumsum([0, *loud])
    for start in range(len(loud) - _QUIET_WINDOWS + 1):
        if counted[start + _QUIET_WINDOWS] - counted[start] <= 1:
            return start
    return None


def summary(answers: Iterable[Answer]) -> str:
    """One line over all stretches."""
    known = list(answers)
    quiet = [answer.quiet_after for answer in known if answer.quiet_after is not None]
    middle = f"median {np.median(quiet):.0f} rows to quiet" if quiet else "none became quiet"
    return f"{len(known)} stretches: {sum(answer.pages for answer in known)} pages, {middle}, {len(known) - len(quiet)} never quiet"


def within_runs(
    runs: Mapping[str, Floats], phases: Mapping[str, Any], steady: int, interval_ms: int, settings: Settings
) -> None:
    """Print the first question's table."""
    print(f"\nwithin a run\n{HEADER}")
    found = []
    for run, rows in runs.items():
        own = rows[phases[run] == steady]
        half = len(own) // 2
        found += play([Stretch(own[:half]), Stretch(own[half:])], interval_ms, settings)
        print(found[-1].line(run), flush=True)
    print(summary(found))


def across_phases(
    runs: Mapping[str, Floats],
    phases: Mapping[str, Any],
    codes: Mapping[int, str],
    interval_ms: int,
    settings: Settings,
) -> None:
    """Print the second question's tables."""
    for mark in ("", "job"):
        print(f"\nacross phases, {'with a mark' if mark else 'without marks'}\n{HEADER}")
        found = []
        for run, rows in runs.items():
            parts = [(codes[int(code)], len(list(group))) for code, group in groupby(phases[run].tolist())]
            bounds = np.cumsum([0, *(count for _, count in parts)])
            enough = [place for place, (_, count) in enumerate(parts) if count >= settings.learning.calibrated_rows]
            if not enough or enough[0] + 1 == len(parts):
                continue
            start = enough[0]
            stretches = [Stretch(rows[bounds[start] : bounds[start + 1]])]
            stretches += [
                Stretch(rows[bounds[place] : bounds[place + 1]], mark) for place in range(start + 1, len(parts))
            ]
            answers = play(stretches, interval_ms, settings)
            for (name, count), answer in zip(parts[start + 1 :], answers, strict=True):
                print(answer.line(f"{run}: {parts[start][0]}, then {name} ({count})"), flush=True)
            found += answers
        print(summary(found))


def across_runs(runs: Mapping[str, Floats], interval_ms: int, settings: Settings) -> None:
    """Print the third question's tables."""
    names = list(runs)
    for mark in (False, True):
        print(f"\nacross runs, {'with marks' if mark else 'without marks'}\n{HEADER}")
        new, again = [], []
        for number, first in enumerate(names):
            second = names[(number + 1) % len(names)]
            stretches = [Stretch(runs[name], name if mark else "") for name in (first, second, first)]
            answers = play(stretches, interval_ms, settings)
            print(answers[0].line(f"{first}, then {second}"))
            print(answers[1].line(f"{'':{len(first)}s}  then {first} again"), flush=True)
            new.append(answers[0])
            again.append(answers[1])
        print(f"new: {summary(new)}\nagain: {summary(again)}")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--runs", default="", help="which runs, separated by commas; all by default")
    arguments = parser.parse_args()
    files = sorted(arguments.data_dir.glob("*.npz"))
    if len(files) != 1 or not (arguments.data_dir / "meta.json").is_file():
        parser.error(f"{arguments.data_dir}: one .npz file and a meta.json are needed")
    meta = json.loads((arguments.data_dir / "meta.json").read_text())
    interval_ms = int(1000 * meta["interval_s"])
    settings = Settings()
    wanted = [name for name in arguments.runs.split(",") if name]
    with np.load(files[0]) as archive, threadpool_limits(1):
        names = wanted or sorted({key.split("/")[0] for key in archive.files})
        channels = [list(meta["runs"][name]["channels"]) for name in names]
        shared = [name for name in channels[0] if all(name in own for own in channels)]
        runs = {
            name: np.asarray(archive[f"{name}/x"], np.float64)[:, [own.index(one) for one in shared]]
            for name, own in zip(names, channels, strict=True)
        }
        phases = {name: np.asarray(archive[f"{name}/phase"]) for name in names}
        codes = {int(code): name for name, code in meta["phase_codes"].items()}
        within_runs(runs, phases, int(meta["phase_codes"]["steady"]), interval_ms, settings)
        across_phases(runs, phases, codes, interval_ms, settings)
        across_runs(runs, interval_ms, settings)


if __name__ == "__main__":
    main()

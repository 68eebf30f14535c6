"""Whether the right part is named: python -m benchmarks.attribution DATA_DIR [--phases N] [--risk P]

DATA_DIR holds a recording of real faults as `benchmarks.recorded_faults` reads it. Its rows become scrapes a second apart, go through
`worker.step` with the shipped profile, windows, tails and attribution, and are learned or refused as live. For each kind of fault are printed

found    episodes that began while it was on, or a second after, of the faults that had an effect
right    of the found ones: the subsystem that the episode names is a true one
3 s      of all faults with an effect: what three seconds of evidence name, whether or not an episode began
device   of the found ones: the device that the title names, the commonest one

and at the end how often naming the commonest subsystem always would have been right of the same ones. Faults are seconds apart, so
an episode closes after three quiet windows here. With --phases the rows are thinned N times, each time beginning one row later.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from threadpoolctl import threadpool_limits

from benchmarks.recorded_faults import Fault, Recording, read_recording
from hwsonde_detector.config.profiles import load_profiles
from hwsonde_detector.settings import Settings
from hwsonde_detector.types import Episode, Outputs, Phase, Score
from hwsonde_detector.worker import Plan, WorkerState, step

APART_MS = 950
EVIDENCE_MS = 4_000
LATE_MS = 1_000


@dataclass(slots=True)
class Tally:
    """Counts of one kind of fault, or of all."""

    effective: int = 0
    found: int = 0
    right: int = 0
    right_anyway: int = 0
    named: Counter[str] = field(default_factory=Counter)
    devices: Counter[str] = field(default_factory=Counter)
    possible: Counter[str] = field(default_factory=Counter)

    def add(self, fault: Fault, episode: Episode | None, evidence: str) -> None:
        """Add a fault that had an effect."""
        self.effective += 1
        self.right_anyway += evidence in fault.subsystems
        if episode is None:
            return
        self.found += 1
        self.right += episode.subsystem in fault.subsystems
        self.named[str(episode.subsystem)] += 1
        self.possible.update(fault.subsystems)
        if episode.device is not None:
            self.devices[f"{episode.device.kind} {episode.device.name}"] += 1

    def line(self, name: str) -> str:
        """One row of the table."""
        named = ", ".join(f"{subsystem} {count}" for subsystem, count in self.named.most_common())
        device = next(iter(self.devices.most_common(1)), ("", 0))[0]
        return (
            f"{name:14s} {self.found:5d}/{self.effective:<4d} {self.right:5d}/{self.found:<4d} "
            f"{self.right_anyway:5d}/{self.effective:<4d} {device:12s} {named}"
        )


HEADER = f"{'kind':14s} {'found':>10s} {'right':>10s} {'3 s':>10s} {'device':12s} named"


def plan_for(risk: float) -> Plan:
    """The default settings and the shipped profile, with episodes that close between faults that are seconds apart."""
    settings = Settings()
    episodes = replace(settings.episodes, clear_windows=3, settle_rows=3, risk=risk)
    return Plan(replace(settings, episodes=episodes), load_profiles(["hwsonde"]))


def play(recording: Recording, plan: Plan) -> list[Outputs]:
    """Take every scrape."""
    state, said = WorkerState(), []
    for batch, now_ms in recording.batches():
        state, outputs = step(state, batch, now_ms, plan)
        said.append(outputs)
    return said


def judged(faults: Sequence[Fault], said: Iterable[Outputs]) -> list[tuple[Fault, Episode | None, str]]:
    """Each fault that had an effect with the episode that began in it, and with the subsystem of its first seconds' evidence."""
    said = list(said)
    opened = [event.episode for outputs in said for event in outputs.events if event.phase is Phase.OPENED]
    scores = [score for outputs in said for report in outputs.reports for score in report.scores]
    result = []
    for fault in faults:
        if fault.effective and scores and fault.start_ms > scores[0].end_ms:
            inside = [one for one in opened if fault.start_ms <= one.start_ms <= fault.end_ms + LATE_MS]
            result.append((fault, inside[0] if inside else None, _evidence(fault, scores)))
    return result


def _evidence(fault: Fault, scores: Sequence[Score]) -> str:
    """Subsystem with the largest part of the scores of the fault's first seconds; empty where there is no score."""
    total: Counter[str] = Counter()
    for score in scores:
        if fault.start_ms < score.end_ms <= fault.start_ms + EVIDENCE_MS:
            for subsystem, part in score.subsystems.items():
                total[str(subsystem)] += part
    return max(total, key=lambda name: (total[name], name), default="")


def report(answers: Iterable[tuple[Fault, Episode | None, str]]) -> list[str]:
    """Lines of the table."""
    kinds: dict[str, Tally] = {}
    whole = Tally()
    for fault, episode, evidence in answers:
        for tally in (kinds.setdefault(fault.kind, Tally()), whole):
            tally.add(fault, episode, evidence)
    commonest, count = next(iter(whole.possible.most_common(1)), ("", 0))
    found = max(whole.found, 1)
    return [
        HEADER,
        *(kinds[kind].line(kind) for kind in sorted(kinds)),
        whole.line("all"),
        f"right of the found: {whole.right / found:.2f}; always {commonest or 'nothing'}: {count / found:.2f}",
    ]


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--phases", type=int, default=1, help="how often the rows are thinned (default: %(default)s)")
    parser.add_argument("--risk", type=float, default=Settings().episodes.risk)
    arguments = parser.parse_args()
    plan = plan_for(arguments.risk)
    try:
        recording = read_recording(arguments.data_dir, plan.profiles[0])
    except (OSError, KeyError, ValueError) as error:
        parser.error(f"{arguments.data_dir}: {error}")
    answers = []
    with threadpool_limits(1):
        for phase in range(max(arguments.phases, 1)):
            thinned = recording.thinned(APART_MS, phase)
            answers += judged(recording.faults, play(thinned, plan))
            print(f"{phase + 1}/{arguments.phases}: {len(thinned.times)} scrapes of {len(recording.series)} series", file=sys.stderr)
    print("\n".join(report(answers)))


if __name__ == "__main__":
    main()

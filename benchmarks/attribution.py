"""Whether the right part is named: python -m benchmarks.attribution DATA_DIR [--phases N]

DATA_DIR holds a recording of real faults as `benchmarks.recorded_faults` reads it. Its rows become scrapes a second apart and go through the
shipped profile, windows, tails and attribution; only the rows before the first fault are learned. For each kind of fault are printed

found    of the faults that had an effect: in at least four windows the three most surprising channels surprise more, on the mean,
         than in 99 of 100 learned ones
right    of the found ones: the subsystem that three seconds of evidence name first is a true one
3 s      the same of all faults that had an effect
device   the device that is blamed most often, and how often any is

and at the end how often naming the commonest subsystem always would have been right of the found ones. This measures what is named, not
how well faults are found: for that a recording of half an hour is too short. With --phases the rows are thinned N times, each time
beginning one row later.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.recorded_faults import Fault, Recording, read_recording
from hwsonde_detector.config.profiles import load_profiles
from hwsonde_detector.decision.model import fit_model, judge
from hwsonde_detector.explain.attribution import by_subsystem, devices_to_blame, evidence
from hwsonde_detector.settings import Settings
from hwsonde_detector.signals.channels import ChannelState, advance
from hwsonde_detector.signals.profiles import Profile
from hwsonde_detector.types import Device, Subsystem

APART_MS = 950
INTERVAL_MS = 1000
EVIDENCE_MS = 4_000
LATE_MS = 1_000
# Rows before the first fault that are not learned any more.
MARGIN_MS = 20_000
# A fault is found in so many windows whose loudest channels are louder than in this percentage of the learned ones.
WINDOWS, LOUDEST, PERCENTILE = 4, 3, 99.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said of a fault: whether it is found, and what three seconds of evidence name."""

    fault: Fault
    found: bool
    subsystem: Subsystem | None
    devices: tuple[Device, ...]

    @property
    def right(self) -> bool:
        """Whether a true subsystem is named."""
        return self.subsystem is not None and str(self.subsystem) in self.fault.subsystems


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

    def add(self, answer: Answer) -> None:
        """Add a fault that had an effect."""
        self.effective += 1
        self.right_anyway += answer.right
        self.named[str(answer.subsystem or "nothing")] += 1
        if len(answer.devices) == 1:
            self.devices[f"{answer.devices[0].kind} {answer.devices[0].name}"] += 1
        if answer.found:
            self.found += 1
            self.right += answer.right
            self.possible.update(answer.fault.subsystems)

    def line(self, name: str) -> str:
        """One row of the table."""
        named = ", ".join(f"{subsystem} {count}" for subsystem, count in self.named.most_common())
        device, _ = next(iter(self.devices.most_common(1)), ("", 0))
        blamed = f"{device} ({self.devices.total()})" if device else ""
        return (
            f"{name:14s} {self.found:5d}/{self.effective:<4d} {self.right:5d}/{self.found:<4d} "
            f"{self.right_anyway:5d}/{self.effective:<4d} {blamed:16s} {named}"
        )


HEADER = f"{'kind':14s} {'found':>10s} {'right':>10s} {'3 s':>10s} {'device':16s} named after 3 s"


def answers(recording: Recording, profile: Profile, settings: Settings) -> list[Answer]:
    """Learn the rows before the first fault, then judge every fault that had an effect.

    Raises
    ------
    ValueError
        If there are too few rows before the first fault to learn from.
    """
    state, frames = ChannelState(), []
    for batch, _ in recording.batches():
        state, news = advance(state, batch, (profile,))
        frames.append(news.frame)
    channels = frames[-1].channels
    times = np.concatenate([frame.times for frame in frames if frame.channels == channels])
    values = np.concatenate([frame.values for frame in frames if frame.channels == channels])
    healthy = int(np.searchsorted(times, recording.faults[0].start_ms - MARGIN_MS))
    model = fit_model(values[:healthy], times[:healthy], INTERVAL_MS, channels, settings)
    if model is None:
        raise ValueError(f"{healthy} rows before the first fault are too few to learn from")
    judged = judge(model, values, times, INTERVAL_MS, settings)
    ends = times[judged.windows]
    strengths = evidence(judged.surprises, channels, judged.deviations)
    loudness = np.sort(judged.surprises, axis=1)[:, -LOUDEST:].mean(axis=1)
    level = np.percentile(loudness[ends < times[healthy]], PERCENTILE)
    result = []
    for fault in recording.faults:
        first = (ends > fault.start_ms) & (ends <= fault.start_ms + EVIDENCE_MS)
        during = (ends > fault.start_ms) & (ends <= fault.end_ms + LATE_MS)
        if not fault.effective or not first.any():
            continue
        total = strengths[first].sum(axis=0)
        shares = by_subsystem(total, channels)
        named = max(shares, key=lambda name: (shares[name], name)) if total.sum() > 0 else None
        devices = devices_to_blame(total, channels, named) if named is not None else ()
        result.append(Answer(fault, int((loudness[during] > level).sum()) >= WINDOWS, named, devices))
    return result


def report(found: Iterable[Answer]) -> list[str]:
    """Lines of the table."""
    kinds: dict[str, Tally] = {}
    whole = Tally()
    for answer in found:
        for tally in (kinds.setdefault(answer.fault.kind, Tally()), whole):
            tally.add(answer)
    commonest, count = next(iter(whole.possible.most_common(1)), ("nothing", 0))
    of_found, of_all = whole.right / max(whole.found, 1), whole.right_anyway / max(whole.effective, 1)
    return [
        HEADER,
        *(kinds[kind].line(kind) for kind in sorted(kinds)),
        whole.line("all"),
        f"right: {of_found:.2f} of the found, {of_all:.2f} of all; always {commonest}: {count / max(whole.found, 1):.2f} of the found",
    ]


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--phases", type=int, default=1, help="how often the rows are thinned (default: %(default)s)")
    arguments = parser.parse_args()
    (profile,) = load_profiles(["hwsonde"])
    found: list[Answer] = []
    try:
        recording = read_recording(arguments.data_dir, profile)
        with threadpool_limits(1):
            for phase in range(max(arguments.phases, 1)):
                thinned = recording.thinned(APART_MS, phase)
                print(f"{len(thinned.times)} scrapes of {len(recording.series)} series", file=sys.stderr, flush=True)
                found += answers(thinned, profile, Settings())
    except (OSError, KeyError, ValueError) as error:
        parser.error(f"{arguments.data_dir}: {error}")
    print("\n".join(report(found)))


if __name__ == "__main__":
    main()

"""What a series that the detector publishes is, and the counters of the detector's own health. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from hwsonde_detector.types import FaultKind, Subsystem

_NAME = re.compile(r"hwsonde_[a-z0-9]+(_[a-z0-9]+)*\Z")


class Kind(StrEnum):
    """The exposition format's type of a family."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"  # only _sum and _count


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family.

    Parameters
    ----------
    name, kind, help
        As Prometheus shows them.
    labels
        Names of the labels beyond those of the entity.
    known
        For counters: values of the one label that are known in advance, so that their series begin at 0.

    Raises
    ------
    ValueError
        If the name breaks the rules of the exposition format or of this project.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    known: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.match(self.name) or (self.kind is Kind.COUNTER) != self.name.endswith("_total"):
            raise ValueError(f"family name {self.name!r}")


class Sample(NamedTuple):
    """One value of one family; ``labels`` are pairs, ``suffix`` is ``_sum`` or ``_count`` for a summary."""

    family: Family
    labels: tuple[tuple[str, str], ...]
    value: float
    suffix: str = ""


READ_REASONS = ("unreachable", "refused", "garbled", "partial", "error", "defect")
SKIP_REASONS = ("not_full", "coverage")
DROP_REASONS = ("reset", "impossible", "future")
EXCUSES = ("start", "stop", "phase", "returning")
REGIME_CHANGES = ("learned", "returned", "rebased")
_SUBSYSTEMS = tuple(str(subsystem) for subsystem in Subsystem)
_FAULT_KINDS = tuple(str(kind) for kind in FaultKind if kind is not FaultKind.PARTIAL)


def _counter(name: str, text: str, label: str = "", known: tuple[str, ...] = ()) -> Family:
    return Family(f"hwsonde_detector_{name}_total", Kind.COUNTER, text, (label,) if label else (), known)


TICKS = _counter("ticks", "Turns of the loop: one read and one step.")
LATE_TICKS = _counter(
    "late_ticks_skipped", "Turns that were due while another one was still at work; skipped, never queued."
)
READS = _counter("reads", "Answers of the source.")
READ_ERRORS = _counter("read_errors", "Reads that failed, by reason.", "reason", READ_REASONS)
READ_SAMPLES = _counter("samples_read", "Samples in all answers of the source, including those seen before.")
STEP_ERRORS = _counter("step_errors", "Steps that ended in a defect of the detector; their samples are lost.")
WINDOWS_SCORED = _counter("windows_scored", "Windows that were judged.")
WINDOWS_SKIPPED = _counter("windows_skipped", "Windows that were not judged, by reason.", "reason", SKIP_REASONS)
VALUES_DROPPED = _counter(
    "values_dropped",
    "Values that were left out: after a counter reset, out of their valid range, or later than the time that was asked for.",
    "reason",
    DROP_REASONS,
)
EPISODES = _counter(
    "episodes", "Episodes that opened, by the subsystem that was named first.", "subsystem", _SUBSYSTEMS
)
EPISODES_NORMAL = _counter(
    "episodes_normal",
    "Episodes that were not told because they opened in a silence that says so or in a maintenance window, by which of them.",
    "kind",
    ("silence", "maintenance"),
)
EPISODES_MARKED = _counter(
    "episodes_marked", "Incidents that people marked, by what they said.", "mark", ("useful", "noise")
)
AUTOMATION = _counter(
    "automation_actions",
    "Actions for incidents, by result: done, failed, only said because of a dry run, refused by a limit or because it could not be written down.",
    "result",
    ("done", "failed", "dry_run", "refused"),
)
WINDOWS_EXCUSED = _counter(
    "windows_excused",
    "Windows above 1 that opened no episode because workloads had begun, ended or changed phase, by reason.",
    "reason",
    EXCUSES,
)
REGIMES = _counter(
    "regime_changes",
    "Times that another model came into force: a new regime was learned, a former one returned, a lasting shift became the new normal.",
    "change",
    REGIME_CHANGES,
)
DATA_FAULTS = _counter(
    "data_faults", "Episodes of data faults that opened, by the kind that was named first.", "kind", _FAULT_KINDS
)
STATE_SAVES = _counter("state_saves", "Times that models and episodes were written to disk.")
STATE_FAILURES = _counter("state_save_failures", "Times that models and episodes could not be written to disk.")
RELOADS = _counter("reloads", "Times that the configuration was read again, by result.", "result", ("ok", "failed"))
READ_SECONDS = Family(
    "hwsonde_detector_read_duration_seconds", Kind.SUMMARY, "Time that reads took, failed ones included."
)
STEP_SECONDS = Family("hwsonde_detector_step_duration_seconds", Kind.SUMMARY, "Time from an answer to its scores.")

COUNTED = (
    TICKS, LATE_TICKS, READS, READ_ERRORS, READ_SAMPLES, STEP_ERRORS, WINDOWS_SCORED, WINDOWS_SKIPPED, VALUES_DROPPED, EPISODES,
    EPISODES_NORMAL, EPISODES_MARKED, AUTOMATION,
    WINDOWS_EXCUSED, REGIMES, DATA_FAULTS,
    STATE_SAVES, STATE_FAILURES, RELOADS, READ_SECONDS, STEP_SECONDS,
)  # fmt: skip


class Counters:
    """The detector's own counters, all of them at 0 from the start; owned by the loop's thread."""

    def __init__(self) -> None:
        self._values: dict[tuple[Family, str, str], float] = {}
        for family in COUNTED:
            suffixes = ("_sum", "_count") if family.kind is Kind.SUMMARY else ("",)
            for suffix in suffixes:
                for value in family.known or (("",) if not family.labels else ()):
                    self._values[family, value, suffix] = 0.0

    def add(self, family: Family, amount: float = 1.0, label: str = "") -> None:
        """Count; ``label`` is the value of the family's one label."""
        key = (family, label, "")
        self._values[key] = self._values.get(key, 0.0) + amount

    def observe(self, family: Family, value: float) -> None:
        """Add one observation to a summary."""
        self._values[family, "", "_sum"] += value
        self._values[family, "", "_count"] += 1

    def value(self, family: Family, label: str = "", suffix: str = "") -> float:
        """Present value, 0 where nothing was counted."""
        return self._values.get((family, label, suffix), 0.0)

    def samples(self) -> tuple[Sample, ...]:
        """Every counter as it stands."""
        return tuple(
            Sample(family, ((family.labels[0], label),) if family.labels else (), value, suffix)
            for (family, label, suffix), value in self._values.items()
        )

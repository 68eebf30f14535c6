"""All of the middle floors for a set of hosts: `step` turns new samples into scores and episode events, without clock, network or file.

`step` owns the state that it is given: the caller passes it in, takes the returned one and does not touch the old one again
(models are large, copying them each second would cost more than scoring). Equal state, batch and time give equal results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from hwsonde_detector.host import HostState, observe
from hwsonde_detector.hoststate import restore_host, snapshot_host
from hwsonde_detector.settings import Settings
from hwsonde_detector.signals.channels import ChannelState
from hwsonde_detector.signals.entities import Split, plan_split
from hwsonde_detector.signals.profiles import Profile
from hwsonde_detector.types import Entity, EntityReport, EpisodeEvent, Outputs, SampleBatch


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do with samples: the settings, and the profiles limited to the settings' subsystems."""

    settings: Settings
    profiles: tuple[Profile, ...]

    def __post_init__(self) -> None:
        limited = tuple(profile.limited_to(self.settings.subsystems) for profile in self.profiles)
        object.__setattr__(self, "profiles", limited)


@dataclass(slots=True)
class WorkerState:
    """Everything known of every host, and how the last batch's series fell into hosts."""

    hosts: dict[Entity, HostState] = field(default_factory=dict)
    split: Split | None = None


def step(state: WorkerState, batch: SampleBatch, now_ms: int, plan: Plan) -> tuple[WorkerState, Outputs]:
    """Take the samples of one tick.

    Parameters
    ----------
    state
        What the last step returned, or ``WorkerState()``.
    batch
        Raw samples; those seen before are ignored.
    now_ms
        Time of the tick. Samples decide what is scored; the time only says whose silence has lasted too long.
    plan
        Settings and profiles.
    """
    reports: list[EntityReport] = []
    events: list[EpisodeEvent] = []
    gone: list[Entity] = []
    if state.split is None or not state.split.fits(batch, plan.settings.entity_labels):
        state.split = plan_split(batch.series, plan.settings.entity_labels)
    parts = state.split.apply(batch)
    for entity in sorted(parts.keys() | state.hosts.keys()):
        host = state.hosts.setdefault(entity, HostState(entity, ChannelState(entity)))
        report, happened = observe(host, parts.get(entity, SampleBatch.empty()), now_ms, plan.settings, plan.profiles)
        events += happened
        if report is None:
            del state.hosts[entity]
            gone.append(entity)
        else:
            reports.append(report)
    return state, Outputs(tuple(reports), tuple(events), tuple(gone))


def last_row_ms(state: WorkerState) -> int | None:
    """Time of the newest row of any host; None before the first."""
    return max((host.last_row_ms for host in state.hosts.values() if host.last_row_ms is not None), default=None)


def snapshot(state: WorkerState) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Document and arrays for the state on disk."""
    document: dict[str, Any] = {"hosts": []}
    arrays: dict[str, NDArray[Any]] = {}
    for index, entity in enumerate(sorted(state.hosts)):
        part, own = snapshot_host(state.hosts[entity])
        document["hosts"].append(part)
        arrays |= {f"{index}/{key}": value for key, value in own.items()}
    return document, arrays


def restore(document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], plan: Plan) -> WorkerState:
    """Rebuild the state from `snapshot`.

    Raises
    ------
    KeyError, ValueError, TypeError
        If something is missing or of another shape; the caller starts cold.
    """
    state = WorkerState()
    for index, part in enumerate(document["hosts"]):
        prefix = f"{index}/"
        own = {key[len(prefix) :]: value for key, value in arrays.items() if key.startswith(prefix)}
        host = restore_host(part, own, plan.settings)
        state.hosts[host.entity] = host
    return state

"""The plain values that rooms hand to each other.

Times are UTC, integers of milliseconds since the epoch. Nothing here computes, reads a clock or touches a file.
"""

from __future__ import annotations

from hwsonde_detector.types.faults import (
    DataFault,
    DataFaultEpisode,
    DataFaultEvent,
    DataQuality,
    FaultEvidence,
    FaultKind,
)
from hwsonde_detector.types.outputs import (
    EntityReport,
    Hushed,
    Outputs,
)
from hwsonde_detector.types.samples import (
    Channel,
    Device,
    Entity,
    Floats,
    Frame,
    Labels,
    Mask,
    Role,
    SampleBatch,
    Series,
    Subsystem,
    Times,
)
from hwsonde_detector.types.scores import (
    Contribution,
    Direction,
    Episode,
    EpisodeEvent,
    Learning,
    Phase,
    Scope,
    Score,
    SettingFinding,
)

__all__ = [
    "Channel",
    "Contribution",
    "DataFault",
    "DataFaultEpisode",
    "DataFaultEvent",
    "DataQuality",
    "Device",
    "Direction",
    "Entity",
    "EntityReport",
    "Episode",
    "EpisodeEvent",
    "FaultEvidence",
    "FaultKind",
    "Floats",
    "Frame",
    "Hushed",
    "Labels",
    "Learning",
    "Mask",
    "Outputs",
    "Phase",
    "Role",
    "SampleBatch",
    "Scope",
    "Score",
    "Series",
    "SettingFinding",
    "Subsystem",
    "Times",
]

"""Which cgroups are workloads: a bounded set that changes as little as it can."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from hwsonde_exporter.collectors._cgroup_files import Read, memory_used, usage
from hwsonde_exporter.collectors._cgroups import Forest, Group
from hwsonde_exporter.collectors._workload_names import Identity, Rank, identify
from hwsonde_exporter.workload_options import WorkloadOptions

# A pod's sandbox process only sleeps: it used less than this, and less memory, in all its life.
_IDLE_CPU_MICROSECONDS = 1_000_000
_IDLE_MEMORY_BYTES = 8 << 20


@dataclass(slots=True, eq=False)
class Entity:
    """A cgroup that stands for somebody.

    Attributes
    ----------
    identity, group
        Whose it is, and where.
    members
        Itself and the cgroups below that belong to it.
    outer
        The entity that it lies in.
    holds
        Whether there are jobs or containers in it that stand for themselves.
    """

    identity: Identity
    group: Group
    outer: Entity | None
    members: list[Group] = field(default_factory=list)
    holds: bool = False

    @property
    def workload(self) -> str:
        """Its name."""
        return self.identity.workload


def find_entities(forest: Forest, is_populated: Callable[[Group], bool]) -> list[Entity]:
    """Everybody whom a cgroup stands for.

    Jobs and containers count where they are met first on the way down: what runs in a job's container is the job's. A folder
    of a plain tree is nobody's unless it has processes of its own (``is_populated``).
    """
    found: dict[str, Entity] = {}
    stack: list[Entity] = []
    for parts, group in forest.groups.items():
        while stack and parts[: len(stack[-1].group.parts)] != stack[-1].group.parts:
            stack.pop()
        outer = stack[-1] if stack else None
        final = outer is not None and outer.identity.final
        identity = None if final else identify(parts, inside=outer is not None)
        plain = identity is not None and identity.rank is Rank.PLAIN
        if identity is None or identity.workload in found or (plain and not group.empty and not is_populated(group)):
            if outer is not None:
                outer.members.append(group)
            continue
        entity = found[identity.workload] = Entity(identity, group, outer, [group])
        for around in stack:
            around.holds = True
        stack.append(entity)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Selection:
    """The workloads in order of name, the others, and how many were left out for want of room."""

    chosen: tuple[Entity, ...]
    others: tuple[Entity, ...]
    left_out: int


def choose(entities: Iterable[Entity], before: Collection[str], options: WorkloadOptions, read: Read) -> Selection:
    """Choose the workloads.

    Jobs come first, then containers, then users, services and plain cgroups that have used enough. Of those of one kind who
    was chosen ``before`` stays until its end, so that the set does not change with every breath of the host.
    """
    eligible: list[tuple[tuple[int, bool, int, str], Entity]] = []
    others: list[Entity] = []
    for entity in entities:
        rank = entity.identity.rank
        if entity.holds and rank >= Rank.UNIT:
            continue  # a folder: what it uses is what those in it use
        known = entity.workload in before
        cpu = usage(read, entity.group)
        if known or _is_of_interest(entity, cpu, options, read):
            eligible.append(((rank, not known, -(cpu or 0), entity.workload), entity))
        else:
            others.append(entity)
    eligible.sort(key=lambda pair: pair[0])
    ranked = [entity for _, entity in eligible]
    chosen = sorted(ranked[: options.limit], key=lambda entity: entity.workload)
    return Selection(tuple(chosen), tuple(others + ranked[options.limit :]), max(0, len(ranked) - options.limit))


def _is_of_interest(entity: Entity, cpu: int | None, options: WorkloadOptions, read: Read) -> bool:
    rank = entity.identity.rank
    if rank is Rank.JOB:
        return True
    memory = memory_used(read, entity.group)
    if rank is Rank.CONTAINER:
        if cpu is None and memory is None:
            return True
        return (cpu or 0) >= _IDLE_CPU_MICROSECONDS or (memory or 0) >= _IDLE_MEMORY_BYTES
    return (cpu or 0) >= options.minimum_cpu_seconds * 1e6 or (memory or 0) >= options.minimum_memory_bytes


def outermost(chosen: Iterable[Entity]) -> list[Entity]:
    """Those of the chosen that lie in no other chosen one: what they used can be added up."""
    chosen = list(chosen)
    names = {entity.workload for entity in chosen}

    def is_inside(entity: Entity) -> bool:
        around = entity.outer
        while around is not None:
            if around.workload in names:
                return True
            around = around.outer
        return False

    return [entity for entity in chosen if not is_inside(entity)]

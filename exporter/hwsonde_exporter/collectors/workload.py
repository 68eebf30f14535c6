"""Jobs, containers, users and services: what each uses of the host, waits for and is held back by."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from hwsonde_exporter.collectors import _workload_tables as table
from hwsonde_exporter.collectors._cgroup_files import (
    Row,
    cpu_rows,
    io_rows,
    memory_rows,
    pressure_rows,
    thread_rows,
    usage,
)
from hwsonde_exporter.collectors._cgroups import UNIFIED, Forest, Group, Hierarchy, find_hierarchies, is_part, walk
from hwsonde_exporter.collectors._files import entries
from hwsonde_exporter.collectors._workload_counters import Continued
from hwsonde_exporter.collectors._workload_limits import LimitCounts
from hwsonde_exporter.collectors._workload_names import Rank
from hwsonde_exporter.collectors._workload_network import NamespaceReader
from hwsonde_exporter.collectors._workload_others import Others
from hwsonde_exporter.collectors._workload_pods import PodNames, parse_passwd, read_pod_names
from hwsonde_exporter.collectors._workload_select import Entity, Selection, choose, find_entities, outermost
from hwsonde_exporter.collectors._workload_tasks import TaskReader
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register
from hwsonde_exporter.workload_options import WorkloadOptions

# Looking for new cgroups takes at most a fiftieth of the time, and happens when something changed or after half a minute.
_WALK_SHARE = 50
_WALK_SECONDS = 30.0
_LOOP_MAJOR = b"7:"


@register
class WorkloadCollector:
    """Control groups, joined to Slurm jobs, pods, containers, users' sessions and systemd's services.

    Reads the files of the workloads at each scrape, because rates of what was read at another time than it is stamped with are
    wrong. Which cgroups there are it looks up only when the kernel's number of them has changed, when a workload has
    ended, or now and then.

    Parameters
    ----------
    host
        Whose kernel files are read.
    options
        Bounds and thresholds; taken from the host's options if not given.
    clock
        Monotonic seconds, for the bounds on the time to look for cgroups.
    """

    name: ClassVar[str] = "workload"
    help: ClassVar[str] = "Jobs, pods, containers, users and services"
    metrics: ClassVar[tuple[Metric, ...]] = table.METRICS
    period: ClassVar[float | None] = None
    enabled: ClassVar[bool] = True

    def __init__(
        self, host: Host, *, options: WorkloadOptions | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.host = host
        self._given = options
        self.options = options or host.workloads()
        self._clock = clock
        self._ticks = os.sysconf("SC_CLK_TCK")
        procfs = str(host.paths.procfs)
        self._tasks = TaskReader(self._read, procfs, self.options.tasks, self._ticks)
        self._namespaces = NamespaceReader(self._read, procfs)
        self._continued = Continued()
        self._others = Others()
        self._limits = LimitCounts()
        self._trees: list[Hierarchy] = []
        self._forest = Forest({}, complete=True)
        self._selection = Selection((), (), 0)
        self._names = PodNames({}, {})
        self._users: dict[str, str] = {}
        self._stacked: dict[bytes, bool] = {}
        self._mark: bytes | None = None
        self._walk_after = self._walk_before = 0.0
        self._processes: dict[str, list[int]] = {}

    def probe(self) -> None:
        """Find the trees of cgroups; raise `Unavailable` where there are none, or none of the host's."""
        self.options = self._given or self.host.workloads()
        self._tasks.budget = self.options.tasks
        self._trees = find_hierarchies(self.host)
        self._stacked = {}
        self._mark = None
        self._walk_after = 0.0
        if any(is_part(self.host, tree) for tree in self._trees):
            detail = (
                f"{self.host.paths.sys('fs/cgroup')} shows only the control group of this container; mount the host's /sys and name it "
                "with --path.sysfs, or run in the host's cgroup namespace"
            )
            raise Unavailable(Reason.NO_PERMISSION, detail)
        if not self._trees:
            raise Unavailable(
                Reason.NO_KERNEL_SUPPORT,
                f"no control groups are mounted under {self.host.paths.sys('fs/cgroup')}; is --path.sysfs right?",
            )

    def collect(self) -> Iterable[Sample]:
        """Read every workload once; a file that cannot be read loses only its own series."""
        mark = self._count_mark()
        now = self._clock()
        if (mark != self._mark and now >= self._walk_after) or now >= self._walk_before:
            self._look(mark, now)
        present: list[tuple[Entity, int]] = []
        for entity in self._selection.chosen:
            identity = _identity_of(entity.group)
            if identity is None:
                self._mark = None  # it has ended: look for the others at the next scrape
            else:
                present.append((entity, identity))
        samples: list[Sample] = []
        self._limits.begin()
        rows = self._rows([entity for entity, _ in present])
        for entity, identity in present:
            samples += self._samples(entity, identity, rows.get(entity.workload, []))
        samples += self._network_samples([entity for entity, _ in present])
        samples += self._other_samples([entity for entity, _ in present])
        if not samples:
            raise ReadError("no file of any control group can be read; is --path.sysfs right?")
        samples.append(Sample(table.CGROUPS, (), len(self._forest.groups)))
        samples.append(Sample(table.LEFT_OUT, (), self._selection.left_out))
        samples.append(Sample(table.WALK_COMPLETE, (), int(self._forest.complete)))
        return samples

    def _look(self, mark: bytes | None, now: float) -> None:
        """Find the cgroups, and choose among them."""
        self._forest = walk(self._trees, self._clock)
        entities = find_entities(self._forest, lambda group: bool(self._tasks.processes([group])))
        before = {entity.workload for entity in self._selection.chosen}
        self._selection = choose(entities, before, self.options, self._read)
        rootfs = str(self.host.paths.rootfs)
        if any(entity.identity.pod_uid for entity in self._selection.chosen):
            self._names = read_pod_names(rootfs)
        if self.options.user_names:
            data = self._read(f"{rootfs.rstrip('/')}/etc/passwd")
            self._users = parse_passwd(data) if data else {}
        self._mark = mark
        ended = self._clock()
        self._walk_after = ended + _WALK_SHARE * (ended - now)
        self._walk_before = ended + _WALK_SECONDS

    def _count_mark(self) -> bytes | None:
        """What changes when a cgroup comes or goes; None if the kernel does not tell."""
        unified = next((tree.folder for tree in self._trees if UNIFIED in tree.controllers), None)
        data = self._read(f"{unified}/cgroup.stat") if unified is not None else None
        # Those that are dying count on another line; they may linger for hours.
        count = data.partition(b"\n")[0] if data else None
        if len(self._trees) == 1 and unified is not None:
            return count
        # Of version 1 only this file counts them, those of version 2 too.
        table_of_all = self._read(str(self.host.paths.proc("cgroups")))
        return None if count is None and table_of_all is None else (count or b"") + (table_of_all or b"")

    def _rows(self, present: Sequence[Entity]) -> dict[str, list[Row]]:
        """Rows of the threads of each workload, by its name."""
        self._processes = {entity.workload: self._tasks.processes(entity.members) for entity in present}
        if not self.options.tasks:
            return {}
        return self._tasks.rows(
            {entity.workload: (self._processes[entity.workload], entity.members) for entity in present}
        )

    def _samples(self, entity: Entity, identity: int, tasks: Sequence[Row]) -> list[Sample]:
        group, name = entity.group, entity.workload
        rows = [
            *cpu_rows(self._read, group, self._ticks),
            *pressure_rows(self._read, group),
            *memory_rows(self._read, group),
            *self._limits.rows(self._read, (name, identity), entity.members),
            *io_rows(self._read, group, self._is_stacked),
            *thread_rows(self._read, group),
        ]
        steady = self._continued.begin(name, identity)
        samples = []
        for metric, labels, value, divisor in rows:
            if metric.kind is Kind.COUNTER:
                value = steady((metric.name, labels), value)  # noqa: PLW2901  (the same value, made steady)
            samples.append(_sample(name, metric, labels, value, divisor))
        if not samples and not self._processes.get(name):
            return []
        samples += [_sample(name, *row) for row in tasks]
        return [self._info(entity), *samples]

    def _info(self, entity: Entity) -> Sample:
        identity = entity.identity
        namespace, pod, container = self._names.of(identity)
        user = self._user(entity) if self.options.user_names else ""
        labels = (identity.manager, identity.name, namespace, pod, container, identity.job_id, user)
        return Sample(table.INFO, (entity.workload, *labels), 1)

    def _user(self, entity: Entity) -> str:
        """Name of whose it is, or the number; of a job whose path does not tell, the first of its processes that is not root's."""
        number = entity.identity.uid
        if not number and entity.identity.rank is Rank.JOB:
            owners = (_owner_of(f"{self.host.paths.procfs}/{process}") for process in self._processes[entity.workload])
            number = next((str(owner) for owner in owners if owner), "")
        return self._users.get(number, number)

    def _network_samples(self, present: Sequence[Entity]) -> list[Sample]:
        """TCP of the namespaces: a pod's containers share one, so it is the pod's."""
        owners: dict[str, list[int]] = {}
        pods: dict[str, Entity] = {}
        for entity in present:
            uid = entity.identity.pod_uid
            owner = f"pod:{uid}" if uid else entity.workload
            if uid:
                pods.setdefault(owner, entity)
            owners.setdefault(owner, []).extend(self._processes.get(entity.workload, ()))
        samples = []
        for owner, rows in self._namespaces.rows(owners).items():
            if owner in pods:
                namespace, pod, _ = self._names.of(pods[owner].identity)
                samples.append(Sample(table.INFO, (owner, "kubernetes", pod, namespace, pod, "", "", ""), 1))
            samples += [_sample(owner, *row) for row in rows]
        return samples

    def _other_samples(self, present: Sequence[Entity]) -> list[Sample]:
        root = self._forest.groups.get(())
        whole = usage(self._read, root, root=True) if root is not None else None
        if whole is None:
            return []
        used = {entity.workload: usage(self._read, entity.group) for entity in outermost(present)}
        known = {name: value for name, value in used.items() if value is not None}
        rest, named = self._others.update(whole, known, self._selection.others, self._read)
        samples = [Sample(table.OTHER_CPU, (), rest / 1e6)]
        samples += [Sample(table.OTHER_CGROUP_CPU, (name,), value / 1e6) for name, value in named.items()]
        return samples

    def _is_stacked(self, number: bytes) -> bool:
        """Whether a block device (``major:minor``) lies on others, or on a file of one."""
        known = self._stacked.get(number)
        if known is None:
            name = number.decode("ascii", "replace")
            slaves = self.host.paths.sys("dev/block", name, "slaves") if name.replace(":", "").isdigit() else Path("/")
            known = self._stacked[number] = number.startswith(_LOOP_MAJOR) or (
                slaves != Path("/") and bool(entries(slaves))
            )
        return known

    def _read(self, path: str) -> bytes | None:
        try:
            return self.host.files.read_once(path)
        except ReadError:
            return None


def _owner_of(folder: str) -> int | None:
    """User number of a process, to whom its folder in /proc belongs; None if it has ended."""
    try:
        return os.stat(folder).st_uid  # noqa: PTH116  (as below)
    except OSError:
        return None


def _sample(workload: str, metric: Metric, labels: tuple[str, ...], value: int, divisor: int) -> Sample:
    return Sample(metric, (workload, *labels), value if divisor == 1 else value / divisor)


def _identity_of(group: Group) -> int | None:
    """Number of a cgroup, which its successor of the same name does not get; None if it has ended."""
    for folder in group.where.values():
        try:
            return os.stat(folder).st_ino  # noqa: PTH116  (once a workload and scrape)
        except OSError:
            continue
    return None

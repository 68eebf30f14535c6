"""The metrics of workloads."""

from __future__ import annotations

from functools import partial

from hwsonde_exporter.metric import Kind, Metric

_counter = partial(Metric, kind=Kind.COUNTER, subsystem="workload", labels=("workload",))
_gauge = partial(Metric, kind=Kind.GAUGE, subsystem="workload", labels=("workload",))

INFO = _gauge(
    name="hwsonde_workload_info",
    help="Constant 1 labelled with the identity of a job, container, user or service.",
    labels=("workload", "manager", "name", "namespace", "pod", "container", "job_id", "user"),
    source="cgroup paths under /sys/fs/cgroup; names of pods from /var/log/containers and /var/log/pods under path.rootfs",
)
CPU_SECONDS = _counter(
    name="hwsonde_workload_cpu_seconds_total",
    help="CPU seconds a workload used.",
    labels=("workload", "mode"),
    unit="seconds",
    source="cgroup cpu.stat user_usec, system_usec; version 1: cpuacct.stat",
)
THROTTLED_SECONDS = _counter(
    name="hwsonde_workload_cpu_throttled_seconds_total",
    help="Seconds a workload was held back by its CPU quota.",
    unit="seconds",
    source="cgroup cpu.stat throttled_usec; version 1: throttled_time (ns)",
)
THROTTLED_PERIODS = _counter(
    name="hwsonde_workload_cpu_throttled_periods_total",
    help="Quota periods in which a workload was held back.",
    source="cgroup cpu.stat nr_throttled",
)
PERIODS = _counter(
    name="hwsonde_workload_cpu_periods_total",
    help="Quota periods in which a workload with a CPU quota ran.",
    source="cgroup cpu.stat nr_periods",
)
CPU_LIMIT = _gauge(
    name="hwsonde_workload_cpu_limit_cores",
    help="CPUs that a workload's quota lets it use; only where it has a quota of its own.",
    unit="cores",
    source="cgroup cpu.max; version 1: cpu.cfs_quota_us, cpu.cfs_period_us",
)
PRESSURE_WAITING = _counter(
    name="hwsonde_workload_pressure_waiting_seconds_total",
    help="Seconds in which a task of the workload waited for a resource.",
    labels=("workload", "resource"),
    unit="seconds",
    source="cgroup cpu.pressure, memory.pressure, io.pressure some total (us)",
)
PRESSURE_STALLED = _counter(
    name="hwsonde_workload_pressure_stalled_seconds_total",
    help="Seconds in which all tasks of the workload that had something to do waited for a resource.",
    labels=("workload", "resource"),
    unit="seconds",
    source="cgroup cpu.pressure, memory.pressure, io.pressure full total (us)",
)
MEMORY = _gauge(
    name="hwsonde_workload_memory_bytes",
    help="Memory a workload uses, with the page cache charged to it.",
    unit="bytes",
    source="cgroup memory.current; version 1: memory.usage_in_bytes",
)
MEMORY_ANONYMOUS = _gauge(
    name="hwsonde_workload_memory_anonymous_bytes",
    help="Anonymous memory of a workload.",
    unit="bytes",
    source="cgroup memory.stat anon; version 1: total_rss",
)
MEMORY_FILE = _gauge(
    name="hwsonde_workload_memory_file_bytes",
    help="Page cache charged to a workload, with its shared memory and tmpfs files.",
    unit="bytes",
    source="cgroup memory.stat file; version 1: total_cache",
)
MEMORY_LIMIT = _gauge(
    name="hwsonde_workload_memory_limit_bytes",
    help="Memory that a workload may use; only where it has a limit of its own.",
    unit="bytes",
    source="cgroup memory.max; version 1: memory.limit_in_bytes",
)
MEMORY_LIMIT_EVENTS = _counter(
    name="hwsonde_workload_memory_limit_events_total",
    help="Times a workload met its memory limit: high slows it down, max makes it reclaim or fail.",
    labels=("workload", "limit"),
    source="cgroup memory.events high, max; version 1: memory.failcnt of the cgroup and those in it",
)
OOM_KILLS = _counter(
    name="hwsonde_workload_oom_kills_total",
    help="Processes of a workload killed for want of memory.",
    source="cgroup memory.events oom_kill; version 1: memory.oom_control",
)
MAJOR_FAULTS = _counter(
    name="hwsonde_workload_major_page_faults_total",
    help="Page faults of a workload that waited for storage.",
    source="cgroup memory.stat pgmajfault; version 1: total_pgmajfault",
)
IO_BYTES = _counter(
    name="hwsonde_workload_io_bytes_total",
    help="Bytes a workload read from and wrote to block devices; those that lie on other devices are not counted again.",
    labels=("workload", "operation"),
    unit="bytes",
    source="cgroup io.stat rbytes, wbytes, summed over devices; version 1: blkio.throttle.io_service_bytes_recursive",
)
IO_REQUESTS = _counter(
    name="hwsonde_workload_io_requests_total",
    help="Reads and writes of a workload on block devices; those that lie on other devices are not counted again.",
    labels=("workload", "operation"),
    source="cgroup io.stat rios, wios, summed over devices; version 1: blkio.throttle.io_serviced_recursive",
)
THREADS = _gauge(
    name="hwsonde_workload_threads",
    help="Threads of a workload.",
    source="cgroup pids.current",
)
THREADS_LIMIT = _gauge(
    name="hwsonde_workload_threads_limit",
    help="Threads that a workload may have; only where it has a limit of its own.",
    source="cgroup pids.max",
)
TASKS = _gauge(
    name="hwsonde_workload_tasks",
    help="Processes and threads of a workload by state, of those that were looked at.",
    labels=("workload", "state"),
    source="cgroup cgroup.procs, cgroup.threads (version 1: tasks); /proc/PID/stat field 3",
)
TASKS_UNREAD = _gauge(
    name="hwsonde_workload_tasks_unread",
    help="Threads of a workload that were not looked at because the host has more than are read at a time.",
    source="cgroup cgroup.procs, cgroup.threads (version 1: tasks)",
)
SCHEDULE_WAITING = _counter(
    name="hwsonde_workload_schedule_waiting_seconds_total",
    help="Seconds that threads of a workload were ready to run and waited for a CPU, summed over those that were looked at.",
    unit="seconds",
    source="/proc/PID/schedstat field 2 (ns)",
)
SWITCHES = _counter(
    name="hwsonde_workload_context_switches_total",
    help="Times a thread of a workload was put on a CPU, summed over those that were looked at.",
    source="/proc/PID/schedstat field 3",
)
TCP_SEGMENTS = _counter(
    name="hwsonde_workload_tcp_segments_total",
    help="TCP segments received and sent in the network namespaces of a workload or its pod; none where it shares the host's.",
    labels=("workload", "direction"),
    source="/proc/PID/net/snmp Tcp: InSegs, OutSegs",
)
TCP_RETRANSMITTED = _counter(
    name="hwsonde_workload_tcp_retransmitted_segments_total",
    help="TCP segments sent again in the network namespaces of a workload or its pod.",
    source="/proc/PID/net/snmp Tcp: RetransSegs",
)
TCP_TIMEOUTS = _counter(
    name="hwsonde_workload_tcp_timeouts_total",
    help="TCP retransmission timeouts in the network namespaces of a workload or its pod.",
    source="/proc/PID/net/netstat TcpExt: TCPTimeouts",
)
OTHER_CPU = _counter(
    name="hwsonde_workload_other_cpu_seconds_total",
    help="CPU seconds used by everything that is no workload here: other cgroups, the kernel's threads, what was too short-lived.",
    labels=(),
    unit="seconds",
    source="cgroup cpu.stat (version 1: cpuacct.usage) of the root, less that of the workloads",
)
OTHER_CGROUP_CPU = _counter(
    name="hwsonde_workload_other_cgroup_cpu_seconds_total",
    help="CPU seconds of the few busiest cgroups that are no workload here; part of hwsonde_workload_other_cpu_seconds_total.",
    labels=("cgroup",),
    unit="seconds",
    source="cgroup cpu.stat usage_usec; version 1: cpuacct.usage (ns)",
)
CGROUPS = _gauge(
    name="hwsonde_workload_cgroups",
    help="Cgroups found on this host.",
    labels=(),
    source="directories under /sys/fs/cgroup",
)
LEFT_OUT = _gauge(
    name="hwsonde_workload_left_out",
    help="Workloads without series of their own because there are more than collector.workload.limit.",
    labels=(),
    source="directories under /sys/fs/cgroup",
)
WALK_COMPLETE = _gauge(
    name="hwsonde_workload_walk_complete",
    help="Whether all cgroups were found (1), or a bound on their number, depth or the time to find them was met (0).",
    labels=(),
    source="directories under /sys/fs/cgroup",
)

METRICS: tuple[Metric, ...] = (
    INFO, CPU_SECONDS, THROTTLED_SECONDS, THROTTLED_PERIODS, PERIODS, CPU_LIMIT, PRESSURE_WAITING, PRESSURE_STALLED, MEMORY,
    MEMORY_ANONYMOUS, MEMORY_FILE, MEMORY_LIMIT, MEMORY_LIMIT_EVENTS, OOM_KILLS, MAJOR_FAULTS, IO_BYTES, IO_REQUESTS, THREADS,
    THREADS_LIMIT, TASKS, TASKS_UNREAD, SCHEDULE_WAITING, SWITCHES, TCP_SEGMENTS, TCP_RETRANSMITTED, TCP_TIMEOUTS, OTHER_CPU,
    OTHER_CGROUP_CPU, CGROUPS, LEFT_OUT, WALK_COMPLETE,
)  # fmt: skip

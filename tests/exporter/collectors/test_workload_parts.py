"""The parts of the workload collector: counters, choice, parsers, threads, the rest of the CPU."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors._cgroup_files import parse_blkio, parse_cpu_max, parse_io_stat
from hwsonde_exporter.collectors._cgroups import Forest, Group
from hwsonde_exporter.collectors._workload_counters import Continued, Gathered, Recent, Rest
from hwsonde_exporter.collectors._workload_limits import MAX_GROUPS, TOTAL_GROUPS, LimitCounts
from hwsonde_exporter.collectors._workload_others import NAMED, Others
from hwsonde_exporter.collectors._workload_pods import parse_passwd
from hwsonde_exporter.collectors._workload_select import Entity, choose, find_entities, outermost
from hwsonde_exporter.collectors._workload_tasks import parse_numbers, parse_task_schedstat, parse_task_stat, shares
from hwsonde_exporter.workload_options import WorkloadOptions


def never(_: object) -> bool:
    return False


# ---- limits of memory ----------------------------------------------------------------------------------------------


def met(limits: LimitCounts, counts: Mapping[str, int | None], left_out: int = 0) -> int:
    """Limits met in groups by name, of which None cannot be read now; so many more lie behind them."""
    names = [*counts, *(f"z{number}" for number in range(left_out))]
    groups = [Group(("job", name), {"memory": f"/m/{name}"}) for name in names]

    def read(path: str) -> bytes | None:
        value = counts.get(path.split("/")[2], 0)
        return None if value is None or not path.endswith("failcnt") else str(value).encode()

    limits.begin()
    (row,) = limits.rows(read, "job", groups)
    return row[2]


def test_limits_that_inner_groups_met_are_added_once_and_never_fall() -> None:
    limits = LimitCounts()
    assert met(limits, {"job": 5, "a": 100}) == 105
    assert met(limits, {"job": 5, "a": 100, "new": 7}) == 112
    assert met(limits, {"job": 6, "a": None, "new": 7}) == 113, "what cannot be read once is not lost"
    assert met(limits, {"job": 6, "a": 103, "new": 7}) == 116, "nor added twice"
    assert met(limits, {"job": 6, "new": 7}) == 116
    assert met(limits, {"job": 6, "new": 7, "a": 2}) == 118, "it was made anew"


def test_a_group_that_was_left_out_before_adds_nothing_of_its_past() -> None:
    limits = LimitCounts()
    counts: dict[str, int | None] = {f"g{number:02}": 1000 for number in range(MAX_GROUPS + 1)}
    first = met(limits, counts)
    assert first <= 1000 * MAX_GROUPS
    del counts["g00"]
    assert met(limits, {**counts, "y": 1}, left_out=1) == first


def test_all_workloads_together_are_read_within_a_bound() -> None:
    limits, read = LimitCounts(), []
    limits.begin()
    for job in range(40):
        groups = [Group((str(job), str(number)), {"memory": f"/m/{job}/{number}"}) for number in range(MAX_GROUPS)]
        limits.rows(read.append, job, groups)
    assert len(read) <= 2 * (TOTAL_GROUPS + 40)


# ---- counters of what comes and goes ------------------------------------------------------------------------------


def test_what_was_not_asked_for_the_longest_is_forgotten() -> None:
    recent = Recent(list, 2)
    recent.of("a").append(1)
    recent.of("b").append(2)
    recent.of("a")
    recent.of("c")
    assert len(recent) == 2
    assert (recent.of("a"), recent.of("b")) == ([1], [])


# ---- parsers -------------------------------------------------------------------------------------------------------


def test_task_stat_of_a_command_that_looks_like_fields() -> None:
    tail = " ".join(["0"] * 18)
    assert parse_task_stat(f"7 (a) R (b) T {tail} 4321 0".encode()) == ("stopped", 4321)
    assert parse_task_stat(f"7 (x) Z {tail} 4321 0".encode()) is None
    assert parse_task_stat(b"7 (x) R 1 2") is None


def test_task_schedstat() -> None:
    assert parse_task_schedstat(b"100 200 3\n") == (200, 3)
    assert parse_task_schedstat(b"100 200\n") is None


def test_processes_of_other_namespaces_are_left_out() -> None:
    assert parse_numbers(b"0\n12\nx\n7\n8") == [12, 7]


def test_cpu_max() -> None:
    assert parse_cpu_max(b"150000 100000\n") == (150000, 100000)
    assert parse_cpu_max(b"max 100000\n") is None
    assert parse_cpu_max(b"5 0\n") is None
    assert parse_cpu_max(None) is None


def test_io_is_summed_over_devices_that_lie_on_no_other() -> None:
    data = b"8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=9 dios=9\n253:0 rbytes=100\n8:16 rbytes=10 wios=x\n7:0\n"
    assert parse_io_stat(data, lambda number: number == b"253:0") == {
        ("bytes", "read"): 11,
        ("bytes", "write"): 2,
        ("ios", "read"): 3,
        ("ios", "write"): 4,
    }


def test_blkio_leaves_the_total_out() -> None:
    data = b"8:0 Read 5\n8:0 Write 7\n8:0 Total 12\nTotal 12\n8:16 Read 1\n"
    assert parse_blkio(data, never) == {"read": 6, "write": 7}


def test_passwd() -> None:
    assert parse_passwd(b"root:x:0:0::/:/bin/sh\nbad\nada:x:1000:1000:Ada:/home:/bin/sh\n") == {
        "0": "root",
        "1000": "ada",
    }


@given(st.binary(max_size=300))
def test_parsers_take_anything(data: bytes) -> None:
    parse_task_stat(data)
    parse_task_schedstat(data)
    parse_cpu_max(data)
    parse_passwd(data)
    assert all(value >= 0 for value in parse_numbers(data))
    assert all(value >= 0 for value in parse_io_stat(data, never).values())
    assert all(value >= 0 for value in parse_blkio(data, never).values())


# ---- counters ------------------------------------------------------------------------------------------------------


def test_a_name_that_is_used_again_goes_on_counting() -> None:
    continued = Continued()
    assert continued.begin("a", 1)("cpu", 100) == 100
    assert continued.begin("a", 2)("cpu", 3) == 103
    assert continued.begin("a", 2)("cpu", 5) == 105
    assert continued.begin("a", 3)("cpu", 0) == 105
    assert continued.begin("b", 1)("cpu", 7) == 7


def test_a_counter_that_slips_back_is_held_and_one_that_is_set_back_goes_on() -> None:
    steady = Continued().begin("a", 1)
    assert [steady("cpu", value) for value in (1000, 990, 1010, 4, 6)] == [1000, 1000, 1010, 1014, 1016]


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 1000)), max_size=40))
def test_continued_counters_never_fall(readings: list[tuple[int, int]]) -> None:
    continued = Continued()
    values = [continued.begin("a", identity)("x", value) for identity, value in readings]
    assert values == sorted(values)


def test_gathered_counts_what_parts_grow_by() -> None:
    gathered = Gathered()
    assert gathered.update({1: 10, 2: 20}, never) == 30
    assert gathered.update({1: 11, 3: 500}, never) == 31, "an old part that is seen for the first time adds nothing"
    assert gathered.update({3: 505, 4: 2}, lambda key: key == 4) == 38, "a new one counts from its beginning"
    assert gathered.update({}, never) == 38


parts_strategy = st.dictionaries(st.sampled_from("abc"), st.integers(0, 100), max_size=3)


@given(st.lists(parts_strategy, max_size=30))
def test_gathered_never_falls(rounds: list[dict[Hashable, int]]) -> None:
    gathered = Gathered()
    values = [gathered.update(parts, never) for parts in rounds]
    assert values == sorted(values)


def test_the_rest_does_not_change_with_who_is_named() -> None:
    rest = Rest()
    assert rest.update(1000, {"a": 300}) == 700
    assert rest.update(1100, {"a": 350}) == 750
    # b is named from now on: what it used until now was the rest's.
    assert rest.update(1200, {"a": 400, "b": 5000}) == 800
    assert rest.update(1300, {"b": 5080}) == 820
    # The parts were read a moment after the whole: nothing falls, and nothing is counted twice.
    assert rest.update(1300, {"b": 5100}) == 820
    assert rest.update(1400, {"b": 5110}) == 890


@given(st.lists(st.tuples(st.integers(0, 50), parts_strategy), max_size=30))
def test_the_rest_never_falls(rounds: list[tuple[int, dict[str, int]]]) -> None:
    rest, whole, values = Rest(), 1000, []
    for step, parts in rounds:
        whole += step
        values.append(rest.update(whole, parts))
    assert values == sorted(values)


# ---- choice --------------------------------------------------------------------------------------------------------


def forest_of(*paths: str) -> Forest:
    """Cgroups of version 2 at these paths, with the folders above them."""
    groups: dict[tuple[str, ...], Group] = {}
    for path in paths:
        parts = tuple(path.strip("/").split("/"))
        for end in range(len(parts) + 1):
            folder = "/".join(("", *parts[:end]))
            groups.setdefault(parts[:end], Group(parts[:end], {"unified": folder or "/"}))
    for parts in groups:
        if parts:
            groups[parts[:-1]].empty = False
    return Forest(dict(sorted(groups.items())), complete=True)


class Kernel:
    """CPU seconds by path, as cpu.stat; other files are missing."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self.seconds = dict(seconds)

    def __call__(self, path: str) -> bytes | None:
        folder, _, name = path.rpartition("/")
        if name != "cpu.stat" or folder not in self.seconds:
            return None
        used = round(self.seconds[folder] * 1e6)
        return b"usage_usec %d\nuser_usec %d\nsystem_usec 0\n" % (used, used)


def names(entities: object) -> list[str]:
    assert isinstance(entities, (list, tuple))
    return [entity.workload for entity in entities]


def test_entities_of_a_mixed_host() -> None:
    forest = forest_of(
        "/system.slice/a.service/sub",
        "/system.slice/slurmstepd.scope/job_1/step_0",
        "/x/y/z",
        "/user.slice/user-5.slice/session-1.scope",
    )
    entities = find_entities(forest, never)
    assert names(entities) == [
        "systemd:a.service", "systemd:slurmstepd.scope", "slurm:1", "systemd:user-5.slice", "cgroup:/x/y/z",
    ]  # fmt: skip
    by_name = {entity.workload: entity for entity in entities}
    assert len(by_name["slurm:1"].members) == 2
    assert len(by_name["systemd:a.service"].members) == 2
    assert by_name["systemd:slurmstepd.scope"].holds
    assert names(find_entities(forest_of("/x/y/z"), lambda group: group.parts == ("x",))) == ["cgroup:/x"]


def test_who_is_chosen() -> None:
    kernel = Kernel(
        {
            "/system.slice/a.service": 61,
            "/system.slice/b.service": 1,
            "/bench": 70,
            "/system.slice/slurmstepd.scope": 900,
        }
    )
    forest = forest_of(
        "/system.slice/a.service", "/system.slice/b.service", "/bench", "/system.slice/slurmstepd.scope/job_1"
    )
    entities = find_entities(forest, never)
    selection = choose(entities, set(), WorkloadOptions(), kernel)
    assert names(selection.chosen) == ["cgroup:/bench", "slurm:1", "systemd:a.service"]
    assert names(selection.others) == ["systemd:b.service"]
    assert selection.left_out == 0
    assert (
        names(choose(entities, {"systemd:b.service"}, WorkloadOptions(), kernel).chosen)[-1] == "systemd:b.service"
    ), "who was in stays"


def test_jobs_come_first_where_room_is_short_and_who_was_in_stays() -> None:
    paths = [f"/system.slice/s{number}.service" for number in range(6)]
    kernel = Kernel({path: 100 + number for number, path in enumerate(paths)})
    entities = find_entities(forest_of(*paths, "/system.slice/slurmstepd.scope/job_1"), never)
    selection = choose(entities, {"systemd:s0.service"}, WorkloadOptions(limit=3), kernel)
    assert names(selection.chosen) == ["slurm:1", "systemd:s0.service", "systemd:s5.service"]
    assert selection.left_out == 4
    assert len(selection.others) == 4


def test_what_can_be_added_up() -> None:
    container = "/user.slice/user-5.slice/libpod-" + "ab" * 32 + ".scope"
    entities = find_entities(forest_of(container, "/system.slice/a.service"), never)
    assert names(outermost(entities)) == ["systemd:a.service", "systemd:user-5.slice"]
    assert names(outermost(entities[-1:])) == ["podman:abababababab"]


@given(st.lists(st.integers(0, 500), max_size=12), st.integers(0, 1000))
def test_shares_stay_within_the_budget_and_waste_none(counts: list[int], budget: int) -> None:
    given_ = shares(counts, budget)
    assert sum(given_) == min(sum(counts), budget)
    assert all(0 <= share <= count for share, count in zip(given_, counts, strict=True))
    if sum(counts) <= budget:
        assert given_ == counts


def test_small_crowds_are_whole() -> None:
    assert shares([1000, 3, 2], 100) == [95, 3, 2]


# ---- the others ----------------------------------------------------------------------------------------------------


def others_of(kernel: Kernel) -> list[Entity]:
    return find_entities(forest_of(*kernel.seconds), never)


def test_the_busiest_are_named_and_a_hog_is_found_at_once() -> None:
    kernel = Kernel({f"/system.slice/s{number}.service": 10.0 - number for number in range(8)})
    entities, others = others_of(kernel), Others()
    _, named = others.update(100_000_000, {}, entities, kernel)
    assert sorted(named) == [f"systemd:s{number}.service" for number in range(NAMED)]
    kernel.seconds["/system.slice/s7.service"] += 8.0
    rest, named = others.update(110_000_000, {}, entities, kernel)
    assert named["systemd:s7.service"] == 11_000_000
    assert rest == 110_000_000
    assert len(named) == NAMED


def test_names_do_not_change_places_for_little() -> None:
    kernel = Kernel({f"/system.slice/s{number}.service": 100.0 for number in range(8)})
    entities, others = others_of(kernel), Others()
    _, first = others.update(1_000_000_000, {}, entities, kernel)
    for step in range(20):
        for number, path in enumerate(kernel.seconds):
            kernel.seconds[path] += 0.01 * (1 + (number + step) % 2)
        _, named = others.update(1_000_000_000 + step * 10_000_000, {}, entities, kernel)
        assert list(named) == list(first)


def test_many_others_are_read_in_turn() -> None:
    kernel = Kernel({f"/system.slice/s{number:03}.service": 1.0 for number in range(300)})
    entities, others = others_of(kernel), Others()
    reads: list[str] = []

    def read(path: str) -> bytes | None:
        reads.append(path)
        return kernel(path)

    for step in range(8):
        others.update(1_000_000_000 + step, {}, entities, read)
    assert len(set(reads)) == 300
    assert len(reads) <= 8 * 70


@pytest.mark.parametrize("used", [None, 3])
def test_a_named_one_that_ends_is_forgotten(used: int | None) -> None:
    kernel = Kernel({"/system.slice/a.service": 5.0, "/system.slice/b.service": 4.0})
    entities, others = others_of(kernel), Others()
    others.update(10_000_000, {}, entities, kernel)
    del kernel.seconds["/system.slice/a.service"]
    _, named = others.update(11_000_000, {}, entities, kernel)
    assert list(named) == ["systemd:b.service"]
    _, named = others.update(12_000_000, {}, entities[1:], kernel)
    assert list(named) == ["systemd:b.service"]


def test_a_hog_in_a_new_cgroup_is_named_at_its_first_look() -> None:
    kernel = Kernel({f"/system.slice/s{number}.service": 100.0 for number in range(8)})
    others = Others()
    others.update(1_000_000_000, {}, others_of(kernel), kernel)
    kernel.seconds["/hog"] = 0.6
    _, named = others.update(1_002_000_000, {}, others_of(kernel), kernel)
    assert named["cgroup:/hog"] == 600_000
    assert len(named) == NAMED

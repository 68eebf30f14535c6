from __future__ import annotations

import errno
import gc
import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwsonde_exporter.collectors import perf, perf_extended
from hwsonde_exporter.collectors._perf_cpus import for_unit
from hwsonde_exporter.collectors._perf_event import HARDWARE, HARDWARE_CACHE, SOFTWARE, SYSTEM, Event
from hwsonde_exporter.collectors._topology import core_units
from hwsonde_exporter.collectors.perf import FAST_CPUS, PerfCollector
from hwsonde_exporter.collectors.perf_extended import PerfExtendedCollector
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host, Paths
from tests.exporter.collectors.hosts import values
from tests.exporter.collectors.perf_asked import refusal
from tests.exporter.collectors.perf_kernel import SECOND, FakeKernel

HARDWARE_NAMES = [event.name for group in PerfCollector.plan for event in group if event.type == HARDWARE]
CYCLES = "hwsonde_cpu_perf_cycles_total"


def put(tree: Path, name: str, text: str) -> None:
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def make_host(tree: Path, cpus: int = 4, paranoid: str = "2") -> Host:
    """CPUs of two packages: the first half and the second."""
    put(tree, "sys/devices/system/cpu/online", f"0-{cpus - 1}")
    put(tree, "proc/sys/kernel/perf_event_paranoid", paranoid)
    for cpu in range(cpus):
        put(tree, f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", str(cpu * 2 // cpus))
    return Host(Paths(tree / "proc", tree / "sys", tree))


def read(collector: PerfCollector | PerfExtendedCollector) -> dict[tuple[str, ...], float]:
    return values(list(collector.collect()))


def start(host: Host, kernel: FakeKernel) -> PerfCollector:
    collector = PerfCollector(host, kernel=kernel)
    collector.probe()
    return collector


def test_at_most_four_hardware_events_are_in_a_group() -> None:
    for kind in (PerfCollector, PerfExtendedCollector):
        for group in kind.plan:
            assert len(group) <= 4
            assert len({event.type == SOFTWARE for event in group}) == 1, "software events count apart"


def test_configurations_are_those_of_the_kernel() -> None:
    """The numbers of include/uapi/linux/perf_event.h; a cache event is cache | operation << 8 | result << 16."""
    known = {
        "cycles": 0, "instructions": 1, "cache_references": 2, "cache_misses": 3, "branch_instructions": 4, "branch_misses": 5,
        "stalled_cycles_frontend": 7, "stalled_cycles_backend": 8, "reference_cycles": 9, "migrations": 4,
        "l1d_loads": 0, "l1d_load_misses": 0x10000, "llc_loads": 2, "llc_load_misses": 0x10002, "dtlb_load_misses": 0x10003,
        "itlb_load_misses": 0x10004, "node_load_misses": 0x10006,
    }  # fmt: skip
    plan = [event for kind in (PerfCollector, PerfExtendedCollector) for group in kind.plan for event in group]
    assert {event.name: event.config for event in plan} == known
    assert {event.name for event in plan if event.type == HARDWARE_CACHE} == {n for n in known if "load" in n}


def test_counts_are_summed_by_package(tmp_path: Path) -> None:
    kernel = FakeKernel()
    collector = start(make_host(tmp_path), kernel)
    kernel.run({"cycles": 1000, "migrations": 3})
    answer = read(collector)
    assert answer[CYCLES, "0"] == answer[CYCLES, "1"] == 2000
    assert answer["hwsonde_cpu_perf_migrations_total", "1"] == 6
    assert answer["hwsonde_cpu_perf_event_cpus", "cycles", "counted"] == 4
    kernel.run({"cycles": 500})
    assert read(collector)[CYCLES, "0"] == 3000


def test_each_group_is_read_once(tmp_path: Path) -> None:
    kernel = FakeKernel()
    collector = start(make_host(tmp_path), kernel)
    kernel.run({})
    read(collector)
    assert kernel.reads == 4 * len(PerfCollector.plan)
    read(collector)
    assert kernel.reads == 8 * len(PerfCollector.plan)


def test_what_takes_turns_is_scaled_and_told(tmp_path: Path) -> None:
    kernel = FakeKernel()
    collector = start(make_host(tmp_path), kernel)
    kernel.run({"cycles": 4000}, share=0.25)
    answer = read(collector)
    assert answer[CYCLES, "0"] == 8000
    assert answer["hwsonde_cpu_perf_scaling_ratio", "cycles"] == 0.25
    kernel.run({"cycles": 4000}, share=1.0)
    assert read(collector)["hwsonde_cpu_perf_scaling_ratio", "cycles"] == 1.0


def test_what_never_ran_has_no_count_but_a_ratio(tmp_path: Path) -> None:
    kernel = FakeKernel()
    collector = start(make_host(tmp_path), kernel)
    kernel.run({"cycles": 4000}, share=0.0)
    answer = read(collector)
    assert (CYCLES, "0") not in answer
    assert answer["hwsonde_cpu_perf_scaling_ratio", "cycles"] == 0.0


@given(st.lists(st.tuples(st.integers(0, 1 << 40), st.floats(0, 1)), max_size=12))
@settings(deadline=None, max_examples=40)
def test_counters_never_fall(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, float]]) -> None:
    kernel = FakeKernel()
    collector = start(make_host(tmp_path_factory.mktemp("host"), 2), kernel)
    last: dict[tuple[str, ...], float] = {}
    for number, (count, share) in enumerate(steps):
        kernel.run({"cycles": count}, share, SECOND + number)
        answer = {key: value for key, value in read(collector).items() if key[0].endswith("_total")}
        assert all(answer[key] >= value for key, value in last.items())
        last = answer


def test_a_virtual_machine_still_has_software_events(tmp_path: Path) -> None:
    kernel = FakeKernel(dict.fromkeys(HARDWARE_NAMES, errno.ENOENT))
    collector = start(make_host(tmp_path), kernel)
    kernel.run({"migrations": 2})
    answer = read(collector)
    assert {key[0] for key in answer if key[0].endswith("_total")} == {"hwsonde_cpu_perf_migrations_total"}
    assert answer["hwsonde_cpu_perf_event_cpus", "cycles", "no_hardware"] == 4
    assert list(collector.observe()) == []


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM])
def test_a_refusal_names_the_setting_and_the_capability(tmp_path: Path, code: int) -> None:
    kernel = FakeKernel(dict.fromkeys([*HARDWARE_NAMES, "migrations"], code))
    with pytest.raises(Unavailable, match=r"paranoid is 3.*CAP_PERFMON") as caught:
        PerfCollector(make_host(tmp_path, paranoid="3"), kernel=kernel).probe()
    assert caught.value.reason is Reason.NO_PERMISSION


def test_a_kernel_without_events(tmp_path: Path) -> None:
    kernel = FakeKernel(dict.fromkeys([*HARDWARE_NAMES, "migrations"], errno.ENOSYS))
    with pytest.raises(Unavailable) as caught:
        PerfCollector(make_host(tmp_path), kernel=kernel).probe()
    assert caught.value.reason is Reason.NO_KERNEL_SUPPORT


def test_no_hardware_for_the_extended_events(tmp_path: Path) -> None:
    names = [event.name for group in PerfExtendedCollector.plan for event in group]
    with pytest.raises(Unavailable) as caught:
        PerfExtendedCollector(make_host(tmp_path), kernel=FakeKernel(dict.fromkeys(names, errno.ENOENT))).probe()
    assert caught.value.reason is Reason.NO_HARDWARE


def test_permission_that_is_given_later_is_used(tmp_path: Path) -> None:
    kernel = FakeKernel(dict.fromkeys([*HARDWARE_NAMES, "migrations"], errno.EACCES))
    collector = PerfCollector(make_host(tmp_path), kernel=kernel)
    with pytest.raises(Unavailable):
        collector.probe()
    kernel.refuse.clear()
    collector.probe()
    kernel.run({"cycles": 1})
    assert read(collector)[CYCLES, "0"] == 2


def test_no_cpu_list_is_a_read_error(tmp_path: Path) -> None:
    collector = PerfCollector(Host(Paths(tmp_path / "proc", tmp_path / "sys", tmp_path)), kernel=FakeKernel())
    collector.probe()
    with pytest.raises(ReadError, match=r"--path\.sysfs"):
        collector.collect()


# ---- descriptors ---------------------------------------------------------------------------------------------------

EVENTS = sum(len(group) for group in PerfCollector.plan)


def test_the_limit_is_raised_when_it_is_reached(tmp_path: Path) -> None:
    kernel = FakeKernel(limit=20)
    collector = start(make_host(tmp_path, 16), kernel)
    assert len(kernel.opened) == 16 * EVENTS
    kernel.run({"cycles": 1})
    assert read(collector)[CYCLES, "0"] == 8


def test_cpus_are_given_up_and_room_is_left_when_it_cannot_be(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kernel = FakeKernel(limit=50, hard=150)
    with caplog.at_level(logging.WARNING):
        collector = start(make_host(tmp_path, 64), kernel)
    assert len(kernel.opened) % EVENTS == 0
    assert 150 - 64 - 2 * EVENTS <= len(kernel.opened) <= 150 - 64
    assert caplog.text.count("LimitNOFILE") == 1
    kernel.run({"cycles": 10})
    answer = read(collector)
    counted = len(kernel.opened) // EVENTS
    assert answer["hwsonde_cpu_perf_event_cpus", "cycles", "counted"] == counted
    assert answer["hwsonde_cpu_perf_event_cpus", "cycles", "no_descriptors"] == 64 - counted
    assert answer[CYCLES, "0"] == 10 * counted
    # Nor does the next probe take the last ones from the rest of the exporter.
    collector.probe()
    assert len(kernel.opened) == counted * EVENTS


def test_no_descriptors_at_all(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="LimitNOFILE"):
        PerfCollector(make_host(tmp_path), kernel=FakeKernel(limit=3, hard=3)).probe()


def test_descriptors_end_with_the_collector(tmp_path: Path) -> None:
    kernel = FakeKernel()
    host = make_host(tmp_path)
    collector = start(host, kernel)
    fast = PerfCollector(host, kernel=kernel)
    fast.observe()
    opened = len(kernel.opened)
    assert opened == 4 * EVENTS
    del collector
    gc.collect()
    assert len(kernel.opened) == opened, "the sampler still reads them"
    del fast
    gc.collect()
    assert not kernel.opened


# ---- CPUs that come and go -----------------------------------------------------------------------------------------


def test_a_cpu_that_goes_and_comes_back(tmp_path: Path) -> None:
    kernel, host = FakeKernel(), make_host(tmp_path)
    collector = start(host, kernel)
    kernel.run({"cycles": 100})
    read(collector)
    kernel.unplug(3)
    put(tmp_path, "sys/devices/system/cpu/online", "0-2")
    kernel.run({"cycles": 100})
    answer = read(collector)
    assert answer[CYCLES, "1"] == 300
    assert answer["hwsonde_cpu_perf_event_cpus", "cycles", "counted"] == 3
    kernel.plug(3)
    put(tmp_path, "sys/devices/system/cpu/online", "0-3")
    kernel.run({})
    read(collector)
    kernel.run({"cycles": 100})
    assert read(collector)[CYCLES, "1"] == 500


def test_one_that_was_away_between_two_readings_is_opened_anew(tmp_path: Path) -> None:
    kernel = FakeKernel()
    collector = start(make_host(tmp_path), kernel)
    kernel.run({"cycles": 100})
    read(collector)
    kernel.unplug(0)
    kernel.plug(0)
    kernel.run({"cycles": 100})
    read(collector)
    kernel.run({"cycles": 100})
    read(collector)
    kernel.run({"cycles": 100})
    # What CPU 0 counted before anybody saw that it had been away is lost, nothing else.
    assert read(collector)[CYCLES, "0"] == 200 + 100 + 100 + 200
    assert not any(opened.gone for opened in kernel.opened.values())


def test_cores_of_two_kinds_are_asked_for_their_own_events(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    for name, number, cpus in (("cpu_core", 4, "0-1"), ("cpu_atom", 10, "2-3")):
        put(tmp_path, f"sys/bus/event_source/devices/{name}/type", str(number))
        put(tmp_path, f"sys/bus/event_source/devices/{name}/cpus", cpus)
    assert core_units(host) == {0: 4, 1: 4, 2: 10, 3: 10}
    kernel = FakeKernel()
    collector = start(host, kernel)
    assert collector.counters is not None
    assert collector.counters.cpus == 4
    asked = {(opened.event.name, opened.cpu): opened.event.config for opened in kernel.opened.values()}
    assert asked["cycles", 0] == 4 << 32
    assert asked["instructions", 3] == 10 << 32 | 1
    assert asked["migrations", 3] == 4, "software events know no units"


def test_for_unit() -> None:
    event = Event("x", HARDWARE_CACHE, 0x10002)
    assert for_unit(event, None) is event
    assert for_unit(event, 8).config == 8 << 32 | 0x10002


# ---- the sampler ---------------------------------------------------------------------------------------------------


def test_the_sampler_reads_the_collectors_events(tmp_path: Path) -> None:
    kernel, host = FakeKernel(), make_host(tmp_path)
    fast = PerfCollector(host, kernel=kernel)
    assert list(fast.observe()) == [], "nothing is open yet"
    collector = start(host, kernel)
    opened = len(kernel.opened)
    kernel.run({"cycles": 100, "instructions": 250})
    assert [value for _, _, value in fast.observe()] == [400, 1000]
    assert kernel.reads == 4, "one group a CPU"
    kernel.run({"cycles": 100})
    assert read(collector)[CYCLES, "0"] == 400
    assert [value for _, _, value in fast.observe()] == [800, 1000]
    assert len(kernel.opened) == opened


def test_the_sampler_leaves_large_hosts_alone(tmp_path: Path) -> None:
    kernel, host = FakeKernel(), make_host(tmp_path, FAST_CPUS + 1)
    collector = start(host, kernel)
    kernel.run({"cycles": 100})
    assert list(PerfCollector(host, kernel=kernel).observe()) == []
    assert read(collector)[CYCLES, "1"] > 0


# ---- the real kernel -----------------------------------------------------------------------------------------------


def test_on_this_machine() -> None:
    """Software events count everywhere where they are allowed, hardware ones where there is a unit."""
    host = Host()
    collector = PerfCollector(host, kernel=SYSTEM)
    refused = refusal()
    if refused:
        # Nothing can be counted, and that is what it must say.
        with pytest.raises(Unavailable) as caught:
            collector.probe()
        expected = {
            errno.ENOSYS: Reason.NO_KERNEL_SUPPORT,
            errno.EACCES: Reason.NO_PERMISSION,
            errno.EPERM: Reason.NO_PERMISSION,
        }
        assert caught.value.reason is expected[refused]
        return
    collector.probe()
    first = read(collector)
    second = read(collector)
    totals = {key: value for key, value in first.items() if key[0].endswith("_total")}
    assert all(second[key] >= value for key, value in totals.items())
    assert second["hwsonde_cpu_perf_scaling_ratio", "migrations"] == 1.0
    cpus = [value for key, value in second.items() if key[:2] == ("hwsonde_cpu_perf_event_cpus", "migrations")]
    assert sum(cpus) == len(collector._topology.online())
    host.files.close()


def test_every_event_has_a_metric() -> None:
    for module, kind in ((perf, PerfCollector), (perf_extended, PerfExtendedCollector)):
        assert module
        names = {metric.name for metric in kind.metrics}
        assert {f"hwsonde_cpu_perf_{event.name}_total" for group in kind.plan for event in group} <= names

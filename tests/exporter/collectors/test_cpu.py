from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors.cpu import (
    BUSY_SAMPLED,
    FORKS_SAMPLED,
    MODE_SAMPLED,
    USER_HZ,
    CpuCollector,
    Shares,
    parse_cpuinfo,
    parse_loadavg,
    parse_schedstat,
    parse_softirqs,
    parse_stat,
)
from hwsonde_exporter.collectors.cpu_clock import FAST_CPUS, FREQUENCY_SAMPLED, CpuClockCollector
from hwsonde_exporter.collectors.cpu_idle import CpuIdleCollector
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.guard import Guard
from tests.exporter.collectors import naive
from tests.exporter.collectors.fakes import memory_host
from tests.exporter.collectors.hosts import fixture_host, values

CPU = "/nowhere/sys/devices/system/cpu"


def stat(*cpus: tuple[int, ...]) -> bytes:
    rows = [tuple(map(sum, zip(*cpus, strict=True))), *cpus]
    names = ["cpu ", *(f"cpu{number}" for number in range(len(cpus)))]
    lines = [f"{name} {' '.join(map(str, row))}" for name, row in zip(names, rows, strict=True)]
    return "\n".join([*lines, "intr 9 1 2", "ctxt 70", "btime 5", "processes 3", "procs_running 2", ""]).encode()


def test_parse_stat() -> None:
    parsed = parse_stat(b"cpu  3 4\ncpu0 1 2 x 4\ncpux 9\nintr 157 0 1\nctxt 34\nsoftirq\nbtime 99")
    assert parsed.total == (3, 4)
    assert parsed.cpus == {0: (1, 2, None, 4)}
    assert parsed.counts == {b"intr": 157, b"ctxt": 34}


def test_parse_softirqs_leaves_out_a_row_with_a_hole() -> None:
    data = b"        CPU0 CPU1\n  HI: 1 2\n NET_RX: 10 x\n RCU:\n BLOCK: 3 4\n"
    assert parse_softirqs(data) == {"hi": 3, "block": 7}


def test_parse_loadavg() -> None:
    assert parse_loadavg(b"0.08 0.10 x 1/94 6942\n") == (0.08, 0.10, None, 94)
    assert parse_loadavg(b"") == (None, None, None, None)


def test_parse_schedstat() -> None:
    data = b"version 15\ntimestamp 1\ncpu0 0 0 0 0 0 0 700 80 9\ndomain0 f 1\ncpu1 0 0 0\ncpu2 0 0 0 0 0 0 x 1 1\n"
    assert parse_schedstat(data) == {0: (700, 80, 9)}


def test_parse_cpuinfo_gives_one_row_a_package() -> None:
    block = b"processor : %d\nvendor_id : V\nmodel name : N  M\nphysical id : %d\nmicrocode : 0x1\n"
    parsed = parse_cpuinfo(b"\n".join(block % pair for pair in ((0, 0), (1, 0), (2, 1))))
    assert parsed == {"0": ("V", "N M", "", "", "", "0x1"), "1": ("V", "N M", "", "", "", "0x1")}
    assert parse_cpuinfo(b"processor : 0\nBogoMIPS : 2\n") == {}


def test_parse_cpuinfo_of_arm() -> None:
    block = b"processor\t: 0\nBogoMIPS\t: 2000.00\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x0\n"
    assert parse_cpuinfo(block + b"CPU part\t: 0xd4f\nCPU revision\t: 1\n\n") == {
        "0": ("0x41", "", "8", "0xd4f", "1", "")
    }


def test_small_backward_steps_of_a_mode_are_held() -> None:
    host, reader = memory_host({"/proc/stat": stat((10, 0, 0, 500, 90, 0, 0, 0, 0, 0))})
    collector = CpuCollector(host)
    key = ("hwsonde_cpu_seconds_total", "0", "iowait")
    assert values(list(collector.collect()))[key] == 90 / USER_HZ
    reader.contents["/proc/stat"] = stat((10, 0, 0, 500, 89, 0, 0, 0, 0, 0))
    assert values(list(collector.collect()))[key] == 90 / USER_HZ
    reader.contents["/proc/stat"] = stat((10, 0, 0, 500, 91, 0, 0, 0, 0, 0))
    assert values(list(collector.collect()))[key] == 91 / USER_HZ


def test_online_cpus_come_from_sysfs_and_else_from_stat() -> None:
    rows = [(1,) * 10] * 3
    key = ("hwsonde_cpu_online",)
    assert values(list(CpuCollector(memory_host({"/proc/stat": stat(*rows)})[0]).collect()))[key] == 3
    host, _ = memory_host({"/proc/stat": stat(*rows), f"{CPU}/online": b"0,2-3,9\n"})
    assert values(list(CpuCollector(host).collect()))[key] == 4


def test_time_waiting_for_a_cpu_is_summed_by_package_and_never_falls() -> None:
    files = {"/proc/schedstat": b"cpu0 0 0 0 0 0 0 5000000000 10 2\ncpu1 0 0 0 0 0 0 1000000000 10 2\n"}
    files |= {f"{CPU}/cpu1/topology/physical_package_id": b"1\n", f"{CPU}/cpu0/topology/physical_package_id": b"-1\n"}
    host, reader = memory_host(files)
    collector = CpuCollector(host)
    running = "hwsonde_cpu_schedule_running_seconds_total"
    answer = values(list(collector.collect()))
    assert (answer[running, "0"], answer[running, "1"]) == (5.0, 1.0)
    reader.contents["/proc/schedstat"] = b"cpu0 0 0 0 0 0 0 6000000000 10 2\ncpu1 0 0 0 0 0 0 0 0 0\n"
    answer = values(list(collector.collect()))
    assert (answer[running, "0"], answer[running, "1"]) == (6.0, 1.0)


@given(
    st.lists(st.lists(st.integers(0, 1000), min_size=8, max_size=8).filter(sum), min_size=1, max_size=8),
    st.integers(1, 8),
)
def test_shares_equal_their_twin(steps: list[list[int]], cpus: int) -> None:
    """Over any number of ticks, busy seconds a CPU over all seconds a CPU is the share of the first and the last line."""
    shares = Shares()
    first = ticks = [5] * 8
    shares.update(ticks, cpus)
    for step in steps:
        ticks = [tick + grown for tick, grown in zip(ticks, step, strict=True)]
        now = shares.update(ticks, cpus)
    busy = sum(now) - now[3] - now[4]
    assert busy / sum(now) == pytest.approx(naive.busy_share(first, ticks))
    assert sum(now) == pytest.approx(sum(map(sum, steps)) / USER_HZ / cpus)


def test_a_cpu_that_goes_offline_makes_no_jump() -> None:
    shares = Shares()
    shares.update([0, 0, 0, 0, 0, 0, 0, 0], 2)
    assert shares.update([1000, 0, 0, 1000, 0, 0, 0, 0], 2)[0] == pytest.approx(5)
    assert shares.update([1100, 0, 0, 1000, 0, 0, 0, 0], 1)[0] == pytest.approx(6)


def test_shares_never_fall() -> None:
    shares = Shares()
    shares.update([500, 0, 0, 900, 0, 0, 0, 0], 1)
    before = list(shares.update([510, 0, 0, 900, 0, 0, 0, 0], 1))
    after = shares.update([4, 0, 0, 1, 0, 0, 0, 0], 1)
    assert all(now >= then for then, now in zip(before, after, strict=True))
    assert shares.update([14, 0, 0, 1, 0, 0, 0, 0], 1)[0] == pytest.approx(before[0] + 10 / USER_HZ)


def test_observe_gives_busy_seconds_a_cpu() -> None:
    host, reader = memory_host({"/proc/stat": stat((0,) * 10, (0,) * 10)})
    collector = CpuCollector(host)
    collector.observe()
    reader.contents["/proc/stat"] = stat((20, 10, 20, 40, 4, 2, 2, 2, 0, 0), (0, 0, 0, 100, 0, 0, 0, 0, 0, 0))
    observed = {(quantity, labels): value for quantity, labels, value in collector.observe()}
    seconds = 2 * USER_HZ  # two CPUs
    assert observed[BUSY_SAMPLED, ()] == pytest.approx(56 / seconds)
    assert observed[MODE_SAMPLED, ("user",)] == pytest.approx(30 / seconds)
    assert observed[MODE_SAMPLED, ("softirq",)] == pytest.approx(4 / seconds)
    assert observed[MODE_SAMPLED, ("iowait",)] == pytest.approx(4 / seconds)
    assert observed[FORKS_SAMPLED, ()] == 3


def test_observe_reads_one_file_once() -> None:
    host, reader = memory_host({"/proc/stat": stat((1,) * 10)})
    collector = CpuCollector(host)
    reader.reads.clear()
    collector.observe()
    assert reader.reads == ["/proc/stat"]


def test_a_limit_cuts_off_single_cpus_and_never_what_speaks_of_the_whole_host() -> None:
    files = {"/proc/stat": stat(*((1,) * 10,) * 512), "/proc/loadavg": b"1.00 2.00 3.00 4/5 6\n"}
    collector = CpuCollector(memory_host(files)[0])
    block, dropped = Guard(collector.metrics, 2000).block(collector.collect())
    names = {sample.metric.name for sample in block.samples}
    assert dropped == {
        "limit": 512 * 8 + len(names) - 2000
    }  # of guests there are two, and one name is that of the CPUs
    assert {"hwsonde_cpu_context_switches_total", "hwsonde_cpu_load15", "hwsonde_cpu_guest_seconds_total"} < names


def test_identity_is_read_by_the_probe_only() -> None:
    host, reader = memory_host({"/proc/stat": stat((1,) * 10), "/proc/cpuinfo": b"vendor_id : V\n"})
    collector = CpuCollector(host)
    collector.probe()
    collector.collect()
    collector.collect()
    assert reader.reads.count("/proc/cpuinfo") == 1


def test_clock_of_a_large_host() -> None:
    collector = CpuClockCollector(fixture_host("node192"))
    collector.probe()
    answer = values(list(collector.collect()))
    low, mean, high = (answer["hwsonde_cpu_frequency_package_hertz", "1", name] for name in ("min", "mean", "max"))
    assert 2.5e9 <= low < mean < high < 3e9
    assert answer["hwsonde_cpu_frequency_max_hertz", "0"] == 3.8e9
    assert answer["hwsonde_cpu_throttled_seconds_total", "1"] == 91.844
    # Cores 48 to 95 have (7 x core) mod 5 events, and their second threads show the same ones again.
    assert answer["hwsonde_cpu_core_throttles_total", "1"] == sum(7 * core % 5 for core in range(48, 96))


def test_readings_that_are_no_frequency_are_left_out() -> None:
    files = {f"{CPU}/online": b"0-2\n", f"{CPU}/cpu0/cpufreq/scaling_cur_freq": b"0\n"}
    files |= {
        f"{CPU}/cpu1/cpufreq/scaling_cur_freq": b"4294967295\n",
        f"{CPU}/cpu2/cpufreq/scaling_cur_freq": b"2000000\n",
    }
    answer = values(list(CpuClockCollector(memory_host(files)[0]).collect()))
    assert answer == {("hwsonde_cpu_frequency_package_hertz", "0", name): 2e9 for name in ("min", "mean", "max")}


def test_a_few_cpus_stand_for_each_package_ten_times_a_second() -> None:
    collector = CpuClockCollector(fixture_host("node192"))
    collector.probe()
    observed = {labels[0]: value for _, labels, value in collector.observe()}
    assert observed.keys() == {"0", "1"}
    assert all(2.5e9 < value < 3e9 for value in observed.values())


def test_the_few_cpus_are_spread_over_their_package_and_chosen_anew_when_one_goes_offline() -> None:
    numbers = range(4 * FAST_CPUS)
    files = {f"{CPU}/online": f"0-{numbers[-1]}\n".encode()}
    files |= {f"{CPU}/cpu{cpu}/cpufreq/scaling_cur_freq": b"2000000\n" for cpu in numbers}
    host, reader = memory_host(files)
    collector = CpuClockCollector(host)
    assert collector.observe() == [(FREQUENCY_SAMPLED, ("0",), 2e9)]
    reader.reads.clear()
    collector.observe()
    assert reader.reads == [f"{CPU}/cpu{cpu}/cpufreq/scaling_cur_freq" for cpu in numbers[::4]]
    for cpu in range(4 * FAST_CPUS - 8, 4 * FAST_CPUS):
        del reader.contents[f"{CPU}/cpu{cpu}/cpufreq/scaling_cur_freq"]
    reader.contents[f"{CPU}/online"] = f"0-{numbers[-1] - 8}\n".encode()
    assert collector.observe() == [(FREQUENCY_SAMPLED, ("0",), 2e9)]
    reader.reads.clear()
    collector.observe()
    assert (
        len([path for path in reader.reads if path.endswith("scaling_cur_freq")]) == 2 * FAST_CPUS
    )  # tried, then read
    assert CpuClockCollector(memory_host({})[0]).observe() == []


@pytest.mark.parametrize("kind", [CpuClockCollector, CpuIdleCollector])
def test_a_virtual_machine_has_neither_clock_nor_idle_states(kind: type[CpuClockCollector | CpuIdleCollector]) -> None:
    with pytest.raises(Unavailable) as caught:
        kind(fixture_host("vm")).probe()
    assert caught.value.reason is Reason.NO_KERNEL_SUPPORT


def test_idle_states_share_the_idle_time() -> None:
    host = fixture_host("node192")
    answer = values(list(CpuIdleCollector(host).collect()))
    assert {key[1] for key in answer} == {"POLL", "C1", "C6"}
    total = parse_stat(host.files.read(host.paths.proc("stat"))).total
    idle = ((total[3] or 0) + (total[4] or 0)) / 100
    assert 0.98 * idle < sum(answer.values()) < idle

"""Whatever lies in the kernel files: a collector gives a part of its series or says that it cannot read, nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hwsonde_exporter.collectors import storage
from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.host import FileReader
from hwsonde_exporter.registry import load_collectors
from tests.exporter.collectors.hosts import DENIED, HOSTS, NAMES, DenyingReader, collectors, fixture_host, made, values
from tests.exporter.collectors.mutations import KINDS, Bench, Case, ask, collect, failures, kind_of, spoilt

# Each a file, a way to spoil it and the bytes; benchmarks/fuzz_files.py runs as many as it is told to.
CASES = 200
ROOT = Path(__file__).resolve().parents[3]

Garble = Callable[[bytes], bytes]
TABLES = sorted(
    {
        (name, path.relative_to(HOSTS / name).as_posix())
        for name in ("sick", "vm", "workstation")
        for path in (HOSTS / name / "proc").rglob("*")
        if path.is_file() and not path.relative_to(HOSTS / name / "proc").parts[0].isdigit()
    }
    | {
        ("vm", path.relative_to(HOSTS / "vm").as_posix())
        for path in (HOSTS / "vm/proc/1/net").iterdir()
        if path.is_file()
    }
)
HUGE = b"9" * 400

garbles = st.one_of(
    st.integers(0, 4000).map(lambda size: lambda data: data[:size]),
    st.binary(max_size=300).map(lambda junk: lambda data: junk),
    st.tuples(st.integers(0, 4000), st.binary(min_size=1, max_size=8)).map(
        lambda cut: lambda data: data[: cut[0]] + cut[1] + data[cut[0] + len(cut[1]) :]
    ),
    st.sampled_from([b"0", b"5", b" "]).map(lambda token: lambda data: data.replace(token, b"-1 ")),
    st.sampled_from([b"0", b"1", b" "]).map(lambda token: lambda data: data.replace(token, HUGE)),
    st.just(lambda data: data + data),
    st.just(lambda data: data.replace(b"\n", b"")),
    st.just(lambda data: data.replace(b" ", b"\xff\x00 ")),
)

# The files without which a collector has nothing to say, beside those of hosts with one device of a kind.
ESSENTIAL = {
    "bonding": ("sys/class/net/bonding_masters",),
    "cpu_clock": ("sys/devices/system/cpu/online",),
    "cpu_frequency": ("sys/devices/system/cpu/online",),
    "cpu_idle": ("sys/devices/system/cpu/online",),
    "ethtool": ("proc/#/net/dev",),
    "filesystem": ("proc/#/mountinfo",),
    "interrupts": ("proc/interrupts",),
    "lustre": ("sys/kernel/debug/lustre/llite/*/stats",),
    "nfs": ("proc/#/mountstats",),
    "perf": ("sys/devices/system/cpu/online",),
    "perf_extended": ("sys/devices/system/cpu/online",),
    # Without it other users' processes are hidden, and what is left is no count of them.
    "processes": ("proc/#/stat",),
}  # fmt: skip
ONLY_ONE = {
    "filesystem_errors": ("sys/fs/ext#/*/errors_count",),
    "memory_bandwidth": ("sys/bus/event_source/devices/uncore_imc_free_running_#/*",),
    "power_host": ("*/hwmon/hwmon#/name", "*/power#_average"),
    "power_rapl": ("sys/class/powercap/intel-rapl:#/*",),
    "power_rapl_limit": ("sys/class/powercap/intel-rapl:#/*",),
    "scsi": ("sys/block/*/device/ioerr_cnt",),
    "thermal_core": ("*/hwmon/hwmon#/name",),
    "thermal_zone": ("sys/class/thermal/thermal_zon#/*",),
    "voltage": ("*/hwmon/hwmon#/*",),
}  # fmt: skip


class GarblingReader(DenyingReader):
    """Reads the fixture and spoils the files whose names end alike."""

    def __init__(self, name: str, garble: Garble, denied: tuple[str, ...] = ()) -> None:
        super().__init__(denied)
        self.name = name
        self.garble = garble

    def read(self, path: Path | str) -> bytes:
        return self.read_once(path)

    def read_once(self, path: Path | str) -> bytes:
        data = super().read_once(path)
        return self.garble(data) if os.fspath(path).endswith(self.name) else data


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("hosts"))


@given(st.sampled_from(TABLES), garbles)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_one_garbled_table(table: tuple[str, str], garble: Garble) -> None:
    name, file = table
    for collector in made(fixture_host(name, GarblingReader(file, garble))):
        ask(collector)


@given(st.sampled_from(["container", "sick", "vm", "workstation"]), garbles)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_everything_garbled(name: str, garble: Garble) -> None:
    for collector in made(fixture_host(name, GarblingReader("", garble, DENIED.get(name, ())))):
        ask(collector)


@pytest.mark.parametrize(
    "start", [0, *(pytest.param(start, marks=pytest.mark.slow) for start in range(CASES // 4, CASES, CASES // 4))]
)
def test_one_file_of_any_host_spoilt_in_any_way(bench: Bench, start: int) -> None:
    assert not list(failures(bench, range(start, start + CASES // 4)))


def test_cases_reach_every_host_and_spoil_in_every_way(bench: Bench) -> None:
    cases = [bench.case(number) for number in range(CASES)]
    assert {case.host for case in cases} == set(NAMES)
    assert {case.kind for case in cases} == set(KINDS)
    assert len({kind_of(case.file) for case in cases}) > CASES // 3


def test_the_bench_sees_a_collector_that_does_not_stand_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(1, "vm", "proc/sys/fs/file-nr", "empty")
    bench.run(case)
    monkeypatch.setattr(storage, "parse_file_nr", lambda data: (int(data.split()[0]), None))
    with pytest.raises(IndexError):
        bench.run(case)
    monkeypatch.setattr(storage, "parse_file_nr", lambda data: (float("nan") if not data else 1, None))
    with pytest.raises(AssertionError):
        bench.run(case)


@pytest.mark.parametrize("kind", ["its folder without permission", "without permission"])
def test_nobody_is_refused_and_says_so(kind: str) -> None:
    """Permissions mean nothing to root, so the script goes on as nobody."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.fuzz_files",
        "--cases",
        "120",
        "--host",
        "sick",
        "--host",
        "vm",
        "--kind",
        kind,
    ]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=ROOT, env=environment)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def losses(bench: Bench) -> Iterator[tuple[str, str]]:
    """Collectors that say nothing any more when a file is missing, and its kind; one file of each kind of all hosts."""
    seen: set[str] = set()
    # The small hosts first: what they have need not be looked for on the others.
    for name in sorted(NAMES, key=lambda name: len(bench.kinds(name))):
        for kind, file in bench.kinds(name).items():
            if kind in seen or (bench.folder / name / file).is_symlink():
                continue
            seen.add(kind)
            case = Case(0, name, file, "missing")
            host, reader = bench.host(name)
            chosen = bench.looking(case, host, unread=False)
            before = {collector.name: ask(collector) for collector in chosen}
            with spoilt(bench.folder / name / file, case.kind, Random(0), reader):
                yield from (
                    (collector.name, kind) for collector in chosen if before[collector.name] and not ask(collector)
                )


@pytest.mark.slow
def test_a_lost_file_loses_only_its_own_series(bench: Bench) -> None:
    unexpected = [
        (name, kind)
        for name, kind in losses(bench)
        if not any(fnmatchcase(kind, pattern) for table in (ESSENTIAL, ONLY_ONE) for pattern in table.get(name, ()))
    ]
    assert not unexpected


@pytest.mark.parametrize(
    "lost", ["softirqs", "loadavg", "vmstat", "memory", "netstat", "sockstat6", "softnet_stat", "file-nr"]
)
def test_what_is_left_keeps_its_values(lost: str) -> None:
    whole = {collector.name: values(list(collector.collect())) for collector in collectors(fixture_host("vm"))}
    reader = GarblingReader(f"/{lost}", lambda data: b"")
    for collector in collectors(fixture_host("vm", reader)):
        part = values(list(collector.collect()))
        assert part.items() <= whole[collector.name].items()
        assert part, f"{collector.name} lost everything with {lost}"


@pytest.mark.parametrize("name", NAMES)
def test_whole_fixtures(name: str) -> None:
    for collector in made(fixture_host(name)):
        ask(collector)


class Missing(FileReader):
    """No file can be read."""

    def read(self, path: Path | str) -> bytes:
        raise ReadError(f"{path}: No such file or directory")

    read_once = read


@pytest.mark.parametrize("name", NAMES)
def test_a_host_without_files_gives_one_line_each(name: str) -> None:
    for collector in collectors(fixture_host(name, Missing())):
        series = collect(collector)
        # The clock, the folders of sysfs and what drivers and disks answer is there all the same.
        assert not series or collector.name not in {
            "cpu",
            "filesystem",
            "memory",
            "network",
            "pressure",
            "storage",
            "tcp",
        }


def test_every_collector_and_metric_is_registered_once() -> None:
    names = [metric.name for kind in load_collectors().values() for metric in kind.metrics]
    names += [
        quantity.metric.name for kind in load_collectors().values() for quantity in getattr(kind, "quantities", ())
    ]
    assert len(names) == len(set(names))
    assert {"cpu", "memory", "pressure", "network", "tcp", "storage", "filesystem", "host"} <= set(load_collectors())

"""The command `check`: on fixture hosts, with devices that hang, and as a program."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import pytest

import hwsonde_exporter
from hwsonde_exporter import baseline, check
from hwsonde_exporter.baseline import Baseline
from hwsonde_exporter.check_rules import Limits, Severity
from hwsonde_exporter.collectors.filesystem import FilesystemCollector, Usage, statvfs_usage
from hwsonde_exporter.collectors.host import HostCollector
from hwsonde_exporter.collectors.settings import SettingsCollector
from hwsonde_exporter.config import Settings, load
from hwsonde_exporter.errors import ConfigError, ExporterError, ThreadError
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import Collector, load_collectors
from tests.exporter.collectors.hosts import CLOCK, HOSTS

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(hwsonde_exporter.__file__).parents[1])}
COMMAND = [sys.executable, "-m", "hwsonde_exporter", "check"]
LIMITS = Limits()


class SteadyHost(HostCollector):
    def __init__(self, host: Host) -> None:
        super().__init__(host, clock=lambda: CLOCK)


class DeadServer(FilesystemCollector):
    """One mount is stale, another hangs."""

    def __init__(self, host: Host, *, timeout: float = 10.0) -> None:
        super().__init__(host, ask=self.ask, timeout=timeout)

    @staticmethod
    def ask(path: bytes) -> Usage:
        if path.endswith(b"/stale"):
            raise OSError(116, "Stale file handle")
        if path.endswith(b"/dead"):
            time.sleep(20)
        return statvfs_usage(b"/")


class Hanging:
    """Stands for a collector whose device hangs."""

    name: ClassVar[str] = "edac"
    help: ClassVar[str] = "Hangs"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("hwsonde_hanging", Kind.GAUGE, "Hangs.", subsystem="memory", source="-"),
    )
    period: ClassVar[float | None] = 5.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host

    def probe(self) -> None: ...

    def collect(self) -> Iterable[Sample]:
        time.sleep(20)
        return []


def kinds(**other: Any) -> dict[str, type[Collector]]:
    return {**load_collectors(), "host": SteadyHost, **other}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A virtual machine without faults: its mount points exist, its file server answers."""
    shutil.copytree(HOSTS / "vm", tmp_path / "vm", symlinks=True)
    for folder in ("boot/efi", "mnt/home share", "dev/shm", "run", "data"):
        (tmp_path / "vm/root" / folder).mkdir(parents=True)
    (tmp_path / "vm/sys/fs/ext4/vda1/errors_count").write_text("0\n")
    return tmp_path / "vm"


def flags(tree: Path) -> list[str]:
    return [f"--path.procfs={tree / 'proc'}", f"--path.sysfs={tree / 'sys'}", f"--path.rootfs={tree / 'root'}"]


def settings(tree: Path, table: dict[str, type[Collector]] | None = None) -> Settings:
    return load(flags(tree), table or kinds())


def report_of(tree: Path, wanted: Baseline = Baseline(), timeout: float = 10.0, **other: Any) -> check.Report:  # noqa: B008
    table = kinds(**other)
    reading, states, seconds = check.read(settings(tree, table), table, timeout)
    return check.examine(reading, states, seconds, wanted, LIMITS)


def rules_of(report: check.Report) -> set[tuple[str, str]]:
    return {(finding.rule, finding.subject) for finding in report.findings}


def test_a_host_without_faults_is_healthy(tree: Path) -> None:
    report = report_of(tree)
    assert report.findings == ()
    assert report.status == check.HEALTHY
    assert report.collectors > 4


def test_what_is_wrong_with_the_training_node() -> None:
    found = rules_of(report_of(HOSTS / "node192"))
    assert {
        ("rdma_down", "mlx5_2/1"), ("rdma_slow", "mlx5_5/1"), ("pcie_narrow", "0000:ba:00.0"), ("pcie_slow", "0000:44:00.0"),
    } <= found  # fmt: skip
    assert not [subject for rule, subject in found if rule == "collector"]


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        (
            "proc/1/mountinfo",
            "28 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 ro,errors=remount-ro\n",
            ("filesystem_read_only", "/"),
        ),
        ("sys/class/nvme/nvme0/state", "dead\n", ("disk_dead", "nvme0")),
        ("sys/devices/system/edac/mc/mc0/ue_count", "2\n", ("memory_errors", "mc0")),
        (
            "proc/interrupts",
            "           CPU0       CPU1\nMCE:          0          1   Machine check exceptions\n",
            ("machine_checks", ""),
        ),
    ],
)
def test_a_fault_in_the_kernels_files_is_found(tree: Path, file: str, text: str, expected: tuple[str, str]) -> None:
    path = tree / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if "edac" in file:
        (path.parent / "ce_count").write_text("0\n")
    report = report_of(tree)
    assert expected in rules_of(report)
    assert report.status == check.UNHEALTHY


def test_a_setting_that_differs_from_the_baseline(tree: Path) -> None:
    table = kinds()
    wanted = baseline.of(check.read(settings(tree), table, 10.0)[0])
    assert report_of(tree, wanted).findings == ()
    (tree / "proc/sys/vm/swappiness").write_text("1\n")
    assert rules_of(report_of(tree, wanted)) == {("setting", "memory.swappiness")}


def test_a_device_that_hangs_is_unknown_and_the_others_are_heard(tree: Path) -> None:
    (tree / "proc/1/mountinfo").write_text(
        "28 1 254:1 / /stale rw - ext4 /dev/vda1 rw\n29 1 0:99 / /dead rw - nfs4 filer:/dead rw\n"
    )
    began = time.monotonic()
    report = report_of(tree, timeout=1.5, edac=Hanging, filesystem=DeadServer)
    assert time.monotonic() - began < 5
    assert rules_of(report) == {("collector", "edac"), ("filesystem_stuck", "/stale"), ("filesystem_stuck", "/dead")}
    (silent,) = (finding for finding in report.findings if finding.subject == "edac")
    assert silent.severity is Severity.UNKNOWN
    assert report.status == check.UNHEALTHY, "the worst counts"


def test_only_unknown_is_unknown(tree: Path) -> None:
    report = report_of(tree, timeout=1.0, edac=Hanging)
    assert report.status == check.UNKNOWN
    assert check.as_text(report).startswith("unknown: collector: edac did not answer in time")


def test_collectors_that_wait_for_devices_wait_less(tree: Path) -> None:
    short = check.hasty(FilesystemCollector, 0.25)
    made: Any = short(Host())
    assert (short.name, short.period, made.name) == ("filesystem", 15.0, "filesystem")
    assert check.hasty(SettingsCollector, 0.25) is SettingsCollector
    assert {name for name, kind in load_collectors().items() if check.hasty(kind, 1.0) is not kind} >= {
        "filesystem",
        "nvme",
        "md",
        "rdma",
    }


def test_a_child_that_hangs_is_left_behind() -> None:
    began = time.monotonic()
    assert check.in_child(lambda: time.sleep(30) or "late", 0.3) is None  # type: ignore[func-returns-value]
    assert time.monotonic() - began < 5


def test_a_child_that_has_told_all_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of whose threads is held by a device: it has answered, and its end does not come."""
    monkeypatch.setattr(os, "_exit", lambda _: time.sleep(60))
    began = time.monotonic()
    assert check.in_child(lambda: "told", 30) == "told"
    assert time.monotonic() - began < 15


def test_a_childs_answer_comes_whole_and_its_mistakes_are_told() -> None:
    long = "x" * 300_000 + "\n\u00e4"
    assert check.in_child(lambda: long, 10) == long
    assert check.in_child(str, 10) == ""
    with pytest.raises(ExporterError, match="check: ended with ZeroDivisionError: division by zero; report"):
        check.in_child(lambda: str(1 / 0), 10)
    with pytest.raises(ExporterError, match="ended by somebody else"):
        check.in_child(lambda: os._exit(0), 10)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_program_says_healthy(tree: Path) -> None:
    # Only this machine's own clock may be wrong.
    done = run(*flags(tree), "--ignore", "clock_free", "--timeout", "10")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("healthy: ")
    quiet = run(*flags(tree), "--ignore=clock_free", "--quiet", "--timeout=10")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")


def test_the_program_writes_a_baseline_and_compares_with_it(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "good.yaml"
    common = [*flags(tree), "--ignore=clock_free", "--timeout=10"]
    assert run(*common, "--write-baseline", str(file)).returncode == 0
    assert file.read_text().startswith("# What a healthy host")
    assert [path.name for path in tmp_path.iterdir() if "good" in path.name] == ["good.yaml"]
    assert run(*common, "--baseline", str(file)).returncode == 0
    (tree / "sys/class/net/eth0/mtu").write_text("1280\n")
    done = run(*common, "--baseline", str(file), "--format", "json")
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert answer["status"] == "unhealthy"
    assert [(found["rule"], found["subject"]) for found in answer["findings"]] == [
        ("setting", "network.mtu_bytes[eth0]")
    ]
    assert answer["findings"][0]["text"] == "is '1280'; the baseline has '1460'"
    shown = run(*common, "--write-baseline", "-")
    assert baseline.parse(shown.stdout.encode(), "-").settings
    assert shown.stderr.startswith("healthy")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["--baseline", "/no/such.yaml"],
            "hwsonde-exporter: /no/such.yaml: cannot be read: No such file or directory; see --baseline\n",
        ),
        (
            ["--timeout", "0"],
            "hwsonde-exporter: argument --timeout: '0' is not allowed; allowed: a number from 0.2 to 60; see --help\n",
        ),
        (["--bogus"], "hwsonde-exporter: unrecognized arguments: --bogus; see --help\n"),
        (
            ["--quiet", "--timeout", "20", "--write-baseline", "/no/such/folder/b.yaml"],
            "hwsonde-exporter: /no/such/folder/b.yaml: cannot be written: No such file or directory; see --write-baseline\n",
        ),
    ],
)
def test_mistakes_are_one_line_and_status_2(arguments: list[str], line: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line)


def test_the_program_is_done_before_a_hanging_child_and_holds_no_stream_open(tmp_path: Path) -> None:
    """The reader of standard output sees its end as soon as the program has ended, whatever the child does."""
    script = (
        "import sys, time\n"
        "from hwsonde_exporter import check\n"
        "import os, signal\n"
        "os.kill = lambda *_: None\n"  # as a device would, nothing ends this child
        "check.read = lambda *_: time.sleep(8)\n"
        "sys.exit(check.main(['--timeout', '0.3']))\n"
    )
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False
    )
    assert time.monotonic() - began < 6
    assert done.returncode == check.UNKNOWN
    assert (
        done.stdout
        == "unknown: collector: no answer within 0.6 s; a device or driver hangs, or the host is overloaded\n"
    )


def test_no_baseline_is_written_without_what_did_not_answer(tree: Path) -> None:
    assert check.lacking(report_of(tree)) == []
    slow = type("Slow", (Hanging,), {"name": "storage"})
    report = report_of(tree, timeout=1.0, storage=slow, edac=Hanging)
    assert "collector:storage" in check.lacking(report)
    assert "collector:edac" not in check.lacking(report), "no baseline wants what it says"
    with pytest.raises(ConfigError, match=r"^x: not written, since it would lack .*collector:storage.*; try a longer"):
        check._write("x", "", check.lacking(report))


def test_what_the_child_says_on_purpose_is_no_bug() -> None:
    def work() -> str:
        raise ThreadError("no thread can be started")

    with pytest.raises(ExporterError, match=r"^check: no thread can be started$"):
        check.in_child(work, 10.0)

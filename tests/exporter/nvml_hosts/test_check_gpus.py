"""The commands `check` and `doctor` on hosts with GPUs: woken slowly, held by the driver, and not to be asked by anybody."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hwsonde_exporter import baseline
from hwsonde_exporter.baseline import Baseline
from tests.exporter.core.test_cli import ENVIRONMENT
from tests.exporter.nvml_hosts.gpu_host import HOSTS, kernel_files
from tests.nvml_shim.control import Fault
from tests.nvml_shim.shim_host import ShimHost

# What is this machine's own: its clock, and whether its kernel's log may be read.
OWN = ("--ignore=clock_free", "--ignore=collector:gpu_xid")
# As a driver that is being started, and as one whose process no signal ends.
ASLEEP = Fault("system", "nvmlInit*", hang="asleep")
KEPT = "supervisor._SLOW_SECONDS['init'] = 0.3; launcher.ChildProcess.kill = lambda _: {}\n"
GPU_MEASURES = ("gpus", "gpu_memory_bytes")


class Node:
    """A host without faults that has eight GPUs."""

    def __init__(self, folder: Path) -> None:
        self.shim = ShimHost("h200", folder / "nvml")
        self.control = self.shim.control
        made = kernel_files(folder / "made", self.shim.recording)
        self.tree = folder / "vm"
        shutil.copytree(HOSTS / "vm", self.tree, symlinks=True)
        for place in ("boot/efi", "mnt/home share", "dev/shm", "run", "data"):
            (self.tree / "root" / place).mkdir(parents=True)
        (self.tree / "sys/fs/ext4/vda1/errors_count").write_text("0\n")
        shutil.copytree(made.procfs / "driver", self.tree / "proc/driver")
        shutil.copytree(made.sysfs / "bus", self.tree / "sys/bus")
        self.file = folder / "node.yaml"

    def run(self, *arguments: str, code: str = "", library: Path | None = None) -> subprocess.CompletedProcess[str]:
        """The program on this host, with ``code`` run before it."""
        program = (
            "import sys, time\n"
            "from hwsonde_exporter import check, cli\n"
            "from hwsonde_exporter.nvml import launcher, supervisor\n"
            f"{code}\nsys.exit(cli.main())"
        )
        paths = (f"--path.{name}fs={self.tree / name}" for name in ("proc", "sys"))
        command = [sys.executable, "-c", program, *arguments, *paths, f"--path.rootfs={self.tree / 'root'}"]
        return subprocess.run(
            [*command, f"--nvml.library={library or self.shim.library}"],
            env=ENVIRONMENT, capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip

    def check(self, *arguments: str, code: str = "", library: Path | None = None) -> tuple[int, list[str]]:
        """Status and lines of a check."""
        done = self.run("check", *OWN, *arguments, code=code, library=library)
        assert done.stderr == ""
        return done.returncode, done.stdout.splitlines()

    def written(self, code: str = "") -> Baseline:
        """What is written of this host by a check that finds nothing wrong."""
        status, lines = self.check("--timeout=30", f"--write-baseline={self.file}", code=code)
        assert (status, [line[:8] for line in lines]) == (0, ["healthy:"])
        return baseline.parse(self.file.read_bytes(), "node.yaml")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def gpus_of(wanted: Baseline) -> dict[tuple[str, str], float]:
    return {key: value for key, value in wanted.expected.items() if key[0] in GPU_MEASURES}


def of_gpus(lines: list[str]) -> list[str]:
    return [line for line in lines if "gpu" in line and " setting: " not in line]


def test_a_baseline_holds_the_gpus_and_they_are_measured_by_it(node: Node) -> None:
    assert len(gpus_of(node.written())) == 9
    assert node.check(f"--baseline={node.file}", "--timeout=30")[0] == 0
    node.control.remove_gpu(7)
    status, lines = node.check(f"--baseline={node.file}", "--timeout=30")
    assert status == 1
    assert "unhealthy: expected_gpus: gpus has 7 of 8 GPUs" in lines


def test_gpus_that_are_still_being_woken_are_unknown_and_not_missing(node: Node) -> None:
    node.written()
    node.control.inject(ASLEEP)
    # As in a prolog, where nothing keeps the GPUs awake.
    status, lines = node.check(f"--baseline={node.file}")
    assert (status, {line.partition(":")[0] for line in lines}) == (2, {"unknown"})
    # With time to say so, however busy this machine is.
    status, lines = node.check(f"--baseline={node.file}", "--timeout=5", code="check._TELLING = 2.0")
    assert (status, {line.partition(":")[0] for line in lines}) == (2, {"unknown"})
    (line,) = of_gpus(lines)
    assert line == (
        "unknown: gpu_unasked: the 8 GPUs on the bus could not be asked (starting); "
        "keep them awake by nvidia-persistenced, or try a longer --timeout"
    )


def test_gpus_are_waited_for_while_there_is_time(node: Node) -> None:
    """Nobody takes what a driver that wakes them says meanwhile for its last word, however soon each collector has heard that."""
    at_once = gpus_of(node.written())
    node.control.inject(Fault("system", "nvmlInit*", slow=2.0))
    impatient = "supervisor._PATIENCE_SECONDS = 0.05"
    assert gpus_of(node.written(impatient)) == at_once
    assert node.check(f"--baseline={node.file}", "--timeout=30", code=impatient)[0] == 0


def driver_fails(error: int) -> Callable[[Node], None]:
    return lambda node: node.control.unload_driver(error)


UNASKED = {
    "no_library": (lambda _: None, "install the driver's libraries, or give the container those of the host"),
    "no_permission": (driver_fails(4), "run as root"),
    "error": (driver_fails(999), "see the kernel's log and what nvidia-smi says"),
}


@pytest.mark.parametrize("state", UNASKED)
def test_gpus_that_nobody_can_ask_are_unknown_unless_that_is_passed_over(
    state: str, node: Node, tmp_path: Path
) -> None:
    node.written()
    fail, advice = UNASKED[state]
    fail(node)
    library = tmp_path / "none.so" if state == "no_library" else None
    told = f"unknown: gpu_unasked: the 8 GPUs on the bus could not be asked ({state}); {advice}"
    assert node.check("--timeout=30", library=library) == (2, [told])
    # With a baseline as without one: what nobody could look at is not missing.
    status, lines = node.check(f"--baseline={node.file}", "--timeout=30", library=library)
    assert (status, of_gpus(lines)) == (2, [told])
    assert node.check("--timeout=30", "--ignore=gpu_unasked", library=library)[0] == 0
    # Nor is a baseline written that would do without them, unless that is meant so.
    node.file.unlink()
    write = ("check", *OWN, "--timeout=30", f"--write-baseline={node.file}")
    done = node.run(*write, library=library)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "not written, since it would lack what could not be looked at: gpu_unasked; try" in done.stderr
    assert not node.file.exists()
    assert node.run(*write, "--ignore=gpu_unasked", library=library).returncode == 0
    assert gpus_of(baseline.parse(node.file.read_bytes(), "node.yaml")) == {}


def test_gpus_without_their_driver_are_lost_as_ever(node: Node) -> None:
    node.control.unload_driver()
    status, lines = node.check("--timeout=30")
    assert status == 1
    assert lines[0].startswith("unhealthy: gpu_lost: the driver uses 0 of the 8 GPUs on the bus")


def test_a_driver_that_holds_who_asks_it_is_unknown(node: Node) -> None:
    node.control.inject(Fault("system", "nvmlInit*", hang="deaf"))
    status, lines = node.check("--timeout=30", code=KEPT.format("False"))
    assert (status, of_gpus(lines)) == (2, [
        "unknown: gpu_unasked: the 8 GPUs on the bus could not be asked (stuck); see the kernel's log, and reboot the host"
    ])  # fmt: skip


def test_what_else_was_found_is_told_though_a_driver_holds_who_asks_it(node: Node) -> None:
    disk = node.tree / "sys/class/nvme/nvme0/state"
    disk.parent.mkdir(parents=True)
    disk.write_text("dead\n")
    node.control.inject(Fault("system", "nvmlInit*", hang="deaf"))
    began = time.monotonic()
    # Whoever waited for the end of that process would wait for as long.
    status, lines = node.check("--timeout=4", code=KEPT.format("time.sleep(60)"))
    assert time.monotonic() - began < 30
    assert status == 1
    assert lines[0].startswith("unhealthy: disk_dead: nvme0 ")
    assert any("gpu" in line for line in lines[1:])


def ended(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("hang", [None, "deaf"])
def test_nothing_that_asks_the_driver_is_left_behind(hang: str | None, node: Node) -> None:
    if hang is not None:
        node.control.inject(Fault(0, "nvmlDeviceGetMemoryInfo*", hang="deaf"))
    node.check("--timeout=3")
    process = node.control.last_process
    assert process
    deadline = time.monotonic() + 30
    while not ended(process):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("fail", "code", "verdict", "words"),
    [
        (
            lambda node: node.control.inject(Fault("system", "nvmlInit*", hang="deaf")),
            KEPT.format("False"),
            "fails",
            "could not be asked (stuck)",
        ),
        (driver_fails(999), "", "blocked", "library does not work: unknown"),
    ],
    ids=["stuck", "error"],
)
def test_the_doctor_finds_it_too(fail: Callable[[Node], None], code: str, verdict: str, words: str, node: Node) -> None:
    fail(node)
    done = node.run("doctor", "--format=json", code=code)
    found = json.loads(done.stdout)
    verdicts = {finding["name"]: finding["verdict"] for finding in found["findings"]}
    assert {verdicts[name] for name in ("gpu", "gpu_health", "gpu_identity", "gpu_nvlink_health")} == {verdict}
    assert any(line.startswith("gpu: ") and words in line for line in found["to_change"])
    assert done.returncode == 1

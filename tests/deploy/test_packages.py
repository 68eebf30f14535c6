"""What the wheel and the source archive hold, and what they do not."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from deploy.generators import completion
from tests.deploy.conftest import ROOT, Built

PROGRAMS = {"hwsonde_exporter": ROOT / "exporter", "hwsonde_detector": ROOT / "detector_sidecar"}
SHARED = [
    "alert_rules",
    "deploy/examples",
    "deploy/kubernetes",
    "deploy/systemd",
    "docs",
    "grafana/dashboards",
    "grafana/provisioning",
]
UNPACKED = {"alert_rules", "deploy", "detector_sidecar", "docs", "exporter", "grafana", "requirements"}


def tracked(*below: str) -> set[str]:
    """Files of the project below folders; as git knows them, and where git is missing all but what running leaves behind."""
    done = None
    if shutil.which("git"):
        done = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", *below],
            cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    if done is None or done.returncode:
        found = (path for folder in below for path in (ROOT / folder).rglob("*") if path.is_file())
        return {str(path.relative_to(ROOT)) for path in found if "__pycache__" not in path.parts}
    return {name for name in done.stdout.splitlines() if (ROOT / name).is_file()}


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as file:
        return set(file.namelist())


def unpack(sdist: Path, folder: Path) -> Path:
    subprocess.run(["tar", "-xzf", sdist, "-C", folder], check=True, timeout=60)
    (unpacked,) = folder.iterdir()
    return unpacked


def test_the_wheel_holds_every_file_of_both_programs(built: Built) -> None:
    wanted = {
        name.partition("/")[2] for name in tracked("exporter/hwsonde_exporter", "detector_sidecar/hwsonde_detector")
    }
    assert len(wanted) > 300
    assert {name for name in names(built.wheel) if name.split("/")[0] in PROGRAMS} == wanted
    assert "hwsonde_detector/web/vendor/LICENSE" in wanted


def test_the_wheel_installs_no_other_module(built: Built) -> None:
    tops = {name.split("/")[0] for name in names(built.wheel)}
    data, info = (next(top for top in tops if top.endswith(end)) for end in (".data", ".dist-info"))
    assert tops == {*PROGRAMS, data, info}
    assert not [name for name in names(built.wheel) if name.startswith(data) and name.endswith(".py")]


@pytest.mark.parametrize("folder", SHARED)
def test_the_wheel_brings_what_operators_copy(built: Built, folder: str) -> None:
    wanted = {name for name in tracked(folder) if not name.endswith(".py")}
    assert wanted
    assert wanted <= {name.partition(".data/data/share/hwsonde/")[2] for name in names(built.wheel)}


def test_the_wheel_brings_completion_where_shells_look(built: Built) -> None:
    held = {name.partition(".data/data/")[2] for name in names(built.wheel)}
    assert {f"share/{name}" for name in completion.files()} <= held


def test_commands_and_extras(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as file:
        (entries,) = (name for name in file.namelist() if name.endswith("/entry_points.txt"))
        (metadata,) = (name for name in file.namelist() if name.endswith("/METADATA"))
        commands = configparser.ConfigParser()
        commands.read_string(file.read(entries).decode())
        wanted = [line for line in file.read(metadata).decode().splitlines() if line.startswith("Requires-Dist:")]
    assert set(commands["console_scripts"]) == {"hwsonde-exporter", "hwsonde-detector"}
    plain = " ".join(line for line in wanted if "extra ==" not in line)
    assert "numpy" not in plain
    assert "scikit" not in plain
    assert any("scikit-learn" in line and "extra == 'detector'" in line for line in wanted)


def test_the_source_archive_holds_the_project_without_its_tests(built: Built) -> None:
    with tarfile.open(built.sdist) as file:
        held = {member.name.partition("/")[2] for member in file if member.isfile()}
    assert {name.split("/")[0] for name in held if "/" in name} == UNPACKED
    assert tracked(*UNPACKED) <= held
    assert {"README.md", "LICENSE", "pyproject.toml", "run"} <= held


def test_a_site_makes_its_own_rules_from_the_source_archive(built: Built, tmp_path: Path) -> None:
    unpacked = unpack(built.sdist, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "alert_rules.generate", "--profile", "fleet", "--detector-url", "https://h.example",
         "--output", str(tmp_path / "rules")],
        cwd=unpacked, env={}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "dashboard_url: https://h.example/" in (tmp_path / "rules" / "fleet.yml").read_text()


def test_a_wheel_of_the_source_archive_is_the_same(built: Built, tmp_path: Path) -> None:
    unpacked = unpack(built.sdist, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")],
        cwd=unpacked, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert names(next((tmp_path / "dist").glob("*.whl"))) == names(built.wheel)

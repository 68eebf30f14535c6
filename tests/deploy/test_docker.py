"""The Dockerfile: what hadolint says, and what the images must have. Building them takes a daemon and a registry."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from deploy.generators.completion import exporter_parser
from hwsonde_detector.cli import make_parser as detector_parser
from hwsonde_exporter.options import DEFAULT_PORT
from tests.deploy.conftest import ROOT, Built
from tests.deploy.test_packages import unpack

DOCKERFILE = ROOT / "deploy" / "docker" / "Dockerfile"
IGNORED = DOCKERFILE.with_name("Dockerfile.dockerignore")
PORTS = {"exporter": DEFAULT_PORT, "detector": 9881}


def stages() -> dict[str, list[str]]:
    """Instructions of each stage by its name, continued lines put together, comments left out."""
    found: dict[str, list[str]] = {}
    lines = [line for line in DOCKERFILE.read_text().splitlines() if line and not line.startswith("#")]
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if match := re.fullmatch(r"FROM (\S+) AS (\S+)", line):
            found[match[2]] = []
        found[list(found)[-1]].append(line)
    return found


def argument(stage: str, instruction: str) -> str:
    (found,) = [line.partition(" ")[2] for line in stages()[stage] if line.startswith(f"{instruction} ")]
    return found


def test_hadolint_finds_nothing() -> None:
    # A development requirement: beside this Python, whether its folder is on the path or not.
    program = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert program, "install requirements/dev.txt"
    done = subprocess.run([program, DOCKERFILE], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_base_is_pinned_and_the_only_image_from_outside() -> None:
    sources = [lines[0].split()[1] for lines in stages().values()]
    outside = {source for source in sources if source not in stages()}
    assert len(outside) == 1
    assert re.fullmatch(r"debian:\d+\.\d+-slim", outside.pop())


@pytest.mark.parametrize("stage", PORTS)
def test_an_image_runs_as_nobody_and_says_how_it_is(stage: str) -> None:
    assert argument(stage, "USER") == "65532:65532"
    assert argument(stage, "EXPOSE") == str(PORTS[stage])
    *_, program, port = yaml.safe_load(argument(stage, "HEALTHCHECK").partition(" CMD ")[2])
    assert int(port) == PORTS[stage]
    assert f"COPY deploy/docker/healthy {program}" in stages()["base"]
    assert yaml.safe_load(argument(stage, "ENTRYPOINT")) == [f"hwsonde-{stage}"]
    assert stages()[stage][0] == f"FROM base AS {stage}", "no tool of the build may stay in the image"


def test_what_an_image_starts_is_a_command_of_its_program() -> None:
    detector_parser().parse_args(yaml.safe_load(argument("detector", "CMD")))
    exporter_parser().parse_args([])


def test_the_programs_are_installed_from_pinned_requirements() -> None:
    for program in PORTS:
        runs = [shlex.split(line)[2:] for line in stages()[f"build-{program}"] if line.startswith("RUN pip install")]
        assert runs[0][-2:] == ["-r", f"/build/requirements/{program}.txt"]
        assert runs[1][-2:] == ["--no-deps", "/build"]


def test_the_context_holds_all_that_the_package_needs(built: Built, tmp_path: Path) -> None:
    """What is not ignored is what the source archive holds, from which a test builds the wheel."""
    kept = {line[1:] for line in IGNORED.read_text().splitlines() if line.startswith("!")}
    held = {path.name for path in unpack(built.sdist, tmp_path).iterdir()}
    assert held - kept == {"PKG-INFO", ".gitignore", "run"}
    assert kept <= held

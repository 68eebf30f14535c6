"""The wheel in clean environments: the exporter alone stays light, the detector works. Takes packages from the index that pip is set to."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.deploy.conftest import ROOT, Built
from tests.detector.past.history import CONFIG, PROFILE, History

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def call(command: Sequence[str | Path], folder: Path) -> str:
    # An empty environment besides: nothing of this checkout may be found by way of PYTHONPATH.
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env={"PATH": "/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def install(folder: Path, wheel: str, pins: str) -> Path:
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True, timeout=120)
    # With this process's environment, which may say where the index is; what PYTHONPATH shows would count as installed.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    pip = [folder / "venv" / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    done = subprocess.run(
        [*pip, "-c", ROOT / "requirements" / pins, wheel],
        env=environment, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "venv"


def modules(venv: Path) -> set[str]:
    return {path.name for path in next(venv.glob("lib/python3*/site-packages")).iterdir()}


def test_the_exporter_alone(built: Built, tmp_path: Path) -> None:
    venv = install(tmp_path, str(built.wheel), "exporter.txt")
    assert not modules(venv) & {"numpy", "scipy", "sklearn", "pydantic", "requests", "jinja2", "alert_rules", "tests"}
    text = call([venv / "bin" / "hwsonde-exporter", "once"], tmp_path)
    assert "\nhwsonde_exporter_build_info{" in text
    assert "\nhwsonde_cpu_seconds_total{" in text
    assert (venv / "share" / "hwsonde" / "alert_rules" / "fleet.yml").is_file()
    refused = subprocess.run(
        [venv / "bin" / "hwsonde-detector", "--version"], capture_output=True, text=True, timeout=60, check=False
    )
    assert refused.returncode == 2
    assert "install hwsonde[detector]" in refused.stderr


def test_the_detector(built: Built, tmp_path: Path) -> None:
    venv = install(tmp_path, f"{built.wheel}[detector]", "detector.txt")
    program = venv / "bin" / "hwsonde-detector"
    assert "ok: " in call([program, "check-config", venv / "share/hwsonde/deploy/examples/detector.yaml"], tmp_path)
    (tmp_path / "made-up.yaml").write_text(PROFILE)
    (tmp_path / "detector.yml").write_text(CONFIG.replace("URL", "http://127.0.0.1:1"))
    archive = History(240).archive(tmp_path / "a.archive", every_ms=5000)
    again = [program, "replay", archive, "--config.file", tmp_path / "detector.yml"]
    first, second = (call(again, tmp_path) for _ in range(2))
    assert first.count("\n") > 100
    assert zlib.crc32(first.encode()) == zlib.crc32(second.encode())

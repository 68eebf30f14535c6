"""What the README tells a user to write is valid, and fits what the programs and rules expect."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import yaml

from alert_rules.timing import FAST

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def prometheus() -> str:
    found = re.search(r"```yaml\n(.*?)```", README, re.DOTALL)
    assert found is not None
    return found[1]


def command() -> list[str]:
    found = re.search(r"^    \S+/python (-m alert_rules\.generate .*?)\n\n", README, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1].replace("\\\n", " ").split()


def test_the_commands_are_those_of_the_first_minute() -> None:
    shown = re.findall(r"^    (\./run \w+)", README, re.MULTILINE)
    assert shown[:2] == ["./run up", "./run test"]


def test_pictures_and_links_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_prometheus_takes_the_configuration_with_the_rules_that_are_generated(tmp_path: Path) -> None:
    arguments = command()
    arguments[arguments.index("--output") + 1] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    text = prometheus().replace("/etc/hwsonde", str(tmp_path))
    assert (tmp_path / "alertmanager" / "fast.yml").exists()
    (tmp_path / "prometheus.yml").write_text(text)
    checked = subprocess.run(
        ["promtool", "check", "config", str(tmp_path / "prometheus.yml")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "1 rule files found" in checked.stdout


def test_the_intervals_are_those_that_the_rules_count_on() -> None:
    found = yaml.safe_load(prometheus())
    assert "global" not in found, "other people's jobs keep their interval, and the rules have their own"
    assert {job["scrape_interval"] for job in found["scrape_configs"]} == {f"{FAST.evaluation:g}s"}
    detector = next(job for job in found["scrape_configs"] if job["job_name"] == "hwsonde-detector")
    assert detector["honor_labels"] is True
    assert all(
        {"cluster", "node"} <= set(static["labels"])
        for job in found["scrape_configs"]
        for static in job["static_configs"]
    )

"""The detector's service: what systemd says of it, and what holds where systemd is not installed.

What is special to the exporter's is tried in tests/exporter/core/test_systemd.py.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from configparser import RawConfigParser
from operator import attrgetter
from pathlib import Path

import pytest
import yaml

from deploy.generators.completion import exporter_parser
from hwsonde_detector.cli import make_parser
from hwsonde_detector.config import load_config
from hwsonde_detector.config.loading import parse_config
from hwsonde_detector.config.models import State
from hwsonde_detector.config.web_file import read_web_file
from hwsonde_exporter.web_config import load_web_config
from tests.deploy.conftest import ROOT

UNITS = ROOT / "deploy" / "systemd"
DETECTOR = UNITS / "hwsonde-detector.service"
TOKEN = UNITS / "hwsonde-detector.service.d" / "token.conf"
SERVICES = sorted(UNITS.glob("*.service"))
needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")


class Unit(RawConfigParser):
    """A unit file, as far as each key is given once; ``all_of`` gives every value of a key."""

    def __init__(self, path: Path) -> None:
        super().__init__(strict=False, interpolation=None)
        self.optionxform = str  # type: ignore[assignment,method-assign]
        self.text = path.read_text()
        self.read_string(self.text)

    def all_of(self, key: str) -> list[str]:
        return re.findall(rf"^{key}=(.*)$", self.text, re.MULTILINE)


@needs_systemd
@pytest.mark.parametrize("drop_ins", [False, True], ids=["plain", "drop-ins"])
def test_systemd_finds_nothing_wrong(tmp_path: Path, *, drop_ins: bool) -> None:
    for service in SERVICES:
        (tmp_path / service.name).write_text(re.sub(r"/opt/hwsonde/bin/\S+", "/bin/true", service.read_text()))
        if drop_ins:
            shutil.copytree(UNITS / f"{service.name}.d", tmp_path / f"{service.name}.d")
    done = subprocess.run(
        ["systemd-analyze", "verify", *(f"./{service.name}" for service in SERVICES)],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@needs_systemd
@pytest.mark.parametrize(("name", "most"), [("hwsonde-detector.service", 15), ("hwsonde-exporter.service", 32)])
def test_systemd_rates_the_services_as_well_confined(tmp_path: Path, name: str, most: int) -> None:
    """``most`` is ten times systemd's exposure level, of which 100 is the worst."""
    shutil.copy(UNITS / name, tmp_path)
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", f"--threshold={most}", f"./{name}"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout.splitlines()[-1:]


# The kernel's module that registers each device group; a group that is not there when a unit starts stays refused.
MODULES = {
    "char-nvidia*": "nvidia",
    "char-nvidia-caps": "nvidia",
    "char-nvme": "nvme_core",
    "char-ipmidev": "ipmi_devintf",
}


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_the_modules_of_allowed_devices_are_loaded_before(service: Path) -> None:
    units = [Unit(path) for path in (service, *(UNITS / f"{service.name}.d").glob("*.conf"))]
    allowed = {given.split()[0] for unit in units for given in unit.all_of("DeviceAllow")}
    needed = {f"modprobe@{MODULES[group]}.service" for group in allowed if group.startswith("char-")}
    assert bool(needed) == (service != DETECTOR)
    for key in ("Wants", "After"):
        named = {name for unit in units for line in unit.all_of(key) for name in line.split()}
        assert {name for name in named if name.startswith("modprobe@")} == needed, key


def test_the_drop_in_of_gpus_needs_no_other() -> None:
    unit = Unit(UNITS / "hwsonde-exporter.service.d" / "gpus.conf")["Unit"]
    assert unit["Wants"] == "modprobe@nvidia.service"
    # The daemon makes the device files, for who may not call the driver's helper.
    assert unit["After"].split() == ["modprobe@nvidia.service", "nvidia-persistenced.service"]


@pytest.mark.skipif(not Path("/usr/lib/systemd/systemd").exists(), reason="systemd is not installed")
def test_systemd_has_the_unit_that_loads_a_module() -> None:
    assert Path("/usr/lib/systemd/system/modprobe@.service").exists()


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_services_run_without_root_from_the_documented_place(service: Path) -> None:
    unit = Unit(service)["Service"]
    assert unit["DynamicUser"] == unit["NoNewPrivileges"] == "yes"
    assert unit["ProtectSystem"] == "strict"
    assert shlex.split(unit["ExecStart"])[0] == f"/opt/hwsonde/bin/{service.stem}"
    assert unit["RestartPreventExitStatus"] == "2"


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_services_start_when_there_are_addresses_and_try_until_there_are(service: Path) -> None:
    """At boot an address that is to be listened on may come late, or later than the target that should stand for it."""
    unit = Unit(service)
    for key in ("Wants", "After"):
        assert "network-online.target" in " ".join(unit.all_of(key)).split()
    assert unit["Service"]["Restart"] == "always"
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"
    # What cannot be had is asked for now and then, and not at the cost of the jobs.
    assert int(unit["Service"]["RestartSec"]) >= 5


def test_the_detector_has_no_capability() -> None:
    unit = Unit(DETECTOR)["Service"]
    assert unit["AmbientCapabilities"] == unit["CapabilityBoundingSet"] == ""


def test_the_detector_is_started_and_checked_by_commands_that_it_has() -> None:
    unit = Unit(DETECTOR)
    start, (check, tell) = unit["Service"]["ExecStart"], unit.all_of("ExecReload")
    ran, checked = (make_parser().parse_args(shlex.split(command)[1:]) for command in (start, check))
    assert ran.config_file == checked.config_file == Path("/etc/hwsonde/detector.yaml")
    assert tell == "/bin/kill -HUP $MAINPID"


def test_the_state_directory_is_the_default_and_the_examples() -> None:
    folder = Path("/var/lib") / Unit(DETECTOR)["Service"]["StateDirectory"]
    assert State().dir == folder == load_config(ROOT / "deploy/examples/detector.yaml").state.dir


def test_the_token_is_read_from_where_systemd_puts_it() -> None:
    name, _, source = Unit(TOKEN)["Service"]["LoadCredential"].partition(":")
    assert source.startswith("/etc/hwsonde/")
    examples = re.findall(r"^#   (source: .*)$", TOKEN.read_text(), re.MULTILINE)
    place = Path(f"/run/credentials/{DETECTOR.name}/{name}")
    for example, file in zip(examples, ("bearer.token_file", "basic.password_file"), strict=True):
        config = parse_config(example.encode(), "detector.yaml")
        assert attrgetter(file)(config.source) == place


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_tls_and_passwords_are_read_from_where_systemd_puts_them(service: Path, tmp_path: Path) -> None:
    drop_in = Unit(UNITS / f"{service.name}.d" / "web.conf")
    shown = dict(given.split(":") for given in drop_in.all_of("LoadCredential"))
    assert all(source.startswith("/etc/hwsonde/") for source in shown.values())
    (example,) = re.findall(r"^#   (tls_server_config: .*)$", drop_in.text, re.MULTILINE)
    (tmp_path / "web.yml").write_text(example)
    named = load_web_config(tmp_path / "web.yml").tls
    assert named is not None
    assert read_web_file(tmp_path / "web.yml").tls is not None
    # Relative paths start in the folder of the file: that of the copies.
    assert {tmp_path / name for name in shown} == {tmp_path / "web.yml", *named.files}
    place = f"/run/credentials/{service.name}/web.yml"
    if service == DETECTOR:
        (example,) = re.findall(r"^#   (web: .*)$", drop_in.text, re.MULTILINE)
        assert yaml.safe_load(example)["web"]["config_file"] == place
        (tmp_path / "detector.yaml").write_text(example)
        assert load_config(tmp_path / "detector.yaml").web.config_file == Path(place)
    else:
        (flags,) = re.findall(r'^#   HWSONDE_EXPORTER_FLAGS="(.*)"$', drop_in.text, re.MULTILINE)
        assert vars(exporter_parser().parse_args([flags]))["web.config.file"] == place

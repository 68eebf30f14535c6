"""Generated configuration, judged by the programs that read it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from hwsonde_detector.config import load_config
from quickstart import cli, configs
from quickstart.errors import QuickstartError
from quickstart.layout import Options, Ports

PORTS = Ports.from_base(21000)


def test_prometheus_takes_its_configuration_and_the_rules(tmp_path: Path) -> None:
    configs.write(Options(tmp_path, PORTS, "n1"))
    promtool = shutil.which("promtool")
    assert promtool is not None, "promtool comes with the package prometheus"
    checked = subprocess.run(
        [promtool, "check", "config", str(tmp_path / "config" / "prometheus.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_alertmanager_takes_its_configuration(tmp_path: Path) -> None:
    configs.write(Options(tmp_path, PORTS, "n1"))
    amtool = shutil.which("amtool")
    assert amtool is not None, "amtool comes with the package prometheus-alertmanager"
    checked = subprocess.run(
        [amtool, "check-config", str(tmp_path / "config" / "alertmanager.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_detector_takes_its_configuration(tmp_path: Path) -> None:
    configs.write(
        Options(tmp_path, PORTS, "n1", detector={"learning": {"calibrated_rows": 90}, "log": {"level": "debug"}})
    )
    config = load_config(tmp_path / "config" / "detector.yml")
    assert config.source.url == "http://127.0.0.1:21002"
    assert config.state.dir == tmp_path / "detector"
    assert str(config.web.listen) == "127.0.0.1:21001"
    assert config.settings().learning.calibrated_rows == 90


def test_every_job_carries_the_entity_labels_and_listens_on_loopback() -> None:
    made = configs.prometheus(Options(Path("/d"), PORTS, "n1", cluster="c1", scrape_ms=500))
    assert made["global"]["scrape_interval"] == "500ms"
    assert [job["job_name"] for job in made["scrape_configs"]] == ["hwsonde-exporter", "hwsonde-detector"]
    for job in made["scrape_configs"]:
        assert job["static_configs"][0]["labels"] == {"cluster": "c1", "node": "n1"}
        assert job["static_configs"][0]["targets"][0].startswith("127.0.0.1:")
    assert made["scrape_configs"][1]["honor_labels"] is True


def test_without_a_key_pages_go_to_the_stand_in_only(tmp_path: Path) -> None:
    files = configs.files(Options(tmp_path, PORTS, "n1"))
    assert "pagerduty.com" not in files["alertmanager.yml"]
    assert yaml.safe_load(files["alertmanager.yml"])["global"]["pagerduty_url"] == "http://127.0.0.1:21004/v2/enqueue"


def test_with_a_key_the_file_is_named_and_the_key_is_nowhere(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("SECRETSECRETSECRETSECRETSECRETSE", encoding="utf-8")
    files = configs.files(Options(tmp_path, PORTS, "n1", key_file=key))
    assert str(key) in files["alertmanager.yml"]
    assert "https://events.pagerduty.com" in files["alertmanager.yml"]
    assert not any("SECRETSECRET" in text for text in files.values())
    assert "stand-in.key" not in files


def test_the_demo_never_pages_for_real(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("SECRETSECRETSECRETSECRETSECRETSE", encoding="utf-8")
    for command, expected in (("up", key), ("demo", None)):
        given = cli.parser().parse_args([command, "--data", str(tmp_path)])
        assert cli.options(given, str(key), "n1").key_file == expected


GOOD_KEY = b"0123456789abcdefABCDEF0123456789"


def refusal(key: Path, data: Path) -> str:
    given = cli.parser().parse_args(["up", "--data", str(data)])
    with pytest.raises(QuickstartError) as refused:
        cli.options(given, str(key), "n1")
    said = str(refused.value)
    assert "\n" not in said
    assert said.startswith(f"HWSONDE_PAGERDUTY_KEY_FILE: {key} ")
    return said


@pytest.mark.parametrize("content", [GOOD_KEY, GOOD_KEY + b"\n", b"\n " + GOOD_KEY + b" \r\n"])
def test_a_key_may_have_blanks_around_it_as_alertmanager_cuts_them(tmp_path: Path, content: bytes) -> None:
    key = tmp_path / "key"
    key.write_bytes(content)
    given = cli.parser().parse_args(["up", "--data", str(tmp_path)])
    assert cli.options(given, str(key), "n1").key_file == key


@pytest.mark.parametrize(
    "content",
    [
        GOOD_KEY[:31],
        GOOD_KEY + b"0",
        GOOD_KEY[:16] + b" " + GOOD_KEY[17:],
        GOOD_KEY + b"\n" + GOOD_KEY + b"\n",
        b"key: " + GOOD_KEY,
        GOOD_KEY[:31] + b"-",
        GOOD_KEY[:30] + "é".encode(),
        b"\xff\xfe\x00" + GOOD_KEY,
        GOOD_KEY + b" " * 5000 + GOOD_KEY + b"x" * 5000,
    ],
)
def test_what_is_no_key_is_refused_and_never_shown(tmp_path: Path, content: bytes) -> None:
    key = tmp_path / "key"
    key.write_bytes(content)
    said = refusal(key, tmp_path)
    assert said.endswith("holds no integration key of PagerDuty: it is one line of 32 letters and digits")
    assert not any(content[at : at + 8].decode("latin-1") in said for at in range(len(GOOD_KEY) - 8))


def test_a_key_file_that_cannot_be_used(tmp_path: Path) -> None:
    key = tmp_path / "key"
    assert "cannot be read: No such file" in refusal(key, tmp_path)
    key.write_text("  \n", encoding="utf-8")
    assert "is empty" in refusal(key, tmp_path)
    key.unlink()
    key.mkdir()
    assert "is not a file" in refusal(key, tmp_path)
    key.rmdir()
    os.mkfifo(key)
    assert "is not a file" in refusal(key, tmp_path)


def test_a_recording_is_part_of_the_detector_s_configuration(tmp_path: Path) -> None:
    given = cli.parser().parse_args(["demo", "--data", str(tmp_path), "--record", str(tmp_path / "archive")])
    made = configs.detector(cli.options(given, None, "n1"))
    assert made["archive"] == {"record": str(tmp_path / "archive")}


@pytest.mark.parametrize(
    "wrong",
    [
        ["up", "--for", "0"],
        ["up", "--for", "x"],
        ["up", "--port-base", "x"],
        ["demo", "--fault", "fire"],
        ["sideways"],
        [],
    ],
)
def test_wrong_options_are_refused_with_status_2(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        cli.parser().parse_args(wrong)
    assert refused.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def test_merging_goes_mapping_by_mapping() -> None:
    assert configs.merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 9}, "d": {"e": 1}}) == {
        "a": {"b": 9, "c": 2},
        "d": {"e": 1},
    }

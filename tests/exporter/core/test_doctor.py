import json
import os
import subprocess
from pathlib import Path

import pytest

from hwsonde_exporter.config import Settings, load
from hwsonde_exporter.doctor import Report, Verdict, as_json, as_text, examine, judge
from hwsonde_exporter.state import State
from tests.exporter.core.fakes import collector_kind
from tests.exporter.core.test_cli import COMMAND, ENVIRONMENT, run

KINDS = {"cpu": collector_kind("cpu", list)}
STATES = [
    State("cpu", "CPU.", None, available=True, success=True, series=12, duration=0.0031),
    State("rapl", "R.", None, available=False, reason="no_permission", detail="root only; give it CAP_DAC_READ_SEARCH"),
    State("ipmi", "I.", 30.0, available=False, reason="missing_tool", detail="no ipmitool; install it"),
    State("nvme", "N.", 30.0, available=False, reason="no_hardware", detail="no NVMe disk"),
    State("psi", "P.", None, available=False, reason="no_kernel_support", detail="the kernel has no PSI"),
    State("off", "O.", None, available=False, reason="disabled", detail="switched off; --collector.off switches it on"),
    State("gone", "G.", None, available=True, success=False, problem="read_error: /proc/x: No such file", duration=0.1),
    State("hung", "H.", None, available=True, success=False, hanging=12.4),
    State("many", "M.", None, available=True, success=True, series=2000, dropped={"limit": 7}),
    State("young", "Y.", 60.0, available=True),
]


def settings(*flags: str) -> Settings:
    return load(flags, KINDS)


def report(*flags: str, states: list[State] = STATES) -> Report:
    return examine(states, settings(*flags))


def test_each_state_has_its_verdict() -> None:
    assert [judge(state).verdict for state in STATES] == [
        Verdict.WORKS, Verdict.BLOCKED, Verdict.BLOCKED, Verdict.ABSENT, Verdict.ABSENT, Verdict.OFF, Verdict.FAILS, Verdict.FAILS,
        Verdict.FAILS, Verdict.FAILS,
    ]  # fmt: skip


def test_what_is_to_change_says_what_helps() -> None:
    changes = report().to_change
    assert [line.partition(":")[0] for line in changes] == ["rapl", "ipmi", "gone", "hung", "many", "young"]
    for words in (
        "CAP_DAC_READ_SEARCH",
        "install it",
        "No such file",
        "has not answered for 12 s",
        "--collector.series-limit many=N",
    ):
        assert any(words in line for line in changes), words
    assert report(states=STATES[:1] + STATES[3:6]).to_change == ()


def test_the_text_is_plain_and_fits() -> None:
    for width in (40, 80, 120, 500):
        text = as_text(report(), width)
        assert "\x1b" not in text
        assert max(map(len, text.splitlines()[1:])) <= max(60, min(width, 160))
    for words in (
        "works (1)",
        "12 series",
        "3.1 ms",
        "could work, but something is in the way (2)",
        "switched off (1)",
        "6 to change",
        "6. young",
    ):
        assert words in text, words
    assert "nothing to change" in as_text(report(states=STATES[:1]))
    coloured = as_text(report(), 80, colour=True)
    assert "\x1b[31mfails (4)\x1b[0m" in coloured


def test_json_says_the_same() -> None:
    found = json.loads(as_json(report()))
    assert {finding["name"]: finding["verdict"] for finding in found["findings"]}["rapl"] == "blocked"
    assert found["to_change"] == list(report().to_change)
    assert as_json(report()).count("\n") == 1


def test_how_it_is_served_is_looked_at(tmp_path: Path) -> None:
    remarks = {remark.text: remark.good for remark in report().remarks}
    assert any("whoever reaches *:9880 reads the metrics" in text and good for text, good in remarks.items())
    local = report("--web.listen-address", "127.0.0.1:1").remarks
    assert any("only this host reaches 127.0.0.1:1" in remark.text for remark in local)
    file = tmp_path / "web.yml"
    file.write_text("tls_server_config: {cert_file: gone, key_file: gone}")
    assert any("gone: cannot be read" in line for line in report("--web.config.file", str(file)).to_change)
    file.write_text('basic_auth_users: {a: "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"}')
    found = report("--web.config.file", str(file))
    assert any("asks for users and passwords" in remark.text for remark in found.remarks)
    assert any("cross the network in the clear" in line for line in found.to_change)


def test_a_hidden_process_1_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    assert any("cannot be seen" in line for line in report("--path.procfs", str(tmp_path / "proc")).to_change)


def doctor(*flags: str, user: int | None = None) -> subprocess.CompletedProcess[str]:
    drop = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user is not None else []
    return subprocess.run(
        [*drop, *COMMAND, "doctor", *flags], env=ENVIRONMENT, capture_output=True, text=True, timeout=90, check=False
    )


def test_here_as_root_or_whoever_runs_the_tests() -> None:
    done = doctor("--format", "json")
    found = json.loads(done.stdout)
    assert done.returncode == (1 if found["to_change"] else 0)
    assert done.stderr == ""
    verdicts = {finding["name"]: finding["verdict"] for finding in found["findings"]}
    assert verdicts["cpu"] == verdicts["memory"] == "works"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")
def test_here_as_nobody() -> None:
    """It says who it is and goes on; what needs a capability is blocked, not broken."""
    done = doctor("--format", "json", user=65534)
    if done.returncode not in {0, 1} or not done.stdout:
        pytest.skip("nobody cannot reach this checkout or its Python")
    found = json.loads(done.stdout)
    assert found["user"].endswith("(uid 65534)")
    assert found["capabilities"] == "no capabilities"
    assert "fails" not in {finding["verdict"] for finding in found["findings"]}
    text = doctor(user=65534)
    assert "Traceback" not in text.stdout + text.stderr


def test_a_wrong_flag_is_one_line_and_help_names_the_command() -> None:
    done = run("doctor", "--format", "xml")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "usage: hwsonde-exporter doctor" in run("doctor", "--help").stdout
    for command in ("once", "doctor", "capture", "check"):
        assert f"hwsonde-exporter {command}" in run("--help").stdout


def test_once_is_a_command_and_a_flag() -> None:
    for flags in (
        ["once", "--collector.disable-defaults", "--collector.cpu"],
        ["--once", "--collector.disable-defaults", "--collector.cpu"],
    ):
        done = run(*flags)
        assert done.returncode == 0
        assert "hwsonde_cpu_" in done.stdout
        assert "hwsonde_memory_" not in done.stdout

"""The script `run` on pretended machines: set-up, healing, locks, refusals. No network, nothing installed."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.run.machine import Machine, counted, is_root


def wait_for(path: Path, *, written: bool = False) -> None:
    end = time.monotonic() + 60
    while not path.exists() or (written and not path.stat().st_size):
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.02)


def running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def one_error(result: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in result.stderr.splitlines() if line.startswith("run: ")]
    assert result.returncode == 1
    assert len(lines) == 1, result.stderr
    return lines[0]


def test_help_needs_nothing_but_bash(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for arguments in (["help"], ["--help"], []):
        result = machine.run(*arguments)
        assert result.returncode == 0
        assert "usage: ./run COMMAND" in result.stdout
    assert machine.calls() == []


def test_unknown_command(tmp_path: Path) -> None:
    result = Machine(tmp_path).run("pu")
    assert result.returncode == 2
    assert "unknown command 'pu'" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [["up", "--help"], ["up", "-h"], ["demo", "--seconds", "5", "--help"], ["up", "--port-base=22000", "-h"]],
)
def test_help_on_a_command_installs_nothing(tmp_path: Path, arguments: list[str]) -> None:
    machine = Machine(tmp_path)
    result = machine.run(*arguments)
    assert (result.returncode, result.stderr) == (0, "")
    assert "usage: ./run COMMAND" in result.stdout
    assert machine.calls() == []


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["up", "--prot-base", "22000"], "up has no option '--prot-base'"),
        (["up", "--data", "/x", "--fault", "cpu"], "up has no option '--fault'"),
        (["demo", "--for=30"], "demo has no option '--for=30'"),
        (["up", "somewhere"], "up has no option 'somewhere'"),
        (["demo", ""], "demo has no option ''"),
    ],
)
def test_a_slip_is_told_before_anything_is_installed(tmp_path: Path, arguments: list[str], named: str) -> None:
    machine = Machine(tmp_path)
    result = machine.run(*arguments)
    assert result.returncode == 2
    assert result.stderr.splitlines()[0] == f"run: {named}"
    assert result.stdout == ""
    assert machine.calls() == []


def test_every_option_that_the_programs_have_is_known(tmp_path: Path) -> None:
    machine = Machine(tmp_path, bare=False)
    common = ["--port-base", "22000", "--data=/x", "--record", "/y"]
    for arguments in (["up", "--for", "30", *common], ["demo", "--fault", "disk", "--seconds=9", *common]):
        assert machine.run(*arguments).stdout == f"started {' '.join(arguments)}\n"


def test_commands_start_from_a_folder_with_a_blank(tmp_path: Path) -> None:
    machine = Machine(tmp_path, bare=False)
    venv = tmp_path / "my cluster" / "v e"
    assert machine.run("up", HWSONDE_VENV=str(venv)).stdout == "started up\n"
    (venv / "bin" / "python").write_text('#!/bin/bash\nprintf "%s|" "$@"\n', encoding="utf-8")
    for name in ("hwsonde-exporter", "hwsonde-detector"):
        script = venv / "bin" / name
        result = subprocess.run([script, "once", "a b"], capture_output=True, text=True, check=True, timeout=60)
        assert result.stdout == f"{script}|once|a b|"
        # To Python the first lines are a text.
        compile(script.read_text(encoding="utf-8"), str(script), "exec")


def test_the_environment_of_a_folder_with_a_blank_is_not_made_twice(tmp_path: Path) -> None:
    machine = Machine(tmp_path, bare=False)
    venv = tmp_path / "my cluster"
    assert machine.run("up", HWSONDE_VENV=str(venv)).returncode == 0
    # As pip writes its scripts there: what sh runs, Python reads as a text.
    head = '#!/bin/sh\n{0}exec\' "{1}/bin/python" "$0" "$@"\n\' {0}\n'.format("'" * 3, venv)
    (venv / "bin" / "pip").write_text(head, encoding="utf-8")
    machine.calls()
    with (machine.checkout / "requirements" / "exporter.txt").open("a", encoding="utf-8") as file:
        file.write("one-more==1\n")
    assert machine.run("up", HWSONDE_VENV=str(venv)).returncode == 0
    calls = machine.calls()
    assert (counted(calls, "venv"), counted(calls, "pip")) == (0, 1)


def test_first_start_installs_with_services_forbidden_and_then_starts(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    result = machine.run("up", "--for", "30", PYTHON_NO_VENV="0")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "started up --for 30\n"
    calls = machine.calls()
    install = next(call for call in calls if " install " in call)
    assert "--no-install-recommends" in install
    assert install.endswith("prometheus prometheus-alertmanager")
    # Both times that apt ran, the policy said no.
    assert calls.count("policy: 1") == 2
    assert not machine.policy.exists()
    assert "systemctl disable --now prometheus" in calls
    assert "update-rc.d prometheus-alertmanager disable" in calls
    assert (counted(calls, "sudo") == 0) == is_root()
    assert (machine.venv / ".hwsonde-detector").exists()
    assert str(machine.checkout / "exporter") in next(machine.venv.glob("lib/*/site-packages/hwsonde.pth")).read_text()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_second_start_touches_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.run("up")
    machine.calls()
    result = machine.run("up")
    assert result.stdout == "started up\n"
    assert result.stderr == ""
    assert machine.calls() == []


def test_python_and_its_venv_are_installed_where_they_are_missing(tmp_path: Path) -> None:
    machine = Machine(tmp_path, bare=False)
    machine.run("up", PYTHON_NO_VENV="1")
    assert "python3 python3-venv" in next(call for call in machine.calls() if " install " in call)


def test_the_tests_need_a_peer_to_compare_with_and_its_service_stays_off(tmp_path: Path) -> None:
    machine = Machine(tmp_path, bare=False)
    machine.run("test")
    calls = machine.calls()
    install = next(call for call in calls if " install " in call)
    assert install.endswith("prometheus-node-exporter curl iproute2 gcc libc6-dev")
    assert "systemctl disable --now prometheus-node-exporter" in calls
    assert "systemctl disable --now curl" not in calls


@pytest.mark.parametrize("collected", ["0", "2"])
def test_the_tests_end_with_0_when_all_passed_whatever_the_first_look_at_them_said(
    tmp_path: Path, collected: str
) -> None:
    machine = Machine(tmp_path, bare=False)
    result = machine.run("test", "-k", "some", COLLECT_STATUS=collected)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "1 passed\n"
    assert [line.split("(")[0].strip() for line in result.stderr.splitlines() if line.startswith("ok")] == [
        "ok    ruff check", "ok    ruff format", "ok    mypy --strict", "ok    import contracts", "ok    pytest",
    ]  # fmt: skip
    (asked,) = [call for call in machine.calls() if call.startswith("pytest")]
    assert asked.endswith("-k some")
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("command", "broken", "named"),
    [
        ("test", "pytest", "pytest"),
        ("test", "mypy pytest", "mypy --strict,pytest"),
        ("test", "lint-imports", "import contracts"),
        ("check", "ruff", "ruff check,ruff format"),
        ("check", "pytest", ""),
    ],
)
def test_what_failed_is_named_and_is_the_status(tmp_path: Path, command: str, broken: str, named: str) -> None:
    result = Machine(tmp_path, bare=False).run(command, FAILS=broken)
    if named:
        assert one_error(result) == f"run: failed: {named}"
    else:
        assert result.returncode == 0, result.stderr
    assert ("found something" in result.stdout) == any(tool in broken for tool in ("mypy", "ruff", "lint-imports"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("set_up", [False, True])
def test_a_signal_ends_the_first_look_at_the_tests_as_well(
    tmp_path: Path, number: signal.Signals, set_up: bool
) -> None:
    machine = Machine(tmp_path, bare=False)
    if set_up:
        assert machine.run("test").returncode == 0
        (tmp_path / "collecting").unlink()
    process = machine.start("test", COLLECT_WAITS="45")
    wait_for(tmp_path / "collecting", written=True)
    # To the script alone, as a supervisor does.
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode not in {0, None}
    collector = int((tmp_path / "collecting").read_text(encoding="utf-8"))
    end = time.monotonic() + 20
    while running(collector):
        assert time.monotonic() < end, "it still runs"
        time.sleep(0.02)


def test_changed_requirements_are_installed(tmp_path: Path) -> None:
    machine = Machine(tmp_path, bare=False)
    machine.run("up")
    machine.calls()
    with (machine.checkout / "requirements" / "exporter.txt").open("a", encoding="utf-8") as file:
        file.write("one-more==1\n")
    result = machine.run("up")
    assert result.stdout == "started up\n"
    calls = machine.calls()
    assert counted(calls, "pip") == 1
    assert counted(calls, "venv") == 0


def test_a_new_python_gets_a_new_environment(tmp_path: Path) -> None:
    machine = Machine(tmp_path, bare=False)
    machine.run("up")
    (machine.venv / "old-file").touch()
    text = (machine.venv / "bin" / "python").read_text(encoding="utf-8")
    # The environment's own python still answers with the version that it was made from.
    (machine.venv / "bin" / "python").write_text(text.replace("${PYTHON_VERSION:-3.11.9}", "3.11.9"), encoding="utf-8")
    result = machine.run("up", PYTHON_VERSION="3.13.1")
    assert result.returncode == 0, result.stderr
    assert (machine.venv / "old-file").exists(), "a stamp that holds is not looked behind"
    (machine.venv / ".hwsonde-detector").unlink()
    machine.run("up", PYTHON_VERSION="3.13.1")
    assert not (machine.venv / "old-file").exists()


def test_a_broken_environment_is_made_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path, bare=False)
    machine.run("up")
    (machine.venv / "bin" / "python").unlink()
    assert machine.run("up").stdout == "started up\n"


def test_a_moved_checkout_gets_a_new_environment(tmp_path: Path) -> None:
    machine = Machine(tmp_path, bare=False)
    machine.run("up")
    machine.calls()
    moved = tmp_path / "elsewhere"
    machine.checkout.rename(moved)
    machine.checkout = moved
    assert machine.run("up").stdout == "started up\n"
    assert counted(machine.calls(), "venv") == 1


def test_failed_packages_are_one_line_and_leave_no_policy(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    result = machine.run("up", APT_STATUS="100", APT_UPDATE_STATUS="100")
    assert "packages could not be installed" in one_error(result)
    assert "apt says something" in result.stderr
    assert result.stdout == ""
    assert not machine.policy.exists()
    assert not machine.venv.exists()


def test_a_policy_of_the_administrator_is_kept(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.policy.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    assert machine.run("up").returncode == 0
    assert machine.policy.read_text(encoding="utf-8") == "#!/bin/sh\nexit 0\n"


def test_a_policy_that_a_killed_run_left_behind_is_removed(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.policy.write_text(
        "#!/bin/sh\n# made by hwsonde's ./run while it installs packages\nexit 101\n", encoding="utf-8"
    )
    assert machine.run("up").returncode == 0
    assert not machine.policy.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_packages_are_installed_leaves_no_policy(tmp_path: Path, number: signal.Signals) -> None:
    machine = Machine(tmp_path)
    process = machine.start("up", APT_WAITS="30")
    wait_for(tmp_path / "apt-waits")
    assert machine.policy.exists()
    os.killpg(process.pid, number)
    _, err = process.communicate(timeout=60)
    assert process.returncode not in {0, None}, err
    assert not machine.policy.exists()
    assert not machine.venv.exists()


DISABLED = ["systemctl disable --now prometheus", "update-rc.d prometheus disable"]
BOTH = [*DISABLED, *(f"{call.replace('prometheus', 'prometheus-alertmanager')}" for call in DISABLED)]


def disabling(machine: Machine) -> list[str]:
    return [call for call in machine.calls() if call.startswith(("systemctl", "update-rc.d"))]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_after_a_package_was_configured_leaves_no_service_for_the_next_boot(
    tmp_path: Path, number: signal.Signals
) -> None:
    machine = Machine(tmp_path)
    process = machine.start("up", APT_WAITS_AFTER="prometheus")
    wait_for(tmp_path / "apt-waits")
    os.killpg(process.pid, number)
    _, err = process.communicate(timeout=60)
    assert process.returncode not in {0, None}, err
    assert disabling(machine) == DISABLED
    assert not machine.policy.exists()


def test_packages_that_fail_leave_no_service_of_those_that_did_not(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert "packages could not be installed" in one_error(machine.run("up", APT_FAILS_AFTER="prometheus"))
    assert disabling(machine) == DISABLED
    assert not machine.policy.exists()


def test_services_that_were_there_before_are_left_alone(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.put("prometheus", "#!/bin/bash\n")
    # Another's policy is no reason to leave ours enabled.
    machine.policy.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    assert machine.run("up").returncode == 0
    assert disabling(machine) == [call for call in BOTH if call not in DISABLED]


@pytest.mark.parametrize("last", ["prometheus", "prometheus-alertmanager"])
def test_what_a_killed_run_left_behind_is_put_right_by_the_next(tmp_path: Path, last: str) -> None:
    machine = Machine(tmp_path)
    process = machine.start("up", APT_WAITS_AFTER=last)
    wait_for(tmp_path / "apt-waits")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert machine.policy.exists()
    assert disabling(machine) == []
    result = machine.run("up")
    assert result.stdout == "started up\n", result.stderr
    calls = machine.calls()
    assert [call for call in calls if call.startswith(("systemctl", "update-rc.d"))] == BOTH
    # Nothing is missing after the second: what is left is cleaned up, and nothing else is done.
    assert counted(calls, "apt-get") == (2 if last == "prometheus" else 0)
    assert not machine.policy.exists()
    assert machine.run("up").stderr == ""
    assert disabling(machine) == []


def test_a_policy_that_another_run_needs_right_now_is_left_alone(tmp_path: Path) -> None:
    machine = Machine(tmp_path, bare=False)
    machine.run("up")
    machine.calls()
    machine.policy.write_text(
        "#!/bin/sh\n# made by hwsonde's ./run while it installs packages\n# packages: prometheus\nexit 101\n",
        encoding="utf-8",
    )
    folder = os.open(machine.policy.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        result = machine.run("up")
        assert result.stdout == "started up\n"
        assert result.stderr == ""
        assert machine.policy.exists()
        assert disabling(machine) == []
    finally:
        os.close(folder)
    assert machine.run("up").stdout == "started up\n"
    assert not machine.policy.exists()


def test_an_old_policy_of_ours_is_removed_where_nothing_is_missing(tmp_path: Path) -> None:
    machine = Machine(tmp_path, bare=False)
    machine.run("up")
    machine.calls()
    machine.policy.write_text(
        "#!/bin/sh\n# made by hwsonde's ./run while it installs packages\nexit 101\n", encoding="utf-8"
    )
    assert machine.run("up").stdout == "started up\n"
    assert not machine.policy.exists()
    assert disabling(machine) == []


def test_failed_requirements_are_one_line_and_heal_at_the_next_start(tmp_path: Path) -> None:
    machine = Machine(tmp_path, bare=False)
    result = machine.run("up", PIP_STATUS="1")
    assert "package index" in one_error(result)
    assert "no route to the index" in result.stderr
    assert result.stdout == ""
    log = next((tmp_path / "tmp").iterdir())
    assert "no route" in log.read_text(encoding="utf-8")
    assert machine.run("up").stdout == "started up\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_setup_heals_at_the_next_start(tmp_path: Path, number: signal.Signals) -> None:
    machine = Machine(tmp_path, bare=False)
    process = machine.start("up", PIP_WAITS="30")
    wait_for(tmp_path / "pip-waits")
    os.killpg(process.pid, number)
    process.communicate(timeout=60)
    assert process.returncode != 0
    if number != signal.SIGKILL:
        assert list((tmp_path / "tmp").iterdir()) == []
    (machine.venv / "half-made").touch()
    machine.calls()
    assert machine.run("up").stdout == "started up\n"
    assert machine.calls() == ["venv", f"pip {machine.checkout}/requirements/detector.txt"]
    assert not (machine.venv / "half-made").exists()


@pytest.mark.parametrize("with_flock", [True, False])
def test_two_at_once_set_up_once(tmp_path: Path, with_flock: bool) -> None:
    machine = Machine(tmp_path, bare=False)
    if not with_flock:
        (machine.bin / "flock").unlink()
    first = machine.start("up", PIP_WAITS="1")
    wait_for(tmp_path / "pip-waits")
    second = machine.start("up")
    outputs = [process.communicate(timeout=60) for process in (first, second)]
    assert [process.returncode for process in (first, second)] == [0, 0], outputs
    assert [out for out, _ in outputs] == ["started up\n"] * 2
    assert counted(machine.calls(), "pip") == 1
    assert not (machine.checkout / ".venv-lock").exists()


def test_a_lock_whose_holder_died_is_taken_over(tmp_path: Path) -> None:
    machine = Machine(tmp_path, bare=False)
    (machine.bin / "flock").unlink()
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    lock = machine.checkout / ".venv-lock"
    lock.mkdir()
    (lock / "pid").write_text(f"{gone.pid}\n", encoding="utf-8")
    assert machine.run("up").stdout == "started up\n"


def test_without_apt_it_says_what_to_install(tmp_path: Path) -> None:
    error = one_error(Machine(tmp_path, apt=False).run("up"))
    assert "no apt" in error
    assert "Prometheus 2.42" in error


def test_without_apt_it_goes_on_when_all_is_there(tmp_path: Path) -> None:
    machine = Machine(tmp_path, bare=False, apt=False)
    (machine.bin / "prometheus-alertmanager").rename(machine.bin / "alertmanager")
    assert machine.run("up").stdout == "started up\n"


def test_an_old_python_is_one_line(tmp_path: Path) -> None:
    machine = Machine(tmp_path, bare=False)
    error = one_error(machine.run("up", PYTHON_OLD="1", PYTHON_VERSION="3.9.2"))
    assert "Python 3.11 or newer is needed" in error
    assert error.endswith(f"HWSONDE_PYTHON is {machine.bin}/python3 (Python 3.9.2)")


def test_a_python_that_is_none_is_one_line_before_anything_is_installed(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    error = one_error(machine.run("up", HWSONDE_PYTHON="/no such/python"))
    assert error.endswith("Python 3.11 or newer is needed; HWSONDE_PYTHON is /no such/python (cannot be run)")
    assert machine.calls() == []
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_folder_that_is_no_environment_is_not_removed(tmp_path: Path) -> None:
    machine = Machine(tmp_path, bare=False)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "letter").write_text("dear", encoding="utf-8")
    error = one_error(machine.run("up", HWSONDE_VENV=str(mine)))
    assert "is not a virtual environment" in error
    assert (mine / "letter").read_text(encoding="utf-8") == "dear"


def test_another_place_for_the_environment(tmp_path: Path) -> None:
    machine = Machine(tmp_path, bare=False)
    assert machine.run("up", HWSONDE_VENV=str(tmp_path / "deep" / "venv")).stdout == "started up\n"
    assert not machine.venv.exists()


def as_user(machine: Machine, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run as a user who is not root."""
    for path in (machine.folder, *machine.folder.rglob("*")):
        if is_root():
            os.chown(path, 65534, 65534, follow_symlinks=False)
    user = 65534 if is_root() else None
    return subprocess.run(
        [shutil.which("bash") or "/bin/bash", str(machine.checkout / "run"), *arguments],
        env=machine.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
        user=user, group=user, extra_groups=[] if is_root() else None,
    )  # fmt: skip


@pytest.fixture
def open_folder(tmp_path: Path) -> Path:
    """A folder that another user can reach."""
    place = tmp_path
    while place != place.parent and place.owner() == tmp_path.owner() and place != Path("/tmp"):
        place.chmod(0o755)
        place = place.parent
    return tmp_path


def test_a_user_without_sudo_is_told_the_command(open_folder: Path) -> None:
    machine = Machine(open_folder)
    (machine.bin / "sudo").unlink()
    error = one_error(as_user(machine, "up"))
    assert "As root, once: apt-get install --no-install-recommends prometheus prometheus-alertmanager" in error


def test_a_user_who_may_not_remove_an_old_policy_is_told_the_command(open_folder: Path) -> None:
    machine = Machine(open_folder, bare=False)
    machine.policy.write_text(
        "#!/bin/sh\n# made by hwsonde's ./run while it installs packages\nexit 101\n", encoding="utf-8"
    )
    machine.put("sudo", "#!/bin/bash\nexit 1\n")
    result = as_user(machine, "up")
    assert result.stdout == "started up\n"
    (line,) = [line for line in result.stderr.splitlines() if "policy-rc.d" in line]
    assert line.endswith(f"As root, once: {machine.checkout}/run install-packages-as-root")
    assert machine.policy.exists()


def test_a_user_with_sudo_installs_by_it(open_folder: Path) -> None:
    machine = Machine(open_folder)
    result = as_user(machine, "up")
    assert result.stdout == "started up\n", result.stderr
    calls = machine.calls()
    assert counted(calls, "sudo") >= 1
    assert not machine.policy.exists()

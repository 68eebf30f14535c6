"""A pretended bare machine for the script `run`: its own PATH, package manager and Python, all of them small stand-ins."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What every Debian has besides bash (essential packages).
ESSENTIAL = (
    "bash", "cat", "chmod", "dirname", "env", "flock", "grep", "head", "ls", "mkdir", "mktemp", "nproc", "rm", "rmdir", "sed", "sha256sum", "sleep",
    "tail", "touch",
)  # fmt: skip

APT = """#!/bin/bash
echo "apt-get $*" >>"$MACHINE/calls"
[[ -e $HWSONDE_POLICY_FILE ]] && echo "policy: $(grep -c 'exit 101' "$HWSONDE_POLICY_FILE")" >>"$MACHINE/calls"
[[ $1 == update ]] && exit "${APT_UPDATE_STATUS:-0}"
echo "apt says something"
if [[ -n ${APT_WAITS:-} ]]; then touch "$MACHINE/apt-waits"; sleep "$APT_WAITS"; fi
[[ ${APT_STATUS:-0} == 0 ]] || exit "$APT_STATUS"
for package in "$@"; do
  case $package in
    prometheus*) printf '#!/bin/bash\\n' >"$MACHINE/bin/$package"; chmod 755 "$MACHINE/bin/$package" ;;
  esac
  [[ $package != "${APT_FAILS_AFTER:-}" ]] || exit 100
  if [[ $package == "${APT_WAITS_AFTER:-}" ]]; then touch "$MACHINE/apt-waits"; sleep 30; fi
done
"""

# A package is installed when its program is there.
DPKG_QUERY = """#!/bin/bash
[[ -e $MACHINE/bin/${*: -1} ]] || exit 1
printf installed
"""

# -c with the age test exits as PYTHON_OLD says; `venv` makes a skeleton whose python is this script again.
PYTHON = """#!/bin/bash
case "$*" in
  -V) echo "Python ${PYTHON_VERSION:-3.11.9}" ;;
  *'sys.exit(sys.version_info'*) exit "${PYTHON_OLD:-0}" ;;
  *'print(sys.version'*) echo "${PYTHON_VERSION:-3.11.9} /usr" ;;
  '-c import ensurepip'*) exit "${PYTHON_NO_VENV:-0}" ;;
  '-m venv '*)
    echo "venv" >>"$MACHINE/calls"
    mkdir -p "$3/bin" "$3/lib/python3.11/site-packages"
    : >"$3/pyvenv.cfg"
    cat "$0" >"$3/bin/python"
    printf '#!%s/bin/python\\n' "$3" >"$3/bin/pip"
    for tool in ruff mypy lint-imports; do
      printf '#!/bin/bash\\n[[ ${FAILS:-} != *%s* ]] || { echo "%s found something"; exit 1; }\\n' "$tool" "$tool" >"$3/bin/$tool"
    done
    chmod 755 "$3"/bin/*
    ;;
  '-m pip --version') ;;
  '-m pip install'*)
    echo "pip ${*: -1}" >>"$MACHINE/calls"
    if [[ -n ${PIP_WAITS:-} ]]; then touch "$MACHINE/pip-waits"; sleep "$PIP_WAITS"; fi
    [[ ${PIP_STATUS:-0} == 0 ]] || echo "pip: no route to the index"
    exit "${PIP_STATUS:-0}"
    ;;
  '-m pytest --collect-only'*)
    echo $$ >"$MACHINE/collecting"
    [[ -z ${COLLECT_WAITS:-} ]] || exec sleep "$COLLECT_WAITS"
    exit "${COLLECT_STATUS:-0}"
    ;;
  '-m pytest '*)
    echo "pytest ${*:3}" >>"$MACHINE/calls"
    [[ ${FAILS:-} != *pytest* ]] || { echo "1 failed"; exit 1; }
    echo "1 passed"
    ;;
  '-P -m quickstart'*) shift 3; echo "started $*" ;;
  *) echo "unexpected: $*" >>"$MACHINE/calls"; exit 3 ;;
esac
"""


def _interruptible() -> None:
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Machine:
    """A machine below ``folder`` with a checkout of the project's script and requirements.

    ``bare`` leaves out Prometheus and Alertmanager; ``apt`` says whether there is a package manager.
    """

    def __init__(self, folder: Path, *, bare: bool = True, apt: bool = True) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.checkout = folder / "checkout"
        self.policy = folder / "sbin" / "policy-rc.d"
        for place in (self.bin, self.checkout, self.policy.parent, folder / "tmp"):
            place.mkdir(parents=True)
        shutil.copy2(ROOT / "run", self.checkout / "run")
        shutil.copytree(ROOT / "requirements", self.checkout / "requirements")
        for name in ESSENTIAL:
            found = shutil.which(name)
            if found is not None:
                (self.bin / name).symlink_to(found)
        self.put("python3", PYTHON)
        self.put(
            "sudo", '#!/bin/bash\necho "sudo" >>"$MACHINE/calls"\nwhile [[ $1 == -* ]]; do shift; done\nexec "$@"\n'
        )
        for name in ("systemctl", "update-rc.d"):
            self.put(name, f'#!/bin/bash\necho "{name} $*" >>"$MACHINE/calls"\n')
        if apt:
            self.put("apt-get", APT)
            self.put("dpkg-query", DPKG_QUERY)
        if not bare:
            self.put("prometheus", "#!/bin/bash\n")
            self.put("prometheus-alertmanager", "#!/bin/bash\n")

    @property
    def venv(self) -> Path:
        """The environment that the script makes."""
        return self.checkout / ".venv"

    def put(self, name: str, text: str) -> None:
        """Install a program."""
        path = self.bin / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def environment(self, **more: str) -> dict[str, str]:
        """Environment of a run on this machine."""
        return {
            "PATH": str(self.bin),
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder / "tmp"),
            "MACHINE": str(self.folder),
            "HWSONDE_PYTHON": str(self.bin / "python3"),
            "HWSONDE_POLICY_FILE": str(self.policy),
            **more,
        }

    def start(self, *arguments: str, **more: str) -> subprocess.Popen[str]:
        """Begin a run in a process group of its own."""
        return subprocess.Popen(
            [shutil.which("bash") or "/bin/bash", str(self.checkout / "run"), *arguments],
            env=self.environment(**more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
            # Tests that were started in the background or by nohup ignore signals, and a shell cannot trap what was ignored before it began.
            preexec_fn=_interruptible,  # noqa: PLW1509  one thread, and two system calls
        )

    def run(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run to the end."""
        process = self.start(*arguments, **more)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def calls(self) -> list[str]:
        """What the stand-ins were asked, since the last look."""
        path = self.folder / "calls"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        path.unlink(missing_ok=True)
        return text.splitlines()


def counted(calls: Sequence[str], beginning: str) -> int:
    """How many calls begin so."""
    return sum(call.startswith(beginning) for call in calls)


def is_root() -> bool:
    """Whether the tests run as root, and so the script needs no sudo."""
    return os.geteuid() == 0

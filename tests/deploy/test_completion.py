"""The completion does in the shells what it should."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.conftest import ROOT

FOLDER = ROOT / "deploy" / "completion"
PROGRAMS = ["hwsonde-exporter", "hwsonde-detector"]
CASES = [
    ("hwsonde-detector rep", {"replay", "report"}),
    ("hwsonde-detector report --e", {"--entity", "--episode"}),
    ("hwsonde-exporter doc", {"doctor"}),
    ("hwsonde-exporter check --base", {"--baseline"}),
    ("hwsonde-exporter --web.listen", {"--web.listen-address"}),
]


def run(*command: str, folder: Path = FOLDER) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(("line", "wanted"), CASES)
def test_bash(line: str, wanted: set[str]) -> None:
    words = line.split()
    script = f"""
        source bash-completion/completions/{words[0]}
        COMP_WORDS=({line}) COMP_CWORD={len(words) - 1}
        $(complete -p {words[0]} | sed 's/.*-F \\([^ ]*\\) .*/\\1/') {words[0]} {words[-1]} {words[-2]}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    assert set(run("bash", "-c", script).split()) == wanted


@pytest.mark.parametrize("program", PROGRAMS)
def test_bash_completes_names_of_files(program: str, tmp_path: Path) -> None:
    (tmp_path / "config-of-mine.yaml").touch()
    script = f"""
        source {FOLDER}/bash-completion/completions/{program}
        COMP_WORDS=({program} {"run" if program.endswith("detector") else "doctor"} --config.file conf) COMP_CWORD=3
        $(complete -p {program} | sed 's/.*-F \\([^ ]*\\) .*/\\1/') {program} conf --config.file
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    assert run("bash", "-c", script, folder=tmp_path).split() == ["config-of-mine.yaml"]


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
@pytest.mark.parametrize(("line", "wanted"), CASES)
def test_fish(line: str, wanted: set[str]) -> None:
    script = f"source fish/vendor_completions.d/{line.split(maxsplit=1)[0]}.fish; complete -C '{line}'"
    assert {found.split("\t")[0] for found in run("fish", "-c", script).splitlines()} == wanted


@pytest.mark.skipif(not shutil.which("zsh"), reason="zsh is not installed")
@pytest.mark.parametrize("program", PROGRAMS)
def test_zsh_takes_the_file_for_that_program(program: str) -> None:
    run("zsh", "-f", "-n", f"zsh/site-functions/_{program}")
    script = f"fpath=($PWD/zsh/site-functions $fpath); autoload -Uz compinit; compinit -u -D; print $_comps[{program}]"
    assert run("zsh", "-f", "-c", script) == f"_{program}\n"

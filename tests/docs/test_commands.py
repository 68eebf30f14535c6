"""Every command of the tutorial, the how-tos and the README is one that its program takes; what is not tried says why.

The tutorial's commands are run against real programs in tests/e2e/test_tutorial.py, installing in tests/deploy/test_installed.py.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from alert_rules import generate
from deploy.generators import prometheus_rule
from deploy.generators.completion import exporter_parser
from hwsonde_detector.cli import make_parser as detector_parser
from hwsonde_detector.past.when import joined
from quickstart.cli import parser as run_parser
from tests.docs.markdown import ROOT, blocks, codes, pages, words

PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "tutorial.md",
    ROOT / "docs" / "quickstart.md",
    ROOT / "docs" / "check.md",
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
]
# In these every line of a block marked `sh` must be known; elsewhere blocks hold commands, output and configuration side by side.
STRICT = [ROOT / "docs" / "tutorial.md", *(path for path in PAGES if "```sh" in path.read_text(encoding="utf-8"))]
# Programs that are not ours and are not run here, and why.
EXCEPTIONS = {
    "amtool": "its file is one of a site; tests/rules gives it ours",
    "cp": "copies to /etc or within a checkout",
    "curl": "asks programs that must run; tests/e2e/test_tutorial.py asks them",
    "docker": "takes a daemon and a registry; tests/deploy/test_docker.py reads the file",
    "install": "writes to /etc or /usr",
    "ln": "writes to /usr",
    "nft": "changes the firewall of this machine",
    "promtool": "its file is one of a site; tests/deploy and tests/rules give it ours",
    "slurm-targets": "asks Slurm; tests/deploy/test_scrape_examples.py runs it with a Slurm that is pretended",
    "systemctl": "changes the services of this machine",
}


def ours(program: str) -> str:
    """Name of a program whatever folder it is called from."""
    return Path(program).name if re.search(r"(^|/)(hwsonde-|python3?$|pip$|run$)", program) else program


def run_run(arguments: list[str]) -> None:
    if arguments[0] in {"up", "demo"}:
        run_parser().parse_args(arguments)
    else:
        assert arguments[0] in {"test", "check", "help"}


def run_python(arguments: list[str]) -> None:
    if arguments[:2] == ["-m", "venv"]:
        return  # as tests/deploy/test_installed.py does it
    assert arguments[0] == "-m"
    module, rest = arguments[1], arguments[2:]
    if module == "alert_rules.generate":
        known = {"--profile", "--detector-url", "--runbooks-url", "--routing-key-file", "--pagerduty-url", "--output"}
        assert {word for word in rest if word.startswith("--")} <= known
        assert generate.files([], generate.Links(option(rest, "--detector-url")), generate.paging.PagerDuty()) == {}
    else:
        assert module == "deploy.generators.prometheus_rule"
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert prometheus_rule.main(rest) == 0
        assert option(rest, "--detector-url") in out.getvalue()


def option(arguments: list[str], name: str) -> str:
    return arguments[arguments.index(name) + 1]


def run_pip(arguments: list[str]) -> None:
    assert arguments[0] == "install"
    wanted = arguments[-1]
    assert re.fullmatch(r"\.(\[detector\])?|hwsonde-[\d.]+-py3-none-any\.whl(\[detector\])?", wanted), wanted


def run_kubectl(arguments: list[str]) -> None:
    folders = [word for word in arguments if word.startswith("deploy/")]
    if not folders:
        assert set(arguments) & {"create", "rollout", "port-forward"}, "only these need a cluster and are not tried"
        return
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is not installed")
    # The page copies an overlay first.
    folder = ROOT / folders[0].replace("overlays/mine", "overlays/fleet")
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


HANDLERS: dict[str, Callable[[list[str]], object]] = {
    "./run": run_run,
    "hwsonde-detector": lambda arguments: detector_parser().parse_args(joined(arguments)),
    "hwsonde-exporter": lambda arguments: exporter_parser().parse_args(arguments),
    "kubectl": run_kubectl,
    "pip": run_pip,
    "python": run_python,
    "python3": run_python,
    "run": run_run,
}
COMMANDS = [
    (page, line)
    for page in PAGES
    for block in blocks(page)
    if block.language in {"", "sh"}
    for line in block.lines
    if (found := words(line.strip())) and ours(found[0]) in HANDLERS
]


@pytest.mark.parametrize(
    ("page", "line"), COMMANDS, ids=[f"{page.stem}: {line.strip()[:60]}" for page, line in COMMANDS]
)
def test_commands_are_taken(page: Path, line: str) -> None:
    program, *arguments = words(line.strip())
    try:
        HANDLERS[ours(program)](arguments)
    except SystemExit as end:
        pytest.fail(f"{page.name}: the program refuses: {line.strip()} ({end})")


OURS = {"./run", "hwsonde-detector", "hwsonde-exporter"}
# Pages that hold more than commands: of these and of what stands within lines only our own programs are tried.
SAID = [
    (page, text)
    for page in pages()
    for text in (
        *codes(page),
        *(line for block in blocks(page) for line in block.lines if page not in PAGES and block.language in {"", "sh"}),
    )
    if len(found := words(text.strip())) > 1 and ours(found[0]) in OURS
]


@pytest.mark.parametrize(("page", "text"), SAID, ids=[f"{page.stem}: {text.strip()[:60]}" for page, text in SAID])
def test_commands_in_the_text_of_any_page_are_taken(page: Path, text: str) -> None:
    program, *arguments = words(text.strip())
    try:
        # A command that is only named is asked for its help.
        HANDLERS[ours(program)]([*arguments, "--help"] if len(arguments) == 1 and program != "./run" else arguments)
    except SystemExit as end:
        if end.code:
            pytest.fail(f"{page.name}: the program refuses: {text.strip()} ({end})")


def test_modules_that_a_page_starts_exist() -> None:
    named = {
        module
        for page in pages()
        for text in (*codes(page), *(line for block in blocks(page) for line in block.lines))
        for module in re.findall(r"\bpython3? -m ([\w.]+)", text)
    }
    assert len(named) > 10
    assert [module for module in sorted(named) if importlib.util.find_spec(module) is None] == []


@pytest.mark.parametrize("page", STRICT, ids=lambda page: page.stem)
def test_every_line_that_is_shown_as_a_command_is_tried_or_an_exception(page: Path) -> None:
    lines = [line for block in blocks(page) if block.language == "sh" for line in block.lines if words(line)]
    assert lines
    unknown = {ours(words(line)[0]) for line in lines} - HANDLERS.keys() - EXCEPTIONS.keys()
    assert not unknown


def test_the_commands_of_the_tutorial_are_among_them() -> None:
    assert len({line for page, line in COMMANDS if page.name == "tutorial.md"}) >= 5
    assert {page.name for page in PAGES if "how-to" in page.parts} - {page.name for page, _ in COMMANDS} == set()


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_no_exception_is_stale(name: str) -> None:
    shown = {words(line)[0] for page in PAGES for block in blocks(page) for line in block.lines if words(line.strip())}
    assert name in shown


def test_what_operators_copy_is_where_the_pages_say() -> None:
    """Paths below share/hwsonde, which the wheel lays out as a checkout."""
    named = {
        path
        for page in PAGES
        for path in re.findall(r"/opt/hwsonde/share/hwsonde/([\w./-]+)", page.read_text(encoding="utf-8"))
    }
    assert len(named) >= 5
    for path in named:
        assert (ROOT / path).exists(), path
    completion = re.findall(
        r"/opt/hwsonde/share/((?:bash|zsh|fish)[\w./-]+)", (ROOT / "docs/how-to/install-systemd.md").read_text()
    )
    for path in completion:
        assert (ROOT / "deploy" / "completion" / path).exists(), path

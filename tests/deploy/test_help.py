"""``--help`` teaches: every example in it is a command line that the program takes, and statuses and places are named."""

from __future__ import annotations

import re
import shlex

import pytest

from deploy.generators.completion import exporter_parser
from hwsonde_detector.cli import make_parser as detector_parser
from hwsonde_detector.help import EPILOGS, MAIN
from hwsonde_detector.past.when import joined
from hwsonde_exporter.cli import commands
from tests.deploy.conftest import ROOT

TEXTS = {
    **{f"hwsonde-exporter {name}".strip(): command.epilog for name, command in commands().items()},
    **{f"hwsonde-detector {name}": text for name, text in EPILOGS.items()},
    "hwsonde-detector": MAIN,
}
EXAMPLES = [
    re.split(r"\s{2,}| > ", line.strip())[0]
    for text in TEXTS.values()
    for line in text.partition("commands, each with")[2].partition("\n\n")[2].splitlines() or text.splitlines()
    if line.startswith("  hwsonde-")
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_are_taken(example: str) -> None:
    program, *arguments = shlex.split(example)
    if program == "hwsonde-detector":
        detector_parser().parse_args(joined(arguments))
    else:
        exporter_parser().parse_args(arguments)


@pytest.mark.parametrize("command", TEXTS)
def test_every_command_has_an_example_and_its_statuses(command: str) -> None:
    text = TEXTS[command]
    assert re.search(rf"^  {command}", text, re.MULTILINE)
    assert "exit status:\n  0 " in text
    assert "\n  2 " in text


@pytest.mark.parametrize("command", ["hwsonde-exporter", "hwsonde-detector"])
def test_the_pages_that_are_named_exist(command: str) -> None:
    pages = re.findall(r"docs/\S+\.md", TEXTS[command])
    assert pages
    for page in pages:
        assert (ROOT / page).is_file(), page


def test_every_command_of_the_detector_is_described() -> None:
    (below,) = (action for action in detector_parser()._actions if isinstance(action.choices, dict))
    assert set(below.choices or ()) == set(EPILOGS)

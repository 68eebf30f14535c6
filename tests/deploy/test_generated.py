"""Files that are made from the programs and the rules are current, and none is left of what is made no more."""

from __future__ import annotations

import pytest

from deploy.generate import outputs
from tests.deploy.conftest import ROOT

OUTPUTS = outputs()


@pytest.mark.parametrize("name", OUTPUTS)
def test_committed_files_are_current(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == OUTPUTS[name], "run: python -m deploy.generate"


def test_no_old_file_is_left() -> None:
    there = {str(path.relative_to(ROOT)) for path in (ROOT / "deploy" / "completion").rglob("*") if path.is_file()}
    assert there == {name for name in OUTPUTS if name.startswith("deploy/completion/")}

"""Switches of the whole test suite."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# Several workers share the processors; threads of the linear algebra in each of them would only wait for one another. Set before numpy is imported.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# Trees like /sys, full of links to directories in each other: looking for tests there never ends.
collect_ignore = ["fixtures"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the exporter's golden outputs anew instead of comparing"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the end-to-end tests: one worker does them one after the other, and waits most of the time."""
    items.sort(key=lambda item: item.get_closest_marker("e2e") is None)


class EndToEndApart(LoadScopeScheduling):
    """Gives each test to the next worker that is free, but those of a file that share a fixture to one, and all end-to-end tests to one.

    What tests share is made once, and not by each worker.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith("tests/e2e/"):
            return "end to end"
        file = nodeid.partition("::")[0]
        return file if _shares(file) else nodeid


@functools.cache
def _shares(file: str) -> bool:
    """Whether tests of a file share a fixture."""
    return 'scope="module"' in (Path(__file__).parents[1] / file).read_text(encoding="utf-8")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> EndToEndApart | None:
    """Distribute tests when there are several workers."""
    return EndToEndApart(config, log) if config.getvalue("dist") == "load" else None

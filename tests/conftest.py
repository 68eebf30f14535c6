"""Switches of the whole test suite."""

from __future__ import annotations

import pytest

# Trees like /sys, full of links to directories in each other: looking for tests there never ends.
collect_ignore = ["fixtures"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the exporter's golden outputs anew instead of comparing"
    )


# Before xdist looks for the groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the end-to-end tests, one after the other on one worker: they wait most of their time."""
    for item in items:
        if item.get_closest_marker("e2e"):
            item.add_marker(pytest.mark.xdist_group("e2e"))
    items.sort(key=lambda item: item.get_closest_marker("e2e") is None)

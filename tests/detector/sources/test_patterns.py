"""Patterns of silences and of the configuration, which are written for another language than Python's."""

from __future__ import annotations

import random
import re
import sys
import warnings

import pytest

from hwsonde_detector.types.guidance import Matcher
from hwsonde_detector.types.patterns import compiled, has_odd_set


@pytest.mark.parametrize(
    "pattern",
    [
        "[[:lower:]]", "[[:lower:]]+", "[^[:digit:]]", "n[0-9[:alpha:]]", "[a[:^space:]b]", "(rack|[[:word:]]+)-1",
        "[[a]", "[a&&b]", "[a||b]", "[+--]", "a{,3}", "a{,}",
        r"\pL", r"\p{Greek}", r"\Qa.b\E", "q(?i)A", "(?U)a*", r"\x{41}", r"\C", "(", "a" * 3 + "(" * 2000, "a{99999999999}",
    ],
)  # fmt: skip
def test_what_means_something_else_here_or_nothing_is_none(pattern: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled(pattern) is None


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python reads it since 3.14")
def test_the_end_of_the_text_by_its_other_name_is_none() -> None:
    assert compiled(r"n1\z") is None


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        ("n1.*", "n17"),
        ("[a-z0-9_-]+", "gpu-1"),
        (r"[\[a]+", "[a"),
        (r"a\[[:b]", "a[:"),
        ("[]a]+", "]a"),
        ("[^]]+", "n1"),
        ("[^[]", "n"),
        ("[a:]+[:b]", "a:b"),
        (r"a\{,3}", "a{,3}"),
        ("a{1,3}", "aa"),
        ("(?i)RACK|node", "rack"),
        (r"\d+\.\w", "10.x"),
    ],
)
def test_what_means_the_same_is_compiled(pattern: str, value: str) -> None:
    found = compiled(pattern)
    assert found is not None
    assert found.fullmatch(value)


def test_nothing_that_python_warns_of_is_compiled() -> None:
    chance = random.Random(9)
    warned = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(20_000):
            text = "".join(chance.choices("[]^-&~|:\\ab", k=chance.randrange(1, 14)))
            compiled(text)
            try:
                re.compile(text)
            except FutureWarning:
                warned += 1
                assert has_odd_set(text), text
            except re.error:
                continue
    assert warned > 100


def test_a_pattern_of_an_old_archive_is_matched_without_a_word() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not Matcher("node", "[[:upper:]]", regex=True).holds("n")

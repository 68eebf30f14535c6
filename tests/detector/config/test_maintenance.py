"""Maintenance windows and the section alertmanager, as they are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.config.incidents import parse_matchers
from hwsonde_detector.config.loading import parse_config
from hwsonde_detector.config.values import RefusedError
from hwsonde_detector.errors import ConfigError
from hwsonde_detector.types.guidance import Matcher

START = 1_795_989_600_000
DAY = 86_400_000
LINE = """maintenance: {rack7: 'cluster="a", node=~"n1.*" from 2026-11-29T22:00:00Z for 4h every 7d'}"""


def test_a_window_is_open_once_a_week() -> None:
    (window,) = parse_config(LINE.encode(), "f").maintenance.values()
    assert window.matchers == (Matcher("cluster", "a"), Matcher("node", "n1.*", regex=True))
    for weeks in (0, 1, 52):
        begin = START + weeks * 7 * DAY
        one = window.normal("rack7", begin + 1)
        assert (one.start_ms, one.end_ms, one.reason) == (begin, begin + DAY // 6, "maintenance rack7")
    assert window.normal("rack7", START - 9 * DAY).start_ms == START


def test_one_that_does_not_come_again_is_open_once() -> None:
    (window,) = parse_config(LINE.replace(" every 7d", "").encode(), "f").maintenance.values()
    assert window.normal("x", START + 70 * DAY).end_ms == START + DAY // 6


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('node="n1"', "no maintenance window"),
        ('node="n1" from yesterday for 4h', "is no time"),
        ('node="n1" from 2026-11-29T22:00:00 for 4h', "no time zone"),
        ('node="n1" from 2026-11-29T22:00:00Z for 4x', "4x"),
        ('node="n1" from 2026-11-29T22:00:00Z for 4h every 1h', "comes again each 1h"),
        ('node=~"n1(" from 2026-11-29T22:00:00Z for 4h', "regular expression"),
        (
            'node=~"[[:lower:]]+" from 2026-11-29T22:00:00Z for 4h',
            r"no regular expression that can be read here.*\[\[:lower:\]\]",
        ),
        ('job="x" from 2026-11-29T22:00:00Z for 4h', "names no host"),
        ("n1 from 2026-11-29T22:00:00Z for 4h", "names no hosts"),
    ],
)
def test_a_wrong_window_is_one_line_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        parse_config(f"maintenance:\n  rack7: '{text}'\n".encode(), "f")
    assert str(caught.value).startswith("f:2: maintenance.rack7")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{basic: {username: a}}", "password_file and password_env"),
        ("{bearer: {}}", "token_file and token_env"),
        ("{tls: {key_file: k}}", r"alertmanager\.tls\.cert_file"),
        ("{url: 'http://a:b@c'}", "user or a password"),
        ("""{normal: 'x=~"[[:lower:]]"'}""", "can be read here"),
        ("""{normal: 'x=~"("'}""", "can be read here"),
    ],
)
def test_who_asks_alertmanager_is_checked_as_for_the_source(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_config(f"alertmanager: {text}".encode(), "f")


@given(st.text(st.characters(codec="utf-8", exclude_characters='\\"\n'), max_size=20))
def test_values_of_matchers_come_back(value: str) -> None:
    assert parse_matchers(f'node="{value}",cluster!="b"') == (
        Matcher("node", value),
        Matcher("cluster", "b", equal=False),
    )


def test_escapes_are_read() -> None:
    assert parse_matchers(r'node="a\"b\\c\nd"') == (Matcher("node", 'a"b\\c\nd'),)
    assert parse_matchers(r'node=~"a\\.b"') == (Matcher("node", r"a\.b", regex=True),)


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert parse_matchers(text)
    except RefusedError:
        assert True

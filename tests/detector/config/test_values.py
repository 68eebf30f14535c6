"""Single values: what is read back as written, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.config.addresses import Listen, Selector, Url
from hwsonde_detector.config.values import (
    Choice,
    FilePath,
    Items,
    Real,
    RefusedError,
    Rule,
    Size,
    Span,
    Switch,
    Text,
    Whole,
    format_duration,
    format_size,
    parse_duration,
    shown,
)

BASE = Path("/etc/hwsonde")
RULES: list[Rule] = [
    Whole(1, 9),
    Real(0, 1),
    Switch(),
    Span(0, 10**12, ("auto",)),
    Size(0, 10**15),
    Choice(("a", "b")),
    Text("[a-z]+", "letters"),
    Items(Whole(1, 9), 1, 3),
    FilePath(),
    Url(),
    Listen(),
    Selector(),
]


@given(st.integers(0, 10**12))
def test_durations_are_read_back(ms):
    assert parse_duration(format_duration(ms)) == ms


@pytest.mark.parametrize(
    ("text", "ms"), [("1s", 1000), ("250ms", 250), ("1h30m", 5_400_000), ("1d", 86_400_000), ("90s", 90_000), ("0s", 0)]
)
def test_durations(text, ms):
    assert parse_duration(text) == ms


@pytest.mark.parametrize("text", ["", "5", "s", "1.5s", "-1s", "1s ", "1m1h", "1 s", "1S", "\u0661s", "1ss"])
def test_no_durations(text):
    with pytest.raises(RefusedError):
        parse_duration(text)


@given(st.integers(0, 10**15))
def test_sizes_are_read_back(count):
    assert Size(0, 10**15).parse(format_size(count), BASE) == count


@given(
    st.sampled_from(RULES),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=20)
        | st.from_regex(r"https?://[\w@:\[\]/.?#]*", fullmatch=True),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=6,
    ),
)
def test_a_rule_takes_or_refuses_whatever_comes(rule, value):
    line = ""
    try:
        rule.show(rule.parse(value, BASE))
    except RefusedError as error:
        line = str(error)
    assert "\n" not in line + rule.allowed
    assert rule.allowed


@pytest.mark.parametrize(
    ("rule", "value", "gives"),
    [
        (Whole(1, 9), 9, 9),
        (Real(0, 1), 1, 1.0),
        (Real(0, 1), "1e-4", 1e-4),
        (Span(100, 2000, ("auto",)), "auto", "auto"),
        (Span(100, 2000), "2s", 2000),
        (Size(0, 10**9), "256MiB", 2**28),
        (Size(0, 10**9), "1 GB", 10**9),
        (Items(Choice(("a", "b")), 1, 2), ["b", "a"], ("b", "a")),
        (FilePath(), "token", BASE / "token"),
        (FilePath(), "/run/token", Path("/run/token")),
        (Url(), "https://prom.example.org/prefix/", "https://prom.example.org/prefix"),
        (Url(), "http://[::1]:9090", "http://[::1]:9090"),
        (Selector(), 'job=~"a|b", cluster!="x" , node!~"",', 'job=~"a|b", cluster!="x" , node!~""'),
        (Selector(), r'a="quo\"te"', r'a="quo\"te"'),
        (Selector(), "", ""),
    ],
)
def test_good_values(rule, value, gives):
    assert rule.parse(value, BASE) == gives


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        (Whole(1, 9), True),
        (Whole(1, 9), 10),
        (Whole(1, 9), 1.0),
        (Real(0, 1), float("nan")),
        (Real(0, 1), True),
        (Real(0, 1), "0.5"),
        (Switch(), "yes"),
        (Switch(), 1),
        (Span(100, 2000), 1),
        (Span(100, 2000), "3s"),
        (Span(100, 2000), "auto"),
        (Size(0, 10), 5),
        (Size(0, 10), "11B"),
        (Items(Whole(1, 9), 1, 2), []),
        (Items(Whole(1, 9), 1, 2), [1, 1]),
        (Items(Whole(1, 9), 1, 2), "12"),
        (FilePath(), ""),
        (FilePath(), "a\0b"),
        (Url(), "prometheus:9090"),
        (Url(), "ftp://host"),
        (Url(), "http://"),
        (Url(), "http://host:99999"),
        (Url(), "http://[::1"),
        (Url(), "http://ho st"),
        (Url(), "http://a..b:1"),
        (Url(), "http://" + "a" * 300),
        (Url(), "http://host/?a=1"),
        (Listen(), "9881"),
        (Listen(), "host:65536"),
        (Listen(), "::1:9881"),
        (Listen(), "ho st:1"),
        (Listen(), "a..b:29882"),
        (Listen(), "a" * 300 + ":1"),
        (Listen(), "a\0b:1"),
        (Selector(), '{job="a"}'),
        (Selector(), "job=a"),
        (Selector(), 'job="a"}[5m]) or vector(1'),
        (Selector(), '__name__="up"'),
    ],
)
def test_bad_values(rule, value):
    with pytest.raises(RefusedError):
        rule.parse(value, BASE)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:1", "127.0.0.1", 1),
        (":9881", "0.0.0.0", 9881),
        ("[::1]:0", "::1", 0),
        ("host.example:80", "host.example", 80),
    ],
)
def test_addresses_to_listen_on(text, host, port):
    found = Listen().parse(text, BASE)
    assert (found.host, found.port) == (host, port)
    assert Listen().parse(str(found), BASE) == found


def test_a_password_in_an_address_is_not_repeated():
    with pytest.raises(RefusedError) as caught:
        Url().parse("http://user:hunter2@host", BASE)
    assert "hunter2" not in str(caught.value)


@given(st.text() | st.lists(st.integers()))
def test_values_are_shown_short(value):
    assert len(shown(value)) <= 60
    assert "\n" not in shown(value)

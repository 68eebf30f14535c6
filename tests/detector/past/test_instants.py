"""Moments as people write them."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.errors import ConfigError
from hwsonde_detector.past.instants import format_instant, parse_instant
from hwsonde_detector.past.when import joined, parse_range, parse_when

NOW = 1_795_978_800_000
MOMENTS = st.integers(0, 9_999_999_999_999)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-29T19:00:00Z", NOW),
        ("2026-11-29t19:00:00z", NOW),
        ("2026-11-29 19:00:00+00:00", NOW),
        ("2026-11-29T20:30:00.25+01:30", NOW + 250),
        ("2026-11-29T19:00:00.123456789Z", NOW + 123),
        ("1795978800", NOW),
        ("1795978800.5", NOW + 500),
        ("1795978800.1239", NOW + 123),
        ("0", 0),
    ],
)
def test_moments(text, ms):
    assert parse_instant(text) == ms


@pytest.mark.parametrize(
    "text",
    ["", "soon", "2026-11-29", "2026-11-29T19:00:00", "2026-13-01T00:00:00Z", "2026-11-29T24:61:00Z", "19:00", "1e9", "-5", "+5",
     "1795978800000", "1969-12-31T23:59:59Z", "2026-11-29T19:00:00Z\n", "١٧٩٥٩٧٨٨٠٠", "2026-11-29T19:00:00+99:99", "nan"],
)  # fmt: skip
def test_what_is_no_moment(text):
    with pytest.raises(ValueError):  # noqa: PT011 - whoever asks writes the line
        parse_instant(text)


@given(MOMENTS)
def test_what_is_written_is_read_back(ms):
    assert parse_instant(format_instant(ms)) == ms
    assert parse_instant(f"{ms // 1000}.{ms % 1000:03d}") == ms


@given(MOMENTS, st.integers(-23 * 60 - 59, 23 * 60 + 59))
def test_time_zones_name_the_same_moment(ms, minutes):
    moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)
    local = moment.astimezone(timezone(timedelta(minutes=minutes)))
    assert parse_instant(local.isoformat(timespec="milliseconds")) == ms


def test_times_of_the_command_line():
    assert parse_when("--to", "now", NOW) == NOW
    assert parse_when("--from", "-6h", NOW) == NOW - 6 * 3_600_000
    assert parse_when("--from", "-1h30m", NOW) == NOW - 90 * 60_000
    assert parse_when("--from", "2026-11-29T19:00:00Z", 0) == NOW


@pytest.mark.parametrize("text", ["", "-", "-6", "6h", "-6h ", "yesterday", "--6h", "-99999d"])
def test_what_is_no_time_is_one_line(text):
    with pytest.raises(ConfigError, match=r"^--from: .* is no time; allowed: RFC 3339 .* such as -6h$"):
        parse_when("--from", text, NOW)


def test_a_range_has_something_in_it():
    assert parse_range("-2h", "-1h", NOW) == (NOW - 7_200_000, NOW - 3_600_000)
    for first, last in (("-1h", "-2h"), ("now", "now")):
        with pytest.raises(ConfigError, match=r"--from: .* is not before --to"):
            parse_range(first, last, NOW)


def test_a_time_back_is_no_flag():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--from", dest="first")
    parser.add_argument("--to")
    parser.add_argument("--out")
    given_arguments = ["--from", "-6h", "--to", "-1h", "--out", "x"]
    assert joined(given_arguments) == ["--from=-6h", "--to=-1h", "--out", "x"]
    assert vars(parser.parse_args(joined(given_arguments))) == {"first": "-6h", "to": "-1h", "out": "x"}
    # A flag whose value is missing stays without it.
    assert joined(["--from", "--to", "now"]) == ["--from", "--to", "now"]
    assert joined(["-6h", "--out", "-6h"]) == ["-6h", "--out", "-6h"]

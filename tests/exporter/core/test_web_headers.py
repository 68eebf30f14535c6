"""What a scraper's headers and query say."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter import server as server_module
from hwsonde_exporter.web import MAX_SCRAPE_SECONDS, BadQueryError, accepts_gzip, chosen_names, scrape_timeout
from tests.exporter.core.asking import Port, ask


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("1", 0.8),
        ("0.5", 0.4),
        ("10", 9.5),
        (None, None),
        ("", None),
        ("x", None),
        ("-1", None),
        ("0", None),
        ("nan", None),
        ("inf", None),
    ],
)
def test_scrape_timeout_leaves_a_margin(header: str | None, seconds: float | None) -> None:
    assert scrape_timeout(header) == (None if seconds is None else pytest.approx(seconds))


def test_the_margin_may_be_set() -> None:
    assert scrape_timeout("10", 2.0) == pytest.approx(8.0)
    assert scrape_timeout("1", 2.0) == pytest.approx(0.8), "a fifth at most"
    assert scrape_timeout("10", 0.0) == pytest.approx(10.0)


@given(st.text(max_size=60))
def test_any_header_is_understood_or_not(header: str) -> None:
    assert accepts_gzip(header) in {True, False}
    seconds = scrape_timeout(header)
    assert seconds is None or 0 < seconds <= MAX_SCRAPE_SECONDS


@pytest.mark.parametrize("header", ["60", "1e300", "99999999999999999999"])
def test_nobody_holds_a_place_for_as_long_as_he_says(header: str) -> None:
    assert scrape_timeout(header) == MAX_SCRAPE_SECONDS < server_module._REQUEST_SECONDS


TEXT = "text/plain; version=0.0.4; charset=utf-8"
# What Prometheus 3 sends, and Prometheus 2 before it.
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (PROMETHEUS_3, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        (PROMETHEUS_2, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        ("text/plain;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", TEXT),
        ("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,text/plain;version=0.0.4;q=0.3", TEXT),
        ("text/html,application/xhtml+xml,*/*;q=0.8", TEXT),
    ],
)  # fmt: skip
def test_scrapers_get_what_they_like_best_with_a_strict_content_type(
    port: Port, accept: str, content_type: str
) -> None:
    status, headers, body = ask(port, "/metrics?collect[]=heat", Accept=accept, Accept_Encoding="gzip")
    assert (status, headers["Content-Type"], headers["Content-Encoding"]) == (200, content_type, "gzip")
    assert gzip.decompress(body).endswith(b"# EOF\n") == content_type.startswith("application/openmetrics")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, False),
        ("gzip", True),
        ("deflate, gzip;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0", False),
        ("identity", False),
        ("gzip;q=x", False),
        ("br;q=1.0, X-GZIP", True),
        ("*", True),
        ("*;q=0", False),
        ("gzip;q=0, *", False),
        ("gzip;q=0.5, identity", False),
        ("gzip;q=0.5, identity;q=0.5", True),
        ("identity;q=0.1, gzip;q=0.2", True),
        ("gzip;q=1.5", False),
        ("gzip;q=-1", False),
        ("gzip;q=nan", False),
        ("gzip;x=y", True),
        ("gzip , deflate", True),
        (",,;q=1", False),
    ],
)
def test_gzip_is_accepted_when_the_header_says_so(header: str | None, expected: bool) -> None:
    assert accepts_gzip(header) is expected


@given(st.text(max_size=100))
def test_any_query_is_read_or_refused_in_one_line(query: str) -> None:
    names, message, found = frozenset({"a", "b", "c"}), "", None
    try:
        found = chosen_names(query, names, names - {"c"})
    except BadQueryError as error:
        message = str(error)
    assert "\n" not in message
    assert found is None or found <= names

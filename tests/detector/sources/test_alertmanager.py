"""What an Alertmanager says, read from real answers over HTTP and from broken ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.errors import SourceError, SourceGarbled
from hwsonde_detector.sources import alertmanager
from hwsonde_detector.sources.alertmanager import Alertmanager, AlertmanagerOptions, parse_alerts, parse_silences
from hwsonde_detector.types.guidance import Matcher

MARKER = (Matcher("hwsonde_normal", "true"),)
LABELS = ("cluster", "node")


def silence(*matchers: tuple, state: str = "active", **more: object) -> dict:
    return {
        "id": "0aa7b1c2-1111-4222-8333-444455556666",
        "status": {"state": state},
        "matchers": [
            {"name": name, "value": value, "isRegex": regex, "isEqual": equal} for name, value, regex, equal in matchers
        ],
        "startsAt": "2026-11-29T19:00:00.123456789Z",
        "endsAt": "2026-11-29T21:00:00.000Z",
        "comment": "burn-in\nof rack 7",
        **more,
    }


NORMAL = ("hwsonde_normal", "true", False, True)
N17 = ("node", "n17", False, True)
ALERT = {
    "labels": {"alertname": "HwsondeHostAnomaly", "node": "n17"},
    "annotations": {"summary": "n17: busy"},
    "startsAt": "2026-11-29T19:23:41Z",
    "status": {"state": "suppressed", "silencedBy": ["x"], "inhibitedBy": []},
}


def test_a_silence_with_the_matcher_and_a_host_says_what_is_normal() -> None:
    (one,) = parse_silences(orjson.dumps([silence(NORMAL, N17)]), MARKER, LABELS)
    assert one.matchers == (Matcher("node", "n17"),)
    assert (one.end_ms - one.start_ms, one.kind) == (7_199_877, "silence")
    assert one.reason == "silence 0aa7b1c2 (burn-in of rack 7)"


def test_a_long_comment_is_cut_with_a_mark() -> None:
    """Whoever replaces names knows by it that its last word may be part of one."""
    (one,) = parse_silences(orjson.dumps([silence(NORMAL, N17, comment=f"{'x' * 70} storage-node-17")]), MARKER, LABELS)
    assert one.reason == f"silence 0aa7b1c2 ({'x' * 70} storage-\N{HORIZONTAL ELLIPSIS})"


@pytest.mark.parametrize(
    "other",
    [
        silence(N17),
        silence(NORMAL),
        silence(NORMAL, N17, state="expired"),
        silence(NORMAL, N17, ("alertname", "X", False, True)),
        silence(NORMAL, ("node", "n17(", True, True)),
        silence(("hwsonde_normal", "true", False, False), N17),
        silence(("hwsonde_normal", "false", False, True), N17),
    ],
)
def test_any_other_silence_says_nothing(other: dict) -> None:
    assert parse_silences(orjson.dumps([other]), MARKER, LABELS) == ()


def test_alerts_are_read() -> None:
    (alert,) = parse_alerts(orjson.dumps([ALERT]))
    assert (alert.name, alert.state, alert.silenced, alert.inhibited) == (
        "HwsondeHostAnomaly",
        "suppressed",
        True,
        False,
    )
    assert (alert.summary, alert.since_ms) == ("n17: busy", 1_795_980_221_000)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "status", "matchers"]), inner),
)


@given(JSON)
def test_any_answer_is_read_or_refused(answer: object) -> None:
    for parse in (parse_alerts, lambda body: parse_silences(body, MARKER, LABELS)):
        with suppress(SourceGarbled):
            assert isinstance(parse(orjson.dumps(answer)), tuple)


class Fake(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.body, self.asked, self.wait = 200, b"[]", [], threading.Event()
        self.wait.set()


class Handler(BaseHTTPRequestHandler):
    server: Fake

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.server.wait.wait(5)
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        with suppress(BrokenPipeError):
            self.wfile.write(self.server.body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def fake() -> Iterator[Fake]:
    server = Fake()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.wait.set()
    server.shutdown()
    thread.join()
    server.server_close()


def client(fake: Fake, **more: int) -> Alertmanager:
    return Alertmanager(AlertmanagerOptions(f"http://127.0.0.1:{fake.server_port}/am/", **more))


def test_it_is_asked_below_its_prefix(fake: Fake) -> None:
    fake.body = orjson.dumps([silence(NORMAL, N17)])
    assert len(client(fake).silences(MARKER, LABELS)) == 1
    fake.body = orjson.dumps([ALERT])
    assert len(client(fake).alerts()) == 1
    assert fake.asked == ["/am/api/v2/silences", "/am/api/v2/alerts"]


@pytest.mark.parametrize(("status", "body"), [(500, b""), (302, b""), (200, b"<html>"), (200, b'{"a": 1}')])
def test_every_failure_is_one_line(fake: Fake, status: int, body: bytes) -> None:
    fake.status, fake.body = status, body
    with pytest.raises(SourceError) as caught:
        client(fake).alerts()
    assert "\n" not in str(caught.value)
    assert "alertmanager" in str(caught.value)


def test_one_that_says_nothing_is_given_up(fake: Fake) -> None:
    fake.wait.clear()
    with pytest.raises(SourceError, match=r"alertmanager\.url"):
        client(fake, timeout_ms=200).alerts()


@pytest.mark.parametrize("pattern", ["n1.*", "gpu-[0-9]+-(a|b)", "a?b{2,4}c.*", "(node|host)[a-z0-9-]+"])
def test_patterns_of_a_bounded_cost_are_used(pattern: str) -> None:
    assert not alertmanager._unusable(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["([a-z0-9-]+)+!", "(a*)*", "(a|b.*)*", ".*a.*b.*c.*d", "(?=a)b", r"(a)\1", "((a{1,100}){1,100})b", "a" * 1001],
)
def test_patterns_that_may_take_for_ever_are_not(pattern: str) -> None:
    assert "may take long" in alertmanager._unusable(pattern)


@pytest.mark.parametrize("pattern", ["[[:lower:]]", "[a[:digit:]]", r"\pL", r"\Qa\E", "q(?i)A", "a{,3}", "n17("])
def test_patterns_that_cannot_be_read_are_not(pattern: str) -> None:
    assert "cannot be read here" in alertmanager._unusable(pattern)


def test_why_a_silence_says_nothing_is_one_line_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    alertmanager._say_once.cache_clear()
    for _ in range(2):
        for pattern in ("[[:lower:]]+", "(a*)*"):
            assert parse_silences(orjson.dumps([silence(NORMAL, ("node", pattern, True, True))]), MARKER, LABELS) == ()
    unreadable, slow = [record.getMessage() for record in caplog.records]
    assert unreadable.startswith(
        "silence 0aa7b1c2 says nothing here: one of its patterns cannot be read here; write it without"
    )
    assert slow.startswith("silence 0aa7b1c2 says nothing here: one of its patterns may take long to match")

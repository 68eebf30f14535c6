"""Useful and noise: who may say so, and what becomes of it."""

from __future__ import annotations

import re
from io import BytesIO
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector import telemetry
from hwsonde_detector.incidents.entry import Mark
from hwsonde_detector.incidents.marking import FORM_MS, LINK_MS, Inbox, Marker
from hwsonde_detector.incidents.pages import Pages
from hwsonde_detector.incidents.tokens import holds, sign
from hwsonde_detector.published import Published
from hwsonde_detector.service.advice import Advice
from hwsonde_detector.telemetry import Counters
from hwsonde_detector.types.guidance import Marked, Matcher, Normal
from hwsonde_detector.web.answers import Request
from hwsonde_detector.web.app import App, Metrics
from hwsonde_detector.writers.exposition import exposition
from tests.detector.web.data import NOW, fleet

from .made import SICK, book, run
from .test_pages import sound

KEY = b"k" * 32


class World:
    """An open incident on a served page."""

    def __init__(self) -> None:
        self.book, history, self.clock = book()
        run(self.book, history, NOW - 100_000, close=False)
        self.inbox = Inbox()
        self.marker = Marker(KEY, self.clock, self.inbox.put)
        board, histories = fleet()
        self.pages = Pages(self.book, board, self.clock, marker=self.marker)
        self.app = App(board, histories, self.clock, Metrics("", lambda *_: b""), (self.pages,))
        self.name = self.book.entries()[0].id

    def ask(self, path: str, method: str = "GET", user: str = "", **given: str):
        text = urlencode(given)
        sent = method == "POST"
        return self.pages.answer(Request(method, path, "" if sent else text, text.encode() if sent else b"", user))

    def mark(self, method: str = "POST", **given: str):
        return self.ask(f"/incidents/{self.name}/mark", method, **given)


def test_without_users_the_page_is_read_only() -> None:
    world = World()
    page = world.ask(f"/incidents/{world.name}").body.decode()
    assert "<form" not in page
    assert "read-only" in page


def test_who_is_signed_in_gets_a_form_that_works() -> None:
    world = World()
    page = world.ask(f"/incidents/{world.name}", user="ann").body.decode()
    sound(page)
    assert f'action="{world.name}/mark"' in page
    token = re.search(r'name="token" value="([^"]+)"', page)[1]
    answer = world.mark(token=token, mark="noise", user="ann")
    assert answer.status == 200
    sound(answer.body.decode())
    assert "marked as noise" in answer.body.decode()
    entry = world.book.get(world.name)
    assert (entry.mark, entry.marked_by, entry.marked_ms) == (Mark.NOISE, "ann", NOW)
    assert world.inbox.take() == (Marked(SICK, entry.identity, "noise"),)
    assert world.inbox.take() == ()
    again = world.ask(f"/incidents/{world.name}", user="ann").body.decode()
    assert '<button name="mark" value="noise" aria-pressed="true">' in again


def test_a_link_asks_first_and_changes_nothing_by_being_followed() -> None:
    world = World()
    token = world.marker.link(world.name)
    for method in ("GET", "HEAD"):
        answer = world.mark(method, token=token, mark="noise")
        assert answer.status == 200
    sound(answer.body.decode())
    assert 'method="post"' in answer.body.decode()
    assert world.book.get(world.name).mark is Mark.NONE
    assert world.mark(token=token, mark="useful").status == 200
    assert world.book.get(world.name).mark is Mark.USEFUL


@pytest.mark.parametrize(
    ("given", "status"),
    [({}, 403), ({"token": "1.2", "mark": "noise"}, 403), ({"token": "\u00e9.\u00e9", "mark": "noise"}, 403), ({"token": "", "mark": "useful"}, 403)],
)  # fmt: skip
def test_without_a_right_token_nothing_is_marked(given: dict, status: int) -> None:
    world = World()
    answer = world.mark(user="ann", **given)
    assert answer.status == status
    assert answer.body.count(b"\n") == 1
    assert world.book.get(world.name).mark is Mark.NONE


def test_tokens_end_and_hold_for_one_incident_only() -> None:
    world = World()
    token = world.marker.form(world.name)
    assert world.marker.allows(world.name, token)
    assert not world.marker.allows("20261129T192341Z-000000000000", token)
    world.clock.now += FORM_MS
    assert not world.marker.allows(world.name, token)
    assert world.mark(token=token, mark="noise").status == 403
    assert LINK_MS > FORM_MS


def test_other_words_and_methods_are_refused() -> None:
    world = World()
    token = world.marker.form(world.name)
    assert world.mark(token=token, mark="maybe").status == 400
    assert world.mark(token=token).status == 400
    assert world.mark("PUT", token=token, mark="noise").status == 405
    assert world.ask("/incidents/20261129T192341Z-000000000000/mark", "POST", token=token).status == 404


def test_a_form_comes_through_the_server_interface_and_too_long_ones_do_not() -> None:
    world = World()
    body = urlencode({"token": world.marker.form(world.name), "mark": "useful"}).encode()

    def post(content: bytes, length: str) -> str:
        told: list[str] = []
        environ = {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": f"/incidents/{world.name}/mark",
            "CONTENT_LENGTH": length,
            "wsgi.input": BytesIO(content),
        }
        list(world.app(environ, lambda status, headers: told.append(status)))
        return told[0]

    assert post(body, "99999999").startswith("403")
    assert post(body, "x").startswith("403")
    assert post(body, str(len(body))).startswith("200")
    assert world.book.get(world.name).mark is Mark.USEFUL


@given(st.text(max_size=40))
def test_no_made_up_token_holds(token: str) -> None:
    assert not holds(KEY, "name", token, 0)
    assert not holds(KEY, "name", f"{sign(KEY, 'name', 10)}{token}x", 0)
    assert holds(KEY, "name", sign(KEY, "name", 10), 9)


def test_the_loop_is_told_once_of_each_mark_and_always_of_what_is_normal(caplog) -> None:
    caplog.set_level("INFO")
    inbox, counters = Inbox(), Counters()
    silence = Normal((Matcher("node", "n"),), 10, 20, "silence", "silence 1")
    advice = Advice(inbox, lambda: (silence,), bool, {}, counters)
    world = World()
    inbox.put(world.book.entries()[0], Mark.USEFUL)
    first = advice(5)
    assert ([one.kind for one in first.marks], first.normal) == (["useful"], ())
    assert advice(10).normal == advice(19).normal == (silence,)
    assert not advice(20)
    assert counters.value(telemetry.EPISODES_MARKED, "useful") == 1
    assert [record.message for record in caplog.records if "silence 1" in record.message] == [
        "silence 1 begins: what its hosts do counts as normal",
        "silence 1 is over",
    ]


def test_the_share_of_useful_ones_is_a_metric_once_there_is_one() -> None:
    published = Published(0.0, NOW, NOW)
    assert b"useful_ratio " not in exposition(published, 0.0, NOW).replace(b"# ", b"#")
    world = World()
    world.book.mark(world.name, Mark.USEFUL, "")
    assert world.book.marks() == (1, 0)
    marked = Published(0.0, NOW, NOW, marks=(3, 1))
    assert b"\nhwsonde_detector_realised_useful_ratio 0.75\n" in exposition(marked, 0.0, NOW)

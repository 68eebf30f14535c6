import json
import logging
import re
from html.parser import HTMLParser
from typing import Any

from hwsonde_exporter.landing import landing_page
from hwsonde_exporter.logs import LineFormatter
from hwsonde_exporter.state import State


class Checker(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag != "meta":
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


def test_the_landing_page_does_without_the_hosts_name() -> None:
    assert "<h1>hwsonde exporter</h1>" in landing_page([], "")


def test_the_landing_page_shows_each_state_and_is_escaped() -> None:
    states = [
        State("a<b>", "Gives <i>.", None, available=True, success=True, series=12, duration=0.0031),
        State("b", "B.", None, available=False, reason="no_permission", detail="needs CAP_PERFMON & more"),
        State("c", "C.", 15.0, available=True, success=False, problem="read_error: <gone>"),
        State("d", "D.", None, available=True, success=False, hanging=12.3),
        State("e", "E.", None, available=True),
        State("f", "F.", None, available=True, success=True, dropped={"limit": 7}),
    ]
    page = landing_page(states, "n<1>")
    checker = Checker()
    checker.feed(page)
    assert checker.stack == []
    for text in (
        "a&lt;b&gt;", "Gives &lt;i&gt;.", "3.1 ms", "no_permission: needs CAP_PERFMON &amp; more", "read_error: &lt;gone&gt;",
        "no answer for 12 s", "not read yet", "samples dropped: limit 7", "every 15 s", "at each scrape", "n&lt;1&gt;",
        "1 of 6 collectors work", '<span class="failing">3 fail</span>', "1 cannot work here.",
    ):  # fmt: skip
        assert text in page


def record(message: str, error: BaseException | None = None) -> logging.LogRecord:
    exc_info = (type(error), error, None) if error else None
    return logging.LogRecord("x", logging.WARNING, "/a/place.py", 7, message, (), exc_info)  # type: ignore[arg-type]


def test_log_lines() -> None:
    line = LineFormatter("logfmt").format(record('two "words"\nand a line'))
    assert re.fullmatch(r'ts=\S+Z level=warning caller=place:7 msg="two \\"words\\"\\nand a line"', line)
    for hidden in ("a\u202eb", "c\x85d", "e\u2028f\U000e0001"):
        assert LineFormatter("logfmt").format(record(hidden)).isprintable()
        text = LineFormatter("json").format(record(hidden))
        assert text.isprintable()
        assert json.loads(text)["msg"] == hidden
    found = json.loads(LineFormatter("json").format(record("x", ValueError("bad"))))
    assert (found["level"], found["msg"], found["error"]) == ("warning", "x", "ValueError: bad")
    assert "trace" not in found

"""The page and the lines for a terminal."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from hwsonde_detector.past.document import About, backtest_document, figure, percent, summary, told_spread, warnings
from hwsonde_detector.past.labels import Label
from hwsonde_detector.past.page import MOST_CHARTS, backtest_page, line
from hwsonde_detector.past.tally import Tally
from hwsonde_detector.types import (
    Entity,
    EntityReport,
    Episode,
    EpisodeEvent,
    Learning,
    Outputs,
    Phase,
    Score,
    Subsystem,
)

ABOUT = About("http://prometheus:9090", 3_600_000, None, "faults.csv")
LEARNING = Learning(0, 0, None, frozen=False, channels=1, channels_judged=1)
EVIL = "<script>alert(1)</script>\"'&{{ 7 * 7 }}\n</svg>"


class Page(HTMLParser):
    """Sees that every element is closed, and gathers what the page would load or run."""

    VOID = frozenset({"meta", "br", "img", "link", "input", "hr"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loads += [
            f"{tag} {name}" for name, _ in attrs if name in {"src", "href", "srcset", "action"} or name.startswith("on")
        ]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def tally_of(names=("n1",), labels=(), sentence: str = "a sentence", pages: int = 1) -> Tally:
    tally = Tally(0, 480_000, 1, tuple(labels))
    reports, events = [], []
    for name in names:
        entity = Entity((("node", name),))
        scores = tuple(
            Score(entity, 1000 * second, second / 100, {}, {}, (), True, 1.0, 0.9, 0.0)
            for second in range(1, 481)
            if not 100 < second <= 200
        )
        reports.append(EntityReport(entity, scores, LEARNING, 1000, skipped={"not_full": 2}))
        for number in range(pages):
            one = Episode(f"{name}@{number}", entity, 300_000 + number, 300_000, 310_000, Subsystem.GPU, 3.0, sentence)
            events.append(EpisodeEvent(Phase.CLOSED, 310_000, one))
    tally.take(Outputs(tuple(reports), tuple(events)), 480_000)
    return tally


def label(host: str, kind: str = "hog") -> Label:
    return Label(host, 295_000, 305_000, kind, (Subsystem.GPU,), "faults.csv:2")


def words(page: Page) -> str:
    return " ".join(" ".join(page.words).split())


def test_the_page_needs_nothing_else_and_is_whole():
    document = backtest_document(ABOUT, {"configured": tally_of(labels=[label("n1")])})
    page = Page(backtest_page(document))
    assert page.open == []
    assert page.loads == []
    assert "script" not in page.tags
    text = words(page)
    for part in (
        "1970-01-01T00:00:00Z to 1970-01-01T00:08:00Z, read from http://prometheus:9090; learned from 1970-01-01T00:00:00Z; faults of faults.csv",
        "a sentence",
        "1 of 1, 100 % (95 %: 20.7 % to 100 %)",
        "after 5 s",
        "gpu (right)",
        "not_full 2",
    ):
        assert part in text, part


def test_it_is_readable_in_dark_and_light():
    text = backtest_page(backtest_document(ABOUT, {"configured": tally_of()}))
    assert '<meta name="color-scheme" content="light dark">' in text
    assert "@media (prefers-color-scheme: dark)" in text
    # Every colour is one of the palette's, which has both.
    style = text[text.index("* { box-sizing") : text.index("</style>")]
    assert re.findall(r"#[0-9a-f]{3,6}\b|rgb\(", style) == []
    for name in set(re.findall(r"var\((--[a-z-]+)\)", style)):
        assert re.search(rf"^  {name}: ", text, re.MULTILINE), name


def test_hostile_names_stay_text():
    long = "x" * 10_000
    tally = tally_of((EVIL, long), [label(EVIL, kind=EVIL)], sentence=EVIL)
    about = About(EVIL, 0, None, EVIL)
    text = backtest_page(backtest_document(about, {EVIL: tally}))
    page = Page(text)
    assert page.open == []
    assert "script" not in page.tags
    assert page.loads == []
    assert words(page).count("alert(1)") >= 5
    assert "49" not in words(page).split()
    assert long in text


def test_several_presets_and_none_of_the_labels():
    document = backtest_document(About("a.archive", 0, 15_000, None), {"a": tally_of(pages=0), "b": tally_of(pages=2)})
    page = words(Page(backtest_page(document)))
    assert ", one value every 15 s" in page
    assert "faults" not in page.split("A page is")[0]
    assert [one["pages"]["count"] for one in document["presets"]] == [0, 2]
    lines = summary(document)
    assert lines[0] == "1970-01-01T00:00:00Z to 1970-01-01T00:08:00Z, read from a.archive"
    assert lines[1].startswith(
        "a: 1 host, 380 windows judged (99.5 % of those that were due, 90 % of their channels, 79.2 % of the time)"
    )
    assert lines[2].startswith("  pages: 0 in 0.0044 node-days, 0 per 100 node-days (95 %: 0 to ")
    assert len(lines) == 5
    assert warnings(document) == []


def test_only_so_many_hosts_are_drawn_the_loud_ones_first():
    tallies = {"configured": tally_of([f"n{number:03d}" for number in range(MOST_CHARTS + 3)], pages=0)}
    entity = Entity((("node", "n042"),))
    one = Episode("n042@1", entity, 300_000, 300_000, None, Subsystem.GPU, 3.0, "loud")
    tallies["configured"].take(Outputs((), (EpisodeEvent(Phase.OPENED, 300_000, one),)), 480_000)
    page = backtest_page(backtest_document(ABOUT, tallies))
    drawn = re.findall(r"<figcaption><b>(n\d+)</b>", page)
    assert len(drawn) == MOST_CHARTS
    assert drawn[:3] == ["n042", "n000", "n001"]
    assert "3 more hosts are in the JSON" in page
    assert "still open" in page


def test_the_line_breaks_where_nothing_was_judged():
    # 960 wide, 64 high, scores from 0 to 2.
    assert line([0.0, 1.0, None, 5.0]) == "M0.0 64.0H240.0L240.0 32.0H480.0M720.0 0.0H960.0"
    assert line([]) == line([None, None]) == ""


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (None, "-"),
        (1.0, "100 %"),
        (0.99999, "99.9 %"),
        (0.5, "50 %"),
        (0.1234, "12.3 %"),
        (0.00001, "0.1 %"),
        (0.0, "0 %"),
    ],
)
def test_percent_never_rounds_to_all_or_nothing(ratio, text):
    assert percent(ratio) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.01234, "0.0123"),
        (3.0, "3"),
        (66.66, "66.7"),
        (99.96, "100"),
        (7714.3, "7,714"),
        (1e6, "1,000,000"),
    ],
)
def test_figures_have_three_digits_and_no_exponent(value, text):
    assert figure(value) == text


def test_a_spread_of_one_value_is_that_value():
    def spread(least, lower, median, upper, most):
        return {"least": least, "lower": lower, "median": median, "upper": upper, "most": most}

    assert told_spread(None) == "-"
    assert told_spread(spread(3.0, 3.0, 3.0, 3.0, 3.0)) == "3 s"
    assert told_spread(spread(1.0, 2.0, 3.0, 120.5, 400.0)) == "3 s (half of them 2 to 120 s)"


def test_the_document_does_not_depend_on_when_it_was_made():
    first, second = (backtest_document(ABOUT, {"configured": tally_of(labels=[label("n1")])}) for _ in range(2))
    assert first == second
    assert backtest_page(first) == backtest_page(second)

"""The page of a document: whole, escaped, and nothing but itself."""

from __future__ import annotations

import re

import pytest

from hwsonde_detector.explain.analysis import Question, Topic, analyse
from hwsonde_detector.explain.known import Known, Matter
from hwsonde_detector.explain.neighbours import JobSpan
from hwsonde_detector.explain.report import Before, Learned, document
from hwsonde_detector.explain.series import Points
from hwsonde_detector.past.run import PastRun
from hwsonde_detector.reports.html import page, shown
from hwsonde_detector.reports.program import as_json
from hwsonde_detector.types import Subsystem
from tests.detector.explain.planted import SECOND, T0, channel, fault, host, quiet

PSI = channel("psi", Subsystem.MEMORY)
END = T0 + 300 * SECOND


def made(nodes=("n1", "n2", "n3"), sick=("n1", "n2"), apart=1, known=(), **more):
    hosts = [host(node) for node in nodes]
    scores = {entity: tuple(quiet(entity, 300)) for entity in hosts}
    episodes = []
    for place, node in enumerate(sick):
        episode, own = fault(host(node), T0 + (100 + apart * place) * SECOND, 50, {PSI: 1.0}, open_end=place == 1)
        scores[episode.entity] = tuple(own)
        episodes.append(episode)
    run = PastRun(
        T0, END, scores, tuple(episodes), dict.fromkeys(hosts, SECOND), {entity: {"not_full": 3} for entity in hosts}
    )
    jobs = [JobSpan("slurm:7", entity, T0, END) for entity in hosts]
    analysis = analyse(run, Question(Topic.RANGE), jobs, 1, known=known)
    rows = {(0, host(node), "psi"): Points((T0, T0 + SECOND), (0.1, 0.9), 1000) for node in sick}
    return document(analysis, "0.1", rows=rows, learned=Learned(), before=Before(), **more)


def text_of(document) -> str:
    return page(document).decode()


def test_every_section_is_there():
    text = text_of(made(settings=[{"setting": "governor", "was": "performance", "is": "powersave"}]))
    for words in (
        "Cause 1:",
        "may be",
        "cannot be told",
        "lasts",
        "Order of onset",
        "Was it only this host?",
        "2 of the 3 hosts of slurm:7 show it",
        "How often before?",
        "What to check next",
        "docs/runbooks/HwsondeHostAnomaly.md",
        "Settings that differ or changed",
        "governor",
        "Scores over time",
        "What was judged",
        "3 not_full",
        "Episodes",
    ):
        assert words in text, words
    assert text.startswith("<!doctype html>")
    assert text.count("<svg") >= 3 + 2


def test_it_needs_nothing_else():
    text = text_of(made())
    assert not re.search(r"\b(src|href)=|@import|url\(", text)
    assert "default-src 'none'" in text


def test_a_runbook_on_the_web_is_a_link():
    text = text_of(made(runbooks="https://wiki.example.org/books"))
    assert 'href="https://wiki.example.org/books/HwsondeHostAnomaly.md"' in text
    assert "href" not in text_of(made(runbooks="javascript:alert(1)//"))


def test_empty_sections_are_left_out():
    text = text_of(made(sick=()))
    for words in ("Cause 1", "Settings that differ", '<h2 id="episodes">'):
        assert words not in text
    assert 'class="verdict clean"' in text


def test_what_is_known_without_a_score_has_a_section_with_links():
    page_of = "https://det.example.org/incidents/1"
    known = [
        Known(Matter.INCIDENT, (host("n3"),), T0, T0 + 5 * SECOND, "The detector told <of> it.", page=page_of),
        Known(Matter.SILENT, (host("n9"),), T0, None, "lab/n9 sent nothing.", cause=True, runbook="HwsondeExporterDown"),
    ]  # fmt: skip
    found = made(sick=(), known=known)
    assert (found["verdict"]["kind"], found["verdict"]["sentence"]) == ("fault", "lab/n9 sent nothing")
    assert [one["matter"] for one in found["known"]] == ["silent", "incident"]
    text = text_of(found)
    assert "<strong>lab/n9 sent nothing.</strong>" in text
    assert "The detector told &lt;of&gt; it." in text
    assert f'<a href="{page_of}" rel="noreferrer">' in text
    assert "<code>docs/runbooks/HwsondeExporterDown.md</code>" in text
    assert "<dt>Causes</dt><dd>1</dd>" in text
    assert text.index("Known without a score") < text.index('<h2 id="scores">')
    plain = made(sick=(), known=[known[0]], runbooks="javascript:x")
    assert plain["verdict"]["sentence"].startswith("Not known: the detector told <of> it. The others: 2 hosts, ")
    assert "Known without" not in text_of(made())
    scheme = Known(Matter.INCIDENT, (host("n3"),), T0, None, "x", page="javascript:alert(1)")
    assert "href" not in text_of(made(sick=(), known=[scheme]))


def test_more_hosts_than_are_drawn():
    text = text_of(made(nodes=[f"n{number}" for number in range(30)], sick=("n7",)))
    assert "6 further, quieter hosts" in text
    assert text.index("lab/n7") < text.index('<h2 id="coverage">')


def test_the_first_host_is_yes_where_it_is_known():
    text = text_of(made(apart=30))
    assert "<td>yes</td>" in text
    assert "<td>no</td>" in text


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("plain", 160, "plain"),
        ("a\nb\x1b[0m\u202e", 160, "a\ufffdb\ufffd[0m\ufffd"),
        ("\ud800x", 160, "\ufffdx"),
        ("x" * 100, 60, "x" * 20 + "\u2026" + "x" * 39),
        (f"a/{'x' * 100}: busy", 160, f"a/{'x' * 100}: busy"),
        (f"a/{'x' * 200}: busy", 160, "a/" + "x" * 57 + "\u2026" + "x" * 19 + ": busy"),
        (7, 160, "7"),
    ],
)
def test_what_is_shown_of_a_name(text, most, expected):
    assert shown(text, most) == expected


def test_json_that_holds_half_characters():
    assert as_json({"a\ud800": ["b\ud800", 1]}) == b'{"a?":["b?",1]}\n'
    assert as_json({"a": 1}) == b'{"a":1}\n'

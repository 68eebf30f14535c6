"""Links between pages lead somewhere: to a file that is there, and to a heading that is in it. Addresses of the network are not asked."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.markdown import ROOT, anchors, links, pages

each_page = pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))


def broken(page: Path) -> list[str]:
    found = []
    for link in links(page):
        parts = urlsplit(link)
        if parts.scheme in {"http", "https", "mailto"}:
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        if (
            not target.is_relative_to(ROOT)
            or not target.exists()
            or (parts.fragment and (target.suffix != ".md" or parts.fragment not in anchors(target)))
        ):
            found.append(link)
    return found


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    assert not broken(page)


def test_broken_links_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.docs.test_links.ROOT", tmp_path)
    (tmp_path / "other.md").write_text("# The `one`, and more\n\n## Twice\n\n## Twice\n")
    page = tmp_path / "page.md"
    good = ["other.md", "other.md#the-one-and-more", "other.md#twice-1", "#here", "https://example.org/x"]
    bad = ["gone.md", "other.md#gone", "#gone", "../outside.md"]
    page.write_text("# Here\n\n" + "".join(f"[x]({link}) ![y]({link})\n" for link in [*good, *bad]))
    assert set(broken(page)) == set(bad)


def test_every_page_is_reached_from_the_index() -> None:
    """By links, begun at the index of the documentation; runbooks are reached by the alerts."""
    reached, waiting = set(), [ROOT / "docs" / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        targets = (urlsplit(link).path for link in links(page) if not urlsplit(link).scheme)
        waiting += [(page.parent / unquote(target)).resolve() for target in targets if target]
    assert {page for page in pages() if page.is_relative_to(ROOT / "docs")} <= reached


def test_no_page_tells_where_it_was_written() -> None:
    files = [*pages(), *(path for path in (ROOT / "deploy").rglob("*") if path.is_file() and path.suffix != ".pyc")]
    assert len(files) > 100
    told = re.compile(rb"/(root|work|tmp/w)/")
    assert [path for path in files if told.search(path.read_bytes())] == []

"""Pages of incidents in a headless Chromium: with a keyboard alone, without a script, and before the eyes of axe-core.

Playwright drives the system's Chromium (`HWSONDE_CHROMIUM` names another one); where either is missing the reason is said.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import bcrypt
import pytest

from hwsonde_detector.incidents.marking import Inbox, Marker
from hwsonde_detector.incidents.pages import Pages
from hwsonde_detector.passwords import Passwords
from hwsonde_detector.protection import Protection
from hwsonde_detector.published import Noticeboard
from hwsonde_detector.types import Entity, EpisodeEvent, Phase
from hwsonde_detector.web.app import App, Metrics
from hwsonde_detector.web.guard import Guard
from hwsonde_detector.web.server import WebServer
from tests.detector.web.data import NOW, fleet

from .made import FINDING, SICK, book, run, step
from .test_store import entry

pytestmark = pytest.mark.slow
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: see requirements/dev.txt")
axe = pytest.importorskip(
    "axe_playwright_python", reason="axe-playwright-python is not installed: see requirements/dev.txt"
)

CHROMIUM = os.environ.get("HWSONDE_CHROMIUM") or shutil.which("chromium")
AXE = Path(axe.__file__).parent / "axe.min.js"
ONSET = NOW - 100_000
USER = {"username": "ann", "password": "right"}


class Site:
    """Five thousand closed incidents, five hundred hosts, and one open incident, served to who is signed in."""

    def __init__(self, folder: Path, past: int = 5000, hosts: int = 500) -> None:
        self.book, self.history, self.clock = book(folder)
        self.one = run(self.book, self.history, ONSET, close=False)
        for place in range(past):
            self.book.store._put(dataclasses.replace(entry(place % 900), id=f"20261129T192341Z-{place:012x}"))
        known, histories = fleet()
        published = known.get()
        sick, quiet = published.hosts[0], published.hosts[1]
        sick = dataclasses.replace(sick, settings=(FINDING,))
        others = [
            dataclasses.replace(quiet, entity=Entity((("cluster", "a"), ("node", f"m{place:03}"))), follows=SICK)
            for place in range(hosts - 3)
        ]
        self.board = Noticeboard(dataclasses.replace(published, hosts=(sick, *published.hosts[1:], *others)))
        passwords = Passwords({"ann": bcrypt.hashpw(b"right", bcrypt.gensalt(4))})
        guard = Guard(lambda: Protection(passwords=passwords))
        marker = Marker(b"key", self.clock, Inbox().put)
        pages = Pages(self.book, self.board, self.clock, marker=marker)
        app = App(self.board, histories, self.clock, Metrics("text/plain", lambda *_: b""), (pages,), guard)
        self.server = WebServer("127.0.0.1", 0, app)
        self.server.start()
        self.address = f"http://127.0.0.1:{self.server.port}"
        self.name = next(one.id for one in self.book.entries() if one.end_ms is None)

    def close_incident(self) -> None:
        ended = dataclasses.replace(self.one, end_ms=NOW)
        self.book.take(step(NOW, events=(EpisodeEvent(Phase.CLOSED, NOW, ended),)))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "kept")
    yield made
    made.server.stop()


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM:
        pytest.skip("chromium is not installed: install it, or name one by HWSONDE_CHROMIUM")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def page_of(browser, site: Site, **more):
    context = browser.new_context(http_credentials=USER, base_url=site.address, **more)
    page = context.new_page()
    page.complaints = []
    page.on("console", lambda said: page.complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    return page


def findings(page) -> list[str]:
    """Serious and critical findings of axe-core."""
    found = page.evaluate(f"{AXE.read_text()}; axe.run()")
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_serious(browser, site: Site, scheme: str, width: int) -> None:
    # The policy of the pages lets no foreign script in, that of axe-core neither.
    page = page_of(browser, site, color_scheme=scheme, bypass_csp=True, viewport={"width": width, "height": 900})
    for path in ("/incidents", f"/incidents/{site.name}", "/", "/#from=now-20m&to=now-10m"):
        page.goto(path)
        if path.startswith("/#"):
            sync_api.expect(page.locator("#range")).to_be_visible()
        if path == "/":
            sync_api.expect(page.locator("#host-name")).not_to_be_empty()
        assert findings(page) == [], path
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{path} is wider than the window"


def test_a_keyboard_is_enough(browser, site: Site) -> None:
    page = page_of(browser, site)
    page.goto("/incidents")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "host"
    page.keyboard.type("node17")
    page.keyboard.press("Tab")
    page.keyboard.type("open")
    page.keyboard.press("Enter")
    for _ in range(8):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.type") == "submit":
            page.keyboard.press("Enter")
            break
    page.wait_for_url("**/incidents?host=node17&state=open*")
    reach(page, "document.activeElement.closest('td, th') !== null")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/incidents/{site.name}")
    reach(page, "document.activeElement.tagName === 'SUMMARY'")
    page.keyboard.press("Enter")
    assert page.locator("details[open]").count() == 1
    reach(page, "document.activeElement.value === 'useful'")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none", "what has the focus is seen"
    page.keyboard.press("Enter")
    page.wait_for_url("**/mark")
    assert "marked as useful" in page.locator("[role=status]").inner_text()
    assert page.complaints == []


def reach(page, holds: str) -> None:
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate(holds):
            return
    raise AssertionError(f"the keyboard does not reach {holds}")


def test_an_open_incident_is_renewed_by_itself_and_tells_when_it_is_over(browser, site: Site) -> None:
    page = page_of(browser, site)
    page.goto(f"/incidents/{site.name}")
    assert "Open" in page.locator("#state").inner_text()
    page.locator("details").evaluate("one => { one.open = true; }")
    site.close_incident()
    sync_api.expect(page.locator("#state")).to_contain_text("Closed", timeout=20_000)
    assert page.locator("details[open]").count() == 1, "what was opened stays open"
    assert page.complaints == []


def test_without_a_script_everything_is_there(browser, site: Site) -> None:
    page = page_of(browser, site, java_script_enabled=False)
    page.goto(f"/incidents/{site.name}")
    for heading in ("What to check next", "What changed first", "Compared with its peers", "Score over time"):
        assert page.get_by_role("heading", name=heading).count() == 1
    assert page.locator("svg[role=img]").count() >= 2


def test_the_page_of_a_host_shows_its_settings_and_whom_it_follows(browser, site: Site) -> None:
    page = page_of(browser, site)
    page.goto("/#host=a%2Fnode17")
    sync_api.expect(page.locator("#settings")).to_contain_text("cpu.governor is powersave")
    page.goto("/#host=a%2Fm001")
    sync_api.expect(page.locator("#follows")).to_contain_text("Deviates as a/node17 does")
    page.goto("/#host=a%2Fnode17")
    sync_api.expect(page.locator("#host-name")).to_have_text("a/node17")
    assert page.locator("#episodes a").first.get_attribute("href").startswith("incidents/")
    assert page.complaints == []


def test_how_long_it_takes_is_said(browser, site: Site) -> None:
    page = page_of(browser, site)
    page.goto("/incidents")
    for path in ("/incidents", f"/incidents/{site.name}", "/incidents?host=node17&state=past&page=7", "/"):
        began = time.perf_counter()
        page.goto(path)
        print(f"{path}: opened in {time.perf_counter() - began:.2f} s, with 5,001 incidents and 500 hosts")
    assert page.locator("h1").count() == 1


def test_who_is_not_signed_in_sees_nothing(browser, site: Site) -> None:
    asking = browser.new_context(base_url=site.address).request
    for path in ("/", "/incidents", f"/incidents/{site.name}", f"/incidents/{site.name}.tar.gz"):
        answer = asking.get(path)
        assert (answer.status, answer.text()) == (401, "a name and a password are asked for here\n")

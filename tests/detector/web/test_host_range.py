"""The page of a host shows the time that its address names, as Grafana's boards link to it, in a headless Chromium.

Playwright drives the system's Chromium (`HWSONDE_CHROMIUM` names another one); where either is missing the reason is said.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from hwsonde_detector.web.app import App, Metrics
from hwsonde_detector.web.server import WebServer

from .data import NOW, StillClock, fleet

pytestmark = pytest.mark.slow
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: see requirements/dev.txt")
CHROMIUM = os.environ.get("HWSONDE_CHROMIUM") or shutil.which("chromium")
# The fixture's first host was sick from 1100 s to 1060 s ago, and is again for 40 s.
SICK = f"from={NOW - 1_120_000}&to={NOW - 1_000_000}"
QUIET = f"from={NOW - 900_000}&to={NOW - 600_000}"
HOST = "/#host=a%2Fnode17"


@pytest.fixture
def page(browser) -> Iterator:
    board, history = fleet()
    server = WebServer("127.0.0.1", 0, App(board, history, StillClock(), Metrics("text/plain", lambda *_: b"")))
    server.start()
    context = browser.new_context(base_url=f"http://127.0.0.1:{server.port}")
    made = context.new_page()
    made.complaints, made.asked = [], []
    made.on("console", lambda said: made.complaints.append(said.text) if said.type == "error" else None)
    made.on("pageerror", lambda error: made.complaints.append(str(error)))
    made.on("request", lambda one: made.asked.append(one.url) if "/hosts/" in one.url else None)
    yield made
    assert made.complaints == []
    context.close()
    server.stop()


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM:
        pytest.skip("chromium is not installed: install it, or name one by HWSONDE_CHROMIUM")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def opened(page, fragment: str) -> None:
    page.goto("about:blank")
    page.goto(f"{HOST}&{fragment}" if fragment else HOST)
    sync_api.expect(page.locator("#host-name")).to_have_text("a/node17")


def asked(page) -> tuple[int, int] | None:
    given = parse_qs(urlsplit(page.asked[-1]).query)
    return (int(given["from"][0]), int(given["to"][0])) if given else None


def test_milliseconds_show_that_time_and_nothing_else_of_the_scores(page) -> None:
    opened(page, SICK)
    sync_api.expect(page.locator("#range")).to_be_visible()
    text = page.locator("#range-text").inner_text()
    assert text.startswith("Shown: 2026-11-30 00:34:40Z to 2026-11-30 00:36:40Z. ")
    assert "those of now" in text
    assert asked(page) == (NOW - 1_120_000, NOW - 1_000_000)
    history = page.request.get(f"/api/v1/hosts/a%2Fnode17?{SICK}").json()["history"]
    most = f"{max(history['score']):.2f}"
    assert float(most) > 2
    sync_api.expect(page.locator("#score-words")).to_have_text(f"At most {most} in this time.")
    assert (
        page.locator("#episodes li")
        .all_inner_texts()[0]
        .strip()
        .startswith("a/node17 cpu: cpu_sampled_busy_ratio 97 %")
    )
    assert page.locator("#episodes li").count() == 1, "the open episode is of another time"
    assert page.locator("canvas").count() == 2
    assert page.locator("#range-incidents").get_attribute("href") == "incidents?node=a%2Fnode17"


@pytest.mark.parametrize(
    ("fragment", "span"),
    [
        ("from=now-10m&to=now", (NOW - 600_000, NOW)),
        ("from=now-1h&to=now-30m", (NOW - 3_600_000, NOW - 1_800_000)),
        ("from=now-90s", (NOW - 90_000, NOW)),
        (f"to={NOW - 60_000}", (NOW - 3_660_000, NOW - 60_000)),
        ("from=2026-11-30T00:00:00Z&to=2026-11-30T00:30:00.000Z", (NOW - 3_200_000, NOW - 1_400_000)),
    ],
)
def test_times_are_written_as_grafana_writes_them(page, fragment: str, span: tuple[int, int]) -> None:
    opened(page, fragment)
    sync_api.expect(page.locator("#range")).to_be_visible()
    assert asked(page) == span
    assert "Shown: " in page.locator("#range-text").inner_text()


@pytest.mark.parametrize(
    "fragment", ["from=yesterday&to=now", f"from={NOW}&to={NOW - 1}", "from=now-1x", f"to={'9' * 17}"]
)
def test_times_that_make_no_sense_are_said_and_the_present_is_shown(page, fragment: str) -> None:
    opened(page, fragment)
    sync_api.expect(page.locator("#range-text")).to_contain_text("make no sense")
    assert asked(page) is None
    assert page.locator("#score-words").inner_text().startswith("Now ")


def test_a_time_of_which_nothing_is_kept_says_so(page) -> None:
    opened(page, f"from={NOW - 7_200_000}&to={NOW - 3_600_000}")
    sync_api.expect(page.locator("#score-words")).to_have_text("No window of this time was judged, or none is kept.")
    assert "; scores are kept since 2026-11-30 00:23:20Z." in page.locator("#range-text").inner_text()
    assert page.locator("#episodes li").all_inner_texts() == ["None in this time that is still listed here."]
    assert page.locator("canvas").count() == 2


def test_the_keyboard_leads_back_to_the_present(page) -> None:
    opened(page, SICK)
    sync_api.expect(page.locator("#range")).to_be_visible()
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "range-live":
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    # The page renews itself every two seconds; what has the focus keeps it.
    before = len(page.asked)
    page.wait_for_timeout(2500)
    assert len(page.asked) > before
    assert page.evaluate("document.activeElement.id") == "range-live"
    page.keyboard.press("Enter")
    sync_api.expect(page.locator("#range")).to_be_hidden()
    assert urlsplit(page.url).fragment == "host=a%2Fnode17"
    sync_api.expect(page.locator("#score-words")).to_contain_text("Now ")
    assert page.evaluate("document.activeElement.id") == "detail"
    assert asked(page) is None
    page.go_back()
    sync_api.expect(page.locator("#range")).to_be_visible()
    assert asked(page) == (NOW - 1_120_000, NOW - 1_000_000)


def test_the_range_stays_from_host_to_host_and_without_one(page) -> None:
    page.goto(f"/#{QUIET}")
    sync_api.expect(page.locator("#range-text")).to_contain_text("2026-11-30 00:38:20Z")
    page.get_by_role("button", name="a/node18").click()
    sync_api.expect(page.locator("#host-name")).to_have_text("a/node18")
    assert urlsplit(page.url).fragment == f"host=a%2Fnode18&{QUIET}"
    assert asked(page) == (NOW - 900_000, NOW - 600_000)
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    assert urlsplit(page.url).fragment == "detail"
    page.wait_for_timeout(500)
    assert page.locator("#range").is_visible(), "a link within the page changes nothing"


def test_an_address_without_times_is_live(page) -> None:
    opened(page, "")
    sync_api.expect(page.locator("#score-words")).to_contain_text("Now ")
    assert page.locator("#range").is_hidden()
    assert asked(page) is None

"""A headless Chromium, driven by Playwright: pictures of pages, in few colours."""

from __future__ import annotations

import base64
import os
import shutil
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from grafana.rendering.errors import RenderError
from grafana.rendering.palette import SCRIPT, png

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Theme = Literal["dark", "light"]
_READY_MS = 90_000
# Text and lines that come in with a transition.
_REST_MS = 500


@dataclass(frozen=True, slots=True)
class Look:
    """What a board is looked at with.

    Attributes
    ----------
    theme
        Of Grafana.
    start, end
        Unix seconds.
    scrape
        Scrape interval in seconds.
    variables
        Values by name; Grafana's own choice for the others.
    """

    theme: Theme
    start: float
    end: float
    scrape: float
    variables: Mapping[str, str]

    def query(self) -> str:
        """The query of the page's address."""
        pairs = {"theme": self.theme, "from": self.start, "to": self.end, "scrape": self.scrape}
        return urllib.parse.urlencode({**pairs, **{f"var-{name}": value for name, value in self.variables.items()}})


@contextmanager
def chromium() -> Iterator[Browser]:
    """The system's Chromium, or the one that ``HWSONDE_CHROMIUM`` names.

    Raises
    ------
    RenderError
        If it, or Playwright, is not installed.
    """
    path = os.environ.get("HWSONDE_CHROMIUM") or shutil.which("chromium")
    if path is None:
        raise RenderError("chromium is not installed: install it, or name one by HWSONDE_CHROMIUM")
    try:
        from playwright.sync_api import Error, sync_playwright  # noqa: PLC0415 - only pictures need it
    except ImportError as error:
        raise RenderError("playwright is not installed: see requirements/dev.txt") from error
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        except Error as error:
            raise RenderError(f"{path} does not start: {str(error).strip().splitlines()[0]}") from error
        try:
            yield browser
        finally:
            browser.close()


def board_picture(browser: Browser, address: str, look: Look, width: int) -> tuple[bytes, list[dict[str, Any]]]:
    """Picture of the board that a `grafana.rendering.server.Site` serves now, and what each of its panels shows.

    Raises
    ------
    RenderError
        If the page does not get ready.
    """
    from playwright.sync_api import Error  # noqa: PLC0415 - as above

    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=look.theme)
    try:
        page.goto(f"{address}/?{look.query()}")
        page.wait_for_function("window.boardReport !== undefined || window.boardError !== undefined", timeout=_READY_MS)
        if wrong := page.evaluate("window.boardError"):
            raise RenderError(f"the board cannot be drawn: {wrong}")
        # What lies outside of the window may not be drawn yet: tables draw the rows that can be seen.
        page.set_viewport_size({"width": width, "height": page.evaluate("document.documentElement.scrollHeight")})
        page.wait_for_timeout(_REST_MS)
        return picture(page), page.evaluate("window.boardReport")
    except Error as error:
        raise RenderError(f"the board cannot be drawn: {str(error).strip().splitlines()[0]}") from error
    finally:
        page.close()


def picture(page: Page) -> bytes:
    """The whole page as a PNG file in few colours."""
    taken = base64.b64encode(page.screenshot(full_page=True)).decode()
    return png(**page.evaluate(SCRIPT.read_text(encoding="utf-8"), taken))

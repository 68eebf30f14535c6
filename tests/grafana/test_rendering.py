"""What pictures of boards are made with: the page that npm builds, its server, PNG files in few colours."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import struct
import threading
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from grafana.render_boards import Wanted, render
from grafana.rendering.browser import Look, chromium, picture
from grafana.rendering.bundle import built, default_cache
from grafana.rendering.errors import RenderError
from grafana.rendering.palette import png
from grafana.rendering.server import serving

NPM = """#!/bin/sh
echo "$*" >> "$NPM_LOG"
[ -z "$NPM_FAILS" ] || { echo "npm error $NPM_FAILS" >&2; exit 1; }
case $1 in
  install) mkdir node_modules && touch node_modules/package ;;
  run) [ -e node_modules/package ] && mkdir dist && cp src/main.tsx dist/index.html ;;
esac
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "render"
    (folder / "src").mkdir(parents=True)
    for name in ("package.json", "index.html", "vite.config.js", "src/main.tsx"):
        (folder / name).write_text(f"{name}\n")
    return folder


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "npm").write_text(NPM)
    (folder / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("NPM_LOG", str(tmp_path / "npm.log"))
    monkeypatch.setenv("NPM_FAILS", "")
    return tmp_path / "npm.log"


def asked(npm: Path) -> list[str]:
    return [line.split()[0] for line in npm.read_text().splitlines()]


def test_the_page_is_built_once_and_anew_when_its_sources_change(sources: Path, npm: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = built(cache, sources)
    assert (first / "index.html").read_text() == "src/main.tsx\n"
    assert built(cache, sources) == first
    assert asked(npm) == ["install", "run"]
    (sources / "src" / "main.tsx").write_text("other\n")
    second = built(cache, sources)
    assert second != first
    assert (second / "index.html").read_text() == "other\n"
    assert asked(npm) == ["install", "run", "run"], "the packages are the same"
    (sources / "package-lock.json").write_text("{}\n")
    built(cache, sources)
    assert asked(npm)[3:] == ["install", "run"]
    assert not (sources / "node_modules").exists()


def test_what_npm_says_is_one_line(sources: Path, npm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPM_FAILS", "network is unreachable")
    with pytest.raises(RenderError, match="install fails in npm: npm error network is unreachable") as caught:
        built(tmp_path / "cache", sources)
    assert "\n" not in str(caught.value)
    monkeypatch.setenv("NPM_FAILS", "")
    assert (built(tmp_path / "cache", sources) / "index.html").exists(), "half an installation is not taken for one"


def test_missing_npm_is_one_line(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RenderError, match="npm is not installed"):
        built(tmp_path / "cache", sources)


def test_a_cache_that_cannot_be_written_is_one_line(sources: Path, npm: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RenderError, match="--cache DIR"):
        built(tmp_path / "file" / "cache", sources)


def test_the_cache_is_the_users() -> None:
    assert default_cache({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/hwsonde/render")
    assert default_cache({"XDG_CACHE_HOME": "relative", "HOME": "/h"}) == Path("/h/.cache/hwsonde/render")


class Prometheus(BaseHTTPRequestHandler):
    """Answers with what it was asked, and refuses one query."""

    def do_GET(self) -> None:
        refused = "bad" in self.path
        said = {"status": "error", "error": "bad"} if refused else {"status": "success", "data": self.path}
        body = json.dumps(said).encode()
        self.send_response(422 if refused else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
        pass


@pytest.fixture
def prometheus() -> Iterator[str]:
    running = ThreadingHTTPServer(("127.0.0.1", 0), Prometheus)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()
    thread.join()


def got(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_site_serves_page_board_and_prometheus(prometheus: str, tmp_path: Path) -> None:
    (tmp_path / "page" / "assets").mkdir(parents=True)
    (tmp_path / "page" / "index.html").write_text("<p>")
    (tmp_path / "page" / "assets" / "a.js").write_text("1")
    (tmp_path / "secret").write_text("no")
    with serving(tmp_path / "page", f"{prometheus}/") as site:
        site.board = {"title": "x"}
        assert got(f"{site.address}/?from=1") == (200, "<p>")
        assert got(f"{site.address}/assets/a.js") == (200, "1")
        assert got(f"{site.address}/board.json") == (200, '{"title": "x"}')
        assert got(f"{site.address}/../secret")[0] == 404
        assert (
            json.loads(got(f"{site.address}/prometheus/api/v1/query?query=a%2Bb")[1])["data"]
            == "/api/v1/query?query=a%2Bb"
        )
        assert got(f"{site.address}/prometheus/bad") == (422, '{"status": "error", "error": "bad"}')


def test_a_prometheus_that_is_away_is_an_answer_in_its_form(tmp_path: Path) -> None:
    with serving(tmp_path, "http://127.0.0.1:1") as site:
        status, body = got(f"{site.address}/prometheus/api/v1/query?query=up")
    assert status == 502
    assert "does not answer" in json.loads(body)["error"]


def decoded(data: bytes) -> tuple[int, int, list[list[tuple[int, int, int]]]]:
    """Size and pixels of a PNG file with a palette and without filters."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    chunks: dict[bytes, bytes] = {}
    place = 8
    while place < len(data):
        (length,) = struct.unpack_from(">I", data, place)
        kind, content = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        assert struct.unpack_from(">I", data, place + 8 + length)[0] == zlib.crc32(kind + content)
        chunks[kind] = content
        place += 12 + length
    width, height, depth, colour = struct.unpack_from(">IIBB", chunks[b"IHDR"])
    assert (depth, colour) == (8, 3)
    palette = [tuple(chunks[b"PLTE"][start : start + 3]) for start in range(0, len(chunks[b"PLTE"]), 3)]
    rows = zlib.decompress(chunks[b"IDAT"])
    lines = [rows[start + 1 : start + 1 + width] for start in range(0, len(rows), width + 1)]
    assert all(rows[start] == 0 for start in range(0, len(rows), width + 1))
    return width, height, [[palette[index] for index in line] for line in lines]  # type: ignore[misc]


def test_a_png_holds_its_pixels() -> None:
    data = png(3, 2, [1, 2, 3, 250, 251, 252], base64.b64encode(bytes([0, 1, 0, 1, 1, 0])).decode())
    one, two = (1, 2, 3), (250, 251, 252)
    assert decoded(data) == (3, 2, [[one, two, one], [two, two, one]])


def test_a_look_is_an_address() -> None:
    look = Look("light", 1.5, 2, 0.5, {"node": "n 1", "gpu": "0|1"})
    assert look.query() == "theme=light&from=1.5&to=2&scrape=0.5&var-node=n+1&var-gpu=0%7C1"


@pytest.mark.slow
def test_a_browsers_picture_keeps_the_colours_that_cover_most() -> None:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed: see requirements/dev.txt")
    if not (os.environ.get("HWSONDE_CHROMIUM") or shutil.which("chromium")):
        pytest.skip("chromium is not installed: install it, or name one by HWSONDE_CHROMIUM")
    many = "linear-gradient(90deg, #f00, #0f0, #00f)"
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 400, "height": 300})
        page.set_content(
            f'<body style="margin: 0; background: #111217"><div style="height: 100px; background: {many}"></div>'
            '<div style="height: 100px; background: #181b1f"></div>'
        )
        width, height, pixels = decoded(picture(page))
    assert (width, height) == (400, 300)
    assert (pixels[150][200], pixels[250][200]) == ((0x18, 0x1B, 0x1F), (0x11, 0x12, 0x17))
    assert len({pixel for row in pixels for pixel in row}) <= 96
    red, green, blue = pixels[50][200]
    assert green > 200
    assert max(red, blue) < 60


def test_packages_are_pinned_and_nobodys_registry_is_named() -> None:
    folder = Path(__file__).resolve().parents[2] / "grafana" / "render"
    wanted = json.loads((folder / "package.json").read_text())["dependencies"]
    text = (folder / "package-lock.json").read_text()
    locked = json.loads(text)["packages"]
    assert {name: locked[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert all(package.get("integrity") or not path for path, package in locked.items())
    assert "://" not in text


def test_a_prometheus_that_does_not_answer_is_one_line_before_anything_is_built(tmp_path: Path) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(RenderError, match=f"^{address} does not answer as Prometheus does .*correct --prometheus$"):
            render(Wanted(address, tmp_path / "out", 0.0, 1.0, cache=tmp_path / "cache"))
    assert not (tmp_path / "cache").exists()

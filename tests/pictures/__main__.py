"""Takes the pictures of the boards and of an incident's page: ``python -m tests.pictures OUT`` (see docs/development.md).

A small cluster is made on loopback and watched until an incident has come and gone, which takes about eight minutes; what Prometheus
recorded then is what the boards show. With ``--data`` it is kept, and used again by the next run with the same folder.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from grafana.render_boards import NAMES, THEMES, Wanted, file_name, render
from grafana.rendering.browser import chromium, picture
from grafana.rendering.bundle import built, default_cache
from grafana.rendering.errors import RenderError
from grafana.rendering.table import verdict
from quickstart.errors import QuickstartError
from quickstart.layout import url
from quickstart.stack import find_tool
from tests.pictures.fleet import SCRAPE_MS, Cluster
from tests.pictures.gallery import page
from tests.pictures.story import Scene, Story, StoryError
from tests.rules.running import answers, free_port, program

SCENE, INCIDENT = "scene.json", "incident.png"
WIDTH = 1280


def say(line: str) -> None:
    """Write a line with the time."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')}  {line}\n")


def record(data: Path) -> Scene:
    """Let the story happen below an empty folder, and take the picture of its incident's page."""
    with Cluster(data, say) as cluster:
        scene = Story(cluster, say).tell()
        address = url(cluster.fleet.options.ports.detector, f"/incidents/{scene.incident}")
        (data / INCIDENT).write_bytes(page_picture(address))
    # Last: a folder with it is whole.
    scene.save(data / SCENE)
    return scene


def page_picture(address: str) -> bytes:
    """Picture of a page of the detector, in dark colours."""
    with chromium() as browser:
        opened = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="dark", bypass_csp=True)
        opened.goto(address)
        opened.wait_for_load_state("networkidle")
        return picture(opened)


@contextmanager
def kept_prometheus(data: Path) -> Iterator[str]:
    """A Prometheus with what was recorded, which scrapes nothing; gives its address."""
    port = free_port()
    config = data / "kept.yml"
    config.write_text("{}\n", encoding="utf-8")
    command = [
        find_tool(("prometheus",), "prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={data / 'prometheus'}",
        "--storage.tsdb.retention.time=10y",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    with program(command, data / "kept.log", lambda: answers(url(port, "/-/ready"))):
        yield url(port)


def boards(scene: Scene, data: Path, given: argparse.Namespace) -> int:
    """Take the pictures of the boards, dark ones in the folder's ``boards``; gives the exit status."""
    with kept_prometheus(data) as prometheus:
        wanted = Wanted(
            prometheus,
            given.out / "boards",
            scene.shown_from,
            scene.moment,
            boards=given.board or NAMES,
            themes=given.theme or THEMES,
            of_board=scene.of_board(),
            scrape=SCRAPE_MS / 1000,
            cache=given.cache,
        )
        shown = render(wanted)
    if not given.board:
        (wanted.out / "README.md").write_text(page(shown), encoding="utf-8")
    # Of this cluster no panel has a reason to be empty.
    if line := verdict(shown, strict=True):
        say(line)
    for name in wanted.boards:
        for theme in wanted.themes:
            path = wanted.out / file_name(name, theme)
            say(f"{path}: {path.stat().st_size // 1000} kB")
    return 1 if line else 0


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    if given is None:
        with TemporaryDirectory(prefix="hwsonde-pictures-") as made:
            yield Path(made) / "data"
    else:
        yield given


def _scene(data: Path, recorded: Callable[[Path], Scene] = record) -> Scene:
    if (data / SCENE).exists():
        return Scene.load(data / SCENE)
    if data.exists() and any(data.iterdir()):
        raise StoryError(f"{data} has no {SCENE}, so its recording is not whole: remove it, or give another folder")
    return recorded(data)


def main(arguments: Sequence[str] | None = None) -> int:
    """Take the pictures; gives the exit status: 1 if a panel is empty that must not be, 2 if no pictures can be taken."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.pictures", description="Take pictures of boards and an incident."
    )
    parser.add_argument(
        "out", type=Path, metavar="OUT", help="folder for the pictures: docs/images renews the committed ones"
    )
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="where the recording is kept, or was kept (default: nowhere)"
    )
    parser.add_argument("--board", action="append", choices=NAMES, help="which board; may be repeated (default: all)")
    parser.add_argument("--theme", action="append", choices=THEMES, help="which theme; may be repeated (default: both)")
    parser.add_argument("--cache", type=Path, default=default_cache(), metavar="DIR", help="default: %(default)s")
    given = parser.parse_args(arguments)
    try:
        # First what may be missing here: nobody should learn of it after eight minutes.
        built(given.cache)
        with chromium():
            pass
        with _folder(given.data) as data:
            scene = _scene(data)
            given.out.mkdir(parents=True, exist_ok=True)
            shutil.copy(data / INCIDENT, given.out / INCIDENT)
            return boards(scene, data, given)
    except (RenderError, StoryError, QuickstartError, OSError) as error:
        say(f"pictures: {error}")
        return 2


if __name__ == "__main__":
    raise SystemExit(main())

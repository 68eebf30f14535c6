"""The page that draws boards, built by npm: once for each content of its sources, in a cache outside of the checkout."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from grafana.rendering.errors import RenderError

SOURCES = Path(__file__).resolve().parents[1] / "render"
# What npm installs follows from these alone.
PACKAGES = ("package.json", "package-lock.json")
_OTHERS = ("index.html", "vite.config.js")
_SECONDS = 900


def default_cache(environment: Mapping[str, str] = os.environ) -> Path:
    """The user's cache directory for this tool, by the XDG rules."""
    cache = environment.get("XDG_CACHE_HOME", "")
    base = Path(cache) if cache.startswith("/") else Path(environment.get("HOME") or "/tmp") / ".cache"  # noqa: S108  # the last resort of an account without a home
    return base / "hwsonde" / "render"


def built(cache: Path, sources: Path = SOURCES) -> Path:
    """The folder with the built page; npm is asked only if the sources changed since it was built last.

    Raises
    ------
    RenderError
        If npm is missing or fails, or the cache cannot be written.
    """
    packages = [sources / name for name in PACKAGES if (sources / name).exists()]
    code = [*(sources / name for name in _OTHERS), *sorted((sources / "src").iterdir())]
    modules = cache / f"modules-{digest(packages)}"
    target = cache / f"page-{digest([*packages, *code])}"
    if (target / "index.html").exists():
        return target
    npm = shutil.which("npm")
    if npm is None:
        raise RenderError("npm is not installed: pictures of boards need Node.js 20.19 or newer with npm")
    try:
        _install(npm, packages, modules)
        _build(npm, [*packages, *code], modules, target)
    except OSError as error:
        raise RenderError(
            f"{error.filename or cache}: {error.strerror}: give another place with --cache DIR"
        ) from error
    return target


def digest(paths: Iterable[Path]) -> str:
    """What tells two contents of these files apart."""
    found = hashlib.sha256()
    for path in paths:
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def _install(npm: str, packages: Iterable[Path], modules: Path) -> None:
    if modules.exists():
        return
    modules.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=modules.parent) as folder:
        place = Path(folder)
        for path in packages:
            shutil.copy(path, place)
        # Not `npm ci`: it refuses where a registry lacks what only another system would need.
        _run([npm, "install", "--no-audit", "--no-fund", "--ignore-scripts"], place)
        # Whole or not at all: an installation that was interrupted is never taken for one.
        place.rename(modules)
        place.mkdir()


def _build(npm: str, files: Iterable[Path], modules: Path, target: Path) -> None:
    with TemporaryDirectory(dir=modules.parent) as folder:
        place = Path(folder)
        (place / "src").mkdir()
        for path in files:
            shutil.copy(path, place / "src" if path.parent.name == "src" else place)
        (place / "node_modules").symlink_to(modules / "node_modules")
        _run([npm, "run", "build"], place)
        (place / "dist").rename(target)


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False)  # noqa: S603 - npm, with our own arguments
    except subprocess.TimeoutExpired as error:
        raise RenderError(f"npm did not end in {_SECONDS} s: is the package registry reachable?") from error
    if done.returncode:
        said = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        wrong = next((line for line in said if "error" in line.lower()), said[-1] if said else "it says nothing")
        raise RenderError(f"{' '.join(command[1:2])} fails in npm: {wrong[:300]}")

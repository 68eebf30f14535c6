"""Finding presets: shipped ones by name, others by path. A preset holds the sections that decide what is found, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from hwsonde_detector.config.tree import MAX_BYTES, Problem, Tree, read_tree
from hwsonde_detector.config.values import shown
from hwsonde_detector.errors import ConfigError
from hwsonde_detector.files import read_regular

_PACKAGE = "hwsonde_detector.presets"
SECTIONS = ("window", "learning", "detectors", "episodes", "regimes")
DEFAULT = "default"


def shipped_presets() -> tuple[str, ...]:
    """Names of the presets that come with the detector, in order."""
    found = (item.name for item in resources.files(_PACKAGE).iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in found if name.endswith(".yaml")))


def is_path(name: str) -> bool:
    """Whether what names a preset or a profile is a path: what has a slash or ends as YAML files do. Else it is a shipped one."""
    return "/" in name or name.endswith((".yaml", ".yml"))


def preset_file(
    name: str, directory: Path | None = None, place: str = "preset", others: Sequence[str] = ()
) -> tuple[str, bytes]:
    """Find a preset and read its text.

    Parameters
    ----------
    name
        Name of a shipped preset, or a path (`is_path`).
    directory
        Where relative paths start.
    place
        Key or flag that named it, for the error line.
    others
        What else may stand there, for the error line.

    Returns
    -------
    tuple
        How messages call it, and its text.

    Raises
    ------
    ConfigError
        There is no such preset, or it cannot be read.
    """
    if not is_path(name):
        known = shipped_presets()
        if name not in known:
            allowed = ", ".join((*others, *known))
            raise ConfigError(f"{place}: {shown(name)} is not known; allowed: {allowed}, or a path that ends in .yaml")
        return f"preset {name}", resources.files(_PACKAGE).joinpath(f"{name}.yaml").read_bytes()
    path = (directory or Path()) / name
    try:
        return str(path), read_regular(path, MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{place}: {path}: it cannot be read: {error.strerror or error}; check the path") from None


def read_preset(name: str, directory: Path | None = None) -> tuple[str, Tree]:
    """Read a preset.

    Parameters
    ----------
    name
        Name of a shipped preset, or a path (`is_path`).
    directory
        Where relative paths start.

    Returns
    -------
    tuple
        How messages call it, and its document; problems of its keys stand in the tree.

    Raises
    ------
    ConfigError
        There is no such preset, or it cannot be read.
    """
    called, data = preset_file(name, directory)
    tree = read_tree(data)
    value: Any = {} if tree.value is None else tree.value
    if not isinstance(value, dict):
        tree.problems.append(
            Problem((), f"the file holds {shown(value)}; allowed: the sections {', '.join(SECTIONS)}", 1)
        )
        value = {}
    tree.problems += [
        Problem((key,), f"not a part of a preset; allowed: {', '.join(SECTIONS)}", tree.line((key,)))
        for key in value
        if key not in SECTIONS
    ]
    tree.value = {key: part for key, part in value.items() if key in SECTIONS}
    return called, tree


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Both documents in one: what ``above`` says wins, key by key within sections; an empty section or key says nothing."""
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        if isinstance(under, dict) and isinstance(value, dict):
            result[key] = merged(under, value)
        elif value is not None or key not in result:
            result[key] = value
    return result

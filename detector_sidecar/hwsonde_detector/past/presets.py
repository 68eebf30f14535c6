"""Presets: partial configurations that are laid over the one in force, to be compared over the same history."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TypeVar

from hwsonde_detector.config import Config
from hwsonde_detector.config.constraints import constraints
from hwsonde_detector.config.loading import parse_config
from hwsonde_detector.config.models import Origin
from hwsonde_detector.config.presets import is_path, preset_file
from hwsonde_detector.config.section import Section
from hwsonde_detector.config.tree import dotted
from hwsonde_detector.errors import ConfigError

Kind = TypeVar("Kind", bound=Section)

CONFIGURED = "configured"
"""The preset that changes nothing."""

# What a preset does not change: from where is read, how hosts are named, and what only a service has.
_EDGES = frozenset({"preset", "mode", "entity_labels", "source", "tick", "state", "archive", "web", "links", "log"})


def preset_configs(config: Config, names: Sequence[str]) -> dict[str, Config]:
    """Configurations to compare.

    Parameters
    ----------
    config
        What the presets are laid over; its source, names of hosts and the like stay.
    names
        `CONFIGURED`, names of shipped presets, or paths (with a slash, or ending in .yaml or .yml) of configuration files.

    Returns
    -------
    dict
        By name, in the order given; a path's name is that of the file.

    Raises
    ------
    ConfigError
        One line a problem.
    """
    found: dict[str, Config] = {}
    for name in names:
        word = Path(name).stem if is_path(name) else name
        if word in found:
            raise ConfigError(f"--preset: {word} is named twice; name each preset once")
        found[word] = config if name == CONFIGURED else _laid_over(config, _load(name), name)
    return found


def _load(name: str) -> Config:
    called, data = preset_file(name, place="--preset", others=(CONFIGURED,))
    return parse_config(data, called, Origin(Path(name)) if is_path(name) else None)


def _laid_over(config: Config, preset: Config, name: str) -> Config:
    result = _merged(config, preset, preset.model_fields_set - _EDGES)
    if "profiles" in preset.model_fields_set:
        result = result.model_copy(update={"profiles": _placed(preset)})
    for path, text in constraints(result):
        raise ConfigError(f"--preset: {name}: {dotted(path)}: {text}")
    return result


def _placed(preset: Config) -> tuple[str, ...]:
    """Profiles of a preset, whose relative paths start from its own folder."""
    return tuple(
        str((preset.origin.directory / name).absolute()) if is_path(name) else name for name in preset.profiles
    )


def _merged(base: Kind, over: Kind, names: AbstractSet[str]) -> Kind:
    update = {}
    for name in sorted(names):
        value, old = getattr(over, name), getattr(base, name)
        if isinstance(value, Section) and type(old) is type(value):
            value = _merged(old, value, value.model_fields_set)
        update[name] = value
    return base.model_copy(update=update)

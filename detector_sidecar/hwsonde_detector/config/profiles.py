"""Finding profiles: shipped ones by name, others by path."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from hwsonde_detector.config.presets import is_path
from hwsonde_detector.config.tree import MAX_BYTES
from hwsonde_detector.errors import ConfigError
from hwsonde_detector.files import read_regular
from hwsonde_detector.signals.profiles import Profile, parse_profile

_PACKAGE = "hwsonde_detector.signals.profiles"


def shipped_profiles() -> tuple[str, ...]:
    """Names of the profiles that come with the detector, in order."""
    found = (item.name for item in resources.files(_PACKAGE).iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in found if name.endswith(".yaml")))


def load_profiles(names: Sequence[str], directory: Path | None = None) -> tuple[Profile, ...]:
    """Read and check profiles.

    Parameters
    ----------
    names
        Names of shipped profiles, or paths (`is_path`).
    directory
        Where relative paths start (`Config.origin.directory`).

    Raises
    ------
    ConfigError
        One line a problem, of all profiles.
    """
    found, problems = [], []
    for name in names:
        try:
            found.append(_load(name, directory or Path()))
        except ConfigError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError("\n".join(problems))
    return tuple(found)


def _load(name: str, directory: Path) -> Profile:
    if not is_path(name):
        if name not in shipped_profiles():
            raise ConfigError(
                f"profiles: {name!r} is not shipped; allowed: {', '.join(shipped_profiles())}, or a path that ends in .yaml"
            )
        return parse_profile(resources.files(_PACKAGE).joinpath(f"{name}.yaml").read_text(encoding="utf-8"), name)
    path = directory / name
    try:
        data = read_regular(path, MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"{path}: the profile cannot be read: {error.strerror or error}; give a readable file in profiles"
        ) from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path}: the file is larger than {MAX_BYTES} bytes; a profile lists metrics only")
    try:
        return parse_profile(data.decode(), str(path))
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: the profile is not UTF-8 text") from None

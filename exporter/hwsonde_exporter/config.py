"""Settings from flags and a YAML file; flags win."""

from __future__ import annotations

import argparse
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from hwsonde_exporter import __version__
from hwsonde_exporter.errors import ConfigError
from hwsonde_exporter.exporter import ExporterSettings
from hwsonde_exporter.host import Ignored, Paths
from hwsonde_exporter.options import Option, options
from hwsonde_exporter.registry import Collector
from hwsonde_exporter.runner import RunnerSettings

if TYPE_CHECKING:
    from yaml import Node

_MAX_FILE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that may be configured.

    Attributes
    ----------
    listen
        Host and port of each listen address; an empty host stands for all interfaces.
    max_scrapes
        Scrapes served at once.
    paths
        Where the host's kernel files are.
    ignored
        What of the host is left out.
    exporter
        Collectors and sampler.
    log_level, log_format
        As in `hwsonde_exporter.logs`.
    once
        Print one exposition and end.
    """

    listen: tuple[tuple[str, int], ...]
    max_scrapes: int
    paths: Paths
    ignored: Ignored
    exporter: ExporterSettings
    log_level: str
    log_format: str
    once: bool


def load(arguments: Sequence[str], kinds: Mapping[str, type[Collector]]) -> Settings:
    """Settings of these command-line arguments and of the file that they name.

    Raises
    ------
    ConfigError
        One line: flag or file and line, key, what is allowed.
    """
    table = options(kinds)
    given = vars(_parser(table).parse_args(arguments))
    values = {key: option.default for key, option in table.items()}
    if given["config.file"] is not None:
        values.update(read_file(Path(given["config.file"]), table))
    for key, option in table.items():
        if given[key] is not None:
            values[key] = given[key] if option.switch else _from_flag(option, given[key])
    return _settings(values, kinds, once=given["once"])


def read_file(path: Path, table: Mapping[str, Option]) -> dict[str, Any]:
    """Values of a configuration file, by key.

    Raises
    ------
    ConfigError
        With file, line and key.
    """
    try:
        # Opened without waiting: a pipe would keep the program from starting, and a reload from ending.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            text = file.read(_MAX_FILE_BYTES + 1) if regular else b""
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}; see --config.file") from error
    if not regular:
        raise ConfigError(f"{path}: cannot be read: it is no regular file; see --config.file")
    if len(text) > _MAX_FILE_BYTES:
        raise ConfigError(f"{path}: larger than {_MAX_FILE_BYTES} bytes, not a configuration file of this program")
    return parse_file(text, str(path), table)


def parse_file(text: bytes, name: str, table: Mapping[str, Option]) -> dict[str, Any]:
    """Values of the text of a configuration file called ``name``, by key; raises `ConfigError`."""
    import yaml  # noqa: PLC0415  (costs 30 ms, and most exporters run without a file)

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        problem = getattr(error, "problem", None) or "holds what no YAML file may hold"
        raise ConfigError(f"{name}:{line}: not YAML: {' '.join(str(problem).split())}") from error
    except RecursionError as error:
        raise ConfigError(f"{name}:1: nested too deeply") from error
    if root is None:
        return {}
    sections = sorted({key.partition(".")[0] for key in table})
    values: dict[str, Any] = {}
    for section, body, _ in _entries(root, name, "", sections):
        allowed = sorted(key.removeprefix(f"{section}.") for key in table if key.startswith(f"{section}."))
        for key, node, line in _entries(body, name, f"{section}.", allowed):
            full = f"{section}.{key}"
            values[full] = _value(table[full], node, f"{name}:{line}: {full}")
    return values


def _entries(node: Node, name: str, prefix: str, allowed: Sequence[str]) -> list[tuple[str, Node, int]]:
    """Key, value node and line of each entry of a mapping."""
    import yaml  # noqa: PLC0415

    place = f"{name}:{node.start_mark.line + 1}"
    if not isinstance(node, yaml.MappingNode):
        if isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null":
            return []
        what = prefix.rstrip(".") or "the file"
        raise ConfigError(f"{place}: {what}: must be a mapping; allowed keys: {', '.join(allowed)}")
    entries: list[tuple[str, Node, int]] = []
    seen = set()
    for key_node, value in node.value:
        line = key_node.start_mark.line + 1
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
        if key not in allowed:
            close = get_close_matches(key, allowed, 1)
            hint = f"did you mean {prefix}{close[0]}?" if close else f"allowed: {', '.join(allowed)}"
            raise ConfigError(f"{name}:{line}: {prefix}{_short(key)}: unknown key; {hint}")
        if key in seen:
            raise ConfigError(f"{name}:{line}: {prefix}{key}: given twice; allowed: once")
        seen.add(key)
        entries.append((key, value, line))
    return entries


def _value(option: Option, node: Node, place: str) -> object:
    import yaml  # noqa: PLC0415

    nodes = node.value if option.many and isinstance(node, yaml.SequenceNode) else [node]
    parsed = []
    for item in nodes:
        shown = item.value if isinstance(item, yaml.ScalarNode) else "a list or mapping"
        try:
            if not isinstance(item, yaml.ScalarNode):
                option.parse("")  # raises with what is allowed; no option takes an empty text
            parsed.append(option.parse(item.value))
        except ValueError as error:
            raise ConfigError(f"{place}: {_short(shown)!r} is not allowed; allowed: {error}") from None
    if option.many and not parsed:
        raise ConfigError(f"{place}: an empty list is not allowed; allowed: at least one entry")
    return tuple(parsed) if option.many else parsed[0]


def _from_flag(option: Option, given: str | list[str]) -> object:
    texts = [given] if isinstance(given, str) else given
    parsed = []
    for text in texts:
        try:
            parsed.append(option.parse(text))
        except ValueError as error:
            raise ConfigError(f"--{option.key}: {_short(text)!r} is not allowed; allowed: {error}") from None
    return tuple(parsed) if option.many else parsed[0]


def _settings(values: Mapping[str, Any], kinds: Mapping[str, type[Collector]], *, once: bool) -> Settings:
    enabled = frozenset(name for name in kinds if values[f"collector.{name}"])
    runner = RunnerSettings(enabled, values["collector.timeout"], values["collector.series-limit"])
    return Settings(
        listen=values["web.listen-address"],
        max_scrapes=values["web.max-scrapes"],
        paths=Paths(values["path.procfs"], values["path.sysfs"], values["path.rootfs"]),
        ignored=Ignored(values["collector.network.ignored-devices"], values["collector.filesystem.ignored-mounts"]),
        exporter=ExporterSettings(runner, values["sampler.hertz"]),
        log_level=values["log.level"],
        log_format=values["log.format"],
        once=once,
    )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print with the whole usage before it."""
        raise ConfigError(f"{message}; see --help")


def _parser(table: Mapping[str, Option]) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="hwsonde-exporter",
        description="Publishes what this host's hardware does, for Prometheus to scrape.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"hwsonde-exporter {__version__}")
    parser.add_argument("--once", action="store_true", help="print one exposition on standard output and end")
    parser.add_argument(
        "--config.file",
        metavar="FILE",
        help="YAML with the same keys, nested at the first dot (web: {listen-address: ...}); flags win",
    )
    for key, option in table.items():
        text = option.help.replace("%", "%%")
        if option.switch:
            parser.add_argument(f"--{key}", dest=key, action=argparse.BooleanOptionalAction, help=text)
        else:
            word = key.rpartition(".")[2].rpartition("-")[2].upper()
            action = "append" if option.many else "store"
            parser.add_argument(f"--{key}", dest=key, action=action, metavar=word, help=text)
    return parser


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."

"""Settings from flags and a YAML file; flags win."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from hwsonde_exporter import __version__
from hwsonde_exporter.errors import ConfigError
from hwsonde_exporter.exporter import ExporterSettings
from hwsonde_exporter.host import Ignored, Paths
from hwsonde_exporter.mesh.service import MOST_PEERS, MeshSettings
from hwsonde_exporter.nvml.client import NvmlSettings
from hwsonde_exporter.options import DEFAULT_SERIES_LIMIT, OWN_SERIES_LIMITS, Option, options
from hwsonde_exporter.privacy import Level, Privacy
from hwsonde_exporter.privacy_key import read_host_key
from hwsonde_exporter.registry import Collector
from hwsonde_exporter.runner import RunnerSettings
from hwsonde_exporter.selection import Selection
from hwsonde_exporter.workload_options import WorkloadOptions
from hwsonde_exporter.yaml_file import compose, entries, read_bytes, shortened

if TYPE_CHECKING:
    from yaml import Node


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that may be configured.

    Attributes
    ----------
    listen
        Host and port of each listen address; an empty host stands for all interfaces.
    web_config
        File with TLS and users; None for plain HTTP.
    max_scrapes
        Scrapes served at once.
    timeout_offset
        Seconds by which a scrape ends before Prometheus's time-out, a fifth of it at most.
    paths
        Where the host's kernel files are.
    ignored
        What of the host is left out.
    textfiles
        Directory in which other programs leave metrics; None for none.
    exporter
        Collectors and sampler.
    log_level, log_format
        As in `hwsonde_exporter.logs`.
    once
        Print one exposition and end.
    """

    listen: tuple[tuple[str, int], ...]
    web_config: Path | None
    max_scrapes: int
    timeout_offset: float
    paths: Paths
    ignored: Ignored
    textfiles: Path | None
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
    return load_with(arguments, kinds, Command())[0]


@dataclass(frozen=True, slots=True)
class Command:
    """What a command adds to the flags that all share.

    Attributes
    ----------
    name
        Word behind the program's name; empty for serving.
    help
        What it does, for ``--help``.
    epilog
        Further lines for ``--help``.
    add
        Adds the command's own arguments to a parser.
    """

    name: str = ""
    help: str = "Publishes what this host's hardware does, for Prometheus to scrape."
    epilog: str = ""
    add: Callable[[argparse.ArgumentParser], object] = lambda _: None


def load_with(
    arguments: Sequence[str], kinds: Mapping[str, type[Collector]], command: Command
) -> tuple[Settings, Mapping[str, Any]]:
    """Settings as `load`, and the values of the command's own arguments by name; raises `ConfigError`."""
    table = options(kinds)
    given = vars(make_parser(table, command).parse_args(arguments))
    values = {key: option.default for key, option in table.items()}
    stated: dict[str, Any] = {}
    if given["config.file"] is not None:
        stated.update(read_file(Path(given["config.file"]), table))
    for key, option in table.items():
        if given[key] is not None:
            stated[key] = given[key] if option.switch else _from_flag(option, given[key])
    if stated.get("collector.disable-defaults"):
        values.update({f"collector.{name}": False for name in kinds})
    values.update(stated)
    return _settings(values, kinds, once=given["once"]), given


def read_file(path: Path, table: Mapping[str, Option]) -> dict[str, Any]:
    """Values of a configuration file, by key.

    Raises
    ------
    ConfigError
        With file, line and key.
    """
    return parse_file(read_bytes(path, "--config.file"), str(path), table)


def parse_file(text: bytes, name: str, table: Mapping[str, Option]) -> dict[str, Any]:
    """Values of the text of a configuration file called ``name``, by key; raises `ConfigError`."""
    root = compose(text, name)
    if root is None:
        return {}
    sections = sorted({key.partition(".")[0] for key in table})
    values: dict[str, Any] = {}
    for section, body, start in entries(root, name, "", sections):
        if section in table:
            values[section] = _value(table[section], body, f"{name}:{start}: {section}")
            continue
        allowed = sorted(key.removeprefix(f"{section}.") for key in table if key.startswith(f"{section}."))
        for key, node, line in entries(body, name, f"{section}.", allowed):
            full = f"{section}.{key}"
            values[full] = _value(table[full], node, f"{name}:{line}: {full}")
    return values


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
            raise ConfigError(f"{place}: {shortened(shown)!r} is not allowed; allowed: {error}") from None
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
            raise ConfigError(f"--{option.key}: {shortened(text)!r} is not allowed; allowed: {error}") from None
    return tuple(parsed) if option.many else parsed[0]


def _settings(values: Mapping[str, Any], kinds: Mapping[str, type[Collector]], *, once: bool) -> Settings:
    enabled = frozenset(name for name in kinds if values[f"collector.{name}"])
    limits = dict(values["collector.series-limit"])
    general = limits.pop("", None)
    runner = RunnerSettings(
        enabled,
        values["collector.timeout"],
        DEFAULT_SERIES_LIMIT if general is None else general,
        # A limit that somebody states for all holds for all.
        {**OWN_SERIES_LIMITS, **limits} if general is None else limits,
        Selection(values["metrics.allow"], values["metrics.deny"]),
        _privacy(values),
    )
    return Settings(
        listen=values["web.listen-address"],
        web_config=values["web.config.file"],
        max_scrapes=values["web.max-scrapes"],
        timeout_offset=values["web.timeout-offset"],
        paths=Paths(values["path.procfs"], values["path.sysfs"], values["path.rootfs"]),
        ignored=Ignored(values["collector.network.ignored-devices"], values["collector.filesystem.ignored-mounts"]),
        textfiles=values["collector.textfile.directory"],
        exporter=ExporterSettings(
            runner,
            values["sampler.hertz"],
            _mesh(values),
            values["collector.network_latency.groups"],
            _workloads(values),
            _nvml(values),
        ),
        log_level=values["log.level"],
        log_format=values["log.format"],
        once=once,
    )


def _privacy(values: Mapping[str, Any]) -> Privacy:
    level = Level(values["privacy"])
    key = read_host_key(values["path.rootfs"], values["path.procfs"]) if level is Level.STRICT else b""
    return Privacy(level, key)


def _workloads(values: Mapping[str, Any]) -> WorkloadOptions:
    return WorkloadOptions(
        values["collector.workload.limit"],
        values["collector.workload.minimum-cpu-seconds"],
        values["collector.workload.minimum-memory-bytes"],
        values["collector.workload.tasks"],
        values["collector.workload.user-names"],
        values["collector.gpu_process.names"],
    )


def _nvml(values: Mapping[str, Any]) -> NvmlSettings:
    return NvmlSettings(
        values["nvml.library"], values["nvml.deadline"], values["nvml.serials"], values["sampler.hertz"]
    )


def _mesh(values: Mapping[str, Any]) -> MeshSettings:
    key = "collector.network_probe.peers"
    peers = values[key]
    names = [peer.name for peer in peers]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"{key}: {twice[0]!r} is not allowed twice; allowed: each name once")
    if len(peers) > MOST_PEERS:
        raise ConfigError(f"{key}: {len(peers)} are not allowed; allowed: at most {MOST_PEERS}")
    return MeshSettings(
        peers, values["collector.network_probe.listen-address"], values["collector.network_probe.interval"]
    )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print with the whole usage before it."""
        raise ConfigError(f"{message}; see --help")


def make_parser(table: Mapping[str, Option], command: Command) -> argparse.ArgumentParser:
    """Parser of a command: its own arguments and a flag for each option of the table. It raises `ConfigError`."""
    parser = _Parser(
        prog=f"hwsonde-exporter {command.name}".strip(),
        description=command.help,
        epilog=command.epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add(parser)
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

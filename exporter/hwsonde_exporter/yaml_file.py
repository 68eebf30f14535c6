"""YAML files read strictly: every mistake is one line with file, line and key. Values are never shown here: some are secrets."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from hwsonde_exporter.errors import ConfigError

if TYPE_CHECKING:
    from yaml import Node

MAX_FILE_BYTES = 1 << 20


def read_bytes(path: Path, flag: str) -> bytes:
    """Content of a regular file of at most 1 MiB.

    Parameters
    ----------
    path
        The file.
    flag
        The flag or key that names it, for the message.

    Raises
    ------
    ConfigError
        If it cannot be read, is no regular file or is larger.
    """
    try:
        # Opened without waiting: a pipe would keep the program from starting, and a reload from ending.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            text = file.read(MAX_FILE_BYTES + 1) if regular else b""
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}; see {flag}") from error
    except ValueError:
        raise ConfigError(f"{str(path)!r}: no path of a file; see {flag}") from None
    if not regular:
        raise ConfigError(f"{path}: cannot be read: it is no regular file; see {flag}")
    if len(text) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES} bytes, not a configuration file of this program")
    return text


def compose(text: bytes, name: str) -> Node | None:
    """Root node of the text of a file called ``name``; None if it is empty. Raises `ConfigError`."""
    import yaml  # noqa: PLC0415  (costs 30 ms, and most exporters run without a file)

    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        problem = getattr(error, "problem", None) or "holds what no YAML file may hold"
        raise ConfigError(f"{name}:{line}: not YAML: {' '.join(str(problem).split())}") from error
    except RecursionError as error:
        raise ConfigError(f"{name}:1: nested too deeply") from error


def entries(node: Node, name: str, prefix: str, allowed: Sequence[str] | None) -> list[tuple[str, Node, int]]:
    """Key, value node and line of each entry of a mapping; none for a value that is left empty.

    Parameters
    ----------
    node
        The mapping.
    name
        Name of the file.
    prefix
        What stands before its keys in messages, such as ``web.``; empty for the file itself.
    allowed
        Keys that may occur, each once; None allows any text.

    Raises
    ------
    ConfigError
        With file and line.
    """
    import yaml  # noqa: PLC0415

    place = f"{name}:{node.start_mark.line + 1}"
    if not isinstance(node, yaml.MappingNode):
        if isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null":
            return []
        what = prefix.rstrip(".") or "the file"
        keys = f"; allowed keys: {', '.join(allowed)}" if allowed is not None else ""
        raise ConfigError(f"{place}: {what}: must be a mapping{keys}")
    found: list[tuple[str, Node, int]] = []
    seen = set()
    for key_node, value in node.value:
        line = key_node.start_mark.line + 1
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
        if allowed is not None and key not in allowed:
            close = get_close_matches(key, allowed, 1)
            hint = f"did you mean {prefix}{close[0]}?" if close else f"allowed: {', '.join(allowed)}"
            raise ConfigError(f"{name}:{line}: {prefix}{shortened(key)}: unknown key; {hint}")
        if key in seen:
            raise ConfigError(f"{name}:{line}: {prefix}{shortened(key)}: given twice; allowed: once")
        seen.add(key)
        found.append((key, value, line))
    return found


def shortened(text: str) -> str:
    """The text on one line, at most 60 characters."""
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."

"""YAML text -> plain values and the line of each of them. Only the plain part of YAML: no tags, no dates, no merge keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml

from hwsonde_detector.config.values import shown

Path: TypeAlias = tuple[str | int, ...]
MAX_BYTES = 1 << 20
MAX_DEPTH = 20
MAX_VALUES = 100_000
_LONGEST_KEY = 60
_SCALARS = {"tag:yaml.org,2002:" + name for name in ("null", "bool", "int", "float", "str")}
_TEXT = {"tag:yaml.org,2002:" + name for name in ("timestamp", "merge", "value")}
_SAFE = yaml.constructor.SafeConstructor()


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, where, and what would be right (empty where that is obvious)."""

    path: Path
    text: str
    line: int = 0


@dataclass(slots=True)
class Tree:
    """A document: plain values, the line of every key and item, and what was wrong while reading."""

    value: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    values: int = 0

    def line(self, path: Path) -> int:
        """Give the line of the nearest known part of a path, 1 for an empty document."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def dotted(path: Path) -> str:
    """Write a path as people do.

    Examples
    --------
    >>> dotted(("profiles", 1, "name"))
    'profiles[1].name'
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            # A key may be anything, and a message is one line.
            plain = part.isprintable() and len(part) <= _LONGEST_KEY
            text += f"{'.' if text else ''}{part if plain else shown(part)}"
    return text


def read_tree(data: bytes) -> Tree:
    """Read one YAML document.

    Parameters
    ----------
    data
        The file's content, UTF-8.

    Returns
    -------
    Tree
        Its ``problems`` hold syntax errors, keys given twice and values that are not plain; the rest is still there.
    """
    tree = Tree()
    if len(data) > MAX_BYTES:
        tree.problems.append(Problem((), f"the file is larger than {MAX_BYTES} bytes; allowed: a smaller one", 1))
        return tree
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        tree.problems.append(Problem((), "the file is not UTF-8 text", data.count(b"\n", 0, error.start) + 1))
        return tree
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except RecursionError:
        tree.problems.append(Problem((), "the values are nested too deeply", 1))
        return tree
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        tree.problems.append(
            Problem((), f"no valid YAML: {error.problem or error.context}", mark.line + 1 if mark else 1)
        )
        return tree
    except yaml.reader.ReaderError as error:
        tree.problems.append(
            Problem((), "no valid YAML: a control character in the text", text.count("\n", 0, error.position) + 1)
        )
        return tree
    if node is not None:
        tree.value = _plain(node, (), tree)
    return tree


def _plain(node: yaml.Node, path: Path, tree: Tree) -> Any:  # noqa: ANN401 - whatever the document holds
    line = node.start_mark.line + 1
    tree.values += 1
    if tree.values > MAX_VALUES:
        # A few lines of anchors that hold each other stand for billions of values.
        if tree.values == MAX_VALUES + 1:
            tree.problems.append(Problem(path, f"more than {MAX_VALUES} values", line))
        return None
    tree.lines.setdefault(path, line)
    if len(path) > MAX_DEPTH:
        tree.problems.append(Problem(path, "the values are nested too deeply", line))
        return None
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, tree)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, (*path, index), tree) for index, item in enumerate(node.value)]
    return _scalar(node, path, tree)


def _scalar(node: yaml.Node, path: Path, tree: Tree) -> Any:  # noqa: ANN401
    if node.tag not in _SCALARS:
        # Dates and the like are text to us; a tag that somebody wrote on purpose is a mistake.
        if node.tag not in _TEXT:
            tree.problems.append(Problem(path, f"the tag {node.tag} is not known", tree.line(path)))
        return node.value
    try:
        return _SAFE.construct_object(node)
    except (ValueError, KeyError, OverflowError, yaml.YAMLError):
        return node.value


def _mapping(node: yaml.MappingNode, path: Path, tree: Tree) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            tree.problems.append(Problem(path, "a key that is no plain text", line))
            continue
        key = str(key_node.value)
        here = (*path, key)
        if key in found:
            tree.problems.append(Problem(here, f"given twice, first in line {tree.line(here)}", line))
            continue
        tree.lines[here] = line
        found[key] = _plain(value_node, here, tree)
    return found

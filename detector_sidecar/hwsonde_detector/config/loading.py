"""File and flags -> `Config`, or one `ConfigError` that lists every problem with its file, line and key."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from hwsonde_detector.config.constraints import constraints
from hwsonde_detector.config.models import Config, Origin
from hwsonde_detector.config.presets import merged, read_preset
from hwsonde_detector.config.tree import MAX_BYTES, Problem, Tree, dotted, read_tree
from hwsonde_detector.config.tree import Path as KeyPath
from hwsonde_detector.config.values import shown
from hwsonde_detector.errors import ConfigError
from hwsonde_detector.files import read_regular

FLAGS: Mapping[str, KeyPath] = {
    "--web.listen-address": ("web", "listen"),
    "--web.config.file": ("web", "config_file"),
    "--state.dir": ("state", "dir"),
    "--source.url": ("source", "url"),
    "--log.level": ("log", "level"),
    "--log.format": ("log", "format"),
}


def load_config(path: Path | None, flags: Mapping[str, str] | None = None) -> Config:
    """Read and check a configuration.

    Parameters
    ----------
    path
        The YAML file; None: defaults only.
    flags
        Values of command line flags (keys of `FLAGS`) that win over the file.

    Raises
    ------
    ConfigError
        One line a problem: ``FILE:LINE: key.path: what is wrong; allowed: ...``.
    """
    if path is None:
        return parse_config(b"", "flags", Origin(None, dict(flags or {})))
    try:
        data = read_regular(path, MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"{path}: the configuration file cannot be read: {reason}; give a readable file by --config.file"
        ) from None
    return parse_config(data, str(path), Origin(path, dict(flags or {})))


def reload_config(config: Config) -> Config:
    """Read the same file again, with the same flags over it.

    Raises
    ------
    ConfigError
        The new one is wrong; keep the old one.
    """
    return load_config(config.origin.path, config.origin.flags)


def place(config: Config, path: KeyPath) -> str:
    """Where a value comes from, as an error line begins: ``FILE:LINE: key.path``, a flag, or the key alone where it is a default."""
    origin = config.origin
    for flag in origin.flags:
        if FLAGS[flag] == path:
            return flag
    known = path
    while known and known not in origin.lines:
        known = known[:-1]
    return f"{origin.path}:{origin.lines[known]}: {dotted(path)}" if known and origin.path else dotted(path)


def parse_config(data: bytes, name: str, origin: Origin | None = None) -> Config:
    """Check the text of a configuration; see `load_config`."""
    origin = origin or Origin()
    tree = read_tree(data)
    problems = list(tree.problems)
    places: dict[KeyPath, str] = {}
    value = {} if tree.value is None else tree.value
    if not isinstance(value, dict):
        problems.append(
            Problem(
                (),
                f"the file holds {shown(value)}; allowed: keys with values, one of {', '.join(Config.model_fields)}",
                1,
            )
        )
        value = {}
    if isinstance(value.get("preset"), str):
        value = merged(_preset(value["preset"], origin), value)
    for flag, text in origin.flags.items():
        _put(value, FLAGS[flag], text)
        places[FLAGS[flag]] = flag
    config = None
    try:
        config = Config.model_validate(value, context={"base": origin.directory})
    except ValidationError as error:
        problems += [_explain(detail, tree) for detail in error.errors(include_url=False)]
    if config is not None:
        problems += [Problem(path, text, tree.line(path)) for path, text in constraints(config)]
    if problems or config is None:
        # Those of flags first, then as the file has them.
        ordered = sorted(set(problems), key=lambda p: (p.path not in places, p.line, dotted(p.path)))
        raise ConfigError("\n".join(_line(problem, name, places) for problem in ordered))
    config._origin = replace(origin, lines=tree.lines)  # noqa: SLF001 - private to users of Config, set once by its loader
    return config


def _preset(name: str, origin: Origin) -> dict[str, Any]:
    """Sections of a preset, checked by themselves, so that its mistakes are told with its own name and lines.

    Raises
    ------
    ConfigError
        One line a problem.
    """
    called, tree = read_preset(name, origin.directory)
    problems = list(tree.problems)
    try:
        Config.model_validate(tree.value)
    except ValidationError as error:
        problems += [_explain(detail, tree) for detail in error.errors(include_url=False)]
    if problems:
        ordered = sorted(set(problems), key=lambda p: (p.line, dotted(p.path)))
        raise ConfigError("\n".join(_line(problem, called, {}) for problem in ordered))
    return dict(tree.value)


def _put(value: dict[str, Any], path: KeyPath, text: str) -> None:
    for part in path[:-1]:
        inner = value.get(str(part))
        if inner is None:
            inner = value[str(part)] = {}
        if not isinstance(inner, dict):
            return  # the file's own value is reported
        value = inner
    value[str(path[-1])] = text


def _line(problem: Problem, name: str, places: Mapping[KeyPath, str]) -> str:
    if problem.path in places:
        return f"{places[problem.path]}: {problem.text}"
    where = f"{dotted(problem.path)}: " if problem.path else ""
    return f"{name}:{problem.line}: {where}{problem.text}"


def _explain(detail: Any, tree: Tree) -> Problem:  # noqa: ANN401 - pydantic's ErrorDetails
    path: KeyPath = tuple(detail["loc"])
    kind = detail["type"]
    if kind == "rule":
        text = detail["msg"]
    elif kind == "extra_forbidden":
        text = _unknown(path)
    elif kind == "missing":
        text = f"{path[-1]} is missing; allowed: {', '.join(_model_at(path[:-1]).model_fields)}"
        path = path[:-1]
    elif kind in {"model_type", "dict_type", "model_attributes_type"}:
        # The value is not repeated: a token written where a section belongs would end in a log.
        keys = ", ".join(_model_at(path).model_fields) if kind != "dict_type" else "any name with a value"
        text = f"a single value or a list is no section; allowed: keys with values ({keys})"
    else:
        text = f"{shown(detail['input'])}: {detail['msg']}"
    return Problem(path, text, tree.line(path))


def _unknown(path: KeyPath) -> str:
    keys = list(_model_at(path[:-1]).model_fields)
    close = difflib.get_close_matches(str(path[-1]), keys, 1)
    return f"unknown key{f', did you mean {close[0]}?' if close else ''}; allowed: {', '.join(keys)}"


def _model_at(path: KeyPath) -> type[BaseModel]:
    model: type[BaseModel] = Config
    for part in path:
        field = model.model_fields.get(str(part))
        model = section_of(field.annotation if field else None) or model
    return model


def section_of(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401 - any annotation
    """The section that a field of this type holds, None where it holds a value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in {Union, UnionType}:
        for part in get_args(annotation):
            if found := section_of(part):
                return found
    return None

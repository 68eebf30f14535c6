"""Profiles: YAML that says for each metric of an exporter which channels it gives and what counts as a deviation."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from hwsonde_detector.errors import ConfigError
from hwsonde_detector.signals.profiles.roles import unknown_roles, with_roles
from hwsonde_detector.signals.profiles.rules import (
    Aggregate,
    Clock,
    Formula,
    Health,
    HealthRole,
    Part,
    PartSeries,
    Place,
    Profile,
    Reading,
    Rule,
)
from hwsonde_detector.signals.profiles.schema import (
    HealthEntry,
    MetricEntry,
    ProfileFile,
    RatioEntry,
    TermEntry,
)
from hwsonde_detector.signals.profiles.slow import filters, group_rules, setting_rules
from hwsonde_detector.types.samples import SWING

__all__ = ["Profile", "parse_profile"]

_READINGS = {"counter": Reading.RATE, "gauge": Reading.VALUE, "level": Reading.CHANGE}
_COUNTER_HIGH = 9.2e18
_MAX_CHARACTERS = 1 << 20
# What pydantic calls a tuple or a dictionary has other names in YAML.
_WANTED = {
    "tuple_type": "must be a list",
    "model_type": "must be a mapping of keys",
    "dict_type": "must be a mapping of keys",
}


def parse_profile(text: str, name: str) -> Profile:
    """Read a profile.

    Parameters
    ----------
    text
        The YAML.
    name
        File name, for messages; without folder and ``.yaml`` it becomes the profile's name.

    Raises
    ------
    ConfigError
        One line a problem: ``NAME:LINE: key: what is wrong; allowed: ...``.
    """
    if len(text) > _MAX_CHARACTERS:
        raise ConfigError(
            f"{name}:1: the file is larger than {_MAX_CHARACTERS} characters; a profile lists metrics only"
        )
    node, value = _loaded(text, name)
    problems = [f"{name}:{line}: {key}: the key appears twice; leave one" for line, key in _repeated(node)]
    if problems:
        raise ConfigError("\n".join(problems))
    if not isinstance(value, dict):
        raise ConfigError(f"{name}:1: the file must hold a mapping; allowed: {_keys(ProfileFile)}")
    try:
        file = ProfileFile.model_validate(value)
    except ValidationError as error:
        found = sorted(_problem(problem, node) for problem in error.errors(include_url=False))
        raise ConfigError("\n".join(f"{name}:{line}: {text}" for line, text in found)) from error
    rules = tuple(_rules(file))
    problems = [f"{name}:{line}: {text}" for line, text in _without_clock(file, node)]
    for location, why in unknown_roles(file, rules):
        line, path = _place(node, location)
        problems.append(f"{name}:{line}: {path}: {why}")
    if problems:
        raise ConfigError("\n".join(problems))
    short = re.sub(r"\.ya?ml\Z", "", name.rsplit("/", 1)[-1])
    places = tuple(Place(one.metric, one.kind, one.label, one.place) for one in file.places)
    return Profile(
        short,
        with_roles(file, rules),
        file.restart,
        places,
        _health(file.health),
        tuple(setting_rules(file)),
        tuple(group_rules(file)),
    )


def _loaded(text: str, name: str) -> tuple[yaml.Node | None, Any]:
    try:
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            value = loader.construct_document(node) if node is not None else None
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        raise ConfigError(f"{name}:{line}: not YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(f"{name}:1: not YAML: {first}") from error
    return node, value


def _repeated(node: yaml.Node | None, path: str = "", seen: frozenset[int] = frozenset()) -> Iterator[tuple[int, str]]:
    """Lines and paths of keys that appear twice in one mapping; YAML would silently take the last."""
    if node is None or id(node) in seen:
        return
    seen = seen | {id(node)}
    if isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            here = _joined(path, str(key.value))
            if str(key.value) in keys:
                yield key.start_mark.line + 1, here
            keys.add(str(key.value))
            yield from _repeated(value, here, seen)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _repeated(value, f"{path}[{index}]", seen)


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _place(node: yaml.Node | None, location: Sequence[int | str]) -> tuple[int, str]:
    """Line and readable path of a place that pydantic names; what is missing is placed at its parent."""
    line, path = 1, ""
    for step in location:
        found: yaml.Node | None = None
        if isinstance(step, int) and isinstance(node, yaml.SequenceNode) and step < len(node.value):
            found = node.value[step]
            line = found.start_mark.line + 1
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if str(key.value) == str(step):
                    found, line = value, key.start_mark.line + 1
        path = f"{path}[{step}]" if isinstance(step, int) else _joined(path, str(step))
        node = found
    return line, path


def _keys(model: type[BaseModel]) -> str:
    return ", ".join(field.alias or name for name, field in model.model_fields.items())


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    """Models that a type annotation names, however deep."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def _model_at(location: Sequence[int | str]) -> type[BaseModel] | None:
    """Model that a place in the file is checked by."""
    model: type[BaseModel] | None = ProfileFile
    for step in location:
        if isinstance(step, str) and model is not None:
            field = model.model_fields.get(step)
            model = next(_models_in(field.annotation), None) if field is not None else None
    return model


def _problem(problem: ErrorDetails, node: yaml.Node | None) -> tuple[int, str]:
    """Line and one line of text for a problem that pydantic found."""
    location = tuple(problem["loc"])
    line, path = _place(node, location)
    kind, message = problem["type"], str(problem["msg"]).removeprefix("Value error, ")
    if kind == "extra_forbidden":
        model = _model_at(location[:-1])
        allowed = _keys(model) if model is not None else "see the shipped profiles"
        near = difflib.get_close_matches(str(location[-1]), allowed.split(", "), 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return line, f"{path}: unknown key{hint}; allowed: {allowed}"
    if kind == "missing":
        return line, f"{path}: the key is missing"
    if kind in _WANTED:
        return line, f"{path}: {_WANTED[kind]}"
    expected = problem.get("ctx", {}).get("expected")
    if expected is not None:
        allowed = str(expected).replace("'", "").replace(" or ", ", ")
        return line, f"{path}: {problem['input']!r} is not known; allowed: {allowed}"
    return line, f"{path or 'file'}: {message[:1].lower()}{message[1:]}"


def _without_clock(file: ProfileFile, node: yaml.Node | None) -> Iterator[tuple[int, str]]:
    """Lines and texts for entries that name a collector in a file that does not say where to read its time."""
    entries: dict[str, Sequence[MetricEntry | RatioEntry]] = {"metrics": file.metrics, "ratios": file.ratios}
    for key, group in entries.items():
        for index, entry in enumerate(group):
            if entry.collector is not None and file.clock is None:
                line, path = _place(node, (key, index, "collector"))
                yield line, f"{path}: the file names no clock; add clock: METRIC at its top, or leave collector out"


def _rules(file: ProfileFile) -> Iterator[Rule]:
    for entry in file.metrics:
        yield from (_clocked(rule, entry, file) for rule in _of_metric(entry, entry.name.removeprefix(file.prefix)))
    for ratio in file.ratios:
        parts = tuple(_term(term) for term in (ratio.numerator, ratio.denominator))
        yield _clocked(_rule(ratio, ratio.name, Formula.RATIO, parts, minimum=ratio.minimum), ratio, file)


def _health(entry: HealthEntry) -> Health:
    given = ((role, getattr(entry, role.value, None)) for role in HealthRole)
    return Health(
        tuple((role, metric) for role, metric in given if metric is not None),
        tuple(PartSeries(part.metric, part.kind, part.label) for part in entry.parts),
    )


def _clocked(rule: Rule, entry: MetricEntry | RatioEntry, file: ProfileFile) -> Rule:
    if file.clock is None or entry.collector is None:
        return rule
    return replace(rule, clock=Clock(file.clock, entry.collector))


def _of_metric(entry: MetricEntry, base: str) -> Iterator[Rule]:
    if entry.kind == "moments":
        yield from _moments(entry, base)
        return
    base = base.removesuffix("_total") if entry.kind == "counter" else base
    base = f"{base}_change" if entry.kind == "level" else base
    yield _rule(entry, base, Formula.PLAIN, (_part(entry, entry.name, _READINGS[entry.kind]),))


def _moments(entry: MetricEntry, base: str) -> Iterator[Rule]:
    total = replace(_part(entry, f"{entry.name}_sum", Reading.RATE), high=float("inf"))
    count = Part(f"{entry.name}_count", Reading.RATE, total.only, total.excluded, low=0.0)
    for statistic in entry.wanted():
        if statistic == "mean":
            yield _rule(entry, f"{base}_mean", Formula.MEAN, (total, count))
        elif entry.squares is not None:
            metric = entry.squares.metric or f"{entry.name}_squared_deviation_total"
            squares = Part(metric, Reading.RATE, total.only, total.excluded, low=0.0)
            yield _rule(
                entry,
                f"{base}_deviation",
                Formula.DEVIATION,
                (total, count, squares),
                reference=entry.squares.reference,
            )


def _part(entry: MetricEntry | TermEntry, name: str, reading: Reading) -> Part:
    low, high = entry.range if entry.range is not None else (None, None)
    # A counter below zero was never one, and one near 2^63 is a driver's "not available".
    lowest, highest = (0.0, _COUNTER_HIGH) if reading is Reading.RATE else (-float("inf"), float("inf"))
    return Part(
        name,
        reading,
        filters(entry.only),
        filters(entry.excluded),
        Aggregate(entry.aggregate),
        lowest if low is None else low,
        highest if high is None else high,
        entry.rate_limit or float("inf"),
    )


def _term(entry: TermEntry) -> Part:
    return _part(entry, entry.metric, _READINGS[entry.kind])


def _rule(
    entry: MetricEntry | RatioEntry,
    name: str,
    formula: Formula,
    parts: tuple[Part, ...],
    *,
    minimum: float = 0.0,
    reference: float = 0.0,
) -> Rule:
    return Rule(
        name,
        formula,
        parts,
        entry.by,
        entry.subsystem,
        entry.scale.floor,
        entry.scale.logarithmic,
        entry.weight,
        entry.unit,
        entry.device.kind if entry.device is not None else None,
        entry.device.label if entry.device is not None else None,
        minimum,
        reference,
        title=_title(entry, formula),
    )


def _title(entry: MetricEntry | RatioEntry, formula: Formula) -> str:
    """What people call a channel; how much a sampled quantity moves about is called its swing."""
    return f"{SWING}{entry.title}" if entry.title and formula is Formula.DEVIATION else entry.title

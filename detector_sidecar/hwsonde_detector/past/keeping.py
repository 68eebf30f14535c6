"""Anything that the rooms keep between two steps -> a JSON document and arrays, and back, exactly.

The service saves what is worth keeping over a restart and learns the rest anew (`hwsonde_detector.hoststate`). A run over history that
was interrupted must end with the same figures as one that was not, so here everything is kept: every object that the state
consists of, with its attributes, and which of them are the same object. Only plain values, arrays and classes of this package can be kept,
and reading back runs no code of what was read: objects are made without their constructors.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

_PACKAGE = "hwsonde_detector."
_PLAIN = (bool, int, float, str)
_ITEMS: Mapping[str, type[Any]] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_PAIRS: Mapping[str, type[Any]] = {
    "dict": dict, "ordered": OrderedDict, "counter": Counter, "proxy": MappingProxyType,
}  # fmt: skip
_KINDS = {kind: name for name, kind in (*_ITEMS.items(), *_PAIRS.items())}


def freeze(value: object, given: Sequence[object] = ()) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Take a value apart.

    Parameters
    ----------
    value
        What to keep; without cycles.
    given
        Objects that whoever reads it back will have: they are kept by their number only.

    Returns
    -------
    tuple
        JSON document (NaN and Inf may be in it) and arrays by name.

    Raises
    ------
    TypeError
        Something in it cannot be kept; the text names its class.
    """
    freezer = _Freezer(given)
    root = freezer.value(value)
    return {"root": root, "nodes": freezer.nodes}, freezer.arrays


def thaw(document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], given: Sequence[object] = ()) -> Any:  # noqa: ANN401
    """Put together again what `freeze` took apart.

    Raises
    ------
    ValueError, KeyError, IndexError, TypeError, AttributeError, ImportError
        The document is not of `freeze`, or of another version of the program.
    """
    thawer = _Thawer(arrays, given)
    for node in document["nodes"]:
        thawer.add(node)
    return thawer.value(document["root"])


class _Freezer:
    """Numbers objects in an order in which each comes after all that it consists of."""

    def __init__(self, given: Sequence[object]) -> None:
        self.nodes: list[Any] = []
        self.arrays: dict[str, NDArray[Any]] = {}
        self._given = {id(one): number for number, one in enumerate(given)}
        # With the object itself, so that no other one takes over its identity meanwhile.
        self._known: dict[int, tuple[int, object]] = {}

    def value(self, one: object) -> Any:  # noqa: ANN401 - JSON
        """A plain value as it is, anything else as the number of its node in a list."""
        if one is None or type(one) in _PLAIN:
            return one
        if id(one) not in self._known:
            node = self._node(one)
            self._known[id(one)] = len(self.nodes), one
            self.nodes.append(node)
        return [self._known[id(one)][0]]

    def _node(self, one: Any) -> list[Any]:  # noqa: ANN401, C901, PLR0911 - one line a kind
        kind = type(one)
        if id(one) in self._given:
            return ["given", self._given[id(one)]]
        if isinstance(one, Enum):
            return ["enum", _name(kind), self.value(one.value)]
        if kind is np.ndarray or isinstance(one, np.generic):
            if one.dtype.hasobject:
                raise TypeError("an array of objects cannot be kept")
            self.arrays[name := str(len(self.arrays))] = np.asarray(one)
            return ["array" if kind is np.ndarray else "scalar", name]
        if kind is deque:
            return ["deque", one.maxlen, self._values(one)]
        if kind is re.Pattern:
            return ["pattern", self.value(one.pattern), one.flags]
        if kind is slice:
            return ["slice", self._values((one.start, one.stop, one.step))]
        word = _KINDS.get(kind)
        if word in _ITEMS:
            return [word, self._values(one)]
        if word in _PAIRS:
            return [word, [[self.value(key), self.value(item)] for key, item in one.items()]]
        if issubclass(kind, tuple):
            return ["named", _name(kind), self._values(one)]
        return ["object", _name(kind), {name: self.value(item) for name, item in _attributes(one).items()}]

    def _values(self, items: Iterable[object]) -> list[Any]:
        return [self.value(item) for item in items]


def _attributes(one: object) -> dict[str, Any]:
    """All that is set of an object, with and without ``__dict__``."""
    found = dict(getattr(one, "__dict__", {}))
    for kind in type(one).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(one, name):
                found[name] = getattr(one, name)
    return found


def _name(kind: type[Any]) -> str:
    if not kind.__module__.startswith(_PACKAGE) or "<" in kind.__qualname__:
        raise TypeError(f"an object of {kind.__module__}.{kind.__qualname__} cannot be kept")
    return f"{kind.__module__}:{kind.__qualname__}"


class _Thawer:
    """Makes the objects of nodes, one after the other."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]], given: Sequence[object]) -> None:
        self._arrays = arrays
        self._given = given
        self._made: list[Any] = []
        self._makers: Mapping[str, Callable[..., Any]] = {
            "array": lambda name: self._arrays[name],
            "scalar": lambda name: self._arrays[name][()],
            "given": lambda number: self._given[number],
            "deque": lambda longest, parts: deque(self._values(parts), longest),
            "slice": lambda parts: slice(*self._values(parts)),
            "pattern": lambda text, flags: re.compile(self.value(text), flags),
            "enum": lambda name, part: _class(name, Enum)(self.value(part)),
            "named": lambda name, parts: tuple.__new__(_class(name, tuple), self._values(parts)),
            "object": self._object,
        }

    def value(self, part: Any) -> Any:  # noqa: ANN401 - JSON in, anything out
        """What `_Freezer.value` was given."""
        return self._made[part[0]] if isinstance(part, list) else part

    def add(self, node: Sequence[Any]) -> None:
        """Make the next object."""
        word, *rest = node
        if word in _ITEMS:
            self._made.append(_ITEMS[word](self._values(rest[0])))
        elif word in _PAIRS:
            pairs = {self.value(key): self.value(item) for key, item in rest[0]}
            self._made.append(pairs if word == "dict" else _PAIRS[word](pairs))
        else:
            self._made.append(self._makers[word](*rest))

    def _values(self, parts: Iterable[Any]) -> list[Any]:
        return [self.value(part) for part in parts]

    def _object(self, name: str, attributes: Mapping[str, Any]) -> Any:  # noqa: ANN401
        one = object.__new__(_class(name, object))
        for attribute, part in attributes.items():
            # Past frozen dataclasses, which refuse it to everybody else.
            object.__setattr__(one, attribute, self.value(part))
        return one


def _class(name: str, base: type[Any]) -> type[Any]:
    """A class of this package by its name; raises ValueError where there is none such under ``base``."""
    module, _, path = name.partition(":")
    found: Any = None
    if module.startswith(_PACKAGE):
        found = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    if not isinstance(found, type) or found.__module__ != module or not issubclass(found, base):
        raise ValueError(f"{name!r} is none of this program's classes")
    return found

"""What is taken apart is put together again as it was."""

from __future__ import annotations

import io
import json
import re
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.decision.episodes import Persistence
from hwsonde_detector.decision.learning import Memory
from hwsonde_detector.past.keeping import freeze, thaw
from hwsonde_detector.signals.profiles.rules import Reading
from hwsonde_detector.telemetry import TICKS, Sample
from hwsonde_detector.types import Channel, Device, Entity, Frame, Subsystem


def through(value, given_objects=()):
    """Keep as on disk: JSON text and npy."""
    document, arrays = freeze(value, given_objects)
    kept = {}
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, array, allow_pickle=False)
        buffer.seek(0)
        kept[name] = np.lib.format.read_array(buffer, allow_pickle=False)
    return thaw(json.loads(json.dumps(document, sort_keys=True)), kept, given_objects)


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8"))
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.lists(inner, max_size=4).map(deque)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=4)
        | st.dictionaries(st.tuples(st.integers(), st.text(max_size=3)), inner, max_size=3)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_plain_values_of_any_shape(value):
    found = through(value)
    assert found == value
    assert repr(found) == repr(value)  # the kinds as well, True and 1 apart


def test_what_rooms_are_made_of():
    entity = Entity((("node", "n1"),))
    channel = Channel("a", Subsystem.CPU, Device("disk", "sda"), floor=float("inf"))
    memory = Memory()
    memory.append(Frame(entity, (channel,), np.arange(3, dtype=np.int64), np.array([[1.0], [np.nan], [3.0]])), 5)
    persistence = Persistence(deque([True, False], maxlen=5), 2, open=True)
    value = {
        entity: [memory, persistence],
        Subsystem.GPU: (Reading.RATE, frozenset({1, 2}), {"x"}),
        "more": [re.compile("a.*", re.IGNORECASE), Counter("aab"), OrderedDict(b=1, a=2), MappingProxyType({"k": 1})],
        "numbers": [np.float32(0.1), np.int64(7), np.bool_(True), float("nan"), -0.0],
        "named": Sample(TICKS, (), 1.5),
    }
    found = through(value)
    assert list(found)[:2] == [entity, Subsystem.GPU]
    kept, settled = found[entity]
    assert vars(kept).keys() == vars(memory).keys()
    assert kept.channels == (channel,)
    np.testing.assert_array_equal(kept.values, memory.values)
    assert kept.values.dtype == np.float32
    assert settled == persistence
    assert settled.recent.maxlen == 5
    assert found[Subsystem.GPU] == value[Subsystem.GPU]
    assert type(found[Subsystem.GPU][0]) is Reading
    assert found["more"] == value["more"]
    assert [type(one) for one in found["more"]] == [type(one) for one in value["more"]]
    assert repr(found["numbers"]) == repr(value["numbers"])
    assert found["named"] == value["named"]
    assert type(found["named"]) is Sample


def test_one_object_stays_one_object():
    shared = [1]
    array = np.zeros(3)
    first, second, (third, fourth) = through([shared, shared, (array, array)])
    assert first is second
    assert third is fourth
    first.append(2)
    assert second == [1, 2]


def test_order_of_memory_stays():
    # Sums of products may round differently over the same numbers in another order.
    plain, transposed = np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(2, 3).T
    kept_plain, kept_transposed = through([plain, transposed])
    assert kept_plain.flags.c_contiguous
    assert kept_transposed.flags.f_contiguous
    np.testing.assert_array_equal(kept_transposed, transposed)


def test_what_is_given_is_not_kept_but_found_again():
    profile = object()  # could not be kept itself
    found = through({"plan": profile, "again": [profile]}, (profile,))
    assert found["plan"] is found["again"][0] is profile


@dataclass
class Foreign:
    """Not of the package."""

    value: int = field(default=3)


@pytest.mark.parametrize(
    "value",
    [Foreign(), lambda: 1, object(), {"x": defaultdict(list)}, io.BytesIO(), b"bytes", np.array([object()]), range(3), re.NOFLAG],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_cannot_be_kept_is_said(value):
    with pytest.raises(TypeError, match="cannot be kept"):
        freeze(value)


@pytest.mark.parametrize(
    "node",
    [
        ["object", "os:system", {}],
        ["object", "subprocess:Popen", {"args": "true"}],
        ["object", "hwsonde_detector.types:np", {}],
        ["object", "hwsonde_detector.files:Path", {}],
        ["object", "hwsonde_detector.nothing:Here", {}],
        ["enum", "hwsonde_detector.types:Entity", 1],
        ["named", "hwsonde_detector.types:Entity", []],
        ["array", "7"],
        ["given", 4],
        ["eval", "1"],
        ["list", [[99]]],
        [],
    ],
)
def test_a_document_of_somebody_else_is_refused(node):
    with pytest.raises((ValueError, KeyError, IndexError, TypeError, AttributeError, ImportError)):
        thaw({"root": [0], "nodes": [node]}, {})

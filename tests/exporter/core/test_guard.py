import itertools
from decimal import Decimal
from fractions import Fraction

from hwsonde_exporter.guard import Guard
from hwsonde_exporter.metric import Sample
from tests.exporter.core.fakes import HEAT, OTHER, WIDGETS


def test_sound_samples_pass_and_the_shape_is_kept() -> None:
    guard = Guard((WIDGETS, HEAT), 10)
    first, dropped = guard.block([Sample(WIDGETS, ("a",), 1), Sample(HEAT, (), 2.5)])
    again, _ = guard.block(iter([Sample(WIDGETS, ("a",), 2), Sample(HEAT, (), 3.5)]))
    assert dropped == {}
    assert again.shape is first.shape
    assert again.values == (2, 3.5)


def test_what_is_not_declared_is_refused() -> None:
    samples = [
        Sample(OTHER, (), 1),
        Sample(WIDGETS, (), 1),
        Sample(WIDGETS, ("a", "b"), 1),
        Sample(HEAT, (), 1, "_sum"),
        Sample(HEAT, (), 2),
    ]
    block, dropped = Guard((WIDGETS, HEAT), 10).block(samples)
    assert [(sample.metric, sample.value) for sample in block.samples] == [(HEAT, 2)]
    assert dropped == {"undeclared": 4}


def test_labels_that_are_no_texts_are_refused() -> None:
    block, dropped = Guard((WIDGETS,), 10).block([Sample(WIDGETS, (3,), 1)])  # type: ignore[arg-type]
    assert block.samples == []
    assert dropped == {"undeclared": 1}


def test_values_that_are_no_numbers_are_refused_and_odd_numbers_made_plain() -> None:
    guard = Guard((WIDGETS,), 10)
    values = [None, "5", True, Fraction(1, 2), Decimal(3), 4]
    block, dropped = guard.block([Sample(WIDGETS, (str(place),), value) for place, value in enumerate(values)])  # type: ignore[arg-type]
    assert block.values == (1, 0.5, 4)
    assert {type(value) for value in block.values} == {int, float}
    assert dropped == {"value": 3}


def test_only_values_that_are_no_numbers_give_an_empty_block() -> None:
    block, dropped = Guard((WIDGETS,), 10).block([Sample(WIDGETS, ("a",), None)])  # type: ignore[arg-type]
    assert (block.values, dropped) == ((), {"value": 1})


def test_the_series_limit_keeps_the_first_ones_even_of_an_endless_answer() -> None:
    endless = (Sample(WIDGETS, (str(number),), number) for number in itertools.count())
    block, dropped = Guard((WIDGETS,), 10).block(endless)
    assert [sample.value for sample in block.samples] == list(range(10))
    assert dropped == {"limit": 90}


def test_a_new_limit_is_obeyed_though_the_shape_is_known() -> None:
    guard = Guard((WIDGETS,), 10)
    samples = [Sample(WIDGETS, (str(number),), number) for number in range(5)]
    guard.block(samples)
    guard.limit = 3
    block, dropped = guard.block(samples)
    assert (block.shape.size, dropped) == (3, {"limit": 2})

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.signals.entities import (
    entity_from_instance,
    entity_of,
    host_of,
    plan_split,
    target_of,
)
from hwsonde_detector.types import Entity, SampleBatch
from tests.detector.signals.build import batch_of, series

LABELS = ("cluster", "node")


@pytest.mark.parametrize(
    ("instance", "host"),
    [
        ("n17:9880", "n17"),
        ("10.0.0.1:9100", "10.0.0.1"),
        ("[fe80::1]:9100", "fe80::1"),
        ("[::1]", "::1"),
        ("fe80::1", "fe80::1"),
        ("n17", "n17"),
        ("n17:", "n17"),
        ("n17:http", "n17:http"),
        ("[broken:9100", "[broken:9100"),
        ("", ""),
    ],
)
def test_host_part_of_instance(instance, host):
    assert host_of(instance) == host


def test_labels_in_the_configured_order():
    one = series("up", node="n1", cluster="c", job="j", instance="n9:1")
    assert entity_of(one, LABELS) == Entity((("cluster", "c"), ("node", "n1")))
    assert entity_of(one, ("node", "cluster")) == Entity((("node", "n1"), ("cluster", "c")))
    assert str(entity_of(one, LABELS)) == "c/n1"
    assert not entity_from_instance(one, LABELS)


@pytest.mark.parametrize("labels", [{}, {"node": ""}])
def test_missing_or_empty_node_falls_back_on_instance(labels):
    one = series("up", instance="n9:1", **labels)
    assert entity_of(one, LABELS) == Entity((("cluster", ""), ("node", "n9")))
    assert entity_from_instance(one, LABELS)


def test_a_missing_cluster_stays_empty():
    one = series("up", node="n1", instance="n9:1")
    assert entity_of(one, LABELS) == Entity((("cluster", ""), ("node", "n1")))
    assert not entity_from_instance(one, LABELS)


def test_without_node_the_last_label_names_the_host():
    one = series("up", instance="n9:1", rack="r")
    assert entity_of(one, ("rack", "hostname")) == Entity((("rack", "r"), ("hostname", "n9")))
    assert entity_from_instance(one, ("rack", "hostname"))


def test_nothing_to_fall_back_on():
    assert entity_of(series("up"), LABELS) == Entity((("cluster", ""), ("node", "")))
    assert not entity_from_instance(series("up"), LABELS)
    assert entity_of(series("up"), ()) == Entity(())


def test_target():
    assert target_of(series("up", instance="n9:1", job="j")) == ("j", "n9:1")
    assert target_of(series("up")) == ("", "")


SAMPLES = st.dictionaries(
    st.builds(
        lambda name, node, instance: series(name, node=node, instance=instance),
        st.sampled_from("abc"),
        st.sampled_from(["", "n1", "n2", "n3"]),
        st.sampled_from(["n1:1", "n2:1"]),
    ),
    st.lists(st.tuples(st.integers(0, 99), st.floats(allow_nan=False)), max_size=4),
    max_size=12,
)


@given(SAMPLES)
def test_split_keeps_every_sample_with_its_entity(samples):
    batch = batch_of(samples)
    parts = plan_split(batch.series, LABELS).apply(batch)
    assert list(parts) == sorted(parts)
    seen = {}
    for entity, part in parts.items():
        assert list(part.series) == sorted(part.series)
        for number, one in enumerate(part.series):
            assert entity_of(one, LABELS) == entity
            inside = slice(part.offsets[number], part.offsets[number + 1])
            seen[one] = list(zip(part.times[inside].tolist(), part.values[inside].tolist(), strict=True))
    assert seen == {one: pairs for one, pairs in samples.items() if pairs}


@given(SAMPLES)
def test_a_kept_split_gives_the_same(samples):
    batch = batch_of(samples)
    split = plan_split(batch.series, LABELS)
    later = batch_of({one: [(when + 100, -value) for when, value in pairs] for one, pairs in samples.items()})
    assert split.fits(later, list(LABELS))
    fresh, kept = plan_split(later.series, LABELS).apply(later), split.apply(later)
    assert list(fresh) == list(kept)
    for entity, part in fresh.items():
        assert part.series == kept[entity].series
        np.testing.assert_array_equal(part.values, kept[entity].values)
    assert not split.fits(batch, ("node",))


def test_empty_batch_has_no_entity():
    empty = SampleBatch.empty()
    assert plan_split(empty.series, LABELS).apply(empty) == {}

"""Decoding: equal to a slow reader, and never anything but a `SourceError` on what is garbled."""

from __future__ import annotations

import gc
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.errors import SourceError, SourceGarbled, SourcePartial, SourceRefused
from hwsonde_detector.sources.decode import (
    SEPARATOR,
    SeriesTable,
    decode_answers,
    decode_matrix,
    later_than,
    merge,
    one_line,
)
from hwsonde_detector.types import SampleBatch, Series
from tests.detector.sources.answers import EMPTY, answer, identity, naive

NAMES = st.sampled_from(["up", "hwsonde_cpu_seconds_total", "a", "b_total"])
LABELS = st.dictionaries(st.sampled_from(["node", "cpu", "mode", "device"]), st.text(max_size=5), max_size=3)
TIMES = st.lists(st.integers(0, 4_000_000_000_000), max_size=8, unique=True).map(sorted)
VALUES = st.floats(allow_nan=True, allow_infinity=True)


@st.composite
def series_lists(draw):
    keys = draw(
        st.lists(st.tuples(NAMES, LABELS), max_size=8, unique_by=lambda key: (key[0], tuple(sorted(key[1].items()))))
    )
    return [(identity(name, **labels), [(ms, draw(VALUES)) for ms in draw(TIMES)]) for name, labels in keys]


def as_dict(batch: SampleBatch) -> dict:
    found = {}
    for index, one in enumerate(batch.series):
        part = slice(batch.offsets[index], batch.offsets[index + 1])
        found[one.name, one.labels] = list(zip(batch.times[part].tolist(), batch.values[part].tolist(), strict=True))
    return found


def same(left: dict, right: dict) -> bool:
    return repr(sorted(left.items())) == repr(sorted(right.items()))  # repr: NaN equals NaN


def check_shape(batch: SampleBatch) -> None:
    assert batch.offsets.dtype == batch.times.dtype == np.int64
    assert batch.values.dtype == np.float64
    assert batch.offsets[0] == 0
    assert batch.offsets[-1] == batch.times.size == batch.values.size
    assert len(batch.offsets) == len(batch.series) + 1
    assert list(batch.series) == sorted(set(batch.series))
    assert all(np.diff(batch.offsets) > 0)


def check_outcome(body: bytes) -> None:
    """Good samples, or one short line."""
    line = ""
    try:
        check_shape(decode_answers(body, -1)[0])
    except SourceError as error:
        line = str(error)
    assert "\n" not in line
    assert len(line) < 400


@given(series_lists(), st.integers(0, 4_000_000_000_000))
def test_equals_the_slow_reader(series, since_ms):
    body = answer(series)
    batch, warnings = decode_answers(body, since_ms)
    check_shape(batch)
    assert same(as_dict(batch), naive(body, since_ms))
    assert warnings == ()


@given(st.lists(series_lists(), min_size=1, max_size=4))
def test_a_table_of_known_series_changes_no_result(answers):
    known = SeriesTable()
    for series in [*answers, answers[0]]:
        body = answer(series)
        assert same(as_dict(decode_matrix(body, known)[0]), as_dict(decode_matrix(body)[0]))


@given(series_lists(), st.randoms())
def test_the_order_of_an_answer_changes_no_result(series, random):
    shuffled = series.copy()
    random.shuffle(shuffled)
    one, other = decode_matrix(answer(series))[0], decode_matrix(answer(shuffled))[0]
    assert one.series == other.series
    assert one.times.tobytes() == other.times.tobytes()
    assert one.values.tobytes() == other.values.tobytes()


@given(series_lists(), st.integers(1, 3))
def test_several_answers_equal_one(series, parts):
    raw = SEPARATOR.join(answer(series[part::parts]) for part in range(parts))
    batch, _ = decode_answers(raw, -1)
    check_shape(batch)
    assert same(as_dict(batch), as_dict(decode_answers(answer(series), -1)[0]))


@given(series_lists(), st.integers(min_value=0), st.binary(max_size=3))
def test_truncated_or_overwritten_answers_are_told(series, place, rubbish):
    body = answer(series)
    for damaged in (
        body[: place % len(body)],
        body[: place % len(body)] + rubbish + body[place % len(body) + len(rubbish) :],
    ):
        check_outcome(damaged)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["metric", "values", "histograms", "__name__", "resultType", "result", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON, st.sampled_from(["result", "data", "document", "metric", "values", "warnings"]))
def test_json_of_any_other_shape_is_garbled(value, place):
    document: object = {
        "status": "success",
        "data": {"resultType": "matrix", "result": [{"metric": {"__name__": "a"}, "values": [[1, "1"]]}]},
    }
    if place == "document":
        document = value
    elif place in {"data", "warnings"}:
        document[place] = value
    elif place == "result":
        document["data"]["result"] = value
    else:
        document["data"]["result"][0][place] = value
    check_outcome(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "nothing at all"),
        (b"<!DOCTYPE html><title>Login</title>", "HTML"),
        (b"  <html>", "HTML"),
        (b"no healthy upstream", "text that is no JSON"),
        (answer([(identity("a"), [(1, 1.0)])])[:-10], "truncated"),
        (b'{"status": success}', "damaged JSON"),
        (b"\xff\xfe{}", "text that is no JSON"),
        (b"[1]", "something else"),
        (b'{"status": "success"}', "another shape"),
        (b'{"status": "success", "data": {"resultType": "vector", "result": []}}', "a vector instead of a matrix"),
        (
            b'{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {"__name__": "a"}}]}}',
            "without values",
        ),
        (answer([((("node", "a"),), [(1, 1.0)])]), "another shape"),
        (answer([(identity("a"), [(1, 1.0)]), (identity("a"), [(1, 1.0)])]), "the series a twice"),
        (
            b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"a"},"values":[[1e300,"1"]]}]}}',
            "time that is none",
        ),
        (
            b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"a"},"values":[[1,"one"]]}]}}',
            "another shape",
        ),
        (
            b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"a","b":1},"values":[[1,"1"]]}]}}',
            "no text",
        ),
        (b"[" * 100_000, "damaged JSON"),
    ],
)
def test_what_was_got_instead_is_named(body, says):
    with pytest.raises(SourceGarbled, match=says) as caught:
        decode_matrix(body)
    assert "\n" not in str(caught.value)


def test_an_answer_that_is_cut_elsewhere_each_time_is_told_alike():
    body = answer([(identity("a"), [(1, 1.0), (2, 1.0), (3, 1.0)])])
    said = set()
    for end in range(len(body) - 20, len(body) - 10):
        with pytest.raises(SourceGarbled, match="truncated") as caught:
            decode_matrix(body[:end])
        said.add(str(caught.value))
    assert len(said) == 1


def test_a_failed_decode_does_not_spoil_the_table():
    known = SeriesTable()
    first = answer([(identity("b"), [(1000, 2.0)]), (identity("a"), [(1000, 1.0)])])
    decode_matrix(first, known)
    with pytest.raises(SourceGarbled):
        decode_matrix(answer([(identity("a"), [(1, 1.0)]), (identity("a"), [(1, 1.0)])]), known)
    assert as_dict(decode_matrix(first, known)[0]) == {("a", ()): [(1000, 1.0)], ("b", ()): [(1000, 2.0)]}


def test_an_error_with_status_200_is_a_refusal():
    with pytest.raises(SourceRefused, match="execution: too many samples"):
        decode_matrix(b'{"status":"error","errorType":"execution","error":"too many\\nsamples"}')


@pytest.mark.parametrize(
    "warning",
    [
        'PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: "x" (1:6)',
        'PromQL warning: encountered a mix of histograms and floats for metric name "x"',
        "metric might not be a counter",
    ],
)
def test_harmless_warnings_are_handed_on(warning):
    batch, warnings = decode_matrix(answer([(identity("a"), [(1000, 1.0)])], warnings=[warning]))
    assert len(batch.series) == 1
    assert warnings == (warning,)


def test_infos_are_harmless():
    assert decode_matrix(answer([], infos=["PromQL info: x"]))[1] == ("PromQL info: x",)


@pytest.mark.parametrize(
    "more",
    [
        {"warnings": ["No StoreAPIs matched for this query"]},
        {"warnings": ["PromQL info: x", "receive series from Addr: x: rpc error: code = Unavailable", "another"]},
        {"warnings": ["results truncated due to limit"]},
        {"isPartial": True},
    ],
)
def test_partial_answers_are_not_scored(more):
    with pytest.raises(SourcePartial, match="partial"):
        decode_matrix(answer([(identity("a"), [(1000, 1.0)])], **more))


def test_native_histograms_are_left_out_and_told():
    document = json.loads(answer([(identity("a"), [(1000, 1.0)])]))
    document["data"]["result"].append({"metric": {"__name__": "h"}, "histograms": [[1, {"count": "1"}]]})
    batch, warnings = decode_matrix(json.dumps(document).encode())
    assert [one.name for one in batch.series] == ["a"]
    assert warnings == ("1 native histograms were left out",)


def test_two_replicas_in_one_series_are_put_in_order():
    body = answer([(identity("a"), [(2000, 1.0), (1000, 2.0), (2000, 3.0)]), (identity("b"), [(500, 0.0)])])
    assert as_dict(decode_matrix(body)[0]) == {("a", ()): [(1000, 2.0), (2000, 3.0)], ("b", ()): [(500, 0.0)]}


def test_the_collector_is_left_as_it_was():
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        try:
            decode_matrix(EMPTY)
            with pytest.raises(SourceGarbled):
                decode_matrix(b"")
            assert gc.isenabled() == enabled
        finally:
            gc.enable()


def test_merging_refuses_a_series_of_two_answers():
    batch = decode_matrix(answer([(identity("a"), [(1000, 1.0)])]))[0]
    with pytest.raises(SourceGarbled, match="twice"):
        merge([batch, batch])


def test_nothing_is_left_of_old_samples():
    batch = decode_matrix(answer([(identity("a", node="x"), [(1000, 1.0)])]))[0]
    assert batch.series == (Series("a", (("node", "x"),)),)
    empty = later_than(batch, 1000)
    assert empty.series == ()
    assert empty.offsets.tolist() == [0]


@given(st.text(), st.integers(10, 300))
def test_foreign_text_becomes_one_short_line(text, longest):
    line = one_line(text, longest)
    assert len(line) <= longest
    assert all(letter.isprintable() for letter in line)

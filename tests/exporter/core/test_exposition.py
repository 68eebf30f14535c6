import math
import random
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, SummaryMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from hwsonde_exporter.exposition import Format, block_of, compile_shape, negotiate, render
from hwsonde_exporter.metric import Kind, Metric, Sample
from tests.exporter.core.naive import naive_text

TABLE = (
    Metric(
        "hwsonde_a_seconds_total", Kind.COUNTER, 'A "counter" with 100 % of \\ and\nlines.', ("cpu", "mode"), "seconds"
    ),
    Metric("hwsonde_b_bytes", Kind.GAUGE, "A gauge.", (), "bytes"),
    Metric("hwsonde_c_info", Kind.GAUGE, "An info row.", ("value",)),
    Metric("hwsonde_d_sampled_ratio", Kind.SUMMARY, "Moments.", ("device",), "ratio"),
    Metric("hwsonde_e_seconds", Kind.HISTOGRAM, "Tails.", ("device",), "seconds", buckets=(0.00002, 0.0005, 1, 2.5)),
    Metric("hwsonde_f_bytes", Kind.HISTOGRAM, "Tails of all.", (), "bytes", buckets=(1024, 1 << 30)),
)
LABEL_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8) | st.sampled_from(
    ["%", "%s", '"', "\\n", "a\nb", "é"]
)
NUMBERS = st.integers(0, 2**70) | st.floats(0, allow_nan=False, allow_infinity=False)


def histogram(metric: Metric, labels: tuple[str, ...], observations: list[float]) -> list[Sample]:
    """All samples of a histogram of these observations, counted the slow way."""
    buckets = [
        Sample(metric, (*labels, bound), sum(value <= float(bound) for value in observations), "_bucket")
        for bound in metric.bounds
    ]
    return [
        *buckets,
        Sample(metric, labels, sum(observations), "_sum"),
        Sample(metric, labels, len(observations), "_count"),
    ]


@st.composite
def samples(draw: st.DrawFn) -> list[Sample]:
    found = []
    for metric in draw(st.lists(st.sampled_from(TABLE), max_size=25)):
        labels = tuple(draw(LABEL_TEXT) for _ in metric.labels)
        if metric.kind is Kind.HISTOGRAM:
            found += draw(st.permutations(histogram(metric, labels, draw(st.lists(st.integers(0, 2**40), max_size=5)))))
            continue
        suffix = draw(st.sampled_from(["_sum", "_count"])) if metric.kind is Kind.SUMMARY else ""
        found.append(Sample(metric, labels, draw(NUMBERS), suffix))
    return found


def oracle_registry(given_samples: list[Sample]) -> CollectorRegistry:
    """The same samples as prometheus_client's families."""

    class Collected:
        def collect(self):
            for metric in dict.fromkeys(sample.metric for sample in given_samples):
                kind = {
                    Kind.COUNTER: CounterMetricFamily,
                    Kind.GAUGE: GaugeMetricFamily,
                    Kind.SUMMARY: SummaryMetricFamily,
                    Kind.HISTOGRAM: HistogramMetricFamily,
                }[metric.kind]
                family = kind(metric.name, metric.help, labels=metric.labels)
                own = [sample for sample in given_samples if sample.metric is metric]
                groups = list(dict.fromkeys(sample.labels[: len(metric.labels)] for sample in own))
                for sample in sorted(own, key=lambda sample: order(sample, groups)):
                    pairs = dict(zip(metric.label_names(sample.suffix), sample.labels, strict=True))
                    family.add_sample(metric.name + sample.suffix, pairs, sample.value)
                yield family

    registry = CollectorRegistry()
    registry.register(Collected())
    return registry


def order(sample: Sample, groups: list[tuple[str, ...]]) -> tuple[float, ...]:
    group = groups.index(sample.labels[: len(sample.metric.labels)])
    if sample.metric.kind is not Kind.HISTOGRAM:
        return (group,)
    return (
        group,
        ("_bucket", "_sum", "_count").index(sample.suffix),
        float(sample.labels[-1] if sample.suffix == "_bucket" else 0),
    )


def parsed(families) -> dict[str, tuple[str, str, dict]]:
    return {
        family.name: (
            family.type,
            family.documentation,
            {(sample.name, tuple(sorted(sample.labels.items()))): float(sample.value) for sample in family.samples},
        )
        for family in families
    }


def rendered(given_samples: list[Sample], form: Format = Format.TEXT) -> bytes:
    return render([block_of(given_samples)], form)


def unique(given_samples: list[Sample]) -> list[Sample]:
    return list({(s.metric.name, s.labels, s.suffix): s for s in reversed(given_samples)}.values())[::-1]


@given(samples())
@settings(max_examples=150, deadline=None)
def test_text_means_what_prometheus_client_says(given_samples: list[Sample]) -> None:
    ours = parsed(parse_text(rendered(given_samples).decode()))
    theirs = parsed(parse_text(generate_latest(oracle_registry(unique(given_samples))).decode()))
    assert ours == theirs


@given(samples())
@settings(max_examples=150, deadline=None)
def test_openmetrics_means_what_prometheus_client_says(given_samples: list[Sample]) -> None:
    distinct = unique(given_samples)
    text = rendered(given_samples, Format.OPENMETRICS).decode()
    assert text.endswith("# EOF\n")
    # prometheus_client refuses counts that are no integers, as it must; ours come from collectors that count.
    ours = parsed(parse_openmetrics(_whole_counts(text)))
    theirs = parsed(parse_openmetrics(_whole_counts(generate_openmetrics(oracle_registry(distinct)).decode())))
    assert ours == theirs


def _whole_counts(text: str) -> str:
    return "".join(
        f"{line.rsplit(' ', 1)[0]} 7\n" if line.startswith("hwsonde_d_sampled_ratio_count") else f"{line}\n"
        for line in text.removesuffix("\n").split("\n")
    )


@given(samples())
@settings(max_examples=150, deadline=None)
def test_text_is_the_naive_text(given_samples: list[Sample]) -> None:
    assert rendered(given_samples).decode() == naive_text(given_samples)


def test_families_are_contiguous_and_described_once_whatever_the_order() -> None:
    many = [Sample(TABLE[0], (str(cpu), "user"), cpu) for cpu in range(20)] + [Sample(TABLE[1], (), 1.5)]
    many += [Sample(TABLE[3], (str(n),), n, suffix) for n in range(5) for suffix in ("_sum", "_count")]
    many += histogram(TAILS, ("a",), [1.0]) + histogram(TAILS, ("b",), [2.0])
    random.Random(3).shuffle(many)
    names = [line.split("{")[0].split(" ")[0] for line in rendered(many).decode().splitlines() if line[0] != "#"]
    families = [re.sub("_(bucket|sum|count)$", "", name) for name in names]
    changes = sum(before != after for before, after in pairwise(families))
    assert changes == 3
    assert rendered(many).count(b"# TYPE hwsonde_a_seconds_total ") == 1


def test_integers_stay_integers_and_floats_keep_their_digits() -> None:
    values = {
        5: b"5",
        2**64: b"18446744073709551616",
        0.1: b"0.1",
        1e22: b"1e+22",
        math.nan: b"NaN",
        math.inf: b"+Inf",
        -math.inf: b"-Inf",
    }
    for value, text in values.items():
        assert rendered([Sample(TABLE[1], (), value)]).splitlines()[-1] == b"hwsonde_b_bytes " + text


def test_an_integer_beyond_every_float_is_infinite() -> None:
    assert rendered([Sample(TABLE[1], (), 10**400), Sample(TABLE[2], ("x",), 0.5)]).count(b"+Inf") == 1


def test_text_that_is_no_unicode_does_not_cost_the_scrape() -> None:
    raw = b"disk\xff".decode(errors="surrogateescape")
    assert b'value="disk\\\\udcff"' in rendered([Sample(TABLE[2], (raw,), 1)])


def test_duplicates_are_counted_and_the_first_one_is_kept() -> None:
    block = block_of([Sample(TABLE[1], (), 1), Sample(TABLE[2], ("x",), 2), Sample(TABLE[1], (), 3)])
    assert block.shape.dropped == {"duplicate": 1}
    assert block.shape.size == 2
    assert block.text(Format.TEXT).count(b"\nhwsonde_b_bytes 1\n") == 1
    assert [sample.value for sample in block.samples] == [1, 2]


def test_undeclared_metrics_wrong_labels_and_too_many_series_are_counted() -> None:
    metrics = (TABLE[1], TABLE[2], TABLE[2], TABLE[2], TABLE[0], TABLE[3])
    labels = ((), ("a",), ("b",), ("c", "d"), ("0", "user"), ("x",))
    shape = compile_shape(metrics, labels, ("",) * 6, declared={TABLE[1], TABLE[2], TABLE[3]}, limit=2)
    assert shape.size == 2
    assert shape.dropped == {"limit": 1, "undeclared": 3}


def test_a_shape_is_made_once_and_again_when_a_label_changes() -> None:
    first = block_of([Sample(TABLE[2], ("x",), 1)])
    again = block_of([Sample(TABLE[2], (str(b"x", "ascii"),), 2)], first.shape)
    other = block_of([Sample(TABLE[2], ("y",), 2)], first.shape)
    assert again.shape is first.shape
    assert other.shape is not first.shape
    assert b'"y"} 2\n' in other.text(Format.TEXT)


def test_no_samples_are_an_empty_text() -> None:
    assert render([block_of([])]) == b""
    assert render([], Format.OPENMETRICS) == b"# EOF\n"


def test_openmetrics_names_counters_without_total_and_states_units() -> None:
    text = rendered([Sample(TABLE[0], ("0", "user"), 1), Sample(TABLE[1], (), 2)], Format.OPENMETRICS).decode()
    assert "# TYPE hwsonde_a_seconds counter\n# UNIT hwsonde_a_seconds seconds\n" in text
    assert 'hwsonde_a_seconds_total{cpu="0",mode="user"} 1\n' in text
    assert "# UNIT hwsonde_b_bytes bytes\n" in text


TAILS = TABLE[4]


def test_a_histogram_is_printed_in_ascending_order() -> None:
    given_samples = histogram(TAILS, ("a",), [0.0004, 0.0005, 3.0])
    lines = rendered(given_samples[::-1]).decode().splitlines()
    assert lines[1:] == [
        "# TYPE hwsonde_e_seconds histogram",
        'hwsonde_e_seconds_bucket{device="a",le="2e-05"} 0',
        'hwsonde_e_seconds_bucket{device="a",le="0.0005"} 2',
        'hwsonde_e_seconds_bucket{device="a",le="1.0"} 2',
        'hwsonde_e_seconds_bucket{device="a",le="2.5"} 2',
        'hwsonde_e_seconds_bucket{device="a",le="+Inf"} 3',
        'hwsonde_e_seconds_sum{device="a"} 3.0009',
        'hwsonde_e_seconds_count{device="a"} 3',
    ]
    assert "# UNIT hwsonde_e_seconds seconds" in rendered(given_samples, Format.OPENMETRICS).decode()


@given(st.sets(st.integers(0, 6), min_size=1, max_size=6))
def test_half_a_histogram_is_not_published(missing: set[int]) -> None:
    whole, half = histogram(TAILS, ("a",), [0.1]), histogram(TAILS, ("b",), [0.1])
    kept = [sample for place, sample in enumerate(half) if place not in missing]
    block = block_of([*kept, *whole])
    assert block.shape.dropped == {"incomplete": 7 - len(missing)}
    assert block.shape.size == 7
    assert block.samples == whole


def test_a_limit_cuts_no_histogram_in_two() -> None:
    given_samples = histogram(TAILS, ("a",), [0.1]) + histogram(TAILS, ("b",), [0.1])
    metrics, labels, _, suffixes = zip(*given_samples, strict=True)
    shape = compile_shape(metrics, labels, suffixes, limit=9)
    assert shape.size == 7
    assert shape.dropped == {"limit": 5, "incomplete": 2}


@pytest.mark.parametrize(
    "sample",
    [
        Sample(TAILS, ("a", "0.7"), 1, "_bucket"),
        Sample(TAILS, ("a",), 1, "_bucket"),
        Sample(TAILS, ("a", "1.0"), 1, "_count"),
        Sample(TAILS, ("a",), 1),
        Sample(TABLE[3], ("a", "1.0"), 1, "_bucket"),
        Sample(TABLE[1], ("+Inf",), 1, "_bucket"),
    ],
)
def test_a_bucket_that_is_not_the_metrics_is_refused(sample: Sample) -> None:
    assert block_of([sample]).shape.dropped == {"undeclared": 1}


@pytest.mark.parametrize(
    "buckets", [(), (0.0, 1.0), (1.0, 1.0), (2.0, 1.0), (1.0, math.inf), (math.nan,), (-1.0,), (1e15,)]
)
def test_buckets_that_cannot_be_are_refused(buckets: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="buckets"):
        Metric("hwsonde_e_seconds", Kind.HISTOGRAM, "Tails.", (), "seconds", buckets=buckets)
    if buckets:
        with pytest.raises(ValueError, match="buckets"):
            Metric("hwsonde_e_seconds", Kind.SUMMARY, "Moments.", (), "seconds", buckets=buckets)


PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, Format.TEXT),
        ("", Format.TEXT),
        ("*/*", Format.TEXT),
        ("text/html", Format.TEXT),
        (PROMETHEUS_3, Format.OPENMETRICS),
        ("application/openmetrics-text", Format.OPENMETRICS),
        ('application/openmetrics-text; version="1.0.0"', Format.OPENMETRICS),
        ("application/openmetrics-text;version=1.0.0;q=0,text/plain", Format.TEXT),
        ("text/plain;version=0.0.4;q=0.9,application/openmetrics-text;version=1.0.0;q=0.3", Format.TEXT),
        ("application/openmetrics-text;version=9.0.0,*/*;q=0.1", Format.TEXT),
        ("application/openmetrics-text;version=1.0.0;q=garbled", Format.TEXT),
        (
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,text/plain;q=0.2",
            Format.TEXT,
        ),
        (";;;,,,=;q=", Format.TEXT),
    ],
)
def test_negotiation(accept: str | None, expected: Format) -> None:
    assert negotiate(accept) is expected


@given(st.text(max_size=80))
def test_negotiation_survives_any_header(accept: str) -> None:
    assert negotiate(accept) in Format

import math

from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.histogram import CumulativeMoments, deviation_metric
from hwsonde_exporter.metric import Kind, Metric

TAILS = Metric(
    "hwsonde_rtt_seconds", Kind.HISTOGRAM, "Time.", ("device",), "seconds", "network", "here", (0.0001, 0.001, 0.01)
)
PLAIN = Metric(
    "hwsonde_rate_bytes_per_second", Kind.SUMMARY, "Rate.", ("device",), "bytes_per_second", "network", "here"
)
REFERENCE = 0.0005


def made(metric: Metric, observations: list[float]) -> dict[tuple[str, ...], float]:
    moments = CumulativeMoments(metric, deviation_metric(metric, REFERENCE), REFERENCE, ("eth0",))
    for value in observations:
        moments.observe(value)
    return {(sample.metric.name + sample.suffix, *sample.labels): sample.value for sample in moments.samples()}


def test_the_deviation_is_described_with_its_reference() -> None:
    metric = deviation_metric(TAILS, REFERENCE)
    assert metric.name == "hwsonde_rtt_seconds_squared_deviation_total"
    assert metric.kind is Kind.COUNTER
    assert metric.help == "Time: sum of (value - 0.0005)^2 over the observations."
    assert metric.labels == ("device",)


@given(st.lists(st.floats(0, 1) | st.sampled_from([*TAILS.buckets, *(math.nextafter(b, 1) for b in TAILS.buckets)])))
def test_it_is_what_the_observations_say(observations: list[float]) -> None:
    found = made(TAILS, observations)
    for bound in TAILS.bounds:
        expected = sum(value <= float(bound) for value in observations)
        assert found["hwsonde_rtt_seconds_bucket", "eth0", bound] == expected
    assert found["hwsonde_rtt_seconds_count", "eth0"] == len(observations)
    assert math.isclose(found["hwsonde_rtt_seconds_sum", "eth0"], math.fsum(observations), rel_tol=1e-12)
    squares = math.fsum((value - REFERENCE) ** 2 for value in observations)
    assert math.isclose(found["hwsonde_rtt_seconds_squared_deviation_total", "eth0"], squares, rel_tol=1e-12)
    assert len(found) == 7


def test_a_summary_has_no_buckets() -> None:
    assert made(PLAIN, [1.0, 3.0]) == {
        ("hwsonde_rate_bytes_per_second_sum", "eth0"): 4.0,
        ("hwsonde_rate_bytes_per_second_count", "eth0"): 2,
        ("hwsonde_rate_bytes_per_second_squared_deviation_total", "eth0"): (1 - REFERENCE) ** 2 + (3 - REFERENCE) ** 2,
    }


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_nothing_decreases_from_one_scrape_to_the_next(observations: list[float]) -> None:
    moments = CumulativeMoments(TAILS, deviation_metric(TAILS, REFERENCE), REFERENCE, ("eth0",))
    before = [sample.value for sample in moments.samples()]
    for value in observations:
        moments.observe(value)
        after = [sample.value for sample in moments.samples()]
        assert all(new >= old for old, new in zip(before, after, strict=True))
        before = after

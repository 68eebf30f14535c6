"""Metrics that are asked for now and then, as part of an ordinary read."""

from __future__ import annotations

import re

from hwsonde_detector.config import Config, load_profiles
from hwsonde_detector.connect import metric_names, open_source, slow_names
from hwsonde_detector.sources.options import SourceOptions
from hwsonde_detector.sources.prometheus import PrometheusSource
from tests.detector.sources import server as fake
from tests.detector.sources.answers import EMPTY, answer, identity


def source(server, **options) -> PrometheusSource:
    return PrometheusSource(
        SourceOptions(url=server.url, **{"slow_every_ms": 30_000, **options}),
        ("load", "up"),
        slow_names=("info", "build"),
    )


def asked(server) -> list[str]:
    return ["info" if "info" in one.form["query"] else "plain" for one in server.asked]


def body(ms: int) -> bytes:
    return answer([(identity("up", node="a"), [(ms, 1.0)]), (identity("info", node="a", value="x"), [(ms, 1.0)])])


def test_slow_names_are_asked_for_at_their_pace(server):
    one = source(server)
    for second in range(0, 70, 10):
        server.play(fake.good(body(1_000_000 + 1000 * second)))
        read = one.read(999_000 + 1000 * second, 1_000_500 + 1000 * second)
        assert [series.name for series in read.batch.series] == ["info", "up"]
    assert asked(server) == ["info", "plain", "plain", "info", "plain", "plain", "info"]
    assert server.asked[0].form["query"] == '{__name__=~"build|info|load|up"}[2s]'
    assert server.asked[1].form["query"] == '{__name__=~"load|up"}[2s]'


def test_a_read_that_brings_nothing_does_not_count(server):
    one = source(server)
    server.play(fake.good(EMPTY))
    one.read(999_000, 1_000_000)
    server.play(fake.good(body(1_001_000)))
    one.read(1_000_000, 1_002_000)
    one.read(1_001_000, 1_003_000)
    assert asked(server) == ["info", "info", "plain"]


def test_a_time_further_back_asks_again(server):
    one = source(server)
    server.play(fake.good(body(1_000_000)))
    one.read(999_000, 1_000_000)
    server.play(fake.good(body(500_000)))
    one.read(499_000, 500_000)
    assert asked(server) == ["info", "info"]


def test_without_slow_names_every_read_is_plain(server):
    one = PrometheusSource(SourceOptions(url=server.url), ("up",))
    server.play(fake.good(EMPTY))
    one.read(0, 1000)
    assert server.asked[0].form["query"] == '{__name__=~"up"}[1s]'


def test_the_configuration_decides_whether_and_how_often():
    profiles = load_profiles(("hwsonde", "node_exporter"))
    slow = slow_names(profiles)
    assert {"hwsonde_setting_info", "node_uname_info"} <= set(slow)
    # Which jobs are here is asked at every scrape anyway: it marks regimes.
    assert "hwsonde_workload_info" in metric_names(profiles)
    assert not set(slow) & set(metric_names(profiles))
    one = open_source(Config.model_validate({"peers": {"settings_every": "2m"}}), profiles)
    assert one.options.slow_every_ms == 120_000
    one._slow_ms = 0
    assert not one._slow_due(119_999)
    assert one._slow_due(120_000)
    one.close()
    off = open_source(Config.model_validate({"peers": {"enabled": False}}), profiles)
    assert not off._slow_due(0)
    assert not re.search("hwsonde_setting_info", "".join(off.selectors))
    off.close()

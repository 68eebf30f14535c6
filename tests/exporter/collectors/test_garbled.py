"""Whatever lies in the kernel files: a collector gives a part of its series or says that it cannot read, nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from math import isfinite
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hwsonde_exporter.errors import CollectorError, ReadError
from hwsonde_exporter.host import FileReader
from hwsonde_exporter.metric import Kind
from hwsonde_exporter.registry import Collector, FastSource, load_collectors
from tests.exporter.collectors.hosts import HOSTS, collectors, fixture_host, values

Garble = Callable[[bytes], bytes]
TABLES = [
    path.relative_to(HOSTS / "vm").as_posix()
    for path in sorted((HOSTS / "vm").rglob("*"))
    if path.is_file() and ("/net/" in path.as_posix() or "proc/net" not in path.as_posix())
]
HUGE = b"9" * 400

garbles = st.one_of(
    st.integers(0, 4000).map(lambda size: lambda data: data[:size]),
    st.binary(max_size=300).map(lambda junk: lambda data: junk),
    st.tuples(st.integers(0, 4000), st.binary(min_size=1, max_size=8)).map(
        lambda cut: lambda data: data[: cut[0]] + cut[1] + data[cut[0] + len(cut[1]) :]
    ),
    st.sampled_from([b"0", b"5", b" "]).map(lambda token: lambda data: data.replace(token, b"-1 ")),
    st.sampled_from([b"0", b"1", b" "]).map(lambda token: lambda data: data.replace(token, HUGE)),
    st.just(lambda data: data + data),
    st.just(lambda data: data.replace(b"\n", b"")),
    st.just(lambda data: data.replace(b" ", b"\xff\x00 ")),
)


class GarblingReader(FileReader):
    """Reads the fixture and spoils the files whose names end alike."""

    def __init__(self, name: str, garble: Garble) -> None:
        super().__init__()
        self.name = name
        self.garble = garble

    def read(self, path: Path | str) -> bytes:
        data = super().read_once(path)
        return self.garble(data) if os.fspath(path).endswith(self.name) else data

    read_once = read


def check(collector: Collector) -> None:
    """What holds for every answer."""
    samples = list(collector.collect())
    assert len(values(samples)) == len(samples), "a series came twice"
    for sample in samples:
        assert sample.metric in type(collector).metrics
        assert len(sample.labels) == len(sample.metric.labels)
        assert all(label.isprintable() for label in sample.labels)
        assert isfinite(float(sample.value))
        assert sample.metric.kind is not Kind.COUNTER or sample.value >= 0
    if isinstance(collector, FastSource):
        observed = collector.observe()
        assert len({(quantity.metric.name, labels) for quantity, labels, _ in observed}) == len(observed)
        for quantity, labels, value in observed:
            assert quantity in type(collector).quantities
            assert len(labels) == len(quantity.metric.labels)
            assert isfinite(float(value))
            assert value >= 0


def refusal(collector: Collector) -> str:
    """Check the answer; give the reason where there is none."""
    try:
        check(collector)
    except CollectorError as error:
        return str(error)
    return ""


@given(st.sampled_from(TABLES), garbles)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_one_garbled_file(name: str, garble: Garble) -> None:
    for collector in collectors(fixture_host("vm", GarblingReader(name, garble))):
        assert "\n" not in refusal(collector)


@given(garbles)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_everything_garbled(garble: Garble) -> None:
    for collector in collectors(fixture_host("vm", GarblingReader("", garble))):
        assert "\n" not in refusal(collector)


@pytest.mark.parametrize("name", ["vm", "node192"])
def test_whole_fixtures(name: str) -> None:
    for collector in collectors(fixture_host(name)):
        check(collector)


class Missing(FileReader):
    """No file can be read."""

    def read(self, path: Path | str) -> bytes:
        raise ReadError(f"{path}: No such file or directory")

    read_once = read


def test_a_host_without_files_gives_one_line_each() -> None:
    for collector in collectors(fixture_host("vm", Missing())):
        if collector.name in {"clock", "host", "network_link", "settings"}:
            check(collector)  # the clock and the folders of sysfs are there all the same
            continue
        with pytest.raises(CollectorError) as caught:
            collector.collect()
        assert "\n" not in str(caught.value)


def test_a_lost_file_loses_only_its_own_series() -> None:
    whole = {collector.name: values(list(collector.collect())) for collector in collectors(fixture_host("vm"))}
    for lost in ("softirqs", "loadavg", "vmstat", "memory", "netstat", "sockstat6", "softnet_stat", "file-nr"):
        reader = GarblingReader(f"/{lost}", lambda data: b"")
        for collector in collectors(fixture_host("vm", reader)):
            part = values(list(collector.collect()))
            assert part.items() <= whole[collector.name].items()
            assert part, f"{collector.name} lost everything with {lost}"


def test_every_collector_and_metric_is_registered_once() -> None:
    names = [metric.name for kind in load_collectors().values() for metric in kind.metrics]
    names += [
        quantity.metric.name for kind in load_collectors().values() for quantity in getattr(kind, "quantities", ())
    ]
    assert len(names) == len(set(names))
    assert {"cpu", "memory", "pressure", "network", "tcp", "storage", "filesystem", "host"} <= set(load_collectors())

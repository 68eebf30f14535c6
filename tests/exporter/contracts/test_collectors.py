"""What every collector must keep, on this machine, on a host without files and on hosts with garbled ones."""

from __future__ import annotations

import math
import random
import re
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwsonde_exporter.errors import CollectorError
from hwsonde_exporter.host import Host, Paths
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import FastSource, load_collectors
from hwsonde_exporter.sampler import derived_metrics

KINDS = load_collectors()
FAST = {name: kind for name, kind in KINDS.items() if hasattr(kind, "observe")}
MUTATIONS = 20
MANY = 100_000

each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
each_fast_kind = pytest.mark.parametrize("kind", FAST.values(), ids=FAST)


def samples_of(collector: Any) -> list[Sample]:
    """Its samples, or none if it says that it cannot; any other error fails the test."""
    try:
        collector.probe()
        return list(islice(collector.collect(), MANY))
    except CollectorError:
        return []


def check(samples: list[Sample], declared: tuple[Metric, ...]) -> None:
    seen = set()
    for sample in samples:
        metric, labels, value, suffix = sample
        assert metric in declared, f"{metric.name} is not in the table"
        assert suffix in metric.suffixes, sample
        assert len(labels) == len(metric.label_names(suffix)), sample
        assert all(type(label) is str for label in labels), sample
        assert type(value) in {int, float}, sample
        assert math.isfinite(value), sample
        if metric.kind is not Kind.GAUGE:
            assert value >= 0, sample
        key = (metric.name, labels, suffix)
        assert key not in seen, f"{key} comes twice"
        seen.add(key)
    check_histograms([sample for sample in samples if sample.metric.kind is Kind.HISTOGRAM])


def check_histograms(samples: list[Sample]) -> None:
    """Each is complete, its counts ascend with their bounds, and the last one is the count."""
    found: dict[tuple[Metric, tuple[str, ...]], dict[str, float]] = {}
    for sample in samples:
        bound = sample.labels[-1] if sample.suffix == "_bucket" else sample.suffix
        found.setdefault((sample.metric, sample.labels[: len(sample.metric.labels)]), {})[bound] = sample.value
    for (metric, labels), parts in found.items():
        assert parts.keys() == {*metric.bounds, "_sum", "_count"}, (metric.name, labels)
        counts = [parts[bound] for bound in metric.bounds]
        assert counts == sorted(counts), (metric.name, labels)
        assert counts[-1] == parts["_count"], (metric.name, labels)


def check_observations(source: Any) -> None:
    try:
        observations = source.observe()
    except CollectorError:
        return
    seen = set()
    for quantity, labels, value in observations:
        assert quantity in source.quantities, quantity
        assert len(labels) == len(quantity.metric.labels), (quantity.metric.name, labels)
        assert all(type(label) is str for label in labels)
        assert math.isfinite(value), (quantity.metric.name, value)
        assert value >= 0, (quantity.metric.name, value)
        assert (quantity.metric.name, labels) not in seen, (quantity.metric.name, labels)
        seen.add((quantity.metric.name, labels))


@pytest.fixture
def host() -> Iterator[Host]:
    found = Host()
    yield found
    found.files.close()


@each_kind
def test_it_is_described(kind: Any) -> None:
    assert kind.help
    assert "\n" not in kind.help
    assert kind.period is None or 1 <= kind.period <= 3600
    assert type(kind.enabled) is bool
    assert kind.metrics
    for metric in kind.metrics:
        assert metric.subsystem, f"{metric.name} has no subsystem"
        assert metric.source, f"{metric.name} has no source"


def test_no_two_metrics_have_the_same_name() -> None:
    names = [metric.name for kind in KINDS.values() for metric in kind.metrics]
    names += [
        metric.name for kind in FAST.values() for quantity in kind.quantities for metric in derived_metrics(quantity)
    ]  # type: ignore[attr-defined]
    assert len(names) == len(set(names))


@each_kind
def test_on_this_machine_it_gives_what_it_declares(kind: Any, host: Host) -> None:
    check(samples_of(kind(host)), kind.metrics)


@each_kind
def test_on_this_machine_its_counters_do_not_decrease(kind: Any, host: Host) -> None:
    collector = kind(host)
    before, after = (
        {
            (sample.metric, sample.labels, sample.suffix): sample.value
            for sample in samples_of(collector)
            if sample.metric.kind is not Kind.GAUGE
        }
        for _ in range(2)
    )
    for key in before.keys() & after.keys():
        assert after[key] >= before[key], key


@each_fast_kind
def test_its_quantities_can_be_observed(kind: Any, host: Host) -> None:
    source = kind(host)
    assert isinstance(source, FastSource)
    for quantity in kind.quantities:
        assert quantity.metric.kind is Kind.SUMMARY
        assert re.search(r"_sampled(_|\Z)", quantity.metric.name), quantity.metric.name
        assert math.isfinite(quantity.reference)
        assert derived_metrics(quantity)
    for _ in range(3):
        check_observations(source)


@each_fast_kind
def test_on_this_machine_cumulative_quantities_do_not_decrease(kind: Any, host: Host) -> None:
    source = kind(host)
    try:
        first, second = source.observe(), source.observe()
    except CollectorError:
        return
    before = {(quantity.metric.name, labels): value for quantity, labels, value in first if quantity.cumulative}
    for quantity, labels, value in second:
        assert value >= before.get((quantity.metric.name, labels), 0.0), (quantity.metric.name, labels)


@each_kind
def test_on_a_host_without_files_it_says_so(kind: Any, tmp_path: Path) -> None:
    host = Host(Paths(tmp_path / "proc", tmp_path / "sys", tmp_path / "root"))
    collector = kind(host)
    check(samples_of(collector), kind.metrics)
    if kind in FAST.values():
        check_observations(collector)


# ---- garbled hosts -------------------------------------------------------------------------------------------------

FIXTURE = Path(__file__).parents[2] / "fixtures" / "hosts" / "vm"
_TOKENS = (
    b"", b"-1", b"-9223372036854775808", b"18446744073709551615", b"9" * 400, b"nan", b"inf", b"1e999", b"0x1f", b"\xff\xfe", b"\0",
    b"4294967295", b"1_000", b" ", b"\n", b"\n\n", b":", b"=", b"%", b'"', b"cpu", b"1.5", b"\xd9\xa3", b"-0",
)  # fmt: skip


def garble(data: bytes, generator: random.Random) -> bytes:
    """A copy with some bytes cut, doubled or replaced."""
    for _ in range(generator.randint(1, 6)):
        choice = generator.randrange(6)
        place = generator.randint(0, len(data))
        if choice == 0:
            data = data[:place]
        elif choice == 1:
            data = data[place:]
        elif choice == 2:
            end = generator.randint(place, min(len(data), place + 40))
            data = data[:place] + generator.choice(_TOKENS) + data[end:]
        elif choice == 3:
            words = data.split(b" ")
            words[generator.randrange(len(words))] = generator.choice(_TOKENS)
            data = b" ".join(words)
        elif choice == 4:
            lines = data.split(b"\n")
            position = generator.randrange(len(lines))
            lines.insert(position, lines[position])
            data = b"\n".join(lines)
        else:
            lines = data.split(b"\n")
            generator.shuffle(lines)
            data = b"\n".join(lines)
    return data


def garbled_tree(source: Path, target: Path, generator: random.Random) -> None:
    """Copy a host's files, most of them garbled, some missing, some a folder in a file's place."""
    for path in sorted(source.rglob("*")):
        copy = target / path.relative_to(source)
        if not copy.parent.is_dir() or copy.exists():
            continue
        if path.is_symlink():
            copy.symlink_to(path.readlink())
        elif path.is_dir():
            copy.mkdir()
        else:
            fate = generator.random()
            if fate < 0.05:
                continue
            if fate < 0.08:
                copy.mkdir()
                continue
            data = path.read_bytes()
            copy.write_bytes(data if fate < 0.3 else garble(data, generator))


@given(seed=st.integers(0, 2**32))
@settings(max_examples=MUTATIONS, deadline=None)
def test_on_a_garbled_host_nothing_but_sound_samples_comes(seed: int) -> None:
    with TemporaryDirectory() as folder:
        tree = Path(folder)
        garbled_tree(FIXTURE, tree, random.Random(seed))
        paths = Paths(tree / "proc", tree / "sys", tree)
        for kind in KINDS.values():
            host = Host(paths)
            collector: Any = kind(host)
            check(samples_of(collector), kind.metrics)
            if kind in FAST.values():
                check_observations(collector)
            host.files.close()


def test_files_that_vanish_between_two_readings_are_survived(tmp_path: Path) -> None:
    tree = tmp_path / "host"
    shutil.copytree(FIXTURE, tree, symlinks=True)
    made = [(kind, kind(Host(Paths(tree / "proc", tree / "sys", tree)))) for kind in KINDS.values()]
    for kind, collector in made:
        check(samples_of(collector), kind.metrics)
    shutil.rmtree(tree)
    for kind, collector in made:
        check(samples_of(collector), kind.metrics)


def test_the_garbled_hosts_are_not_all_empty(tmp_path: Path) -> None:
    """The suite would prove nothing if every collector gave up at once."""
    tree = tmp_path / "host"
    tree.mkdir()
    garbled_tree(FIXTURE, tree, random.Random(1))
    paths = Paths(tree / "proc", tree / "sys", tree)
    assert sum(len(samples_of(kind(Host(paths)))) for kind in KINDS.values()) > 50

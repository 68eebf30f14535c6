"""Which job ran where and when."""

from __future__ import annotations

import numpy as np
import pytest

from hwsonde_detector.explain.neighbours import JobSpan
from hwsonde_detector.reports.finding import job_matchers, joined, narrowed, quoted
from hwsonde_detector.reports.jobs import Watch, job_of, scope_of
from hwsonde_detector.types import Entity, SampleBatch, Series

LABELS = ("cluster", "node")


def entity(node: str) -> Entity:
    return Entity((("cluster", "lab"), ("node", node)))


def series(name: str, node: str, **labels: str) -> Series:
    return Series(
        name, tuple(sorted({"cluster": "lab", "node": node, "instance": f"{node}:1", "job": "x", **labels}.items()))
    )


def batch(*pairs: tuple[Series, list[int]]) -> SampleBatch:
    pairs = tuple(sorted(pairs))
    times = np.array([ms for _, own in pairs for ms in own], np.int64)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(own) for _, own in pairs])]).astype(np.int64)
    return SampleBatch(tuple(one for one, _ in pairs), offsets, times, np.zeros(len(times)))


def cpu(node: str, workload: str, mode: str = "user") -> Series:
    return series("hwsonde_workload_cpu_seconds_total", node, workload=workload, mode=mode)


def test_a_job_is_where_its_series_are():
    watch = Watch(LABELS)
    watch.take(batch((cpu("n1", "slurm:7"), [1000, 2000]), (cpu("n2", "slurm:7"), [1500]), (series("up", "n3"), [900])))
    watch.take(batch((cpu("n1", "slurm:7", "system"), [3000]), (series("up", "n3"), [3500])))
    assert watch.spans() == (
        JobSpan("lab/slurm:7", entity("n1"), 999, 3000),
        JobSpan("lab/slurm:7", entity("n2"), 1499, 1500),
    )
    assert watch.first_ms == {entity("n1"): 1000, entity("n2"): 1500, entity("n3"): 900}
    assert watch.last_ms == 3500
    assert watch.by_instance == set()


def test_services_are_no_jobs_but_have_names():
    watch = Watch(LABELS)
    watch.take(batch((cpu("n1", "systemd:train.service"), [1000]), (cpu("n2", "systemd:train.service"), [1000])))
    assert watch.spans() == ()
    assert [span.entity for span in watch.matching("train.service")] == [entity("n1"), entity("n2")]
    assert watch.matching("rain.service") == ()


@pytest.mark.parametrize("name", ["slurm:7", "7", "lab/slurm:7"])
def test_names_of_a_slurm_job(name):
    watch = Watch(LABELS)
    watch.take(batch((cpu("n1", "slurm:7"), [1000]), (cpu("n1", "slurm:77"), [1000])))
    assert [span.job for span in watch.matching(name)] == ["lab/slurm:7"]


@pytest.mark.parametrize(
    ("pod", "stem"),
    [
        ("train-0", "train"),
        ("train-worker-12", "train-worker"),
        ("train-x7k2p", "train"),
        ("web-6d4cf56db6-x7k2p", "web"),
        ("train-large", "train-large"),
        ("train", "train"),
    ],
)
def test_pods_of_one_job_share_what_is_left_of_their_names(pod, stem):
    info = series("hwsonde_workload_info", "n1", workload="pod:0a1b/c", namespace="ml", pod=pod)
    found = job_of(info, "lab")
    assert found is not None
    assert found.key == f"lab/ml/{stem}"
    assert {pod, stem, f"ml/{stem}", "pod:0a1b/c"} <= found.names
    assert found.shared


def test_what_has_no_workload_has_no_job():
    assert job_of(series("up", "n1")) is None
    assert job_of(series("up", "n1", workload="")) is None


def test_records_go_through_unchanged():
    records = [(batch((cpu("n1", "slurm:7"), [1000])), 1), (batch(), 2)]
    watch = Watch(LABELS)
    assert list(watch.through(records)) == records
    assert watch.spans()[0].end_ms == 1000


def test_hosts_named_by_their_instance_are_remembered():
    watch = Watch(LABELS)
    watch.take(batch((Series("up", (("instance", "n7:1"),)), [5])))
    assert watch.by_instance == {Entity((("cluster", ""), ("node", "n7")))}


def test_the_scope_of_numbers():
    assert scope_of(entity("n1")) == "lab"
    assert scope_of(Entity((("node", "n1"),))) == ""
    assert scope_of(Entity((("rack", "r1"), ("box", "b2")))) == "r1"
    assert scope_of(Entity(())) == ""


def test_matchers_are_quoted():
    assert quoted('a"b\\c\nd') == 'a\\"b\\\\c\\nd'
    for matcher in job_matchers('x"} or vector(1) #\\'):
        assert matcher.replace("\\\\", "").replace('\\"', "").count('"') == 2
    assert 'pod=~"train(-.+)?"' in job_matchers("ml/train")
    assert 'workload="slurm:7"' in job_matchers("lab/slurm:7")
    assert joined("", "a") == "a"
    assert joined('job="x",', 'a="b"') == 'job="x",a="b"'


def test_a_configuration_is_narrowed_to_hosts():
    from hwsonde_detector.config import parse_config

    config = parse_config(b"""source: {selector: 'job="x"'}""", "test")
    hosts = [entity("n1"), entity("n.2")]
    assert narrowed(config, hosts, []).source.selector == 'job="x",cluster=~"lab",node=~"n\\\\.2|n1"'
    assert narrowed(config, hosts, [hosts[0]]) is config
    assert narrowed(config, [], []) is config
    unnamed = narrowed(config, [Entity((("cluster", ""), ("node", "n1")))], [])
    assert unnamed.source.selector == 'job="x",node=~"n1"'
    many = [entity(f"{number:0200d}") for number in range(100)]
    assert narrowed(config, many, []).source.selector == 'job="x",cluster=~"lab"'


def test_a_line_that_names_hosts_is_no_longer_than_a_line():
    from hwsonde_detector.errors import ConfigError
    from hwsonde_detector.reports.asking import find_host

    with pytest.raises(ConfigError, match="may be lab/") as caught:
        find_host("lab", [entity(f"n{place}{'x' * 1000}") for place in range(5)])
    assert len(str(caught.value)) < 600

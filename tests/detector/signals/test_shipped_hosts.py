"""The shipped profiles on many workloads and on whole hosts."""

from contextlib import suppress

import numpy as np
import pytest

from hwsonde_detector.signals.channels import ChannelState, advance
from hwsonde_detector.types import SampleBatch, Series
from hwsonde_exporter.errors import CollectorError
from hwsonde_exporter.host import Host
from hwsonde_exporter.registry import load_collectors
from tests.detector.signals.build import series
from tests.detector.signals.test_shipped import channels_of, shipped


def test_what_is_left_out():
    assert not channels_of("hwsonde", series("hwsonde_cpu_seconds_total", cpu="0", mode="idle"))
    assert not channels_of("hwsonde", series("hwsonde_cpu_load1"))
    assert not channels_of("node_exporter", series("node_network_receive_bytes_total", device="veth12ab"))
    assert not channels_of("node_exporter", series("node_filesystem_readonly", mountpoint="/run", fstype="tmpfs"))


def test_many_workloads_do_not_drown_the_rest():
    """Six channels a job or container and one that marks it, and a few for all services together, however many."""
    values = {"resource": ("cpu", "memory", "io"), "state": ("stopped", "uninterruptible"), "mode": ("user", "system")}
    known = [
        (metric.name, dict.fromkeys(metric.labels[1:], value))
        for metric in load_collectors()["workload"].metrics
        if metric.labels[:1] == ("workload",) and not metric.name.endswith("_info")
        for value in values.get("".join(metric.labels[1:]), ("x",))
    ]

    def count(*workloads):
        found = [series(name, workload=workload, **labels) for name, labels in known for workload in workloads]
        return len(channels_of("hwsonde", *found))

    assert count("slurm:1", "slurm:2") - count("slurm:1") == 7
    services = [f"systemd:s{number}.service" for number in range(40)]
    assert count("slurm:1", *services) - count("slurm:1") <= 3


def test_a_hog_in_another_cgroup_shows_on_a_full_host():
    """Its cgroup takes half a CPU of two from a job; the whole host's use does not move at all."""
    job, others = "hwsonde_workload_cpu_seconds_total", "hwsonde_workload_other_cpu_seconds_total"
    named, host = "hwsonde_workload_other_cgroup_cpu_seconds_total", "hwsonde_cpu_seconds_total"
    rates = {
        series(host, cpu="0", mode="user"): (1.0, 1.0),
        series(host, cpu="1", mode="user"): (1.0, 1.0),
        series(job, workload="slurm:7", mode="user"): (1.9, 1.4),
        series(named, cgroup="cgroup:/hog"): (0.0, 0.5),
        series(named, cgroup="systemd:a.service"): (0.05, 0.05),
        series(others): (0.1, 0.6),
    }
    keys = tuple(sorted(rates))
    totals, state, rows = dict.fromkeys(keys, 100.0), ChannelState(), {}
    for second in range(4):
        for key in keys:
            totals[key] += rates[key][second >= 3]
        values = np.array([totals[key] for key in keys])
        batch = SampleBatch(keys, np.arange(len(keys) + 1), np.full(len(keys), 1_000_000 + 1000 * second), values)
        state, news = advance(state, batch, (shipped("hwsonde"),))
        rows = dict(zip((channel.name for channel in news.frame.channels), news.frame.values.T, strict=True))
    assert rows["cpu_seconds{mode=user}"][-1] == pytest.approx(1.0)
    assert rows["workload_cpu_seconds{workload=slurm:7}"][-1] == pytest.approx(1.4)
    assert rows["workload_other_cgroup_cpu_seconds"][-1] == pytest.approx(0.5)
    assert rows["workload_other_cpu_seconds"][-1] == pytest.approx(0.6)


def test_this_host_gives_values_in_range():
    """The real collectors of this machine, read twice: most channels have a value and none is refused."""
    collectors = []
    for one in load_collectors().values():
        if one.period is None:
            collector = one(Host())
            with suppress(CollectorError):
                collector.probe()
                list(collector.collect())
                collectors.append(collector)

    def read():
        found = {}
        for collector in collectors:
            for sample in collector.collect():
                names = sample.metric.label_names(sample.suffix)
                labels = dict(zip(names, sample.labels, strict=True)) | {"job": "x", "instance": "h:1"}
                found[Series(sample.metric.name + sample.suffix, tuple(sorted(labels.items())))] = float(sample.value)
        return found

    state, news = ChannelState(), None
    for time in (1_000_000, 1_015_000):
        found = read()
        keys = tuple(sorted(found))
        batch = SampleBatch(
            keys, np.arange(len(keys) + 1), np.full(len(keys), time), np.array([found[key] for key in keys])
        )
        state, news = advance(state, batch, (shipped("hwsonde"),))
    assert news.rejected == 0
    assert len(news.frame.channels) > 30
    known = np.isfinite(news.frame.values[-1])
    assert known.mean() > 0.9
    assert {"cpu", "memory"} <= {channel.subsystem.value for channel in np.array(news.frame.channels)[known]}

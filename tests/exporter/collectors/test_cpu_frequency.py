from __future__ import annotations

from pathlib import Path

import pytest

from hwsonde_exporter.collectors.cpu_frequency import CpuFrequencyCollector
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host, Paths
from tests.exporter.collectors.hosts import fixture_host, values


def test_one_series_a_cpu_and_off_by_default() -> None:
    collector = CpuFrequencyCollector(fixture_host("node192"))
    collector.probe()
    answer = values(list(collector.collect()))
    assert len(answer) == 192
    assert 1e9 < answer["hwsonde_cpu_frequency_hertz", "17"] < 4e9
    assert not CpuFrequencyCollector.enabled


@pytest.mark.parametrize("text", ["0", "-1", "<unknown>", "99999999999", ""])
def test_what_is_no_frequency_is_left_out(tmp_path: Path, text: str) -> None:
    base = tmp_path / "sys/devices/system/cpu"
    for cpu, value in enumerate(("2100000", text)):
        (base / f"cpu{cpu}/cpufreq").mkdir(parents=True)
        (base / f"cpu{cpu}/cpufreq/scaling_cur_freq").write_text(value + "\n")
    (base / "online").write_text("0-2\n")
    collector = CpuFrequencyCollector(Host(Paths(tmp_path / "proc", tmp_path / "sys", tmp_path)))
    collector.probe()
    assert values(list(collector.collect())) == {("hwsonde_cpu_frequency_hertz", "0"): 2.1e9}


def test_no_driver() -> None:
    collector = CpuFrequencyCollector(fixture_host("vm"))
    with pytest.raises(Unavailable) as caught:
        collector.probe()
    assert caught.value.reason is Reason.NO_KERNEL_SUPPORT
    with pytest.raises(ReadError):
        collector.collect()

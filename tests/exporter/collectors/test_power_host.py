"""Power of the whole host: by a meter, by its management controller, by the tool that asks that."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors import _ipmitool
from hwsonde_exporter.collectors._ipmitool import Ipmitool, parse_power_reading
from hwsonde_exporter.collectors.power_host import PowerHostCollector
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from tests.exporter.collectors.hosts import values
from tests.exporter.collectors.test_power import chip
from tests.exporter.collectors.trees import tree_host

ANSWER = b"""
    Instantaneous power reading:                  5320 Watts
    Minimum during sampling period:               1204 Watts
    Maximum during sampling period:               8811 Watts
    Average power reading over sample period:     5204 Watts
    IPMI timestamp:                           Sun Nov 29 10:00:00 2026
    Sampling period:                          00000005 Seconds.
    Power reading state is:                   activated


"""


def test_power_reading_of_the_controller() -> None:
    assert parse_power_reading(ANSWER) == 5320
    assert parse_power_reading(ANSWER.replace(b"  activated", b"  deactivated")) is None
    assert parse_power_reading(ANSWER.replace(b"5320", b"0")) is None
    assert parse_power_reading(ANSWER.replace(b"5320", b"4294967295")) is None
    assert parse_power_reading(b"") is None


@given(st.binary())
def test_any_answer_of_the_controller_is_survived(data: bytes) -> None:
    value = parse_power_reading(data)
    assert value is None or value > 0


class Controller:
    def __init__(self, *answers: bytes | ReadError) -> None:
        self.answers = list(answers)

    def check(self) -> None:
        return

    def ask(self) -> bytes:
        answer = self.answers.pop(0)
        if isinstance(answer, ReadError):
            raise answer
        return answer


def empty_host(folder: Path) -> Host:
    return tree_host(folder, {})


def test_the_controller_is_asked_where_there_is_no_meter(tmp_path: Path) -> None:
    controller = Controller(ANSWER, ReadError("busy"), ANSWER)
    collector = PowerHostCollector(empty_host(tmp_path), controller=controller)
    collector.probe()
    assert values(list(collector.collect())) == {("hwsonde_power_host_watts", "ipmi"): 5320}
    with pytest.raises(ReadError, match="busy"):
        collector.collect()
    assert list(collector.collect())


@pytest.mark.parametrize("answer", [b"", ReadError("ipmitool: DCMI request failed because: Invalid command")])
def test_a_controller_that_never_answered_has_no_meter(answer: bytes | ReadError, tmp_path: Path) -> None:
    collector = PowerHostCollector(empty_host(tmp_path), controller=Controller(answer))
    collector.probe()
    with pytest.raises(Unavailable, match="DCMI") as caught:
        collector.collect()
    assert caught.value.reason is Reason.NO_HARDWARE


def test_the_acpi_meter_goes_first_and_its_failure_is_told(tmp_path: Path) -> None:
    host = tree_host(tmp_path, chip(0, "power_meter", {"power1_average": "412000000"}))
    collector = PowerHostCollector(host, controller=Controller())
    collector.probe()
    assert values(list(collector.collect())) == {("hwsonde_power_host_watts", "acpi"): 412}
    (tmp_path / "sys/class/hwmon/hwmon0/power1_average").write_text("0\n")
    with pytest.raises(ReadError, match="gives no power"):
        collector.collect()


def test_a_meter_that_knows_nothing_gives_way_to_the_controller(tmp_path: Path) -> None:
    host = tree_host(tmp_path, chip(0, "power_meter", {"power1_average": "4294967295000"}))
    collector = PowerHostCollector(host, controller=Controller(ANSWER))
    collector.probe()
    assert values(list(collector.collect())) == {("hwsonde_power_host_watts", "ipmi"): 5320}


def script(folder: Path, text: str) -> Ipmitool:
    device, tool = folder / "ipmi0", folder / "ipmitool"
    device.touch()
    tool.write_text(f"#!/bin/sh\n{text}\n")
    tool.chmod(0o755)
    return Ipmitool([device], str(tool), timeout=5.0)


def test_the_tool_is_run_with_fixed_words(tmp_path: Path) -> None:
    tool = script(tmp_path, 'echo "$@ $LC_ALL"')
    tool.check()
    assert tool.ask() == b"dcmi power reading C\n"


def test_a_failure_of_the_tool_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="ipmitool: Could not open device; try again") as caught:
        script(tmp_path, "echo 'Could not open device;' >&2; echo try again >&2; exit 1").ask()
    assert "\n" not in str(caught.value)


def test_a_silent_failure_and_a_missing_program_are_told(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="ended with status 3"):
        script(tmp_path, "exit 3").ask()
    with pytest.raises(ReadError, match="No such file"):
        Ipmitool([], "no-such-ipmitool").ask()


def test_a_tool_that_hangs_is_killed(tmp_path: Path) -> None:
    tool = script(tmp_path, "exec sleep 60")
    tool._timeout = 0.2
    began = time.monotonic()
    with pytest.raises(ReadError, match="no answer within"):
        tool.ask()
    assert time.monotonic() - began < 5
    assert tool._lingering is None


def test_while_one_cannot_be_killed_no_other_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = script(tmp_path, "exec sleep 60")
    tool._timeout = 0.1
    started: list[subprocess.Popen[bytes]] = []

    class Stubborn(subprocess.Popen):
        def __init__(self, *arguments, **keywords) -> None:
            super().__init__(*arguments, **keywords)
            started.append(self)

        def kill(self) -> None:
            return

    monkeypatch.setattr(_ipmitool.subprocess, "Popen", Stubborn)
    monkeypatch.setattr(_ipmitool, "_GRACE_SECONDS", 0.05)
    with pytest.raises(ReadError, match="no answer within"):
        tool.ask()
    with pytest.raises(ReadError, match="cannot be killed"):
        tool.ask()
    assert len(started) == 1
    os.kill(started[0].pid, 9)
    started[0].wait(5)
    with pytest.raises(ReadError, match="no answer within"):
        tool.ask()
    os.kill(started[1].pid, 9)
    started[1].wait(5)


def test_what_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = tmp_path / "ipmi0"
    with pytest.raises(Unavailable, match="ipmi_devintf") as caught:
        Ipmitool([device], "no-such-ipmitool").check()
    assert caught.value.reason is Reason.NO_HARDWARE
    device.touch()
    with pytest.raises(Unavailable, match="not installed") as caught:
        Ipmitool([device], "no-such-ipmitool").check()
    assert caught.value.reason is Reason.MISSING_TOOL
    monkeypatch.setattr(os, "access", lambda path, mode, **options: False)
    with pytest.raises(Unavailable, match="may not be used") as caught:
        Ipmitool([device], "sh").check()
    assert caught.value.reason is Reason.NO_PERMISSION

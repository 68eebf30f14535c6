"""The sentence of an episode."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.explain.titles import Order, channel_label, clock, identity, part_name, quantity, title
from hwsonde_detector.types import Channel, Contribution, Device, Direction, Entity, Subsystem

ENTITY = Entity((("cluster", ""), ("node", "n17")))
GPU = Device("gpu", "3")
ADDRESS = "0000:8d:00.0"
SINCE = round(dt.datetime(2026, 11, 29, 19, 23, 41, tzinfo=dt.UTC).timestamp() * 1000)
CLOCK = Channel("gpu_clock{gpu=3}", Subsystem.GPU, GPU, unit="hertz", title="SM clock", address=ADDRESS)
POWER = Channel("gpu_power{gpu=3}", Subsystem.POWER, GPU, unit="watts", title="power", address=ADDRESS)
WRITTEN = Channel("b", Subsystem.STORAGE, Device("disk", "vda"), unit="bytes/s")
PLAIN = Channel("a", Subsystem.CPU)

SLOW = Contribution(CLOCK, 0.6, -9, 1.2e9, 1.9e9, 2.1e9)
WEAK = Contribution(POWER, 0.2, -5, 310, 650, 710)
FULL = Contribution(WRITTEN, 0.6, 9, 3e8, 0, 1e6)
IDLE = Contribution(PLAIN, 0.4, -3, 0.0, 0.5, 1.5)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.981, "ratio", "98.1 %"),
        (12.3456, "ratio", "1230 %"),
        (3.2e6, "bytes/s", "3.2 MB/s"),
        (-3.2e6, "bytes/s", "-3.2 MB/s"),
        (12, "", "12"),
        (4200, "", "4.2k"),
        (999.9, "", "1k"),
        (999_960, "bytes", "1 MB"),
        (4200, "1/s", "4.2k 1/s"),
        (0.5, "cores", "0.5 cores"),
        (1.2e9, "hertz", "1.2 GHz"),
        (310, "watts", "310 W"),
        (91.25, "celsius", "91.2 °C"),
        (-3, "celsius", "-3 °C"),
        (0.0032, "seconds", "3.2 ms"),
        (0.0000042, "seconds", "4.2 µs"),
        (0.99999, "seconds", "1 s"),
        (0.0, "seconds", "0 s"),
        (75, "seconds", "75 s"),
        (1e-15, "seconds", "1e-06 ns"),
    ],
)
def test_quantities_read_as_people_write_them(value, unit, text):
    assert quantity(value, unit) == text


@given(st.floats(1e-3, 9e14), st.sampled_from(["", "bytes", "bytes/s", "hertz", "watts", "cores"]))
def test_no_quantity_needs_a_power_of_ten(value, unit):
    number = quantity(value, unit).split(" ")[0].rstrip("kMGT")
    assert "e" not in number
    # Three digits, so that it is read at a glance.
    assert len(number.replace(".", "").lstrip("0")) <= 3 or float(number) < 1


@given(st.floats(), st.sampled_from(["", "ratio", "seconds", "bytes", "celsius"]))
def test_any_value_has_a_text(value, unit):
    assert quantity(value, unit)


@pytest.mark.parametrize(
    ("subsystem", "device", "address", "alike", "text"),
    [
        (Subsystem.CPU, None, "", 0, "cpu"),
        (Subsystem.GPU, GPU, ADDRESS, 0, "gpu 3 (0000:8d:00.0)"),
        (Subsystem.GPU, GPU, "", 7, "gpu 3 and 7 more"),
        (Subsystem.POWER, GPU, ADDRESS, 0, "power gpu 3 (0000:8d:00.0)"),
        (Subsystem.STORAGE, Device("disk", "vda"), "", 0, "storage vda"),
        (Subsystem.NETWORK, Device("nic", "eth0"), "slot 4", 1, "network eth0 (slot 4) and 1 more"),
        (Subsystem.PCIE, Device("pcie", ADDRESS), ADDRESS, 0, "pcie 0000:8d:00.0"),
        (Subsystem.CPU, Device("cpu", "1"), "", 0, "cpu 1"),
    ],
)
def test_parts_are_named_as_they_are_found(subsystem, device, address, alike, text):
    assert part_name(subsystem, device, address, alike) == text


def test_a_title_names_device_size_time_and_evidence():
    order = Order(("gpu_clock{gpu=3}",), 4)
    assert title(ENTITY, Subsystem.GPU, (SLOW, WEAK), SINCE, (GPU,), order) == (
        "n17 gpu 3 (0000:8d:00.0): SM clock 1.2 GHz, expected at least 1.9 GHz, since 19:23:41Z; "
        "first of 4 channels, also power 310 W (expected at least 650 W)"
    )


def test_a_title_names_the_part_where_no_device_is_to_blame():
    text = title(ENTITY, Subsystem.STORAGE, (FULL, IDLE), 1_800_000_000_000)
    assert text == (
        "n17 storage: b 300 MB/s, expected at most 1 MB/s, since 08:00:00Z; also a 0 (expected at least 0.5)"
    )
    assert title(ENTITY, Subsystem.STORAGE, (FULL,), 0, (Device("disk", "vda"),)) == (
        "n17 storage vda: b 300 MB/s, expected at most 1 MB/s, since 00:00:00Z"
    )
    assert title(ENTITY, Subsystem.CPU, (FULL, IDLE), 0).startswith(
        "n17 cpu: a 0, expected at least 0.5, since 00:00:00Z; also b"
    )
    assert title(ENTITY, Subsystem.GPU, (FULL, IDLE), 0) == "n17 gpu: unusual since 00:00:00Z"


def test_a_quantity_is_told_of_once():
    swing = replace(
        WEAK, channel=replace(CLOCK, name="gpu_clock_sampled{gpu=3,statistic=deviation}", title="swing of SM clock")
    )
    text = title(ENTITY, Subsystem.GPU, (SLOW, swing, WEAK, replace(swing, share=0.01)), SINCE, (GPU,))
    assert text.endswith("since 19:23:41Z; also power 310 W (expected at least 650 W)")
    # Of another device it is another quantity.
    elsewhere = replace(swing, channel=replace(swing.channel, device=Device("gpu", "5")))
    assert "also swing of SM clock of gpu 5" in title(ENTITY, Subsystem.GPU, (SLOW, elsewhere), SINCE, (GPU,))


def test_the_loudest_channel_of_the_named_device_comes_first():
    other = replace(SLOW, channel=replace(CLOCK, name="gpu_clock{gpu=5}", device=Device("gpu", "5")), share=0.7)
    text = title(ENTITY, Subsystem.GPU, (other, SLOW, WEAK), SINCE, (GPU,))
    assert text.startswith("n17 gpu 3 (0000:8d:00.0): SM clock 1.2 GHz")
    assert "also SM clock of gpu 5 1.2 GHz" in text
    assert "and 1 more: SM clock" in title(ENTITY, Subsystem.GPU, (other, SLOW), SINCE, (GPU, Device("gpu", "5")))


@pytest.mark.parametrize(
    ("order", "told"),
    [
        (Order(), ""),
        (Order(("gpu_clock{gpu=3}",), 1), ""),
        (Order(("gpu_clock{gpu=3}",), 3), "; first of 3 channels, also"),
        # Moved together with another one: no order is told.
        (Order(("gpu_clock{gpu=3}", "gpu_power{gpu=3}"), 3), "; also"),
        (Order(("gpu_power{gpu=3}",), 2), "; after power, also"),
        (Order(("gpu_power{gpu=3}", "x"), 3), "; after power and 1 more, also"),
        (Order(("not among the top ones",), 3), "; also"),
    ],
)
def test_who_moved_first_is_said_only_where_it_can_be_told(order, told):
    text = title(ENTITY, Subsystem.GPU, (SLOW, WEAK), SINCE, (GPU,), order)
    assert told in text
    assert ("first of" in text, "after" in text) == ("first of" in told, "after" in told)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"direction": Direction.NOISY}, "SM clock 1.2 GHz, unsteady around 2 GHz, since"),
        ({"direction": Direction.STUCK, "value": 2e9}, "SM clock 2 GHz, which always moved and stands still, since"),
        ({"direction": Direction.HIGH, "value": 2e9}, "SM clock 2 GHz, unusually high, since"),
        ({"direction": Direction.LOW, "value": 2e9}, "SM clock 2 GHz, unusually low, since"),
        ({"direction": Direction.HIGH, "value": 2.2e9}, "SM clock 2.2 GHz, expected at most 2.1 GHz, since"),
    ],
)
def test_each_direction_has_its_words(changes, text):
    assert text in title(ENTITY, Subsystem.GPU, (replace(SLOW, **changes),), SINCE, (GPU,))


def test_channels_are_called_by_title_or_name():
    assert channel_label(CLOCK) == "SM clock of gpu 3"
    assert channel_label(CLOCK, GPU) == "SM clock"
    assert channel_label(replace(CLOCK, title="")) == "gpu_clock{gpu=3}"
    assert channel_label(replace(CLOCK, device=Device("disk", "vda"), title="busy time")) == "busy time of vda"


@given(st.text(max_size=400), st.text(max_size=400), st.text(max_size=400))
def test_names_that_somebody_made_long_do_not_make_a_title_long(name, device, address):
    channel = Channel(name, Subsystem.GPU, Device("gpu", device or "x"), title=name, address=address)
    entry = Contribution(channel, 1.0, 1.0, 1.0, 0.0, 0.5)
    text = title(ENTITY, Subsystem.GPU, (entry, entry), 0, (Device("gpu", device or "x"),), Order((name,), 2))
    assert len(text) < 900
    assert text.startswith("n17 gpu ")


def test_clock_and_identity():
    assert identity(ENTITY, 1_800_000_000_999) == "n17@2027-01-15T08:00:00Z"
    assert clock(0) == "00:00:00Z"

"""Where devices sit, out of the labels of info series."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hwsonde_detector.signals.channels import ChannelState, advance
from hwsonde_detector.signals.layout import RuleBook, build_layout
from hwsonde_detector.signals.places import addresses, places_of
from hwsonde_detector.signals.profiles import parse_profile
from hwsonde_detector.types import Device
from tests.detector.signals.build import batch_of, series

PROFILE = parse_profile(
    """
clock: read_seconds
places:
  - {metric: gpu_info, kind: gpu, label: gpu, place: pci_bus_id}
  - {metric: disk_info, kind: disk, label: device, place: bay}
  - {metric: nic_info, kind: nic, label: device, place: pci_bus_id}
metrics:
  - {name: busy_total, title: busy time, kind: counter, subsystem: gpu, by: [gpu], device: {kind: gpu, label: gpu}, scale: {floor: 1}}
  - {name: heat, kind: gauge, collector: slow, subsystem: gpu, by: [gpu], device: {kind: gpu, label: gpu}, scale: {floor: 1}}
  - {name: queue, title: "{device} queue", kind: gauge, subsystem: storage, by: [device], device: {kind: disk, label: device}, scale: {floor: 1}}
  - {name: load, kind: gauge, subsystem: cpu, scale: {floor: 1}}
""",
    "p.yaml",
)


def info(gpu, address, **labels):
    return series("gpu_info", gpu=gpu, pci_bus_id=address, **labels)


def test_only_places_of_devices_that_channels_have_are_read():
    places = places_of([PROFILE])
    assert set(places) == {"gpu_info", "disk_info"}
    assert places_of([PROFILE, PROFILE]) == places
    assert places_of([replace(PROFILE, rules=())]) == {}


def test_addresses_of_devices():
    places = places_of([PROFILE])
    found = [
        info("0", "0000:17:00.0", uuid="GPU-a"),
        info("0", "0000:17:00.0", uuid="GPU-b"),
        # Two GPUs claim one number: nobody knows which is meant.
        info("1", "0000:18:00.0"),
        info("1", "0000:19:00.0"),
        info("2", ""),
        series("disk_info", device="sda", bay="4"),
        series("nic_info", device="eth0", pci_bus_id="0000:01:00.0"),
        series("load"),
    ]
    expected = {Device("gpu", "0"): "0000:17:00.0", Device("disk", "sda"): "bay 4"}
    assert addresses(found, places) == expected
    assert addresses(found[::-1], places) == expected
    assert addresses([], places) == {}


def test_channels_know_title_address_flow_and_pace():
    found = [
        series("busy_total", gpu="0"),
        series("heat", gpu="0"),
        series("heat", gpu="1"),
        series("queue", device="sda"),
        series("load"),
        series("read_seconds", collector="slow"),
        info("0", "0000:17:00.0"),
    ]
    layout = build_layout(found, RuleBook.of([PROFILE]))
    told = {channel.name: (channel.title, channel.address, channel.flow, channel.paced) for channel in layout.channels}
    assert told == {
        "busy{gpu=0}": ("busy time", "0000:17:00.0", True, False),
        "heat{gpu=0}": ("", "0000:17:00.0", False, True),
        "heat{gpu=1}": ("", "", False, True),
        "queue{device=sda}": ("sda queue", "", False, False),
        "load": ("", "", False, False),
    }


def test_an_info_series_that_comes_late_or_changes_moves_no_value():
    """The rows are those of a host without it; only the description of the channels changes."""
    busy, place, other = series("busy_total", gpu="0"), info("0", "0000:17:00.0"), info("0", "0000:99:00.0")

    def run(extra):
        state, rows, seen = ChannelState(), [], []
        for second in range(12):
            samples = {busy: [(1000 * second, 5.0 * second)]}
            samples |= {one: [(1000 * second, 1.0)] for one in extra(second)}
            state, news = advance(state, batch_of(samples), (PROFILE,))
            rows += news.frame.values.ravel().tolist()
            seen.append(news.frame.channels[0].address)
            assert (news.resets, news.rejected, news.restarted) == (0, 0, False)
        return rows, seen

    plain, _ = run(lambda second: ())
    late, seen = run(lambda second: () if second < 4 else (place,))
    np.testing.assert_array_equal(late, plain)
    assert seen == [""] * 4 + ["0000:17:00.0"] * 8
    _, seen = run(lambda second: (place,) if second < 6 else (other,))
    # Of both is known that they were there a moment ago.
    assert seen[5] == "0000:17:00.0"
    assert seen[6] == ""

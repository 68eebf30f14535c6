"""What whole hosts say when their GPUs fail."""

from __future__ import annotations

import re

import pytest

from hwsonde_detector.hoststate import episode_document, read_episode
from hwsonde_detector.types import Device, Direction, Phase, Subsystem
from hwsonde_detector.worker import restore, snapshot
from tests.detector.explain.gpus import PLAN, address, batches
from tests.detector.worker.hosts import events, play, scores

BEGIN, SECONDS = 200, 230


def throttled(*gpus, begin=BEGIN):
    """From ``begin`` on these GPUs run at 1.2 GHz and draw 310 W; GPU 5 is a little warmer as well."""

    def fault(name, gpu, second, value):
        if second < begin:
            return value
        if gpu in gpus and name == "clock_hertz":
            return value - 0.75e9
        if gpu in gpus and name == "power_watts":
            return value - 370
        return value + 12 if gpu == "5" and name == "temperature_celsius" else value

    return fault


def opened(fault, **options):
    _, outputs = play(batches(SECONDS, fault, **options), PLAN)
    first = next(event for event in events(outputs) if event.phase is Phase.OPENED)
    return first.episode, outputs


def test_the_gpu_whose_channels_carry_the_share_is_named_with_its_place():
    episode, outputs = opened(throttled("3"))
    assert episode.device == Device("gpu", "3")
    assert episode.subsystem in (Subsystem.GPU, Subsystem.POWER)
    part = "gpu 3" if episode.subsystem is Subsystem.GPU else "power gpu 3"
    assert episode.title.startswith(f"lab/n1 {part} ({address('3')}): ")
    assert re.search(r"SM clock 1\.(1\d|2) GHz", episode.title)
    assert "expected at least 1.9" in episode.title
    newest = scores(outputs)[-1]
    assert newest.devices[0][0] == Device("gpu", "3")
    assert dict(newest.devices)[Device("gpu", "3")] > 2 * dict(newest.devices)[Device("gpu", "5")]
    told = {entry.channel.name: entry.direction for entry in episode.top}
    assert told["clock_hertz{gpu=3}"] is told["power_watts{gpu=3}"] is Direction.LOW
    assert told["temperature_celsius{gpu=5}"] is Direction.HIGH
    assert episode.uncertainty_ms == 1000
    # All of them began in one row: who was first cannot be told.
    assert "first of" not in episode.title
    assert {at for name, at in episode.first_channels if name != "temperature_celsius{gpu=5}"} == {episode.onset_ms}


def test_eight_gpus_that_fail_alike_are_not_told_as_one():
    episode, _ = opened(throttled(*"01234567"))
    assert episode.device is None
    assert " and 7 more: " in episode.title


def test_the_channel_that_moved_first_is_said_to():
    slow, warm = throttled("3"), throttled("3", begin=BEGIN + 3)

    def fault(name, gpu, second, value):
        return slow(name, gpu, second, value) if name == "clock_hertz" else warm(name, gpu, second, value)

    episode, _ = opened(fault)
    assert episode.first_channels[0][0] == "clock_hertz{gpu=3}"
    if "power" in episode.title:
        assert "SM clock" in episode.title
        assert "first of" in episode.title


def test_a_gpu_of_which_nobody_tells_where_it_sits_has_no_address():
    episode, _ = opened(throttled("3"), without_address=("3",))
    assert "gpu 3: " in episode.title


def test_a_fault_of_the_host_names_no_gpu():
    def fault(name, gpu, second, value):
        return value + 0.5 if second >= BEGIN and not gpu else value

    episode, outputs = opened(fault)
    assert episode.subsystem is Subsystem.CPU
    assert episode.device is None
    assert episode.title.startswith("lab/n1 cpu: ")
    assert "CPU busy time" in episode.title
    assert not scores(outputs)[-1].devices or scores(outputs)[-1].devices[0][1] < 0.2


@pytest.mark.parametrize("at", [BEGIN + 8, BEGIN + 20])
def test_an_open_episode_outlives_a_restart_with_all_that_it_says(at):
    ticks = batches(SECONDS, throttled("3"))
    state, _ = play(ticks[:at], PLAN)
    (host,) = state.hosts.values()
    assert host.episode is not None
    document, arrays = snapshot(state)
    (again,) = restore(document, arrays, PLAN).hosts.values()
    assert again.episode == host.episode
    assert again.episode.top[0].direction is host.episode.top[0].direction


def test_an_episode_of_an_older_state_is_read():
    episode, _ = opened(throttled("3"))
    document = episode_document(episode)
    for key in ("device", "uncertainty_ms"):
        del document[key]
    for entry in document["top"]:
        del entry["direction"]
        for key in ("title", "address", "flow", "paced"):
            del entry["channel"][key]
    read = read_episode(document)
    assert read.device is None
    assert read.title == episode.title
    assert read.top[0].direction is Direction.LOW


def test_a_replay_gives_the_same_words():
    ticks = batches(SECONDS, throttled("3"))
    first, second = (play(ticks, PLAN)[1] for _ in range(2))
    assert events(first) == events(second)
    assert scores(first) == scores(second)

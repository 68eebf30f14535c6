"""Settings and scopes in the JSON of hosts and episodes."""

from __future__ import annotations

import dataclasses

from hwsonde_detector.types import Device, Scope, SettingFinding
from hwsonde_detector.web import documents

from .data import HOSTILE, NOW, entity, episode, fleet

FINDING = SettingFinding(entity("node17"), "cpu.governor", "", "powersave", "performance", 7, 7, "performance", NOW)


def document(**changes: object) -> dict:
    board, history = fleet()
    published = board.get()
    hosts = tuple(
        dataclasses.replace(host, **changes) if host.entity == entity("node17") else host for host in published.hosts
    )
    found = documents.host(dataclasses.replace(published, hosts=hosts), history, "a/node17", 100.0, NOW)
    assert found is not None
    return found


def test_a_host_shows_settings_that_differ_or_changed() -> None:
    (shown,) = document(settings=(FINDING,))["settings"]
    assert shown["text"] == (
        "cpu.governor is powersave, 7 of 7 peers have performance, it was performance until " + documents.clock(NOW)
    )
    assert (shown["value"], shown["usual"], shown["agree"], shown["changed_at_ms"]) == (
        "powersave",
        "performance",
        7,
        NOW,
    )
    plain = documents.setting(SettingFinding(entity("n"), "mtu", "eth0", "1500", "9000", 7, 8))
    assert plain["text"] == "mtu of eth0 is 1500, 7 of 8 peers have 9000"
    assert document()["settings"] == []


def test_a_host_names_whom_it_waits_for() -> None:
    assert document(follows=entity("node18"))["follows"] == "a/node18"
    assert document()["follows"] is None


def test_a_host_says_what_counts_as_normal() -> None:
    one = episode(entity("node17"), NOW, None)
    (shown,) = document(normal=((one, "silence 1 (burn-in)"),))["normal"]
    assert (shown["reason"], shown["identity"]) == ("silence 1 (burn-in)", one.identity)
    assert document()["normal"] == []


def test_an_episode_says_how_far_it_reaches() -> None:
    one = dataclasses.replace(
        episode(entity("node17"), NOW, None),
        scope=Scope.DEVICE,
        device=Device("gpu", HOSTILE),
        settings=(FINDING,),
    )
    shown = documents.episode(one)
    assert (shown["scope"], shown["device"]) == ("device", {"class": "gpu", "name": HOSTILE})
    assert shown["settings"][0]["setting"] == "cpu.governor"
    usual = documents.episode(episode(entity("node17"), NOW, None))
    assert (usual["scope"], usual["device"], usual["settings"]) == ("host", None, [])

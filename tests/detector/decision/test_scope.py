"""How far an episode reaches."""

from __future__ import annotations

import pytest

from hwsonde_detector.decision.scope import Standing, Verdict, common, comparable_share, leading_device, scope_of
from hwsonde_detector.types import Channel, Contribution, Device, Entity, Scope, Subsystem

GPU = Device("gpu", "3")
QUIET, LOUD = Standing(loud=False, odd=False), Standing(loud=True, odd=False)
ODD, ODD_PART = Standing(loud=True, odd=True, score=2.0), Standing(loud=True, odd=True, score=3.0, device=GPU)


def entity(number: int) -> Entity:
    return Entity((("node", f"n{number}"),))


def verdict(*standings: Standing, comparable: float = 1.0, **changes) -> Verdict:
    known = {"minimum": 4, "job": True, "elsewhere": False, "subsystem": Subsystem.CPU, **changes}
    return scope_of(entity(0), {entity(number): one for number, one in enumerate(standings)}, comparable, **known)


@pytest.mark.parametrize(
    ("standings", "changes", "wanted"),
    [
        ((ODD, LOUD, LOUD, LOUD), {}, Verdict(Scope.HOST)),
        ((ODD_PART, LOUD, LOUD, LOUD), {}, Verdict(Scope.DEVICE, GPU)),
        ((ODD_PART,), {}, Verdict(Scope.DEVICE, GPU)),
        ((LOUD, ODD, LOUD, LOUD), {}, Verdict(Scope.HOST, leader=entity(1))),
        ((LOUD, ODD, ODD_PART, LOUD), {}, Verdict(Scope.HOST, leader=entity(2))),
        ((LOUD, ODD, QUIET, QUIET), {}, Verdict(Scope.HOST, leader=entity(1))),
        ((LOUD, Standing(loud=False, odd=True), QUIET, QUIET), {}, Verdict(Scope.HOST)),
        ((LOUD, LOUD, LOUD, QUIET), {}, Verdict(Scope.JOB)),
        ((LOUD, LOUD, QUIET, QUIET), {}, Verdict(Scope.HOST)),
        ((LOUD, LOUD, LOUD), {}, Verdict(Scope.HOST)),
        ((LOUD,) * 4, {"comparable": 0.4}, Verdict(Scope.HOST)),
        ((LOUD, ODD, LOUD, LOUD), {"comparable": 0.4}, Verdict(Scope.HOST)),
        ((LOUD,) * 4, {"elsewhere": True}, Verdict(Scope.FABRIC)),
        ((LOUD,) * 4, {"subsystem": Subsystem.NETWORK}, Verdict(Scope.JOB)),
        ((LOUD,) * 4, {"subsystem": Subsystem.NETWORK, "job": False}, Verdict(Scope.FABRIC)),
        ((LOUD,) * 4, {"job": False}, Verdict(Scope.JOB)),
        ((), {}, Verdict(Scope.HOST)),
    ],
)
def test_scopes(standings, changes, wanted: Verdict) -> None:
    assert verdict(*standings, **changes) == wanted


def test_most_of_enough_hosts_is_common() -> None:
    def of(*standings: Standing) -> bool:
        return common({entity(number): one for number, one in enumerate(standings)}, 4)

    assert of(LOUD, LOUD, LOUD, QUIET)
    assert not of(LOUD, LOUD, QUIET, QUIET)
    assert not of(LOUD, LOUD, LOUD)


def test_a_device_is_named_when_most_of_it_is_its_own() -> None:
    other = Device("gpu", "4")
    assert leading_device({GPU: 6.0, None: 4.0}) == GPU
    assert leading_device({GPU: 5.0, None: 5.0}) is None
    assert leading_device({GPU: 5.0, other: 5.0}) is None
    assert leading_device({None: 5.0}) is None
    assert leading_device({}) is None
    assert leading_device({GPU: 0.0}) is None


def test_what_is_comparable_is_a_share_of_the_evidence() -> None:
    top = tuple(
        Contribution(Channel(name, Subsystem.CPU), share, 5.0, 1.0, 0.0, 0.5)
        for name, share in (("a", 0.7), ("b", 0.3))
    )
    assert comparable_share(top, {"a"}) == pytest.approx(0.7)
    assert comparable_share(top, frozenset()) == 0.0
    assert comparable_share((), {"a"}) == 0.0

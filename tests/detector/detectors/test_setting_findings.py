"""Which settings differ, and which changed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.detectors.settings import HostSettings, differing, findings
from hwsonde_detector.signals.slow import Seen
from hwsonde_detector.types import Entity, SettingFinding

A, B = ("cpu.governor", ""), ("network.mtu_bytes", "eth0")


def entity(number: int) -> Entity:
    return Entity((("node", f"n{number}"),))


def own(values: dict[tuple[str, str], str], at_ms: int = 1000) -> HostSettings:
    made = HostSettings()
    made.take({key: Seen(value, at_ms, at_ms) for key, value in values.items()})
    return made


def group(*values: str) -> dict[Entity, HostSettings]:
    return {entity(number): own({A: value}) for number, value in enumerate(values)}


def test_the_minority_is_named() -> None:
    found = differing(group("a", "a", "b", "a", "a"), 4)
    assert found == {entity(2): {A: SettingFinding(entity(2), *A, "b", "a", 4, 4)}}


@pytest.mark.parametrize(
    ("values", "count"),
    [("aaab", 1), ("aabb", 0), ("aaaabb", 0), ("aaaaaabb", 2), ("aaa", 0), ("aab", 0), ("abcd", 0), ("aaaa", 0)],
)
def test_only_a_clear_majority_is_usual(values: str, count: int) -> None:
    assert len(differing(group(*values), 4)) == count


def test_gpus_of_one_host_are_compared_with_each_other() -> None:
    values = {("gpu.ecc", f"gpu{number}"): "off" if number == 3 else "on" for number in range(8)}
    nics = {("network.mtu_bytes", f"eth{number}"): "1500" if number == 3 else "9000" for number in range(8)}
    found = differing({entity(1): own(values | nics)}, 4)
    assert found == {
        entity(1): {
            ("gpu.ecc", "gpu3"): SettingFinding(entity(1), "gpu.ecc", "gpu3", "off", "on", 7, 7),
        }
    }


@given(st.permutations(list("aaaaaaabc")))
def test_the_order_of_hosts_does_not_matter(values: list[str]) -> None:
    found = differing(group(*values), 4)
    assert sorted(one[A].value for one in found.values()) == ["b", "c"]
    assert all((one[A].usual, one[A].agree, one[A].peers) == ("a", 7, 8) for one in found.values())


def test_a_change_is_noticed_once_with_its_time() -> None:
    settings = own({A: "x", B: "9000"})
    assert not settings.take({A: Seen("x", 2000, 2000)})
    assert settings.take({A: Seen("y", 3000, 3500)})
    assert not settings.take({A: Seen("y", 4000, 4000)})
    (finding,) = findings(entity(1), settings, {}, 5000, 10_000)
    assert finding == SettingFinding(entity(1), *A, "y", None, 0, 0, "x", 3000)
    assert findings(entity(1), settings, {}, 14_000, 10_000) == ()
    assert findings(entity(1), settings, {}, 2_999, 10_000) == (), "it had not happened yet"


def test_what_is_read_again_or_missing_is_no_change() -> None:
    settings = own({A: "x", B: "9000"}, at_ms=5000)
    assert not settings.take({A: Seen("old", 3000, 4000)})
    assert not settings.take({})
    assert settings.kept[A].value == "x"
    assert settings.take({A: Seen("y", 1000, 6000)})
    assert settings.kept[A].changed_at_ms == 5001, "not before what was seen last"


def test_what_never_rests_is_no_setting() -> None:
    settings = own({A: "0"})
    for number in range(1, 6):
        settings.take({A: Seen(str(number), 10_000 * number, 10_000 * number)})
    assert len(findings(entity(1), settings, {}, 50_000, 10**9)) == 1
    settings.take({A: Seen("6", 60_000, 60_000)})
    assert findings(entity(1), settings, {}, 60_000, 10**9) == ()
    settings.take({A: Seen("7", 10_000_000, 10_000_000)})
    assert len(findings(entity(1), settings, {}, 10_000_000, 10**9)) == 1


def test_changes_come_first_and_all_of_it_is_bounded() -> None:
    settings = own({(f"s{number:03}", ""): "x" for number in range(200)})
    settings.take({("s150", ""): Seen("y", 2000, 2000), ("s151", ""): Seen("y", 3000, 3000)})
    differs = {key: SettingFinding(entity(1), *key, "x", "z", 7, 7) for key in settings.kept}
    found = findings(entity(1), settings, differs, 4000, 10_000)
    assert [one.setting for one in found[:3]] == ["s151", "s150", "s000"]
    assert found[0].usual == "z"
    assert found[0].previous == "x"
    assert len(found) == 50


def test_findings_are_plain_values() -> None:
    found = differing(group("a", "a", "b", "a", "a"), 4)[entity(2)][A]
    assert hash(found) == hash(SettingFinding(entity(2), *A, "b", "a", 4, 4))
    assert not isinstance(found.agree, np.generic)

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors.bonding import BondingCollector
from hwsonde_exporter.collectors.conntrack import ConntrackCollector, parse_conntrack
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.host import Ignored
from tests.exporter.collectors.fakes import memory_host
from tests.exporter.collectors.hosts import values
from tests.exporter.collectors.trees import tree_host

BOND = "hwsonde_network_bond_{}".format
TRACK = "hwsonde_network_conntrack_{}".format
NET = "sys/class/net"


def bond(mode: str, **members: tuple[str, str, str]) -> dict[str, str]:
    """Files of bond0 and of its members: link status, state, aggregator."""
    files = {
        f"{NET}/bonding_masters": "bond0", f"{NET}/bond0/bonding/mode": mode, f"{NET}/bond0/bonding/ad_aggregator": "1",
        f"{NET}/bond0/bonding/slaves": " ".join(members),
    }  # fmt: skip
    for name, (status, state, aggregator) in members.items():
        base = f"{NET}/{name}/bonding_slave"
        files |= {f"{base}/mii_status": status, f"{base}/state": state, f"{base}/ad_aggregator_id": aggregator}
        files |= {f"{base}/link_failure_count": "2"}
    return files


def in_use(answer: dict[tuple[str, ...], float]) -> dict[str, float]:
    return {key[2]: value for key, value in answer.items() if key[0] == BOND("member_in_use")}


def test_a_member_in_another_aggregator_carries_nothing(tmp_path: Path) -> None:
    files = bond("802.3ad 4", eth0=("up", "active", "1"), eth1=("up", "active", "2"), eth2=("down", "active", "1"))
    collector = BondingCollector(tree_host(tmp_path, files))
    collector.probe()
    answer = values(list(collector.collect()))
    assert answer[BOND("info"), "bond0", "802.3ad"] == 1
    assert (answer[BOND("members"), "bond0"], answer[BOND("active_members"), "bond0"]) == (3, 2)
    assert in_use(answer) == {"eth0": 1, "eth1": 0, "eth2": 0}
    assert answer[BOND("member_up"), "bond0", "eth1"] == 1
    assert answer[BOND("member_failures_total"), "bond0", "eth2"] == 2


def test_a_backup_is_up_but_not_in_use(tmp_path: Path) -> None:
    files = bond("active-backup 1", eth0=("up", "active", ""), eth1=("up", "backup", ""))
    assert in_use(values(list(BondingCollector(tree_host(tmp_path, files)).collect()))) == {"eth0": 1, "eth1": 0}


def test_a_bond_that_does_not_tell_its_mode_has_members_all_the_same(tmp_path: Path) -> None:
    answer = values(list(BondingCollector(tree_host(tmp_path, bond("", eth0=("up", "active", "")))).collect()))
    assert answer[BOND("active_members"), "bond0"] == 1
    assert not [key for key in answer if key[0] == BOND("info")]


def test_a_bond_without_members_and_one_whose_member_vanished(tmp_path: Path) -> None:
    answer = values(list(BondingCollector(tree_host(tmp_path, bond("balance-rr 0"))).collect()))
    assert (answer[BOND("members"), "bond0"], answer[BOND("active_members"), "bond0"]) == (0, 0)
    (tmp_path / f"{NET}/bond0/bonding/slaves").write_text("eth9 ../../x eth9\n")
    answer = values(list(BondingCollector(tree_host(tmp_path, {})).collect()))
    assert (answer[BOND("members"), "bond0"], answer[BOND("active_members"), "bond0"]) == (1, 0)


def test_no_bond_or_an_ignored_one(tmp_path: Path) -> None:
    host = tree_host(tmp_path, bond("balance-rr 0"))
    for there in (tree_host(tmp_path / "none", {}), replace(host, ignored=Ignored(devices=re.compile("bond.*")))):
        with pytest.raises(Unavailable) as caught:
            BondingCollector(there).probe()
        assert caught.value.reason is Reason.NO_HARDWARE


HEAD = "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error  expect_new "
HEAD += "expect_create expect_delete search_restart\n"
STAT = "/proc/1/net/stat/nf_conntrack"


def row(entries: int, invalid: int, drop: int) -> str:
    return (
        " ".join(f"{value:08x}" for value in (entries, 0, 0, 0, invalid, 0, 0, 0, 0, 0, drop, 0, 0, 0, 0, 0, 0)) + "\n"
    )


def test_entries_are_the_same_in_each_row_and_events_are_summed() -> None:
    files = {
        STAT: (HEAD + row(255, 3, 1) + row(255, 4, 0)).encode(),
        "/proc/sys/net/netfilter/nf_conntrack_max": b"1000\n",
    }
    host, _ = memory_host(files | {"/proc/sys/net/netfilter/nf_conntrack_count": b"7\n"})
    answer = values(list(ConntrackCollector(host).collect()))
    assert (answer[(TRACK("entries"),)], answer[(TRACK("limit"),)]) == (255, 1000)
    assert (answer[TRACK("events_total"), "invalid"], answer[TRACK("events_total"), "drop"]) == (7, 1)
    assert (TRACK("events_total"), "found") not in answer


def test_a_counter_of_32_bits_that_wraps_does_not_make_the_sum_fall() -> None:
    host, reader = memory_host({STAT: (HEAD + row(1, 0xFFFFFFFF, 0) + row(1, 5, 0)).encode()})
    collector = ConntrackCollector(host)
    first = values(list(collector.collect()))[TRACK("events_total"), "invalid"]
    reader.contents[STAT] = (HEAD + row(1, 2, 0) + row(1, 6, 0)).encode()
    assert values(list(collector.collect()))[TRACK("events_total"), "invalid"] == first + 3


def test_without_the_table_the_setting_is_taken_and_without_both_it_says_so() -> None:
    host, _ = memory_host({"/proc/sys/net/netfilter/nf_conntrack_count": b"7\n"})
    collector = ConntrackCollector(host)
    collector.probe()
    assert values(list(collector.collect())) == {(TRACK("entries"),): 7}
    with pytest.raises(Unavailable) as caught:
        ConntrackCollector(memory_host({})[0]).probe()
    assert caught.value.reason is Reason.NO_KERNEL_SUPPORT


@given(st.binary(max_size=200), st.integers(0, 300))
def test_any_table_is_survived(junk: bytes, cut: int) -> None:
    text = (HEAD + row(255, 3, 1)).encode()
    entries, columns = parse_conntrack(text[:cut] + junk + text[cut:])
    assert entries is None or 0 <= entries < 1 << 31
    assert all(value >= 0 for column in columns.values() for value in column)

"""Settings that drivers of network devices tell."""

from __future__ import annotations

import errno
import socket
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors._dcb import open_dcb, parse_dcb, question
from hwsonde_exporter.collectors._setting_ethtool import EthtoolSettings, features_on
from hwsonde_exporter.errors import Unavailable
from tests.exporter.collectors.setting_drivers import Card, dcb_answer, ethtool


def rows_of(card: Card) -> dict[str, str]:
    return {
        row.setting.removeprefix("network."): row.value for row in EthtoolSettings(ethtool({"eth0": card})).rows("eth0")
    }


def test_a_driver_tells_its_settings() -> None:
    card = Card(
        adaptive=(0, 1), coalescing=(3, 0, 16, 32), pause=(1, 1, 0), channels=(4, 2, 0), fec=(0, 1 << 3 | 1 << 1)
    )
    found = rows_of(card)
    assert found["ring_sizes"] == "rx 8192, tx 8192"
    assert found["channels"] == "rx 4, tx 2"
    assert found["coalescing"] == "adaptive rx off tx on, rx 3 us 0 frames"
    assert found["pause"] == "autonegotiated on, rx on, tx off"
    assert found["forward_error_correction"] == "auto+rs"
    assert found["offloads"] == "gro gso rx-checksum rx-hash scatter-gather tc tso tso6 tx-checksum"
    assert found["private_flags"] == "rx_cqe_moder rx_striding_rq"
    assert (found["driver"], found["firmware"]) == ("mlx5_core 5.15.0-118-generic", "28.39.1002 (MT_0000000838)")


def test_what_a_driver_does_not_tell_is_left_out() -> None:
    card = Card(("lan", "", "N/A"), None, None, None, (0, 0), None, None, frozenset(), {})
    assert rows_of(card) == {"driver": "lan", "offloads": "none"}
    assert not list(EthtoolSettings(ethtool({})).rows("eth0"))


@given(st.lists(st.text(max_size=30), max_size=70), st.binary(max_size=80))
def test_any_features_are_survived(names: list[str], blocks: bytes) -> None:
    assert features_on(names, blocks) == "none" or set(names)


def test_bridging_settings() -> None:
    found = parse_dcb(dcb_answer((3, 5), (5,)))
    assert found["priority_flow_control"] == "3,5"
    assert found["trust"] == "dscp"
    assert found["priority_classes"] == "0 1 2 3 4 5 6 7"
    assert found["scheduling"].split()[2:4] == ["ets:12%", "strict"]
    assert parse_dcb(dcb_answer(()))["priority_flow_control"] == "none"
    assert parse_dcb(dcb_answer((), (1,)))["trust"] == "pcp"
    assert parse_dcb(dcb_answer((), (5,), trusted=(255, 5)))["trust"] == "pcp dscp"
    assert parse_dcb(b"") == {}


def test_the_question_is_aligned_and_names_the_device() -> None:
    message = question("ens1f0np0", 7)
    assert struct.unpack_from("=IHHII", message) == (len(message), 78, 1, 7, 0)
    assert len(message) % 4 == 0
    assert b"ens1f0np0\0" in message


def test_the_kernel_answers_of_the_loopback_device_that_it_has_no_such_thing() -> None:
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE).close()
    except OSError as error:
        pytest.skip(f"the kernel gives no netlink socket here: {error}")
    try:
        ask = open_dcb(Path("/proc"))
    except Unavailable as error:
        pytest.skip(f"the host's network cannot be told here: {error.detail}")
    with pytest.raises(OSError, match="refuses") as caught:
        ask("lo")
    assert caught.value.errno == errno.EOPNOTSUPP
    with pytest.raises(OSError, match="refuses") as caught:
        ask("no-such-device")
    assert caught.value.errno in {errno.ENODEV, errno.EINVAL, errno.EOPNOTSUPP}

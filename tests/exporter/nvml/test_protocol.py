"""Messages, events, the slot that shows where the worker is, and the checks of what comes in."""

from __future__ import annotations

import json
import os
import socket
import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.nvml.answer import Malformed, Reading, parse_reply
from hwsonde_exporter.nvml.progress import Slot
from hwsonde_exporter.nvml.wire import (
    EVENT_BYTES,
    MAX_MESSAGE,
    Broken,
    Inbox,
    RawEvent,
    decode_event,
    encode,
    encode_event,
    receive,
)
from tests.exporter.nvml.fakes import reply

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(messages=st.lists(st.dictionaries(st.text(), st.integers())), cut=st.integers(1, 7))
def test_messages_come_out_as_they_went_in_whatever_the_pieces(messages: list[Any], cut: int) -> None:
    data = b"".join(encode(message) for message in messages)
    inbox, found = Inbox(), []
    for start in range(0, len(data), cut):
        inbox.feed(data[start : start + cut])
        while (message := inbox.message()) is not None:
            found.append(message)
    assert found == messages


@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    inbox = Inbox()
    inbox.feed(data)
    with suppress(Broken):
        while inbox.message() is not None:
            pass


@pytest.mark.parametrize("body", [b"null", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_message_is_refused(body: bytes) -> None:
    inbox = Inbox()
    inbox.feed(struct.pack("<I", len(body)) + body)
    with pytest.raises(Broken):
        inbox.message()


def test_a_length_beyond_the_bound_is_refused_before_it_is_waited_for() -> None:
    inbox = Inbox()
    inbox.feed(struct.pack("<I", MAX_MESSAGE + 1))
    with pytest.raises(Broken):
        inbox.message()
    with pytest.raises(Broken):
        encode("x" * MAX_MESSAGE)


def test_the_end_of_the_other_side_is_noticed() -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(encode({"a": 1}))
    theirs.close()
    inbox = Inbox()
    assert receive(ours, inbox) == {"a": 1}
    with pytest.raises(Broken):
        receive(ours, inbox)
    ours.close()


def test_an_event_survives_its_way_and_texts_are_cut() -> None:
    event = RawEvent(7, 1.5, 79, -1, "GPU-1", "0000:3b:00.0")
    assert decode_event(encode_event(event)) == event
    long = decode_event(encode_event(event._replace(uuid="x" * 100)))
    assert long is not None
    assert long.uuid == "x" * 64
    assert decode_event(b"") is None
    assert decode_event(bytes(EVENT_BYTES + 1)) is None


def test_the_slot_shows_what_was_entered_last() -> None:
    memory = Slot.create()
    writer, reader = Slot(memory), Slot(memory)
    os.close(memory)
    assert reader.read() is None
    writer.enter(3, "nvlink", 12.5)
    assert reader.read() == (3, "nvlink", 12.5)
    writer.enter(-1, "x" * 100, 13.0)
    assert reader.read() == (-1, "x" * 48, 13.0)
    writer.leave(14.0)
    assert reader.read() is None
    writer.close()
    reader.close()


def test_a_reply_is_taken_apart() -> None:
    message = reply(
        4, ["a"], fast=[["a", "power", [1, 2.5]]], errors=[["ecc", "unknown", 2]], unreachable=[[1, "gpu_is_lost"]]
    )
    found = parse_reply(json.loads(json.dumps(message)), 4)
    assert found.gpus == 1
    assert found.devices[0].readings == (Reading("utilization_ratio", (), 50),)
    assert found.fast == {("a", "power"): (1, 2.5)}
    assert found.unreachable == {1: "gpu_is_lost"}
    assert found.errors == (("ecc", "unknown", 2),)


def test_an_integer_of_64_bits_keeps_its_digits() -> None:
    message = reply(1, ["a"])
    message["devices"][0]["readings"] = [["energy_joules_total", [], (1 << 63) + 1]]
    assert parse_reply(message, 1).devices[0].readings[0].value == (1 << 63) + 1


@given(message=ANYTHING)
def test_anything_else_is_refused(message: Any) -> None:
    with pytest.raises(Malformed):
        parse_reply(message, 1)


@given(key=st.sampled_from(sorted(reply(1, ["a"]))), value=ANYTHING)
def test_a_reply_with_one_wrong_part_is_read_or_refused(key: str, value: Any) -> None:
    message = reply(1, ["a"])
    message[key] = value
    with suppress(Malformed):
        parse_reply(message, 1)


@given(value=ANYTHING)
def test_a_reading_with_a_wrong_value_is_read_or_refused(value: Any) -> None:
    for place in range(3):
        message = reply(1, ["a"])
        message["devices"][0]["readings"][0][place] = value
        with suppress(Malformed):
            parse_reply(message, 1)


def test_too_much_of_everything_is_refused() -> None:
    with pytest.raises(Malformed):
        parse_reply(reply(1, [str(number) for number in range(300)]), 1)
    message = reply(1, ["a"])
    message["devices"][0]["readings"] = [["x", [], 1]] * 20_001
    with pytest.raises(Malformed):
        parse_reply(message, 1)

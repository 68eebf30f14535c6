from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter import parsing
from tests.exporter.collectors import naive

TOKENS = st.binary(max_size=30)
TABLES = st.lists(
    st.tuples(st.sampled_from([b"ctxt", b"ctx", b"intr", b"cpu"]), st.sampled_from([b" ", b"  ", b""]),
              st.sampled_from([b"1", b"42 7", b"-3", b"x", b"", b"9" * 25])),
    max_size=6,
).map(lambda rows: b"\n".join(b"".join(row) for row in rows))  # fmt: skip


def test_a_line_that_was_cut_does_not_count() -> None:
    assert parsing.lines(b"ctxt 12\nbtime 17") == [b"ctxt 12"]
    assert parsing.key_values(b"ctxt 12\nbtime 17") == {b"ctxt": 12}
    assert parsing.number_after(b"\nctxt 12\nbtime 17", b"\nbtime ") is None


@given(TOKENS)
def test_numbers_are_numbers(token: bytes) -> None:
    value = parsing.number(token)
    assert value is None or (0 <= value < 10**20 and token.decode("ascii").isdecimal())
    fraction = parsing.decimal(token)
    assert fraction is None or (fraction >= 0 and math.isfinite(fraction))
    sixteen = parsing.hexadecimal(token)
    assert sixteen is None or 0 <= sixteen < 1 << 64


def test_what_is_no_number() -> None:
    assert [parsing.number(token) for token in (b"", b"-1", b"+1", b"1.5", b"0x1", b"1" * 21, "٣".encode())] == [
        None
    ] * 7
    assert parsing.number(b"18446744073709551615") == 2**64 - 1
    assert parsing.number(b"18446744073709551616") is None
    assert parsing.number(b"99999999999999999999") is None
    assert [parsing.decimal(token) for token in (b".", b"-0.1", b"1e5", b"nan", b"1.2.3", b"")] == [None] * 6
    assert parsing.decimal(b"0.08") == 0.08
    assert [parsing.hexadecimal(token) for token in (b"", b"-1", b"0x1", b"1_0", b"g", b"0" * 17)] == [None] * 6
    assert parsing.hexadecimal(b"0000ff") == 255


def test_patterns_of_all_bits_set_are_not_known() -> None:
    assert [parsing.known(value) for value in (2**63 - 1, 2**64 - 1, 2**32 - 1, None)] == [None] * 4
    assert parsing.known(2466170) == 2466170


@given(st.binary(max_size=60) | TABLES)
def test_number_after_equals_its_twin(data: bytes) -> None:
    for key in (b"\nctxt ", b"\nintr "):
        assert parsing.number_after(data, key) == naive.number_after(data, key)


@given(
    st.lists(st.sampled_from([b"0", b"3", b"1-2", b"5-4", b"7-9", b"-", b"x", b"0-99999999999", b"65535-65536", b""]))
)
def test_cpu_list_equals_its_twin(parts: list[bytes]) -> None:
    data = b",".join(parts) + b"\n"
    assert [cpu for cpu in parsing.cpu_list(data) if cpu < 300] == naive.cpu_list(data)


def test_header_tables_pair_names_and_numbers() -> None:
    data = b"Ip: A B\nIp: 1 2\nTcp: MaxConn In\nTcp: -1 5\nUdp: A B C\nUdp: 7\nOdd: A\nOther: 1\n"
    expected = {b"Ip": {b"A": 1, b"B": 2}, b"Tcp": {b"In": 5}, b"Udp": {b"A": 7}}
    assert parsing.header_tables(data) == expected


@given(st.binary(max_size=200))
def test_tables_never_raise(data: bytes) -> None:
    parsing.key_values(data)
    parsing.header_tables(data)
    parsing.cpu_list(data)


@given(st.binary(max_size=300))
def test_text_is_one_printable_line(data: bytes) -> None:
    text = parsing.text(data)
    assert text.isprintable()
    assert len(text) <= 128
    assert text == text.strip()
    text.encode("utf-8")


def test_text_keeps_words() -> None:
    assert parsing.text(b"  Example  NVMe\t3840GB \n") == "Example NVMe 3840GB"
    assert parsing.text(b"a\x00b") == "a?b"

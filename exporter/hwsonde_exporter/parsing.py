"""The small pure parsers that the collectors share; all work on bytes as the kernel gives them.

One rule holds for all of them: what is not understood is left out, never guessed and never an error. The last line of a
table counts only if its end was read, because a number that was cut is still a number.
"""

from __future__ import annotations

from collections.abc import Iterable

# 2**64 - 1 has 20 digits; a longer run of digits is no kernel counter.
_MAX_DIGITS = 20
_BITS = 64
_MAX_CPU = 1 << 16
_MAX_LABEL = 128
# Limits and counters that a driver leaves at "all bits set" say "not known" or "no limit".
_SENTINELS = frozenset({(1 << 63) - 1, (1 << 64) - 1, (1 << 32) - 1})


def lines(data: bytes) -> list[bytes]:
    """Complete lines of ``data``, without their ends."""
    parts = data.split(b"\n")
    parts.pop()
    return parts


def number(token: bytes) -> int | None:
    """Value of an unsigned decimal number, or None for anything else (a sign, a fraction, more than 64 bits hold)."""
    if token.isdigit() and len(token) <= _MAX_DIGITS:
        value = int(token)
        if value >> _BITS == 0:
            return value
    return None


def numbers(tokens: Iterable[bytes]) -> list[int] | None:
    """Values of unsigned decimal numbers, or None if one of them is none: a sum with an unknown part is not known."""
    values = []
    for token in tokens:
        value = number(token)
        if value is None:
            return None
        values.append(value)
    return values


def decimal(token: bytes) -> float | None:
    """Value of an unsigned decimal fraction (``0.08``), or None for anything else."""
    if len(token) <= _MAX_DIGITS and token.replace(b".", b"", 1).isdigit():
        return float(token)
    return None


def hexadecimal(token: bytes) -> int | None:
    """Value of a bare hexadecimal number of at most 16 digits, or None for anything else."""
    if 0 < len(token) <= 16 and all(character in b"0123456789abcdefABCDEF" for character in token):
        return int(token, 16)
    return None


def known(value: int | None) -> int | None:
    """``value``, or None where it is one of the patterns of all bits set that stand for "not known"."""
    return None if value in _SENTINELS else value


def number_after(data: bytes, key: bytes) -> int | None:
    r"""First number behind the last ``key`` in ``data``; the key ends in a blank and begins with ``\n`` where lines do.

    For the fast sampler, which wants two lines of two hundred and has no time for the others.
    """
    start = data.rfind(key)
    if start < 0:
        return None
    start += len(key)
    end = data.find(b"\n", start)
    if end < 0:
        return None
    return number(data[start:end].partition(b" ")[0])


def key_values(data: bytes) -> dict[bytes, int]:
    """Tables of ``name number`` or ``name: number unit`` lines (vmstat, meminfo); the first line of a name counts."""
    table: dict[bytes, int] = {}
    for line in lines(data):
        fields = line.split(None, 2)
        if len(fields) >= 2 and (value := number(fields[1])) is not None:
            table.setdefault(fields[0].rstrip(b":"), value)
    return table


def header_tables(data: bytes) -> dict[bytes, dict[bytes, int]]:
    """Pairs of lines ``Proto: names`` and ``Proto: numbers`` (net/snmp, net/netstat), as protocol -> name -> value.

    Negative values (``MaxConn`` -1) and tokens that are no numbers are left out; a pair of different lengths counts as
    far as both go.
    """
    tables: dict[bytes, dict[bytes, int]] = {}
    rows = lines(data)
    for names, values in zip(rows[::2], rows[1::2], strict=False):
        protocol, _, rest = names.partition(b":")
        other, _, row = values.partition(b":")
        if protocol != other or not protocol:
            continue
        table = tables.setdefault(protocol, {})
        for name, token in zip(rest.split(), row.split(), strict=False):
            if (value := number(token)) is not None:
                table.setdefault(name, value)
    return tables


def cpu_list(data: bytes) -> list[int]:
    """CPU numbers of a kernel list such as ``0-3,8,10-11``; parts that are none are left out."""
    cpus: set[int] = set()
    for part in data.strip().split(b","):
        first, dash, last = part.partition(b"-")
        low = number(first)
        high = number(last) if dash else low
        if low is not None and high is not None and low <= high < _MAX_CPU:
            cpus.update(range(low, high + 1))
    return sorted(cpus)


def text(data: bytes) -> str:
    """One line for a label: decoded, blanks joined, unprintable characters replaced by ``?``, at most 128 characters."""
    joined = " ".join(data.decode("utf-8", "replace").split())
    return "".join(character if character.isprintable() else "?" for character in joined)[:_MAX_LABEL]

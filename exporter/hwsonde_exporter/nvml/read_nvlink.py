"""NVLink: bytes often, state and errors less often. Functions of the worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hwsonde_exporter.nvml.gpu import Field, Gpu, Row

BYTES = (("transmit", "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX"), ("receive", "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX"))
BYTES_5 = (("transmit", "NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES"), ("receive", "NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES"))
PACKETS_5 = (("transmit", "NVML_FI_DEV_NVLINK_COUNT_XMIT_PACKETS"), ("receive", "NVML_FI_DEV_NVLINK_COUNT_RCV_PACKETS"))
ERRORS = (
    ("replay", "NVML_NVLINK_ERROR_DL_REPLAY"),
    ("recovery", "NVML_NVLINK_ERROR_DL_RECOVERY"),
    ("crc_flit", "NVML_NVLINK_ERROR_DL_CRC_FLIT"),
    ("crc_data", "NVML_NVLINK_ERROR_DL_CRC_DATA"),
)
ERRORS_5 = (
    ("malformed_packet", "NVML_FI_DEV_NVLINK_COUNT_MALFORMED_PACKET_ERRORS"),
    ("buffer_overrun", "NVML_FI_DEV_NVLINK_COUNT_BUFFER_OVERRUN_ERRORS"),
    ("receive", "NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS"),
    ("receive_remote", "NVML_FI_DEV_NVLINK_COUNT_RCV_REMOTE_ERRORS"),
    ("local_link_integrity", "NVML_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS"),
    ("transmit_discard", "NVML_FI_DEV_NVLINK_COUNT_XMIT_DISCARDS"),
    ("link_recovery", "NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS"),
    ("effective", "NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS"),
    ("symbol", "NVML_FI_DEV_NVLINK_COUNT_SYMBOL_ERRORS"),
)
BIT_ERRORS_5 = (
    ("effective", "NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER"),
    ("symbol", "NVML_FI_DEV_NVLINK_COUNT_SYMBOL_BER"),
)
REMOTE = {0: "gpu", 1: "ibmnpu", 2: "switch"}
_KIBIBYTE = 1024
_FIND_SECONDS = 60.0
# A link's other end may be wired anew only while the GPU is reset.
_REMOTE_SECONDS = 300.0


def nvlink(gpu: Gpu) -> Iterator[Row]:
    """Bytes of payload over each link."""
    found = _of_links(gpu, BYTES)
    if found:
        gpu.memory["counts kibibytes"] = True
    if "counts kibibytes" in gpu.memory:
        # Both counters may exist and stand at different numbers: one that fails for once is not replaced by the other.
        for (link, direction), (value, _) in found.items():
            yield "nvlink_bytes_total", (link, direction), int(value) * _KIBIBYTE
        return
    for (link, direction), (value, _) in _of_links(gpu, BYTES_5).items():
        yield "nvlink_bytes_total", (link, direction), value


def nvlink_health(gpu: Gpu) -> Iterator[Row]:
    """State, speed and errors of each link."""
    # The groups that are read more often rely on what is found here.
    for link, up in links(gpu, anew=True):
        if up is not None:
            yield "nvlink_up", (str(link),), int(up)
    for reading, named in (
        ("nvlink_errors_total", ERRORS_5),
        ("nvlink_packets_total", PACKETS_5),
        ("nvlink_bit_error_ratio", BIT_ERRORS_5),
        ("nvlink_speed_bytes_per_second", (("", "NVML_FI_DEV_NVLINK_GET_SPEED"),)),
    ):
        for (place, label), (raw, _) in _of_links(gpu, named).items():
            value = bit_error_ratio(int(raw)) if reading == "nvlink_bit_error_ratio" else raw
            # A link that is down runs at no speed.
            if label or value > 0:
                yield reading, (place, label) if label else (place,), value
    for link, _ in links(gpu):
        for label, name in ERRORS:
            count = gpu.ask("nvmlDeviceGetNvLinkErrorCounter", link, getattr(gpu.nvml, name), key=(link, label))
            if count is not None:
                yield "nvlink_errors_total", (str(link), label), count
    yield from _remotes(gpu)


def links(gpu: Gpu, *, anew: bool = False) -> Sequence[tuple[int, bool | None]]:
    """Number of each link that the GPU has, and whether it is active; looked for now and then, or ``anew``.

    None for a link that is there, and whose state could not be had this time.
    """
    known: tuple[float, list[tuple[int, bool | None]]] | None = gpu.memory.get("links")
    now = gpu.library.clock()
    if known is not None and now - known[0] < _FIND_SECONDS and not anew:
        return known[1]
    before = {link for link, _ in known[1]} if known is not None else set()
    found: list[tuple[int, bool | None]] = []
    for link in range(gpu.nvml.NVML_NVLINK_MAX_LINKS):
        # Beyond the last link the argument is invalid; a link that is not wired may be "not supported" amidst others.
        state = gpu.call("nvmlDeviceGetNvLinkState", lambda link=link: _state(gpu, link), key=link)  # type: ignore[misc]
        if state == _BEYOND:
            break
        if state is not None:
            found.append((link, state == gpu.nvml.NVML_FEATURE_ENABLED))
        elif link in before and not gpu.lacks("nvmlDeviceGetNvLinkState", key=link):
            found.append((link, None))
    gpu.memory["links"] = (now, found)
    return found


def bit_error_ratio(packed: int) -> float:
    """Ratio of a value that holds the mantissa above its lowest eight bits and the exponent in them: m * 10^-e."""
    return float((packed >> 8) & 0xF) * 10.0 ** -(packed & 0xFF)


_BEYOND = -1


def _state(gpu: Gpu, link: int) -> int:
    try:
        state: int = gpu.nvml.nvmlDeviceGetNvLinkState(gpu.handle, link)
    except Exception as error:
        if gpu.library.error_name(error) == "invalid_argument":
            return _BEYOND
        raise
    return state


def _of_links(gpu: Gpu, named: Sequence[tuple[str, str]]) -> dict[tuple[str, str], tuple[Any, int]]:
    """Fields that each link has, by link and label."""
    fields: dict[Field, tuple[str, str]] = {}
    for label, name in named:
        number = getattr(gpu.nvml, name, None)
        if number is not None:
            fields.update({(number, link): (str(link), label) for link, _ in links(gpu)})
    return {fields[field]: value for field, value in gpu.fields(fields).items()}


def _remotes(gpu: Gpu) -> Iterator[Row]:
    """What is at the other end of each active link."""
    now = gpu.library.clock()
    taken, rows = gpu.memory.get("remotes", (float("-inf"), []))
    active = [link for link, up in links(gpu) if up is not False]
    if now - taken >= _REMOTE_SECONDS or active != gpu.memory.get("active"):
        rows = []
        for link in active:
            kind = gpu.ask("nvmlDeviceGetNvLinkRemoteDeviceType", link, key=link)
            place = gpu.ask("nvmlDeviceGetNvLinkRemotePciInfo", link, key=link)
            if kind is not None or place is not None:
                address = bus_id(place.busId) if place is not None else ""
                rows.append(("nvlink_remote_info", (str(link), REMOTE.get(kind, "unknown"), address), 1))
        gpu.memory["remotes"], gpu.memory["active"] = (now, rows), active
    yield from rows


def bus_id(text: str | bytes) -> str:
    """PCI address as sysfs writes it, of the driver's form with eight digits of domain and capital letters."""
    address = (text.decode("ascii", "replace") if isinstance(text, bytes) else text).strip("\0").lower()
    domain, colon, rest = address.partition(":")
    return (
        f"{domain[-4:].rjust(4, '0')}:{rest}" if colon and len(domain) <= 8 and not domain[:-4].strip("0") else address
    )

"""The SMART log of an NVMe controller: how it is asked for and what it says.

Layout and command are those of the NVM Express base specification (Get Log Page, log identifier 02h) and of
linux/nvme_ioctl.h. Nothing here writes to a device.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass

# _IOWR('N', 0x41, struct nvme_admin_cmd), whose 72 bytes are: opcode, flags, reserved, nsid, cdw2, cdw3, metadata, addr,
# metadata_len, data_len, cdw10 to cdw15, timeout_ms, result.
COMMAND = struct.Struct("=BBHIIIQQII6III")
ADMIN_COMMAND = 0xC0484E41
LOG_BYTES = 512
_GET_LOG_PAGE = 0x02
_SMART_LOG = 0x02
_ALL_NAMESPACES = 0xFFFFFFFF

# In millidegrees, as the kernel's own sensors convert it.
_FREEZING = 273_150
_COLDEST, _HOTTEST = -40.0, 150.0
_MAX_COUNT = 1 << 64

# Critical warning bits, from the lowest.
CONDITIONS = ("available_spare", "temperature", "reliability", "read_only", "backup_failed", "persistent_memory")

Ask = Callable[[str], bytes]


class SmartError(Exception):
    """Why a controller gives no SMART log; ``reason`` is a word for a label."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class SmartLog:
    """What a SMART log says; None, or no entry, where it does not.

    Attributes
    ----------
    warnings
        Whether each of `CONDITIONS` is set.
    temperatures
        Degrees Celsius by sensor: ``composite``, ``sensor_1`` to ``sensor_8``.
    spare, spare_threshold, used
        Percent: spare blocks left, the least that there should be, rated life used (may pass 100).
    counts
        Numbers over the life of the device, by the name that they have in `_COUNTS`.
    """

    warnings: tuple[bool, ...]
    temperatures: dict[str, float]
    spare: int | None
    spare_threshold: int | None
    used: int
    counts: dict[str, int]


# Name, offset and bytes of each count.
_COUNTS = (
    ("data_units_read", 32, 16),
    ("data_units_written", 48, 16),
    ("read_commands", 64, 16),
    ("write_commands", 80, 16),
    ("busy_minutes", 96, 16),
    ("power_cycles", 112, 16),
    ("power_on_hours", 128, 16),
    ("unsafe_shutdowns", 144, 16),
    ("media_errors", 160, 16),
    ("error_log_entries", 176, 16),
    ("warning_temperature_minutes", 192, 4),
    ("critical_temperature_minutes", 196, 4),
    ("light_throttle_transitions", 216, 4),
    ("heavy_throttle_transitions", 220, 4),
    ("light_throttle_seconds", 224, 4),
    ("heavy_throttle_seconds", 228, 4),
)


def parse_smart_log(data: bytes) -> SmartLog:
    """Parse the 512 bytes of the log.

    Raises
    ------
    SmartError
        ``garbled`` if it is short, or all bits are set as a device that is gone answers; ``not_supported`` if it is empty, as
        from the disks of some clouds.
    """
    if len(data) < LOG_BYTES or not data[:232].strip(b"\xff"):
        raise SmartError("garbled")
    if not data[:232].strip(b"\0"):
        raise SmartError("not_supported")
    warning, kelvin, spare, threshold, used = struct.unpack_from("<BHBBB", data)
    temperatures: dict[str, float] = {"composite": _celsius(kelvin)}
    for number, sensor in enumerate(struct.unpack_from("<8H", data, 200), 1):
        temperatures[f"sensor_{number}"] = _celsius(sensor)
    counts = {}
    for name, offset, size in _COUNTS:
        value = int.from_bytes(data[offset : offset + size], "little")
        if value < min(_MAX_COUNT, (1 << 8 * size) - 1):
            counts[name] = value
    # A device without spare sets the bit for it; 0 without that bit is one that does not say.
    silent = spare == 0 and not warning & 1
    return SmartLog(
        warnings=tuple(bool(warning >> bit & 1) for bit in range(len(CONDITIONS))),
        temperatures={sensor: value for sensor, value in temperatures.items() if _COLDEST <= value <= _HOTTEST},
        spare=None if silent or spare > 100 else spare,
        spare_threshold=None if silent or threshold > 100 else threshold,
        used=used,
        counts=counts,
    )


def _celsius(kelvin: int) -> float:
    return (1000 * kelvin - _FREEZING) / 1000


def read_smart_log(path: str) -> bytes:
    """Ask the controller behind a character device (``/dev/nvme0``) for its SMART log; waits for as long as the driver does.

    The command keeps the driver's own time limit (60 s unless nvme_core.admin_timeout says otherwise): when a shorter one
    ran out, the kernel would reset a controller that is merely slow.

    Raises
    ------
    SmartError
        With the reason.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _get_log(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise SmartError(_reason(error)) from error


def _get_log(descriptor: int) -> bytes:
    buffer = ctypes.create_string_buffer(LOG_BYTES)
    dwords = LOG_BYTES // 4 - 1  # the command counts from 0
    command = bytearray(
        COMMAND.pack(
            _GET_LOG_PAGE, 0, 0, _ALL_NAMESPACES, 0, 0, 0, ctypes.addressof(buffer), 0, LOG_BYTES,
            dwords << 16 | _SMART_LOG, 0, 0, 0, 0, 0, 0, 0,
        )
    )  # fmt: skip
    if fcntl.ioctl(descriptor, ADMIN_COMMAND, command, True) != 0:  # noqa: FBT003  (the argument has no name)
        raise SmartError("refused")  # the device answered with a status of its own
    return buffer.raw


def _reason(error: OSError) -> str:
    if error.errno in {errno.EACCES, errno.EPERM}:
        return "no_permission"
    if error.errno in {errno.ENOENT, errno.ENXIO, errno.ENODEV}:
        return "no_device_node"
    if error.errno == errno.EWOULDBLOCK:
        return "not_live"
    if error.errno in {errno.ENOTTY, errno.EINVAL}:
        return "not_supported"
    return "error"

"""What the worker says: plain values, checked when they arrive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import Any, NamedTuple

MAX_DEVICES = 256
_MAX_ROWS = 20_000
_MAX_TEXT = 256


class WorkerState(StrEnum):
    """What the worker is doing, or why there is none."""

    RUNNING = "running"
    STARTING = "starting"  # the driver wakes the GPUs, which takes seconds where nothing keeps them awake
    HUNG = "hung"  # a call did not come back; the worker was killed and a new one waits for its turn
    STUCK = "stuck"  # it was killed and does not die, since the driver holds it; no other is started until it is gone
    CRASHED = "crashed"  # it ended by itself; a new one waits for its turn
    NO_LIBRARY = "no_library"  # libnvidia-ml.so.1 is not to be found
    NO_BINDING = "no_binding"  # the Python package nvidia-ml-py is not installed
    NO_DRIVER = "no_driver"  # the kernel module is not loaded, or sees no GPU
    MISMATCH = "mismatch"  # kernel module and library are of different versions
    NO_PERMISSION = "no_permission"  # the device files may not be opened
    ERROR = "error"  # the library does not start for another reason
    STOPPED = "stopped"  # nobody wants it


class Reading(NamedTuple):
    """One value as the driver gives it: the name of the reading, further labels, the raw number."""

    name: str
    labels: tuple[str, ...]
    value: float


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU that was seen since the exporter started.

    Attributes
    ----------
    index
        Number of the GPU as a label: the driver's own when it was first seen. The driver numbers the others anew when one
        is lost, the label stays.
    uuid
        Its identity; empty for one that the driver counts and that was never to be reached.
    bus_id
        PCI address as sysfs writes it (``0000:3b:00.0``), or an empty text.
    up
        Whether it answers; None where nobody could ask, since the worker has just ended for another reason.
    error
        Why it does not: an error of the driver in lower case (``gpu_is_lost``), ``missing``, ``timeout`` or a `WorkerState`.
    readings
        What was asked for, of the groups that could be read.
    skipped
        Groups that were left out because they hung before, by the seconds until they are tried again.
    """

    index: str
    uuid: str
    bus_id: str
    up: bool | None
    error: str = ""
    readings: tuple[Reading, ...] = ()
    skipped: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """Everything that is known after a request.

    Attributes
    ----------
    state, detail
        What the worker does, and one plain sentence where it does not run.
    devices
        Every GPU ever seen, in order of index and UUID.
    gpus
        GPUs the driver counts, or None where it was not asked.
    driver
        Versions by name: ``driver_version``, ``nvml_version``, ``cuda_version``; empty where the worker does not run.
    unanswered
        Whether it was asked for by somebody who does not ask again, and the driver has said nothing of any GPU: then what is missing
        here is not known, and no GPU lacks it.
    """

    state: WorkerState
    detail: str = ""
    devices: tuple[Device, ...] = ()
    gpus: int | None = None
    driver: Mapping[str, str] = field(default_factory=dict)
    unanswered: bool = False


class Event(NamedTuple):
    """An XID error as the driver reports it to its library.

    Attributes
    ----------
    sequence
        Counts from 1 over all workers; no number comes twice.
    time
        When it was received, in seconds since the epoch.
    uuid, bus_id
        The GPU; empty where the worker cannot tell.
    xid
        Its code.
    gpu_instance
        The MIG instance that it belongs to; None where it belongs to all of the GPU.
    """

    sequence: int
    time: float
    uuid: str
    bus_id: str
    xid: int
    gpu_instance: int | None


class DeviceReply(NamedTuple):
    """What the worker says of one GPU that it sees."""

    number: int  # the driver's present one
    uuid: str
    bus_id: str
    error: str
    readings: tuple[Reading, ...]


class Reply(NamedTuple):
    """What the worker says to one request."""

    gpus: int  # as the driver counts them
    devices: tuple[DeviceReply, ...]
    unreachable: Mapping[int, str]
    calls: tuple[tuple[str, float], ...]
    errors: tuple[tuple[str, str, int], ...]
    fast: Mapping[tuple[str, str], tuple[float, ...]]
    lost_events: int
    listening: bool  # whether events of all GPUs that the driver counts would be heard


class Malformed(Exception):
    """The worker sent what is no reply."""


def parse_reply(message: object, number: int) -> Reply:
    """Reply in a decoded message to the request of this number.

    Raises
    ------
    Malformed
        If something is missing, of a wrong type, or more than a host can have.
    """
    body = _mapping(message)
    if body.get("number") != number:
        raise Malformed("an answer to another request")
    devices = tuple(_device(item) for item in _items(body.get("devices"), MAX_DEVICES))
    if sum(len(device.readings) for device in devices) > _MAX_ROWS:
        raise Malformed("too many readings")
    unreachable = {_integer(index, MAX_DEVICES): _text(error) for index, error in _pairs(body.get("unreachable"))}
    calls = tuple((_text(group), _number(seconds)) for group, seconds in _pairs(body.get("calls")))
    errors = []
    for item in _items(body.get("errors"), _MAX_ROWS):
        group, error, times = _exactly(item, 3)
        errors.append((_text(group), _text(error), _integer(times)))
    fast: dict[tuple[str, str], tuple[float, ...]] = {}
    for item in _items(body.get("fast"), _MAX_ROWS):
        uuid, name, values = _exactly(item, 3)
        fast[_text(uuid), _text(name)] = tuple(_number(value) for value in _items(values, 1000))
    return Reply(
        _integer(body.get("gpus"), MAX_DEVICES),
        devices,
        unreachable,
        calls,
        tuple(errors),
        fast,
        _integer(body.get("lost_events")),
        _switch(body.get("listening")),
    )


def _device(item: object) -> DeviceReply:
    body = _mapping(item)
    readings = []
    for row in _items(body.get("readings"), _MAX_ROWS):
        name, labels, value = _exactly(row, 3)
        readings.append(Reading(_text(name), tuple(_text(label) for label in _items(labels, 16)), _number(value)))
    return DeviceReply(
        _integer(body.get("number"), MAX_DEVICES),
        _text(body.get("uuid")),
        _text(body.get("bus_id")),
        _text(body.get("error")),
        tuple(readings),
    )


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Malformed("not a mapping")
    return value


def _items(value: object, limit: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > limit:
        raise Malformed(f"not a list of at most {limit}")
    return value


def _exactly(value: object, length: int) -> list[Any]:
    items = _items(value, length)
    if len(items) != length:
        raise Malformed(f"not {length} items")
    return items


def _pairs(value: object) -> list[list[Any]]:
    return [_exactly(item, 2) for item in _items(value, _MAX_ROWS)]


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise Malformed(f"not a text of at most {_MAX_TEXT} characters")
    return value


def _number(value: object) -> float:
    # Integers stay what they are: a counter of 64 bits does not fit a float.
    if type(value) not in {int, float} or not isfinite(value):  # type: ignore[arg-type]
        raise Malformed("not a number")
    return value  # type: ignore[return-value]


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise Malformed("neither true nor false")
    return value


def _integer(value: object, limit: int = 1 << 62) -> int:
    if type(value) is not int or not 0 <= value <= limit:
        raise Malformed(f"not an integer from 0 to {limit}")
    return value

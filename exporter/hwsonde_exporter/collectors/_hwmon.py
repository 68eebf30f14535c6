"""The sensors of /sys/class/hwmon: chips under names that stay the same from boot to boot, and what they read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._files import entries, link_name, link_target, sys_text
from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.host import Host

_ATTRIBUTE = re.compile(r"(temp|fan|in|power)(\d{1,4})_([a-z_]+)\Z")
_NUMBERED = re.compile(r"hwmon\d+\Z")
_I2C_CLIENT = re.compile(r"\d+-([0-9a-f]{4})\Z")
_I2C_BUS = re.compile(r"i2c-\d+\Z")


class Chip(NamedTuple):
    """A sensor chip.

    ``driver`` is what the kernel calls its kind, ``label`` tells it from others of the kind, ``files`` gives the path of each
    attribute by its name (``temp1_input``).
    """

    driver: str
    label: str
    files: Mapping[str, str]


class Sensor(NamedTuple):
    """One sensor of a chip: ``key`` is the beginning of its attributes (``temp1``), ``label`` is its name for people."""

    chip: Chip
    key: str
    label: str


def signed(data: bytes) -> int | None:
    """Value of a whole number that may be negative, or None for anything else."""
    token = data.strip()
    value = parsing.number(token.removeprefix(b"-"))
    return -value if value is not None and token.startswith(b"-") else value


def chip_label(driver: str, target: str) -> str:
    """Name of a chip by its driver and the place of its device, which ``hwmonN`` is not: that number changes between boots.

    Parameters
    ----------
    driver
        Content of the file ``name``.
    target
        Target of the link /sys/class/hwmon/hwmonN (``../../devices/platform/coretemp.0/hwmon/hwmon3``).

    A device on an I2C bus is named by the device that drives the bus and its address there, as the numbers of buses change
    too.
    """
    parts = [part for part in target.split("/") if part and not _NUMBERED.match(part)]
    if parts and parts[-1] == "hwmon":
        parts.pop()
    place = parts[-1] if parts else ""
    client = _I2C_CLIENT.match(place)
    if client:
        above = [part for part in parts[:-1] if not _I2C_CLIENT.match(part) and not _I2C_BUS.match(part)]
        place = f"{above[-1]}-{client[1]}" if above and above[-1] not in {"..", "devices"} else client[1]
    if not driver or place.startswith(driver):
        return parsing.text(place.encode("utf-8", "replace"))
    return parsing.text(f"{driver}-{place}".strip("-").encode("utf-8", "replace"))


def chips(host: Host) -> list[Chip]:
    """Every chip that has a sensor, in the order of their devices' places."""
    base = str(host.paths.sys("class/hwmon"))
    found: list[tuple[str, str, Mapping[str, str]]] = []
    for name in entries(base):
        path = f"{base}/{name}"
        # Drivers of the old kind keep their attributes with the device: acpi_power_meter did until Linux 6.
        files: Mapping[str, str] = {
            file: f"{folder}/{file}"
            for folder in (f"{path}/device", path)
            for file in entries(folder)
            if _ATTRIBUTE.match(file)
        }
        if files:
            driver = sys_text(host, f"{path}/name") or sys_text(host, f"{path}/device/name")
            found.append((link_target(path) or _place_of(path, name), driver, files))
    # A scanned bus may give two chips the same name; then the order of their places counts.
    counts: dict[str, int] = {}
    named = []
    for target, driver, files in sorted(found, key=lambda item: (_NUMBERED.sub("", item[0]), item[0])):
        label = chip_label(driver, target)
        if driver == "drivetemp" and (disks := entries(f"{base}/{target.rpartition('/')[2]}/device/block")):
            label = f"drivetemp-{disks[0]}"
        counts[label] = counts.get(label, 0) + 1
        named.append(Chip(driver, f"{label}#{counts[label]}" if counts[label] > 1 else label, files))
    return named


def _place_of(path: str, name: str) -> str:
    # Where hwmonN is a folder, as in a copy of sysfs, only the link to its device says where it sits.
    return f"{link_name(f'{path}/device') or name}/hwmon/{name}"


def sensors(host: Host, chip: Chip, kind: str, suffixes: tuple[str, ...] = ("input",)) -> list[Sensor]:
    """Sensors of a chip of one kind (``temp``, ``fan``, ``in``, ``power``) that have an attribute of one of the suffixes.

    A label that two sensors of the chip share is given to the first of them, the others go by their keys.
    """
    numbers = set()
    for file in chip.files:
        match = _ATTRIBUTE.match(file)
        if match and match[1] == kind and match[3] in suffixes:
            numbers.add(match[2])
    found: list[Sensor] = []
    taken = set()
    for number in sorted(numbers, key=int):
        key = f"{kind}{number}"
        label = _label(host, chip, key)
        if label in taken:
            label = key
        if label not in taken:
            taken.add(label)
            found.append(Sensor(chip, key, label))
    return found


def _label(host: Host, chip: Chip, key: str) -> str:
    # The ACPI meters of one host are told apart only by what its maker calls them.
    for suffix in ("label", "oem_info"):
        path = chip.files.get(f"{key}_{suffix}")
        if path and (label := sys_text(host, path)):
            return label
    return key


def reading(host: Host, sensor: Sensor, *suffixes: str) -> int | None:
    """Value of the first of the sensor's attributes that exists and can be read, or None."""
    for suffix in suffixes:
        path = sensor.chip.files.get(f"{sensor.key}_{suffix}")
        if path is None:
            continue
        try:
            value = signed(host.files.read_once(path))
        except ReadError:
            continue
        if value is not None:
            return value
    return None

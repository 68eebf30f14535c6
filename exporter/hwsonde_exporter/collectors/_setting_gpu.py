"""Settings of GPUs: modes, limits, clocks, firmware. Plain functions of what the NVML worker answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hwsonde_exporter.collectors._setting_rows import Row, row
from hwsonde_exporter.nvml.answer import Answer, Device, Reading

# Groups of readings that the rows are made of.
GROUPS = ("identity", "limits", "mode", "ecc", "mig")

_COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
_SWITCHES = {0: "off", 1: "on"}
# Places of texts among the labels of two readings: name, bus address, serial, VBIOS, ... and InfoROM, GSP, board part.
_VBIOS = 3
_INFOROM, _GSP = 0, 1
_MAX_PROFILES = 64


def gpu_rows(answer: Answer) -> Iterator[Row]:
    """Rows of an answer that was asked for `GROUPS`; a GPU that does not answer has none.

    ``device`` is ``gpu`` and the label of the GPU, so that hosts of one kind can be compared.
    """
    for name, setting in (("driver_version", "gpu.driver"), ("cuda_version", "gpu.driver_cuda")):
        if answer.driver.get(name):
            yield row(setting, answer.driver[name])
    for device in answer.devices:
        if device.readings:
            yield from _device_rows(device)


def _device_rows(device: Device) -> Iterator[Row]:
    name = f"gpu{device.index}"
    values = {(reading.name, reading.labels): reading.value for reading in device.readings}
    for setting, value in (*_texts(device.readings), *_modes(values), *_limits(values), *_parts(device.readings)):
        yield row(f"gpu.{setting}", value, name)


def _texts(readings: Iterable[Reading]) -> Iterator[tuple[str, str]]:
    for reading in readings:
        wanted: tuple[tuple[str, int], ...] = ()
        if reading.name == "info":
            wanted = (("model", 0), ("vbios", _VBIOS))
        elif reading.name == "firmware_info":
            wanted = (("inforom", _INFOROM), ("firmware", _GSP))
        for setting, place in wanted:
            if place < len(reading.labels) and reading.labels[place]:
                yield setting, reading.labels[place]


def _modes(values: Mapping[tuple[str, tuple[str, ...]], float]) -> Iterator[tuple[str, str]]:
    for setting, key in (
        ("persistence", ("persistence_mode_enabled", ())),
        ("ecc", ("ecc_enabled", ("current",))),
        ("ecc_after_reset", ("ecc_enabled", ("pending",))),
        ("mig", ("mig_enabled", ("current",))),
        ("mig_after_reset", ("mig_enabled", ("pending",))),
    ):
        if (value := _SWITCHES.get(int(values.get(key, -1)))) is not None:
            yield setting, value
    mode = _COMPUTE_MODES.get(int(values.get(("compute_mode", ()), -1)))
    if mode is not None:
        yield "compute_mode", mode


def _limits(values: Mapping[tuple[str, tuple[str, ...]], float]) -> Iterator[tuple[str, str]]:
    """Watts and megahertz; the driver gives milliwatts, and a limit that it rounds by itself is compared in whole watts."""
    for setting, which in (("power_limit_watts", "requested"), ("power_limit_default_watts", "default")):
        value = values.get(("power_limit_watts", (which,)))
        if value is not None and 0 < value < 1e8:
            yield setting, f"{value / 1000:.0f}"
    for domain in ("graphics", "memory"):
        value = values.get(("application_clock_hertz", (domain,)))
        if value is not None and 0 < value < 1e5:
            yield f"application_clock_{domain}_megahertz", f"{value:.0f}"


def _parts(readings: Iterable[Reading]) -> Iterator[tuple[str, str]]:
    """Profiles of the MIG devices, in order; which of two alike comes first says nothing."""
    profiles = sorted(
        reading.labels[3] for reading in readings if reading.name == "mig_info" and len(reading.labels) > 3
    )
    if profiles:
        yield "mig_profiles", " ".join(profiles[:_MAX_PROFILES])

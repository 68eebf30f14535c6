"""What a good host looks like, written down: its settings, and what its devices reach. Compared, never learnt."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from hwsonde_exporter.check_rules import Finding, Reading, Severity
from hwsonde_exporter.errors import ConfigError
from hwsonde_exporter.yaml_file import compose, entries, shortened

if TYPE_CHECKING:
    from yaml import Node

VERSION = 1
_SECTIONS = ("version", "settings", "expected", "ignore")
_HEAD = """# What a healthy host of this kind looks like. Made by `hwsonde-exporter check --write-baseline`.
# Delete what need not be the same on every host; give several allowed values as a list. `expected` holds least values.
"""
# Names of settings that say themselves how the host is used just now.
_LEFT_OUT = ("kernel.parameters_digest",)


class Measure(NamedTuple):
    """Something that devices reach.

    ``collector`` is the one that gives ``metric``, and ``scale`` what makes its values ``unit``. ``tolerance`` is the share by
    which a host may stay below; ``classes`` are the PCI classes that count, empty for all; ``passing`` is a pattern of devices
    that come and go.
    """

    name: str
    collector: str
    metric: str
    labels: tuple[str, ...]
    unit: str
    scale: float = 1.0
    tolerance: float = 0.0
    classes: tuple[str, ...] = ()
    passing: str = "(?!)"


MEASURES = (
    Measure("cpus", "cpu", "hwsonde_cpu_online", (), "CPUs"),
    # Firmware keeps a little for itself, not always the same.
    Measure("memory_bytes", "memory", "hwsonde_memory_size_bytes", (), "GiB", 2**30, 0.02),
    Measure(
        "network_bytes_per_second",
        "network_link",
        "hwsonde_network_speed_bytes_per_second",
        ("device",),
        "Gbit/s",
        1e9 / 8,
    ),
    Measure(
        "rdma_bytes_per_second",
        "rdma",
        "hwsonde_network_rdma_speed_bytes_per_second",
        ("device", "port"),
        "Gbit/s",
        1e9 / 8,
    ),
    Measure("gpus", "gpu_driver", "hwsonde_gpu_devices", (), "GPUs"),
    Measure("gpu_memory_bytes", "gpu", "hwsonde_gpu_memory_size_bytes", ("gpu",), "GiB", 2**30, 0.02),
    Measure("rdma_lanes", "rdma", "hwsonde_network_rdma_lanes", ("device", "port"), "lanes"),
    Measure(
        "disk_bytes",
        "storage",
        "hwsonde_storage_device_size_bytes",
        ("device",),
        "GB",
        1e9,
        passing=r"(loop|ram|zram|nbd|dm-|sr|fd)\d+",
    ),
    Measure("pcie_lanes", "pcie", "hwsonde_pcie_link_width_lanes", ("device",), "lanes"),
    Measure(
        "pcie_transfers_per_second",
        "pcie",
        "hwsonde_pcie_link_speed_transfers_per_second",
        ("device",),
        "GT/s",
        1e9,
        classes=("network", "nvme", "storage"),
    ),
)
COLLECTORS = ("settings", *dict.fromkeys(measure.collector for measure in MEASURES))
# Where the baseline says what a device reaches, these rules have nothing to add to it.
_OVERRULED = {
    "rdma_slow": "rdma_bytes_per_second",
    "pcie_narrow": "pcie_lanes",
    "pcie_slow": "pcie_transfers_per_second",
}


@dataclass(frozen=True, slots=True)
class Baseline:
    """What is wanted.

    Attributes
    ----------
    settings
        Allowed values by setting and device; the device is empty for the host.
    expected
        Least values by name of a measure and device.
    ignore
        Patterns as of `hwsonde_exporter.check_rules.ignored`.
    """

    settings: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    expected: Mapping[tuple[str, str], float] = field(default_factory=dict)
    ignore: tuple[str, ...] = ()


def of(reading: Reading) -> Baseline:
    """What this host looks like now; links that are down are left out, since they are not what is wanted."""
    settings = {
        key: (value,) for key, value in _settings(reading).items() if key[0] not in _LEFT_OUT and value != "forced ro"
    }
    expected = {
        (measure.name, device): value
        for measure in MEASURES
        for device, value in _measured(reading, measure).items()
        if value > 0
    }
    return Baseline(settings, expected)


def overrules(baseline: Baseline, finding: Finding) -> bool:
    """Whether a finding of a rule is none on a host of this kind: a port that is not used there, a slot that has fewer lanes."""
    if finding.rule == "rdma_down":
        used = {device for name, device in baseline.expected if name == "rdma_bytes_per_second"}
        return bool(used) and finding.subject not in used
    return (_OVERRULED.get(finding.rule, ""), finding.subject) in baseline.expected


def compare(baseline: Baseline, reading: Reading, silent: Collection[str] = ()) -> Iterator[Finding]:
    """Where a host is not as it should be.

    Parameters
    ----------
    baseline
        What is wanted.
    reading
        What is.
    silent
        Names of collectors that did not answer; of what they would have said nothing is known.
    """
    if "settings" not in silent:
        yield from _compare_settings(baseline, _settings(reading))
    measures = {measure.name: measure for measure in MEASURES}
    known = {name: _measured(reading, measure) for name, measure in measures.items()}
    for (name, device), least in baseline.expected.items():
        measure = measures[name]
        if measure.collector in silent:
            continue
        value = known[name].get(device)
        wanted = f"{least / measure.scale:.6g} {measure.unit}"
        if value is None and (device or not known[name]):
            where = device or name
            yield Finding(Severity.UNHEALTHY, f"expected_{name}", where, f"is missing or down; expected {wanted}")
        elif value is not None and value < least * (1 - measure.tolerance):
            has = f"has {value / measure.scale:.6g} of {wanted}"
            yield Finding(Severity.UNHEALTHY, f"expected_{name}", device or name, has)


def _compare_settings(baseline: Baseline, present: Mapping[tuple[str, str], str]) -> Iterator[Finding]:
    names = {setting for setting, _ in present}
    hidden: list[str] = []
    for (setting, device), allowed in baseline.settings.items():
        value = present.get((setting, device))
        name = f"{setting}[{device}]" if device else setting
        wanted = " or ".join(map(repr, allowed))
        if value is None:
            text = _missing(setting, names)
            if text is None:
                hidden.append(name)
            elif text:
                yield Finding(Severity.UNHEALTHY, "setting", name, f"{text}; the baseline has {wanted}")
        elif value not in allowed:
            yield Finding(Severity.UNHEALTHY, "setting", name, f"is {value!r}; the baseline has {wanted}")
    if hidden:
        shown = ", ".join(hidden[:3]) + (f" and {len(hidden) - 3} more" if len(hidden) > 3 else "")
        text = f"cannot be read here and may differ from the baseline: {shown}; run as root, on the host"
        yield Finding(Severity.UNKNOWN, "setting", "", text)


def _missing(setting: str, present: Collection[str]) -> str | None:
    """What it means that a setting has no row: empty if another finding tells it, None if nobody knows."""
    if setting.startswith("mount."):
        return "is not mounted" if setting == "mount.access" else ""
    if setting.startswith("kernel.parameter."):
        # The digest is there whenever the command line could be read.
        return "is not set" if "kernel.parameters_digest" in present else None
    if setting.startswith("module."):
        return "is not there" if any(name.startswith("module.") for name in present) else None
    return "is missing: there is no such device" if setting in present else None


def _settings(reading: Reading) -> dict[tuple[str, str], str]:
    return {(row["setting"], row["device"]): row["value"] for row, _ in reading.rows("hwsonde_setting_info")}


def _measured(reading: Reading, measure: Measure) -> dict[str, float]:
    found = {}
    for row, value in reading.rows(measure.metric):
        device = "/".join(row[label] for label in measure.labels)
        if not re.fullmatch(measure.passing, device) and (not measure.classes or row["class"] in measure.classes):
            found[device] = value
    return found


def dump(baseline: Baseline) -> str:
    """Text of a baseline file."""
    import yaml  # noqa: PLC0415  (costs 30 ms, and most checks need none)

    settings: dict[str, object] = {}
    for (setting, device), allowed in sorted(baseline.settings.items()):
        value: object = allowed[0] if len(allowed) == 1 else list(allowed)
        if device:
            of_devices = settings.setdefault(setting, {})
            if isinstance(of_devices, dict):
                of_devices[device] = value
        else:
            settings[setting] = value
    expected: dict[str, object] = {}
    for (name, device), least in sorted(baseline.expected.items()):
        number = int(least) if least == int(least) else least
        if device:
            of_devices = expected.setdefault(name, {})
            if isinstance(of_devices, dict):
                of_devices[device] = number
        else:
            expected[name] = number
    content = {"version": VERSION, "settings": settings, "expected": expected, "ignore": list(baseline.ignore)}
    return _HEAD + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)


def parse(text: bytes, name: str) -> Baseline:
    """Baseline of the text of a file called ``name``.

    Raises
    ------
    ConfigError
        With file, line and key.
    """
    root = compose(text, name)
    if root is None:
        raise ConfigError(f"{name}:1: empty; make one with hwsonde-exporter check --write-baseline {name}")
    sections = {key: (node, line) for key, node, line in entries(root, name, "", _SECTIONS)}
    version = _scalar(*sections["version"], name, "version") if "version" in sections else ""
    if version != str(VERSION):
        raise ConfigError(f"{name}:1: version: must be {VERSION}; make the file anew with --write-baseline")
    settings: dict[tuple[str, str], tuple[str, ...]] = {}
    expected: dict[tuple[str, str], float] = {}
    if "settings" in sections:
        for setting, node, line in entries(sections["settings"][0], name, "settings.", None):
            for device, inner, place in _by_device(node, name, f"settings.{setting}.", line):
                settings[setting, device] = _texts(inner, place, name, f"settings.{setting}")
    if "expected" in sections:
        measures = [measure.name for measure in MEASURES]
        for measure, node, line in entries(sections["expected"][0], name, "expected.", measures):
            for device, inner, place in _by_device(node, name, f"expected.{measure}.", line):
                expected[measure, device] = _number(inner, place, name, f"expected.{measure}")
    ignore = _texts(*sections["ignore"], name, "ignore") if "ignore" in sections else ()
    return Baseline(settings, expected, ignore)


def _by_device(node: Node, name: str, prefix: str, line: int) -> Iterable[tuple[str, Node, int]]:
    import yaml  # noqa: PLC0415

    if isinstance(node, yaml.MappingNode):
        return entries(node, name, prefix, None)
    return (("", node, line),)


def _scalar(node: Node, line: int, name: str, key: str) -> str:
    import yaml  # noqa: PLC0415

    if not isinstance(node, yaml.ScalarNode):
        raise ConfigError(f"{name}:{line}: {shortened(key)}: must be one value")
    return str(node.value)


def _texts(node: Node, line: int, name: str, key: str) -> tuple[str, ...]:
    import yaml  # noqa: PLC0415

    if isinstance(node, yaml.SequenceNode):
        return tuple(_scalar(item, line, name, key) for item in node.value)
    return (_scalar(node, line, name, key),)


def _number(node: Node, line: int, name: str, key: str) -> float:
    text = _scalar(node, line, name, key)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ConfigError(
            f"{name}:{line}: {shortened(key)}: {shortened(text)!r} is not allowed; allowed: a number from 0"
        )
    return value

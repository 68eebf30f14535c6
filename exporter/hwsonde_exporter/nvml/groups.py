"""The groups of calls that may be asked for, by name. Part of the worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hwsonde_exporter.nvml import read_gpm, read_health, read_nvlink, read_parts, read_state
from hwsonde_exporter.nvml.gpu import Gpu, Row

GROUPS: dict[str, Callable[[Gpu], Iterator[Row]]] = {
    "utilization": read_state.utilization,
    "memory": read_state.memory,
    "clock": read_state.clock,
    "throttle": read_state.throttle,
    "temperature": read_state.temperature,
    "power": read_state.power,
    "energy": read_state.energy,
    "pcie": read_state.pcie,
    "pcie_throughput": read_state.pcie_throughput,
    "fan": read_state.fan,
    "gpm": read_gpm.gpm,
    "identity": read_health.identity,
    "limits": read_health.limits,
    "mode": read_health.mode,
    "ecc": read_health.ecc,
    "remap": read_health.remap,
    "recovery": read_health.recovery,
    "fabric": read_health.fabric,
    "c2c": read_health.c2c,
    "nvlink": read_nvlink.nvlink,
    "nvlink_health": read_nvlink.nvlink_health,
    "processes": read_parts.processes,
    "mig": read_parts.mig,
}

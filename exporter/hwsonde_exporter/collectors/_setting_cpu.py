"""Settings of processors: frequency, boost, idle states, which CPUs are set apart, and where interrupts may go.

Sources: linux/Documentation/admin-guide/pm/{cpufreq,intel_pstate,amd-pstate,cpuidle}.rst and
Documentation/ABI/testing/sysfs-devices-system-cpu.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hwsonde_exporter.collectors._files import entries
from hwsonde_exporter.collectors._setting_rows import (
    Row,
    agreed,
    file_rows,
    inverted,
    kilohertz,
    listed,
    plain,
    read_line,
    row,
    switch,
)
from hwsonde_exporter.host import Host

_CPU = re.compile(r"cpu\d+\Z")
_POLICY = re.compile(r"policy\d+\Z")
_STATE = re.compile(r"state\d+\Z")
_NODE = re.compile(r"node\d+\Z")

_HOST_FILES = (
    ("cpu.boost", "cpufreq/boost", switch),
    ("cpu.boost", "intel_pstate/no_turbo", inverted),
    ("cpu.pstate_mode", "intel_pstate/status", plain),
    ("cpu.pstate_mode", "amd_pstate/status", plain),
    ("cpu.smt", "smt/control", plain),
    ("cpu.idle_driver", "cpuidle/current_driver", plain),
    ("cpu.idle_governor", "cpuidle/current_governor", plain),
    ("cpu.idle_governor", "cpuidle/current_governor_ro", plain),
    ("cpu.isolated", "isolated", listed),
    ("cpu.nohz_full", "nohz_full", listed),
    ("cpu.online", "online", plain),
    ("cpu.offline", "offline", listed),
    ("cpu.microcode", "cpu0/microcode/version", plain),
)
_POLICY_FILES = (
    ("cpu.frequency_driver", "scaling_driver", plain),
    ("cpu.governor", "scaling_governor", plain),
    ("cpu.energy_preference", "energy_performance_preference", plain),
    ("cpu.frequency_minimum_hertz", "scaling_min_freq", kilohertz),
    ("cpu.frequency_maximum_hertz", "scaling_max_freq", kilohertz),
)


def cpu_rows(host: Host) -> Iterator[Row]:
    """Settings of all CPUs together; where they disagree, the value says how many have which."""
    base = str(host.paths.sys("devices", "system", "cpu"))
    seen: set[str] = set()
    for found in file_rows(host, base, _HOST_FILES):
        if found.setting not in seen:  # two drivers may have left a file each; the first one counts
            seen.add(found.setting)
            yield found
    policies = [name for name in entries(f"{base}/cpufreq") if _POLICY.match(name)]
    for setting, file, form in _POLICY_FILES:
        texts = (read_line(host, f"{base}/cpufreq/{policy}/{file}") for policy in policies)
        value = agreed(form(text) for text in texts if text is not None)
        if value:
            yield row(setting, value)
    cpus = [name for name in entries(base) if _CPU.match(name)]
    bias = agreed(read_line(host, f"{base}/{cpu}/power/energy_perf_bias") or "" for cpu in cpus)
    if bias:
        yield row("cpu.energy_bias", bias)
    yield from _idle_rows(host, base, cpus)
    nodes = [name for name in entries(host.paths.sys("devices", "system", "node")) if _NODE.match(name)]
    if nodes:
        yield row("cpu.numa_nodes", str(len(nodes)))


def _idle_rows(host: Host, base: str, cpus: list[str]) -> Iterator[Row]:
    """Whether each idle state may be used, and the deepest that may."""
    names: dict[str, str] = {}
    said: dict[str, list[str]] = {}
    deepest: list[str] = []
    for cpu in cpus:
        folder = f"{base}/{cpu}/cpuidle"
        states = sorted((name for name in entries(folder) if _STATE.match(name)), key=lambda name: int(name[5:]))
        usable = ""
        for state in states:
            # Two hundred CPUs call their states alike: one name is read for all of them.
            name = names.setdefault(state, "") or read_line(host, f"{folder}/{state}/name") or ""
            names[state] = name
            word = {"0": "enabled", "1": "disabled"}.get(read_line(host, f"{folder}/{state}/disable") or "", "")
            if name and word:
                said.setdefault(name, []).append(word)
                usable = name if word == "enabled" else usable
        if usable:
            deepest.append(usable)
    for name, words in said.items():
        yield row("cpu.idle_state", agreed(words), name)
    if deepest:
        yield row("cpu.idle_deepest", agreed(deepest))

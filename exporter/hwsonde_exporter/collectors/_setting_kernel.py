"""Settings of the kernel: release, parameters, modules, mitigations, IOMMU, cgroups, firmware.

Sources: linux/Documentation/admin-guide/{kernel-parameters.txt,hw-vuln/,cgroup-v2.rst} and
Documentation/ABI/testing/{sysfs-kernel-iommu_groups,sysfs-devices-system-cpu,sysfs-firmware-dmi-entries}.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hwsonde_exporter.collectors._files import entries, is_folder
from hwsonde_exporter.collectors._setting_rows import (
    Row,
    agreed,
    clean,
    digest,
    file_rows,
    plain,
    read_line,
    row,
)
from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.host import Host

# Parameters that change how fast or how steadily a host works. Everything else on the command line stays out: it may hold
# identities of disks, addresses, or what somebody should not have put there.
# fmt: off
_PARAMETERS = frozenset((
    "acpi", "amd_iommu", "amd_pstate", "apparmor", "audit", "cgroup_disable", "cgroup_enable", "cgroup_no_v1", "clocksource",
    "cma", "cpufreq.default_governor", "cpufreq.off", "cpuidle.governor", "cpuidle.off", "crashkernel", "default_hugepagesz",
    "efi", "gather_data_sampling", "hpet", "hugepages", "hugepagesz", "hugetlb_cma", "idle", "init_on_alloc", "init_on_free",
    "intel_idle.max_cstate", "intel_iommu", "intel_pstate", "intremap", "iommu", "iommu.passthrough", "iommu.strict",
    "irqaffinity", "isolcpus", "kernelcore", "kthread_cpus", "kvm.nx_huge_pages", "l1tf", "lsm", "maxcpus", "mce", "mds", "mem",
    "mitigations", "mmio_stale_data", "modprobe.blacklist", "module_blacklist", "movablecore", "nmi_watchdog", "nohz",
    "nohz_full", "nokaslr", "nomodeset", "noibrs", "noibpb", "nopti", "nosmt", "nosoftlockup", "nospectre_v1", "nospectre_v2",
    "nowatchdog", "nox2apic", "nr_cpus", "numa", "numa_balancing", "page_alloc.shuffle", "page_poison", "pci", "pcie_acs_override",
    "pcie_aspm", "pcie_aspm.policy", "pcie_port_pm", "pcie_ports", "preempt", "processor.max_cstate", "psi", "pti", "rcu_nocb_poll",
    "rcu_nocbs", "rcutree.kthread_prio", "retbleed", "security", "selinux", "skew_tick", "slub_debug", "spec_rstack_overflow",
    "spec_store_bypass_disable", "spectre_v2", "spectre_v2_user", "srbds", "swapaccount", "swiotlb",
    "systemd.unified_cgroup_hierarchy", "threadirqs", "transparent_hugepage", "tsc", "tsx", "tsx_async_abort", "workqueue.power_efficient",
    "x2apic_phys", "zswap.enabled",
))
# Modules that machine learning hosts depend on.
_MODULES = (
    "amdgpu", "bnxt_en", "bnxt_re", "efa", "ena", "gdrdrv", "gve", "habanalabs", "i40e", "ib_core", "ib_ipoib", "ib_uverbs", "ice",
    "irdma", "ixgbe", "knem", "lustre", "mlx4_core", "mlx5_core", "mlx5_ib", "nvidia", "nvidia_drm", "nvidia_fs", "nvidia_modeset",
    "nvidia_peermem", "nvidia_uvm", "nvme", "nvme_core", "nvme_rdma", "nvme_tcp", "rdma_cm", "rdma_ucm", "xe", "xpmem",
)
# fmt: on
# A module of the second kind is expected where one of the first kind is loaded: its absence is news.
_COMPANIONS = (
    ("nvidia", "nvidia_uvm"),
    ("nvidia", "nvidia_peermem"),
    ("mlx5_core", "mlx5_ib"),
    ("ib_core", "ib_uverbs"),
)
_PARAMETERS_OF = ("ib_core", "mlx5_core", "mlx5_ib", "nvidia", "nvidia_peermem", "nvme", "nvme_core")
_MAX_PARAMETERS = 24
# Of the many of the NVIDIA driver those that change transfers, memory and power.
_NVIDIA_PARAMETERS = frozenset((
    "CoherentGPUMemoryMode", "DynamicPowerManagement", "EnableGpuFirmware", "EnablePCIeGen3", "EnablePCIERelaxedOrderingMode",
    "EnableResizableBar", "EnableStreamMemOPs", "EnableUserNUMAManagement", "GrdmaPciTopoCheckOverride", "IgnoreMMIOCheck",
    "InitializeSystemMemoryAllocations", "MemoryPoolSize", "NvLinkDisable", "OpenRmEnableUnsupportedGpus", "PeerMappingOverride",
    "PreserveVideoMemoryAllocations", "RegistryDwords", "RestrictProfilingToAdminUsers", "UsePageAttributeTable",
))  # fmt: skip
_NUMBERED = re.compile(r"\d+\Z")
_DMI_FILES = (
    ("firmware.bios_vendor", "bios_vendor", plain),
    ("firmware.bios_version", "bios_version", plain),
    ("firmware.bios_date", "bios_date", plain),
    ("firmware.bios_release", "bios_release", plain),
    ("firmware.controller_release", "ec_firmware_release", plain),
    ("firmware.board", "board_name", plain),
    ("firmware.board_version", "board_version", plain),
    ("firmware.product", "product_name", plain),
)
_KERNEL_FILES = (
    ("kernel.release", "osrelease", plain),
    ("kernel.watchdog", "nmi_watchdog", plain),
    ("kernel.perf_event_paranoid", "perf_event_paranoid", plain),
    ("kernel.scheduler_autogroup", "sched_autogroup_enabled", plain),
    ("kernel.realtime_runtime_microseconds", "sched_rt_runtime_us", plain),
    ("kernel.maximum_pid", "pid_max", plain),
)


def kernel_rows(host: Host) -> Iterator[Row]:
    """Settings of the kernel and of the firmware below it."""
    yield from file_rows(host, host.paths.proc("sys", "kernel"), _KERNEL_FILES)
    yield from _parameter_rows(host)
    yield from _module_rows(host)
    yield from _nvidia_rows(host)
    yield from _vulnerability_rows(host)
    groups = host.paths.sys("kernel", "iommu_groups")
    if is_folder(groups):
        kinds = [read_line(host, groups / name / "type") or "" for name in entries(groups)]
        yield row("kernel.iommu", agreed(kinds) or ("on" if kinds else "off"))
    yield from file_rows(host, host.paths.sys("class", "dmi", "id"), _DMI_FILES)
    profile = read_line(host, host.paths.rootfs / "etc" / "tuned" / "active_profile")
    if profile:
        yield row("kernel.tuned_profile", profile)


def parse_command_line(data: bytes) -> dict[str, str]:
    """Known parameters of /proc/cmdline, with their values joined where one is given several times; ``on`` without a value.

    What comes after ``--`` belongs to process 1 and is left out, and so is every parameter that is not in the list.
    """
    found: dict[str, list[str]] = {}
    for word in split_quoted(clean(data)):
        if word == "--":
            break
        name, equals, value = word.partition("=")
        name = name.replace("-", "_")
        module, dot, _ = name.partition(".")
        if name in _PARAMETERS or (dot and module in _PARAMETERS_OF and re.fullmatch(r"[\w.]{1,64}", name)):
            found.setdefault(name, []).append(value if equals else "on")
    return {name: " ".join(values) for name, values in sorted(found.items())}


def split_quoted(text: str) -> list[str]:
    """Words of a command line of the kernel; a blank within double quotes belongs to the word, the quotes do not."""
    words = re.findall(r'(?:[^\s"]|"[^"]*"?)+', text)
    return [word.replace('"', "") for word in words]


def _parameter_rows(host: Host) -> Iterator[Row]:
    try:
        data = host.files.read_once(host.paths.proc("cmdline"))
    except ReadError:
        return
    found = parse_command_line(data)
    # A parameter that is missing has no row that could differ from the other hosts'; this one does.
    yield row("kernel.parameters_digest", digest("\n".join(f"{name}={value}" for name, value in found.items())))
    for name, value in found.items():
        yield row(f"kernel.parameter.{name}", value or "empty")


def _module_rows(host: Host) -> Iterator[Row]:
    base = host.paths.sys("module")
    loaded = {name for name in _MODULES if is_folder(base / name)}
    for name in sorted(loaded):
        yield row(f"module.{name}", read_line(host, base / name / "version") or "loaded")
    for name, companion in _COMPANIONS:
        if name in loaded and companion not in loaded:
            yield row(f"module.{companion}", "not loaded")
    for name in _PARAMETERS_OF:
        folder = base / name / "parameters"
        for parameter in entries(folder)[:_MAX_PARAMETERS]:
            value = read_line(host, folder / parameter)
            if value is not None:
                yield row(f"module.{name}.{parameter}", _parameter_value(value))


def _parameter_value(value: str) -> str:
    """A module parameter's value; a text that was never set is empty, or ``(null)``."""
    return value.replace("(null)", "").strip() or "empty"


def _nvidia_rows(host: Host) -> Iterator[Row]:
    folder = host.paths.proc("driver", "nvidia")
    version = read_line(host, folder / "version")
    if version:
        yield row("module.nvidia.flavour", "open" if "Open Kernel Module" in version else "proprietary")
    try:
        data = host.files.read_once(folder / "params")
    except ReadError:
        return
    for name, value in sorted(parse_nvidia_parameters(data).items()):
        yield row(f"module.nvidia.{name}", value)


def parse_nvidia_parameters(data: bytes) -> dict[str, str]:
    """The chosen lines ``Name: value`` of /proc/driver/nvidia/params; a text is given without its quotes."""
    found = {}
    for line in data.split(b"\n"):
        name, colon, value = clean(line).partition(":")
        if colon and name in _NVIDIA_PARAMETERS:
            found[name] = value.strip().strip('"') or "empty"
    return found


def _vulnerability_rows(host: Host) -> Iterator[Row]:
    """How the CPU's weaknesses are dealt with; those that the CPU does not have are left out."""
    folder = host.paths.sys("devices", "system", "cpu", "vulnerabilities")
    said: Sequence[tuple[str, str]] = [(name, read_line(host, folder / name) or "") for name in entries(folder)]
    said = [(name, text) for name, text in said if text]
    if not said:
        return
    vulnerable = [name for name, text in said if text.lower().startswith("vulnerable")]
    yield row("kernel.vulnerable", " ".join(vulnerable) or "none")
    for name, text in said:
        if text.lower() != "not affected":
            yield row(f"kernel.mitigation.{name}", text.removeprefix("Mitigation: "))

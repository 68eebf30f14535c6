"""Settings of the network: of the TCP/IP stack, and of each device that carries traffic out of the host.

Sources: linux/Documentation/networking/{ip-sysctl,bonding,ipoib}.rst, admin-guide/sysctl/net.rst,
Documentation/ABI/testing/sysfs-class-net, core-api/irq/irq-affinity.rst.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._dcb import AskDcb, parse_dcb
from hwsonde_exporter.collectors._files import entries, exists, is_folder, is_link, sys_number
from hwsonde_exporter.collectors._netns import is_ours
from hwsonde_exporter.collectors._setting_ethtool import EthtoolSettings
from hwsonde_exporter.collectors._setting_rows import Row, file_rows, first_word, plain, read_line, row, switch
from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.host import Host

_INFINIBAND = 32  # ARPHRD_INFINIBAND
_MAX_INTERRUPTS = 1024

_STACK_FILES = (
    ("network.congestion_control", "ipv4/tcp_congestion_control", plain),
    ("network.queueing", "core/default_qdisc", plain),
    ("network.tcp_receive_buffer_bytes", "ipv4/tcp_rmem", plain),
    ("network.tcp_send_buffer_bytes", "ipv4/tcp_wmem", plain),
    ("network.largest_receive_buffer_bytes", "core/rmem_max", plain),
    ("network.largest_send_buffer_bytes", "core/wmem_max", plain),
    ("network.backlog", "core/netdev_max_backlog", plain),
    ("network.softirq_budget", "core/netdev_budget", plain),
    ("network.softirq_budget_microseconds", "core/netdev_budget_usecs", plain),
    ("network.largest_listen_backlog", "core/somaxconn", plain),
    ("network.busy_poll_microseconds", "core/busy_poll", plain),
    ("network.busy_read_microseconds", "core/busy_read", plain),
    ("network.receive_flow_entries", "core/rps_sock_flow_entries", plain),
    ("network.tcp_timestamps", "ipv4/tcp_timestamps", plain),
    ("network.tcp_selective_acknowledgements", "ipv4/tcp_sack", switch),
    ("network.tcp_window_scaling", "ipv4/tcp_window_scaling", switch),
    ("network.tcp_ecn", "ipv4/tcp_ecn", plain),
    ("network.tcp_mtu_probing", "ipv4/tcp_mtu_probing", plain),
    ("network.tcp_slow_start_after_idle", "ipv4/tcp_slow_start_after_idle", switch),
    ("network.tcp_no_metrics_save", "ipv4/tcp_no_metrics_save", switch),
    # A host with a port on each of several rails answers on the wrong one unless these are set.
    ("network.arp_announce", "ipv4/conf/all/arp_announce", plain),
    ("network.arp_ignore", "ipv4/conf/all/arp_ignore", plain),
    ("network.reverse_path_filter", "ipv4/conf/all/rp_filter", plain),
)
_DEVICE_FILES = (
    ("network.mtu_bytes", "mtu", plain),
    ("network.transmit_queue_length", "tx_queue_len", plain),
    ("network.gro_flush_timeout_nanoseconds", "gro_flush_timeout", plain),
    ("network.threaded_polling", "threaded", switch),
    ("network.virtual_functions", "device/sriov_numvfs", plain),
    ("network.ipoib_mode", "mode", plain),
    ("network.bond_mode", "bonding/mode", first_word),
    ("network.bond_hash", "bonding/xmit_hash_policy", first_word),
    ("network.bond_lacp_rate", "bonding/lacp_rate", first_word),
    ("network.bond_monitoring_milliseconds", "bonding/miimon", plain),
)


def network_rows(host: Host, ethtool: EthtoolSettings | None, dcb: AskDcb | None) -> Iterator[Row]:
    """Settings of the stack and of the devices that have hardware, and of bonds and IPoIB.

    Parameters
    ----------
    host
        Whose files are read.
    ethtool, dcb
        Ask the drivers; None where the host's network namespace cannot be reached.
    """
    # /proc/sys/net is always the reader's own: in a container's network it would show the container's.
    if is_ours(host.paths.procfs) is not False or not _is_live(host):
        yield from file_rows(host, host.paths.proc("sys", "net"), _STACK_FILES)
    base = host.paths.sys("class", "net")
    for device in entries(base):
        folder = base / device
        if host.ignored.devices.fullmatch(device) or not _carries_traffic(host, folder):
            continue
        yield from file_rows(host, folder, _DEVICE_FILES, device)
        yield from _interrupt_rows(host, folder, device)
        if not exists(folder / "device"):
            continue
        if ethtool is not None:
            yield from ethtool.rows(device)
        if dcb is not None:
            try:
                answer = dcb(device)
            except (OSError, ReadError):
                continue
            for name, value in parse_dcb(answer).items():
                yield row(f"network.{name}", value, device)


def spread(cpus: int) -> str:
    """A number of CPUs, in ranges: where a service moves interrupts around, the exact number changes all the time."""
    low = 1 << (cpus.bit_length() - 1)
    return str(low) if low == 1 else f"{low}-{2 * low - 1}"


def _is_live(host: Host) -> bool:
    """Whether procfs is a kernel's, not a copy of its files, whose namespace nobody could be in."""
    return is_link(host.paths.procfs / "self")


def _carries_traffic(host: Host, folder: Path) -> bool:
    if exists(folder / "device" / "physfn"):  # a virtual function has its master's settings
        return False
    kind = sys_number(host, folder / "type")
    return exists(folder / "device") or is_folder(folder / "bonding") or kind == _INFINIBAND


def _interrupt_rows(host: Host, folder: Path, device: str) -> Iterator[Row]:
    """How far the interrupts of a device are spread, and whether they stay near it."""
    numbers = [name for name in entries(folder / "device" / "msi_irqs") if name.isdigit()][:_MAX_INTERRUPTS]
    cpus: set[int] = set()
    for number in numbers:
        place = host.paths.proc("irq", number)
        # What the interrupt controller chose of what is allowed; older kernels show only the latter.
        text = read_line(host, place / "effective_affinity_list") or read_line(host, place / "smp_affinity_list")
        cpus.update(parsing.cpu_list((text or "").encode()))
    if not cpus:
        return
    yield row("network.interrupt_cpus", spread(len(cpus)), device)
    local = set(parsing.cpu_list((read_line(host, folder / "device" / "local_cpulist") or "").encode()))
    if local:
        near = len(cpus & local)
        yield row("network.interrupt_locality", "local" if near == len(cpus) else "mixed" if near else "remote", device)

"""The board of a host's GPUs: whether they are there, what they do, how hot they are, and what fails."""

from __future__ import annotations

from grafana.boards.anomaly import HOST
from grafana.boards.frame import NODE, Board, Choice
from grafana.boards.hardware import most
from grafana.boards.kit import About, Panel, Query, graph, listing, tile

NO_GPU = "no GPU, or its driver does not tell"
NOT_HOPPER = "only Hopper and later tell this"
NO_LINK = "no NVLink, or the driver does not tell"
OF = f'{HOST},gpu=~"$gpu"'
_NAME = "GPU {{gpu}}"


def _gauge(name: str, legend: str = _NAME, labels: str = "") -> Query:
    return Query(f"hwsonde_gpu_{name}{{{OF}{labels}}}", legend)


def _rate(name: str, labels: str = "") -> str:
    return f"rate(hwsonde_gpu_{name}{{{OF}{labels}}}[$__rate_interval])"


def _state() -> tuple[Panel, ...]:
    held = f"max by (gpu, reason) (hwsonde_gpu_clocks_event_active{{{OF}}}) == 1"
    return (
        tile(
            About("GPUs that answer", "Of those that this exporter has seen.", "none", NO_GPU, width=4, height=4),
            Query(f"sum(hwsonde_gpu_up{{{HOST}}})"),
        ),
        tile(
            About("On the bus", "NVIDIA GPUs on the PCI bus; more than the driver has means that it lost one.", "none", NO_GPU, width=4, height=4),
            Query(f"hwsonde_gpu_pci_devices{{{HOST}}}"),
        ),
        tile(
            About("Lost", "GPUs that answered before and do not now.", "none", width=4, height=4),
            Query(f"count(hwsonde_gpu_up{{{HOST}}} == 0) or vector(0)"),
            bad=1,
        ),
        tile(
            About("Wait for a reset", "GPUs with a repair that a reset brings into force.", "none", width=4, height=4),
            Query(f"count(hwsonde_gpu_row_remap_pending{{{HOST}}} == 1 or hwsonde_gpu_recovery_action{{{HOST}}} > 0) or vector(0)"),
            bad=1,
        ),
        tile(
            About("Driver answers", "Share of the last ten minutes in which the driver answered.", "percentunit", NO_GPU, width=4, height=4),
            Query(f'avg_over_time(hwsonde_gpu_nvml_state{{{HOST},state="running"}}[10m])'),
            good=0.99,
        ),
        tile(
            About("In the fabric", "GPUs that are part of the NVLink fabric.", "none", "no NVLink fabric", width=4, height=4),
            Query(f"count(hwsonde_gpu_fabric_state{{{HOST}}} == 3)"),
        ),
        listing(
            About("Errors", "Errors (XID) that the driver reported, and how long ago.", "s", "no error was reported", width=9),
            Query(
                f"(time() - max by (gpu, xid) (hwsonde_gpu_xid_last_timestamp_seconds{{{OF}}}))"
                f" * on (xid) group_left (name) max by (xid, name) (hwsonde_gpu_xid_info{{{HOST}}})"
            ),
            {"gpu": "GPU", "xid": "XID", "name": "Meaning", "Value": "Ago"},
        ),
        listing(
            About(
                "What holds clocks down",
                "Reasons in force now; a power cap and an idle GPU are daily life.",
                "none", "nothing holds a clock down", width=6,
            ),
            Query(held),
            {"gpu": "GPU", "reason": "Reason"},
        ),
        listing(
            About("Which GPUs", "Identity of each GPU.", "none", NO_GPU, width=9),
            Query(f"max by (gpu, name, pci_bus_id, vbios_version) (hwsonde_gpu_info{{{OF}}})"),
            {"gpu": "GPU", "name": "Model", "pci_bus_id": "Address", "vbios_version": "VBIOS"},
        ),
    )  # fmt: skip


def _use() -> tuple[Panel, ...]:
    return (
        graph(
            About("Use", "Share of time in which at least one kernel ran; it says nothing of how full the GPU was.", "percentunit", NO_GPU, width=8),
            _gauge("utilization_ratio"),
            top=1,
        ),
        graph(
            About("Multiprocessors active", "Share of cycles in which a multiprocessor had work.", "percentunit", NOT_HOPPER, width=8),
            _gauge("sm_active_ratio"),
            top=1,
        ),
        graph(
            About("Tensor cores active", "Share of cycles in which a tensor core worked.", "percentunit", NOT_HOPPER, width=8),
            _gauge("tensor_active_ratio"),
            top=1,
        ),
        graph(
            About("Memory used", "Share of the device memory that programs hold.", "percentunit", NO_GPU, width=8),
            Query(f"hwsonde_gpu_memory_used_bytes{{{OF}}} / hwsonde_gpu_memory_size_bytes{{{OF}}}", _NAME),
            top=1,
        ),
        graph(
            About("Memory bandwidth", "Share of the bandwidth of the device memory in use.", "percentunit", NOT_HOPPER, width=8),
            _gauge("dram_active_ratio"),
            top=1,
        ),
        graph(
            About("Programs", "Processes that hold a context on the GPU, whatever they do with it.", "none", NO_GPU, width=8),
            Query(f"sum by (gpu) (hwsonde_gpu_processes{{{OF}}})", _NAME),
        ),
    )  # fmt: skip


def _power() -> tuple[Panel, ...]:
    return (
        graph(
            About("Clock", "Clock of the multiprocessors; one GPU below its like at the same load is held down.", "hertz", NO_GPU, width=8),
            _gauge("clock_hertz", labels=',domain="sm"'),
        ),
        graph(
            About("Power", "Power that each GPU draws, mean over a second.", "watt", NO_GPU, width=8),
            _gauge("power_average_watts"),
        ),
        graph(
            About("Power limit", "Limit in force; one that differs from the others was set, or is a brake.", "watt", NO_GPU, width=8),
            _gauge("power_limit_watts", labels=',limit="enforced"'),
        ),
        graph(
            About("Time held down", "Share of time in which a reason held the clocks down; the six that did so most.", "percentunit", NO_GPU),
            Query(most(_rate("throttled_seconds_total")), "GPU {{gpu}} {{reason}}"),
        ),
        graph(
            About("Temperature", "Temperature of the chip and, where it is told, of the memory.", "celsius", NO_GPU),
            _gauge("temperature_celsius", "GPU {{gpu}} {{sensor}}"),
        ),
    )  # fmt: skip


def _health() -> tuple[Panel, ...]:
    return (
        graph(
            About(
                "Memory errors",
                "Errors of memory and caches within an hour, the six most frequent; corrected ones cost nothing.",
                "none", NO_GPU, width=8,
            ),
            Query(most(f"increase(hwsonde_gpu_ecc_errors_total{{{OF}}}[1h])"), "GPU {{gpu}} {{type}}"),
            top=1,
        ),
        graph(
            About(
                "Remapped rows",
                "Memory rows that were replaced, over the life of the board; the six greatest numbers.",
                "none", "boards before Ampere retire pages instead", width=8,
            ),
            Query(most(f"hwsonde_gpu_remapped_rows_total{{{OF}}}"), "GPU {{gpu}} {{cause}}"),
            top=1,
        ),
        graph(
            About("Errors reported", "Errors (XID) within an hour, by number.", "none", "no error was reported", width=8),
            Query(f"increase(hwsonde_gpu_xid_errors_total{{{OF}}}[1h]) > 0", "GPU {{gpu}} XID {{xid}}"),
        ),
    )  # fmt: skip


def _links() -> tuple[Panel, ...]:
    lanes = f"hwsonde_gpu_pcie_link_width_lanes{{{OF}}}"
    return (
        graph(
            About("NVLink throughput", "Bytes over all NVLinks of a GPU, in both directions.", "Bps", NO_LINK, width=8),
            Query(f"sum by (gpu) ({_rate('nvlink_bytes_total')})", _NAME),
        ),
        graph(
            About("NVLinks up", "Links that are up; one fewer than its like is a link that is down.", "none", NO_LINK, width=8),
            Query(f"sum by (gpu) (hwsonde_gpu_nvlink_up{{{OF}}})", _NAME),
        ),
        graph(
            About("NVLink errors", "Errors of links within an hour, by kind; the six most frequent.", "none", NO_LINK, width=8),
            Query(most(f"sum by (gpu, error) (increase(hwsonde_gpu_nvlink_errors_total{{{OF}}}[1h]))"), "GPU {{gpu}} {{error}}"),
            top=1,
        ),
        graph(
            About("PCI Express throughput", "Bytes between host and GPU.", "Bps", NO_GPU, width=8),
            Query(_rate("pcie_bytes_total"), "GPU {{gpu}} {{direction}}"),
        ),
        graph(
            About(
                "PCI Express link",
                "Lanes in use over those that GPU and slot could use; below 1 is a bad contact.",
                "percentunit", NO_GPU, width=8,
            ),
            Query(f"{lanes} / hwsonde_gpu_pcie_link_max_width_lanes{{{OF}}}", _NAME),
            top=1,
        ),
        graph(
            About("PCI Express replays", "Packets that were sent again within an hour.", "none", NO_GPU, width=8),
            Query(f"increase(hwsonde_gpu_pcie_replays_total{{{OF}}}[1h])", _NAME),
            top=1,
        ),
    )  # fmt: skip


BOARD = Board(
    name="gpu",
    text="The GPUs of one host: whether they are there, what they do, what holds them down and what fails.",
    choices=(
        NODE,
        Choice("gpu", "GPU", 'label_values(hwsonde_gpu_up{cluster="$cluster",node="$node"}, gpu)', many=True),
    ),
    rows=(
        ("State", _state()),
        ("Use", _use()),
        ("Clocks, power, heat", _power()),
        ("Errors", _health()),
        ("Links", _links()),
    ),
)

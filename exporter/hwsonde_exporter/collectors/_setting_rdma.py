"""Settings of RDMA devices.

Sources: linux/Documentation/ABI/stable/sysfs-class-infiniband, Documentation/ABI/testing/configfs-rdma_cm, and the files
``tc`` and ``ecn`` that the drivers of NVIDIA's own distribution add.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hwsonde_exporter.collectors._files import entries
from hwsonde_exporter.collectors._setting_rows import Row, file_rows, plain, read_line, row
from hwsonde_exporter.host import Host

# Of the addresses of a port the first few show which protocols it speaks; an empty place of the table answers EINVAL.
_ADDRESSES = 8

_DEVICE_FILES = (
    ("rdma.firmware", "fw_ver", plain),
    ("rdma.board", "board_id", plain),
)
_PORT_FILES = (("rdma.link_layer", "link_layer", plain),)
_CONFIG_FILES = (
    ("rdma.roce_mode", "default_roce_mode", plain),
    ("rdma.roce_type_of_service", "default_roce_tos", plain),
)


def rdma_rows(host: Host) -> Iterator[Row]:
    """Settings of RDMA devices and their ports; a port is called ``mlx5_0/1``."""
    base = host.paths.sys("class", "infiniband")
    config = host.paths.sys("kernel", "config", "rdma_cm")
    for device in entries(base):
        yield from file_rows(host, base / device, _DEVICE_FILES, device)
        for port in entries(base / device / "ports"):
            folder, name = base / device / "ports" / port, f"{device}/{port}"
            yield from file_rows(host, folder, _PORT_FILES, name)
            types = sorted(_types(host, folder))
            if types:
                yield row("rdma.roce_types", ", ".join(types), name)
            # There only where somebody has made the folder, to look or to change it.
            yield from file_rows(host, config / device / "ports" / port, _CONFIG_FILES, name)
            traffic_class = read_line(host, base / device / "tc" / port / "traffic_class")
            if traffic_class is not None:
                yield row("rdma.traffic_class", traffic_class or "unset", name)


def _types(host: Host, folder: Path) -> set[str]:
    found = (read_line(host, folder / "gid_attrs" / "types" / str(place)) for place in range(_ADDRESSES))
    return {kind for kind in found if kind and "RoCE" in kind}

"""Looks at connections that a test makes up."""

from hwsonde_exporter.collectors.network_latency import NetworkLatencyCollector
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Sample
from tests.exporter.collectors.sockets import Connection, Kernel

HOST = Host()
DEVICES = {
    "lo": ["127.0.0.1", "::1", "10.255.0.1"],
    "eth0": ["10.0.0.5", "fd00::5", "fe80::5"],
    "docker0": ["172.17.0.1"],
}


def table(samples: list[Sample]) -> dict[tuple[str, ...], float]:
    return {
        (sample.metric.name.removeprefix("hwsonde_network_tcp_") + sample.suffix, *sample.labels): sample.value
        for sample in samples
    }


def looks(*states: list[Connection], host: Host = HOST) -> list[dict[tuple[str, ...], float]]:
    """What the collector gives for the connections of one look after the other."""
    kernel = Kernel(DEVICES)
    collector = NetworkLatencyCollector(host, dump=kernel)
    found = []
    for connections in states:
        kernel.connections = connections
        found.append(table(list(collector.collect())))
    return found


def one(number: int = 1, remote: str = "10.0.0.9", local: str = "10.0.0.5", **info: int) -> Connection:
    return Connection(local, remote, number, {"rtt": 200, "bytes_acked": 1, "last_data_sent": 10**6} | info)

"""A served exporter, one of whose collectors waits at a gate."""

from collections.abc import Iterator

import pytest

from hwsonde_exporter.compression import gzip_compressor
from hwsonde_exporter.exporter import Exporter
from hwsonde_exporter.metric import Sample
from hwsonde_exporter.server import Listeners
from hwsonde_exporter.web import Application
from tests.exporter.core.asking import Port, exporter_of
from tests.exporter.core.fakes import Gate, collector_kind, gauge, heat_of


@pytest.fixture
def gate() -> Iterator[Gate]:
    found = Gate([Sample(gauge("slow"), (), 1)])
    yield found
    found.event.set()


@pytest.fixture
def exporter(gate: Gate) -> Iterator[Exporter]:
    made = exporter_of(
        collector_kind("heat", heat_of(21.5)),
        collector_kind("slow", gate, metrics=(gauge("slow"),)),
        collector_kind("off", list, metrics=()),
    )
    yield made
    made.stop()


@pytest.fixture
def port(exporter: Exporter) -> Iterator[Port]:
    listeners = Listeners([("127.0.0.1", 0)], Application(exporter, "node<1>", 2, gzip_compressor()), threads=4)
    listeners.start()
    yield listeners.addresses[0][1]
    listeners.stop()

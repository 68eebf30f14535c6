"""What a collector is, and the table of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Metric, Sample


class Collector(Protocol):
    """A table of metrics and a function from the host's files to samples.

    ``probe`` and ``collect`` may raise `hwsonde_exporter.errors.CollectorError`; anything else that they raise is caught
    and counted by the runner too, but is a defect. A collector never sleeps, starts no thread and keeps no clock, but for three
    helpers: `hwsonde_exporter.collectors._asking`, since a call on a filesystem whose server is gone or on a disk that does not
    answer hangs for ever, so that those who make such calls do it in a thread each, and wait until a deadline; ``_netns``, whose
    thread enters the host's network namespace, opens a socket there and ends; and ``_ipmitool``, which runs a program.

    Attributes
    ----------
    host
        What it was made with. It counts there readings of devices that it does not believe (`Host.rejections`).
    name
        Name on flags, in ``collect[]`` and in the exporter's own metrics.
    help
        One line for ``--help`` and the landing page.
    metrics
        Every metric that it may give; names are unique over all collectors.
    period
        None: read when a scrape asks. A number: read in the background every so many seconds, because it may block or is dear.
    enabled
        Whether it runs when no flag says otherwise.
    """

    name: ClassVar[str]
    help: ClassVar[str]
    metrics: ClassVar[tuple[Metric, ...]]
    period: ClassVar[float | None]
    enabled: ClassVar[bool]
    host: Host

    def __init__(self, host: Host) -> None: ...

    def probe(self) -> None:
        """Return if the collector can work here; raise `Unavailable` with the reason if not. Repeated now and then."""

    def collect(self) -> Iterable[Sample]:
        """Read the source and give every sample that is known now."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity that the fast sampler observes, published as cumulative moments.

    ``metric`` is the summary family ``hwsonde_<thing>_sampled_<unit>``; the sampler derives from it
    ``..._squared_deviation_total``, ``..._minimum`` and ``..._maximum``. ``reference`` is the constant c of sum((value - c)^2), near the usual value,
    so that the variance keeps its digits; it is stated in the help. ``cumulative`` says that the source is a counter, whose observation is
    its difference over the time that really passed.
    """

    metric: Metric
    reference: float
    cumulative: bool


@runtime_checkable
class FastSource(Protocol):
    """A collector that also serves the fast sampler (10 Hz by default): cheap files only."""

    quantities: ClassVar[tuple[Quantity, ...]]

    def observe(self) -> Sequence[tuple[Quantity, tuple[str, ...], float]]:
        """Give the present raw value of each quantity and label set: a counter's total or a gauge's value."""


@runtime_checkable
class BoundedSource(FastSource, Protocol):
    """A fast source of as many things as programs make of them, such as network devices: it gives no more than it is told.

    Attributes
    ----------
    most
        How many observations it may give. The sampler sets it before each tick.
    left_out
        How many more there were to give when they were last counted.
    """

    most: int
    left_out: int


AnyCollector = TypeVar("AnyCollector", bound=type[Collector])
_TABLE: dict[str, type[Collector]] = {}


def register(collector: AnyCollector) -> AnyCollector:
    """Class decorator: put a collector into the table.

    Raises
    ------
    ValueError
        If its name or one of its metrics' names is taken.
    """
    if collector.name in _TABLE:
        raise ValueError(f"two collectors are called {collector.name!r}")
    taken = {metric.name for other in _TABLE.values() for metric in other.metrics}
    for metric in collector.metrics:
        if metric.name in taken:
            raise ValueError(f"metric {metric.name!r} has two collectors")
        taken.add(metric.name)
    _TABLE[collector.name] = collector
    return collector


def collectors() -> dict[str, type[Collector]]:
    """Every registered collector by name, after their modules were imported (`load_collectors`)."""
    return dict(_TABLE)


def load_collectors() -> dict[str, type[Collector]]:
    """Import every module of `hwsonde_exporter.collectors` and give the table, in order of name."""
    # Imported here, not above: the collectors import this module.
    from importlib import import_module  # noqa: PLC0415
    from pkgutil import iter_modules  # noqa: PLC0415

    package = import_module("hwsonde_exporter.collectors")
    for module in iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_TABLE.items()))

"""Where and when a job ran, asked of a Prometheus; and the configuration limited to the hosts that matter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from hwsonde_detector.config import Config
from hwsonde_detector.connect import source_options
from hwsonde_detector.reports.jobs import CPU, INFO, Watch
from hwsonde_detector.signals.entities import host_label
from hwsonde_detector.sources.prometheus import PrometheusSource
from hwsonde_detector.types import Entity

# A longer matcher is left out: then more is read than needed, and nothing is wrong.
_LONGEST = 8000


def watch_job(config: Config, name: str, start_ms: int, end_ms: int, watch: Watch) -> None:
    """Show ``watch`` the series of workloads that may be the job; few of a whole fleet.

    Raises
    ------
    SourceError
        A read failed.
    """
    options = source_options(config)
    for matcher in job_matchers(name):
        source = PrometheusSource(replace(options, selector=joined(options.selector, matcher)), (CPU, INFO))
        try:
            for read in source.history(start_ms, end_ms):
                watch.take(read.batch)
        finally:
            source.close()


def job_matchers(name: str) -> tuple[str, ...]:
    """Label matchers that find a job by the name of its workload, its number, its name or its pods.

    Examples
    --------
    >>> job_matchers("4711")[:2]
    ('workload=~"(.+:)?4711"', 'job_id="4711"')
    """
    # A pod's job may be named with its namespace, any job with its cluster: labels of their own, before the last slash.
    last = name.rpartition("/")[2]
    matchers = [
        f'workload=~"(.+:)?{quoted(re.escape(name))}"',
        f'job_id="{quoted(name)}"',
        f'name="{quoted(name)}"',
        f'pod=~"{quoted(re.escape(last))}(-.+)?"',
    ]
    if last != name:
        matchers.append(f'workload="{quoted(last)}"')
    return tuple(matchers)


def narrowed(config: Config, hosts: Iterable[Entity], by_instance: Iterable[Entity]) -> Config:
    """The configuration that reads only these hosts; as it is where they cannot be told by their labels."""
    hosts = sorted(hosts)
    if not hosts or set(hosts) & set(by_instance):
        return config
    return _with(config, _host_matchers(hosts))


def narrowed_by_instance(config: Config, host: Entity) -> tuple[Config, ...]:
    """The configuration that reads what lacks the label of the host and may be named after its instance; none where nothing can be."""
    name = host_label([label for label, _ in host.labels])
    value = dict(host.labels).get(name or "", "")
    if not value or name == "instance":
        return ()
    rest = Entity(tuple(pair for pair in host.labels if pair[0] != name))
    instance = quoted(rf"\[?{re.escape(value)}\]?(:[0-9]*)?")
    matchers = [*_host_matchers([rest]), f'{name}=""']
    matchers += [f'instance=~"{instance}"'] if len(instance) <= _LONGEST else []
    return (_with(config, matchers),)


def joined(selector: str, matcher: str) -> str:
    """Two selectors as one."""
    return ",".join(part for part in (selector.strip().rstrip(","), matcher) if part)


def quoted(value: str) -> str:
    """A value as it stands between the quotes of PromQL."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _with(config: Config, matchers: Iterable[str]) -> Config:
    selector = config.source.selector
    for matcher in matchers:
        selector = joined(selector, matcher)
    source = config.source.model_copy(update={"selector": selector})
    return config.model_copy(update={"source": source})


def _host_matchers(hosts: Iterable[Entity]) -> Iterator[str]:
    values: dict[str, set[str]] = {}
    for entity in hosts:
        for name, value in entity.labels:
            values.setdefault(name, set()).add(value)
    for name, some in values.items():
        pattern = "|".join(quoted(re.escape(value)) for value in sorted(some))
        if "" not in some and len(pattern) <= _LONGEST:
            yield f'{name}=~"{pattern}"'

"""A profile that uses every kind of rule, and the host whose samples it reads."""

from __future__ import annotations

from hwsonde_detector.signals.channels import ChannelState, advance
from hwsonde_detector.signals.profiles import parse_profile
from hwsonde_detector.types import Entity

PROFILE = parse_profile(
    """
restart: start_seconds
clock: read_seconds
metrics:
  - {name: work_total, kind: counter, subsystem: cpu, by: [mode], aggregate: sum, except: {mode: idle}, scale: {floor: 1}, rate_limit: 1000}
  - {name: work_total, kind: counter, subsystem: storage, by: [mode], aggregate: max, only: {mode: idle}, scale: {floor: 1}}
  - {name: level_bytes, kind: level, subsystem: memory, scale: {floor: 1, logarithmic: true}}
  - name: heat
    kind: gauge
    subsystem: thermal
    by: [device]
    aggregate: mean
    device: {kind: fan, label: device}
    range: [-50, 500]
    scale: {floor: 1}
  - {name: coldest, kind: gauge, subsystem: thermal, aggregate: min, scale: {floor: 1}}
  - {name: power_sampled_watts, kind: moments, subsystem: power, squares: {reference: 10}, scale: {floor: 1}}
  - {name: slow_total, kind: counter, collector: slow, subsystem: network, by: [device], scale: {floor: 1}, rate_limit: 1000}
  - {name: slow_bytes, kind: level, collector: slow, subsystem: memory, scale: {floor: 1}}
  - {name: slow_watts, kind: moments, collector: slow, subsystem: power, squares: {reference: 10}, scale: {floor: 1}}
  - {name: lazy_heat, kind: gauge, collector: lazy, subsystem: thermal, aggregate: max, range: [-50, 500], scale: {floor: 1}}
  # The same series, once as it is read and once as it is scraped.
  - {name: lazy_total, kind: counter, collector: lazy, subsystem: storage, scale: {floor: 1}}
  - {name: lazy_total, kind: counter, subsystem: storage, by: [side], scale: {floor: 1}}
ratios:
  - name: slow_ratio
    collector: slow
    numerator: {metric: slow_total}
    denominator: {metric: slow_requests_total}
    minimum: 5
    subsystem: network
    scale: {floor: 0.01}
  - name: error_ratio
    numerator: {metric: errors_total}
    denominator: {metric: requests_total}
    minimum: 5
    subsystem: network
    scale: {floor: 0.01}
""",
    "test.yaml",
)
A = {"job": "a", "instance": "n1:1"}
B = {"job": "b", "instance": "n1:2"}
HOST = Entity((("node", "n1"),))


def run(batches, profiles=(PROFILE,), state=None):
    """What `advance` finds in batch after batch."""
    state = state or ChannelState(HOST)
    result = []
    for batch in batches:
        state, news = advance(state, batch, profiles)
        result.append(news)
    return result

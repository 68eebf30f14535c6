import math
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwsonde_detector.errors import ConfigError
from hwsonde_detector.signals.layout import channel_name
from hwsonde_detector.signals.profiles import parse_profile
from hwsonde_detector.signals.profiles.rules import Aggregate, Clock, Formula, Reading
from hwsonde_detector.signals.profiles.schema import (
    DeviceEntry,
    MetricEntry,
    PlaceEntry,
    ProfileFile,
    RatioEntry,
    ScaleEntry,
    SquaresEntry,
    TermEntry,
)
from hwsonde_detector.types import Role, Subsystem

ENTRY = "{name: a_total, kind: counter, subsystem: cpu, scale: {floor: 1}}"


def problem(text):
    with pytest.raises(ConfigError) as caught:
        parse_profile(text, "p.yaml")
    lines = str(caught.value).splitlines()
    assert all(re.match(r"p\.yaml:\d+: ", line) for line in lines)
    return lines


def test_a_counter():
    text = """
prefix: hwsonde_
metrics:
  - name: hwsonde_network_bytes_total
    kind: counter
    subsystem: network
    by: [device]
    aggregate: max
    device: {kind: nic, label: device}
    only: {device: "eth.*"}
    except: {direction: received}
    range: [0, 100]
    rate_limit: 7
    scale: {floor: 64, logarithmic: true}
    weight: 0.3
    unit: bytes/s
"""
    profile = parse_profile(text, "/etc/profiles/mine.yaml")
    (rule,) = profile.rules
    (part,) = rule.parts
    assert profile.name == "mine"
    assert (rule.name, rule.formula, rule.subsystem) == ("network_bytes", Formula.PLAIN, Subsystem.NETWORK)
    assert (rule.floor, rule.logarithmic, rule.weight, rule.unit) == (64.0, True, 0.3, "bytes/s")
    assert (rule.device_kind, rule.device_label, rule.by) == ("nic", "device", ("device",))
    assert (part.name, part.reading, part.aggregate) == ("hwsonde_network_bytes_total", Reading.RATE, Aggregate.MAX)
    assert (part.low, part.high, part.rate_limit) == (0.0, 100.0, 7.0)
    assert part.takes({"device": "eth0", "direction": "transmitted"})
    assert not part.takes({"device": "eth0", "direction": "received"})
    assert not part.takes({"device": "veth0"})


def test_moments_name_their_three_series():
    text = """
metrics:
  - {name: x_sampled_watts, kind: moments, subsystem: power, squares: {reference: 300}, scale: {floor: 5}}
  - {name: y_sampled_watts, kind: moments, subsystem: power, scale: {floor: 5}}
  - {name: z, kind: moments, statistics: [deviation], squares: {metric: z_other}, subsystem: power, scale: {floor: 5}}
"""
    profile = parse_profile(text, "p.yaml")
    assert [rule.name for rule in profile.rules] == [
        "x_sampled_watts_mean",
        "x_sampled_watts_deviation",
        "y_sampled_watts_mean",
        "z_deviation",
    ]
    assert profile.rules[1].reference == 300.0
    # Squares of bytes a second pass 2^63 in no time.
    assert all(part.high == math.inf for rule in profile.rules for part in rule.parts)
    assert profile.metric_names() == (
        "x_sampled_watts_count",
        "x_sampled_watts_squared_deviation_total",
        "x_sampled_watts_sum",
        "y_sampled_watts_count",
        "y_sampled_watts_sum",
        "z_count",
        "z_other",
        "z_sum",
    )


def test_ratio_and_restart_are_asked_for_too():
    text = """
restart: start_seconds
ratios:
  - name: wait
    numerator: {metric: busy_total}
    denominator: {metric: size, kind: gauge, only: {a: b}}
    minimum: 3
    subsystem: storage
    scale: {floor: 0.1}
"""
    profile = parse_profile(text, "p.yaml")
    assert profile.metric_names() == ("busy_total", "size", "start_seconds")
    assert profile.rules[0].formula is Formula.RATIO
    assert profile.rules[0].minimum == 3.0
    assert [part.reading for part in profile.rules[0].parts] == [Reading.RATE, Reading.VALUE]


def test_titles_and_places():
    text = """
places:
  - {metric: gpu_info, kind: gpu, label: gpu, place: pci_bus_id}
  - {metric: nic_info, kind: nic, label: device, place: slot}
metrics:
  - {name: clock, kind: gauge, title: "{domain} clock", subsystem: gpu, by: [gpu, domain], device: {kind: gpu, label: gpu}, scale: {floor: 1}}
  - {name: draw, kind: moments, title: power, subsystem: power, squares: {reference: 0}, scale: {floor: 1}}
"""
    profile = parse_profile(text, "p.yaml")
    assert [rule.title for rule in profile.rules] == ["{domain} clock", "power", "swing of power"]
    assert profile.rules[0].title_of({"domain": "{gpu}", "gpu": "3"}) == "{gpu} clock"
    assert profile.rules[0].title_of({}) == " clock"
    # Of devices that no channel has nobody asks where they sit.
    assert "gpu_info" in profile.metric_names()
    assert "nic_info" not in profile.metric_names()


def test_a_collector_with_a_pace_of_its_own_needs_its_clock():
    text = """
clock: read_seconds
metrics:
  - {name: a_total, kind: counter, collector: slow, subsystem: cpu, scale: {floor: 1}}
  - {name: m, kind: moments, collector: lazy, subsystem: cpu, squares: {reference: 1}, scale: {floor: 1}}
  - {name: b, kind: gauge, subsystem: gpu, scale: {floor: 1}}
ratios:
  - {name: r, collector: slow, numerator: {metric: a_total}, denominator: {metric: c_total}, minimum: 1, subsystem: cpu, scale: {floor: 1}}
"""
    profile = parse_profile(text, "p.yaml")
    slow, lazy = (Clock("read_seconds", name) for name in ("slow", "lazy"))
    assert {rule.name: rule.clock for rule in profile.rules} == {
        "a": slow,
        "m_mean": lazy,
        "m_deviation": lazy,
        "b": None,
        "r": slow,
    }
    assert "read_seconds" in profile.metric_names()
    # Nobody reads a clock that no rule looks at.
    assert profile.limited_to([Subsystem.GPU]).metric_names() == ("b",)
    lines = problem(text.replace("clock: read_seconds", "prefix: p"))
    assert lines[0] == (
        "p.yaml:4: metrics[0].collector: the file names no clock; add clock: METRIC at its top, or leave collector out"
    )
    assert [line.split(":")[1] for line in lines] == ["4", "5", "8"]
    assert "ratios[0].collector" in lines[2]


def test_the_page_on_profiles_names_every_key_and_its_example_is_one():
    page = (Path(__file__).resolve().parents[3] / "docs" / "profiles.md").read_text(encoding="utf-8")
    for model in (ProfileFile, MetricEntry, RatioEntry, TermEntry, ScaleEntry, SquaresEntry, DeviceEntry, PlaceEntry):
        for name, field in model.model_fields.items():
            assert f"`{field.alias or name}" in page, name
    example = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[1]
    rules = {rule.name: rule for rule in parse_profile(example, "pumps.yaml").rules}
    assert set(rules) == {"water_litres", "pressure_pascals", "leak_ratio"}
    assert rules["leak_ratio"].clock == rules["water_litres"].clock
    assert rules["leak_ratio"].clock is not None


def test_limited_to_some_subsystems():
    text = f"metrics: [{ENTRY}, {{name: b, kind: gauge, subsystem: gpu, scale: {{floor: 1}}}}]"
    profile = parse_profile(text, "p.yaml")
    assert profile.limited_to(()) is profile
    assert profile.limited_to([Subsystem.GPU]).metric_names() == ("b",)


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("", 1, "must hold a mapping; allowed: prefix, restart, clock, health, marks, faults, metrics, ratios, places"),
        ("- 1", 1, "must hold a mapping"),
        ("metrics: [", 1, "not YAML"),
        ("a: 1\n  b: 2", 2, "not YAML"),
        ("\0", 1, "not YAML"),
        ("metrics: 3", 1, "metrics: must be a list"),
        ("metrics: [3]", 1, r"metrics[0]: must be a mapping"),
        ("metrics: []", 1, "at least one entry"),
        (f"metrics: [{ENTRY}]\nmetrics: []", 2, "metrics: the key appears twice"),
        (f"metrics:\n- {ENTRY}\n- {{name: b}}", 3, "metrics[1].kind: the key is missing"),
        (
            f"metrcs:\n- {ENTRY}",
            1,
            "metrcs: unknown key (did you mean metrics?); allowed: prefix, restart, clock, health, marks, faults, metrics, ratios, places",
        ),
        (f"metrics:\n- {ENTRY[:-2]}, log: true}}}}", 2, "scale.log: unknown key; allowed: floor, logarithmic"),
        (
            f"metrics:\n- {ENTRY.replace('counter', 'countr')}",
            2,
            "'countr' is not known; allowed: counter, gauge, level, moments",
        ),
        (f"metrics:\n- {ENTRY.replace('cpu', 'disk')}", 2, "'disk' is not known; allowed: cpu, gpu, memory"),
        (
            f"metrics:\n- {ENTRY.replace('floor: 1', 'floor: 0')}",
            2,
            "metrics[0].scale.floor: input should be greater than 0",
        ),
        (f"metrics:\n- {ENTRY.replace('floor: 1', 'floor: .nan')}", 2, "metrics[0].scale.floor"),
        (f"metrics:\n- {ENTRY[:-1]}, weight: 2}}", 2, "metrics[0].weight"),
        (
            f"metrics:\n- {ENTRY[:-1]}, range: [5, 1]}}",
            2,
            "metrics[0].range: the lower bound must lie below the upper one",
        ),
        (f"metrics:\n- {ENTRY[:-1]}, only: {{a: '('}}}}", 2, "metrics[0].only.a: not a regular expression"),
        (f"metrics:\n- {ENTRY[:-1]}, except: {{a: '['}}}}", 2, "metrics[0].except.a: not a regular expression"),
        (f"metrics:\n- {ENTRY[:-1]}, only: {{a: '[[:lower:]]'}}}}", 2, "metrics[0].only.a: a set such as [[:lower:]]"),
        (f"metrics:\n- {ENTRY[:-1]}, device: {{kind: nic, label: d}}}}", 2, "must be one of by"),
        (f"metrics:\n- {ENTRY[:-1]}, by: [d, d]}}", 2, "by names a label twice"),
        (f"metrics:\n- {ENTRY[:-1]}, by: [d], title: 'x {{e}}'}}", 2, "title: {e} must be one of by"),
        (f"metrics:\n- {ENTRY[:-1]}, title: {'x' * 81}}}", 2, "metrics[0].title"),
        (
            f"places:\n- {{metric: a, kind: gpu, label: b}}\nmetrics:\n- {ENTRY}",
            2,
            "places[0].place: the key is missing",
        ),
        (f"clock: c\nmetrics:\n- {ENTRY[:-1]}, collector: ''}}", 3, "metrics[0].collector"),
        (f"clock: a-b\nmetrics:\n- {ENTRY}", 1, "clock"),
        (f"metrics:\n- {ENTRY[:-1]}, squares: {{reference: 1}}}}", 2, "belong to kind: moments"),
        (
            f"metrics:\n- {ENTRY.replace('counter', 'moments')[:-1]}, statistics: [deviation]}}",
            2,
            "the deviation needs squares",
        ),
        (f"metrics:\n- {ENTRY.replace('counter', 'moments')[:-1]}, statistics: []}}", 2, "must not be empty"),
        (f"metrics:\n- {ENTRY.replace('counter', 'moments')[:-1]}, aggregate: max}}", 2, "always pooled"),
        (f"metrics:\n- {ENTRY.replace('counter', 'gauge')[:-1]}, rate_limit: 1}}", 2, "a gauge has a range"),
        (f"metrics:\n- {ENTRY.replace('a_total', 'a-total')}", 2, "metrics[0].name"),
        (
            "ratios:\n- name: x\n  numerator: {metrc: a}",
            3,
            "ratios[0].numerator.metrc: unknown key (did you mean metric?)",
        ),
        ("a: &a [*a]\nb: {<<: *b}", 2, "not YAML"),
        (f"metrics:\n- {ENTRY}\nmarks: [a, b]", 3, "marks[1]: no entry gives this channel: 'b'"),
        (
            f"faults:\n  cpu: [b]\nmetrics:\n- {ENTRY}",
            2,
            "faults.cpu[0]: no entry of subsystem cpu and weight 1 gives this channel: 'b'",
        ),
        (f"faults: {{gpu: [a]}}\nmetrics:\n- {ENTRY}", 1, "faults.gpu[0]: no entry of subsystem gpu"),
        (f"faults: {{cpu: [a]}}\nmetrics:\n- {ENTRY[:-1]}, weight: 0.3}}", 1, "weight 1 gives this channel"),
        (f"faults: {{disk: [a]}}\nmetrics:\n- {ENTRY}", 1, "faults.disk"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text, line, expected):
    lines = problem(text)
    assert any(one.startswith(f"p.yaml:{line}: ") and expected in one for one in lines), lines


def test_all_problems_are_said_in_order():
    lines = problem(f"ratios: 3\nmetrics:\n- {{name: b}}\n- {ENTRY.replace('cpu', 'x')}")
    assert len(lines) == 5
    assert [int(one.split(":")[1]) for one in lines] == sorted(int(one.split(":")[1]) for one in lines)


def test_marks_and_faults_give_roles():
    text = f"""
marks: [jobs]
faults: {{cpu: [a]}}
metrics:
- {ENTRY}
- {ENTRY[:-1]}, by: [mode], weight: 0.3}}
- {ENTRY.replace("subsystem: cpu", "subsystem: memory")}
- {{name: jobs, kind: gauge, subsystem: workload, by: [job], scale: {{floor: 1}}}}
"""
    profile = parse_profile(text, "p.yaml")
    assert [rule.role for rule in profile.rules] == [Role.FAULT, Role.SIGNAL, Role.SIGNAL, Role.MARK]
    # Who looks at some subsystems only wants to know of workloads all the same.
    assert [rule.name for rule in profile.limited_to([Subsystem.MEMORY]).rules] == ["a", "jobs"]


def test_deep_or_huge_files_end_in_one_line():
    assert len(problem("[" * 100_000)) == 1
    assert "larger than" in problem("#" * (1 << 20) + "\n")[0]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_damaged_profile_gives_lines_and_nothing_else(data):
    text = f"prefix: a\nrestart: b\nclock: c\nmetrics:\n- {ENTRY}\nratios:\n- {{name: x, numerator: {{metric: a}}, minimum: 1}}\n"
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(text)))
        text = text[:place] + data.draw(st.text(max_size=4)) + text[place + data.draw(st.integers(0, 3)) :]
    lines = []
    try:
        parse_profile(text, "p.yaml")
    except ConfigError as error:
        lines = str(error).splitlines()
    assert all(line.startswith("p.yaml:") for line in lines)


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ([], "x"),
        ([("mode", "user")], "x{mode=user}"),
        ([("m", "/mnt/a"), ("d", "nvme0n1")], "x{m=/mnt/a,d=nvme0n1}"),
        ([("a", "1,b=2")], 'x{a="1,b=2"}'),
        ([("a", "")], 'x{a=""}'),
        ([("a", 'q"\\')], 'x{a="q\\"\\\\"}'),
    ],
)
def test_channel_names(labels, name):
    assert channel_name("x", labels) == name


@given(st.lists(st.lists(st.text(alphabet='ab,={}" \\', max_size=4), min_size=2, max_size=2), min_size=2, max_size=2))
def test_channel_names_are_unique(values):
    left, right = (channel_name("x", zip("kl", one, strict=True)) for one in values)
    assert (left == right) == (values[0] == values[1])

"""What is read at a slow pace: settings and facts out of samples."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.errors import ConfigError
from hwsonde_detector.signals.profiles import parse_profile
from hwsonde_detector.signals.profiles.schema import GroupEntry, SettingEntry
from hwsonde_detector.signals.slow import MOST_SETTINGS, Seen, SlowRules, read_slow, separate, shown
from hwsonde_detector.types import Entity, SampleBatch
from tests.detector.signals.build import batch_of, series
from tests.detector.signals.test_shipped import exported, shipped

TEXT = """
prefix: p_
metrics:
  - {name: p_load, kind: gauge, subsystem: cpu, scale: {floor: 1}}
  - {name: p_limit, kind: gauge, subsystem: cpu, scale: {floor: 1}}
settings:
  - {name: p_setting_info, named_by: setting, device: device, labels: [value]}
  - {name: p_driver_info, labels: [version, build]}
  - {name: p_limit, device: gpu, by: [kind], only: {kind: "upper|lower"}}
  - {name: p_speed, device: device, except: {device: lo}}
groups:
  - {name: p_job_info, word: workload, labels: [manager, job_id], only: {manager: slurm}, shared: true}
  - {name: p_job_info, word: workload, labels: [pod], only: {manager: kube}, trimmed: "-[0-9]+", shared: true}
  - {name: p_cpu_info, word: hardware, labels: [model]}
"""
PROFILE = parse_profile(TEXT, "p.yaml")
RULES = SlowRules.of((PROFILE,))
HOST = {"job": "p", "instance": "n1:1", "node": "n1"}
N1 = Entity((("node", "n1"),))


def read(samples) -> dict:
    return read_slow(batch_of(samples), RULES, ("node",))


def test_names_that_are_only_slow_are_told_apart() -> None:
    assert PROFILE.slow_names() == ("p_cpu_info", "p_driver_info", "p_job_info", "p_setting_info", "p_speed")
    assert RULES.slow == set(PROFILE.slow_names())
    assert RULES.shared_words() == {"workload"}
    assert PROFILE.metric_names() == ("p_limit", "p_load")


def test_values_in_labels_and_in_samples() -> None:
    found = read(
        {
            series("p_setting_info", setting="cpu.governor", device="", value="performance", **HOST): [(5, 1.0)],
            series("p_setting_info", setting="mtu", device="eth0", value="9000", **HOST): [(4, 1.0), (5, 1.0)],
            series("p_driver_info", version="550", build="", **HOST): [(5, 1.0)],
            series("p_limit", gpu="3", kind="upper", **HOST): [(4, 700.0), (5, 650.5), (6, 650.5)],
            series("p_limit", gpu="3", kind="other", **HOST): [(5, 1.0)],
            series("p_speed", device="lo", **HOST): [(5, 1.0)],
            series("p_speed", device="eth0", **HOST): [(5, 1.25e9)],
            series("p_load", **HOST): [(5, 1.0)],
        }
    )[N1].settings
    assert found == {
        ("cpu.governor", ""): Seen("performance", 5, 5),
        ("mtu", "eth0"): Seen("9000", 4, 5),
        ("driver.version", ""): Seen("550", 5, 5),
        ("limit.upper", "3"): Seen("650.5", 5, 6),
        ("speed", "eth0"): Seen("1250000000", 5, 5),
    }


def test_of_two_values_the_newest_counts() -> None:
    def row(value: str) -> object:
        return series("p_setting_info", setting="s", value=value, **HOST)

    assert read({row("new"): [(7, 1.0), (8, 1.0)], row("old"): [(5, 1.0), (6, 1.0)]})[N1].settings == {
        ("s", ""): Seen("new", 7, 8)
    }
    assert read({row("b"): [(6, 1.0)], row("a"): [(6, 1.0)]})[N1].settings == {("s", ""): Seen("a", 6, 6)}


def test_a_sample_that_is_no_number_is_no_setting() -> None:
    assert read({series("p_speed", device="eth0", **HOST): [(5, math.nan)]})[N1].settings == {}
    found = read({series("p_speed", device="eth0", **HOST): [(4, 3.0), (5, math.inf)]})
    assert found[N1].settings == {}


def test_facts_are_those_of_the_newest_scrape() -> None:
    found = read(
        {
            series("p_job_info", manager="slurm", job_id="17", **HOST): [(5, 1.0)],
            series("p_job_info", manager="slurm", job_id="18", **HOST): [(5, 1.0), (6, 1.0)],
            series("p_job_info", manager="kube", pod="train-worker-3", **HOST): [(6, 1.0)],
            series("p_job_info", manager="systemd", **HOST): [(6, 1.0)],
            series("p_cpu_info", model="x", package="0", **HOST): [(4, 1.0)],
            series("p_cpu_info", model="x", package="1", **HOST): [(4, 1.0)],
        }
    )[N1].facts
    assert found == {"workload": ("slurm/18", "train-worker"), "hardware": ("x",)}


def test_hosts_are_kept_apart_and_what_one_may_make_us_keep_is_bounded() -> None:
    other = {**HOST, "node": "n2"}
    many = {
        series("p_setting_info", setting=f"s{number}", value="x" * 500, **HOST): [(5, 1.0)]
        for number in range(MOST_SETTINGS + 5)
    }
    found = read({**many, series("p_setting_info", setting="s", value="y", **other): [(5, 1.0)]})
    assert len(found[N1].settings) == MOST_SETTINGS
    assert {len(one.value) for one in found[N1].settings.values()} == {200}
    assert len(found[Entity((("node", "n2"),))].settings) == 1


def test_separate_leaves_channels_as_they_are() -> None:
    plain = {
        series("p_load", **HOST): [(4, 1.0), (5, 2.0)],
        series("p_limit", gpu="1", kind="upper", **HOST): [(5, 3.0)],
    }
    alone = batch_of(plain)
    assert separate(alone, RULES) == (alone, None)
    rest, slow = separate(batch_of({**plain, series("p_speed", device="eth0", **HOST): [(5, 7.0)]}), RULES)
    assert rest.series == alone.series
    for name in ("offsets", "times", "values"):
        assert getattr(rest, name).tolist() == getattr(alone, name).tolist()
    assert slow is not None
    assert [one.name for one in slow.series] == ["p_limit", "p_speed"], "what is a channel too is in both"
    assert separate(SampleBatch.empty(), RULES)[1] is None


@given(st.floats(-1e18, 1e18))
def test_a_shown_sample_is_near_the_sample(sample: float) -> None:
    assert float(shown(sample)) == pytest.approx(sample, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("settings: [{name: a, named_by: s, labels: [b, c]}]", "named_by gives one name"),
        ("settings: [{name: a, device: s, labels: [s]}]", "a label has two meanings"),
        ("settings: [{labels: [s]}]", "settings[0].name: the key is missing"),
        ("settings: [{name: a, value: s}]", "settings[0].value: unknown key"),
        ("groups: [{name: a, word: w}]", "groups[0].labels: the key is missing"),
        ("groups: [{name: a, word: w, labels: []}]", "groups[0].labels"),
        ("groups: [{name: a, word: w, labels: [b], trimmed: '('}]", "not a regular expression"),
    ],
)
def test_a_wrong_entry_is_named_with_its_line(line: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_profile("metrics:\n  - {name: a, kind: gauge, subsystem: cpu, scale: {floor: 1}}\n" + line, "p.yaml")
    text = str(caught.value)
    assert text.startswith("p.yaml:3: ")
    assert says in text
    assert "\n" not in text


def test_the_page_names_every_key() -> None:
    from pathlib import Path

    page = (Path(__file__).resolve().parents[3] / "docs" / "profiles.md").read_text(encoding="utf-8")
    for model in (SettingEntry, GroupEntry):
        for name, field in model.model_fields.items():
            assert f"`{field.alias or name}" in page, name


def test_our_profile_speaks_of_labels_that_our_exporter_has() -> None:
    known, profile = exported(), shipped("hwsonde")
    for rule in profile.settings:
        used = {*rule.labels, *rule.by, *(label for label, _ in (*rule.only, *rule.excluded))}
        used |= {label for label in (rule.named_by, rule.device) if label is not None}
        assert used <= known[rule.name][1], rule.name
    for group in profile.groups:
        assert {*group.labels, *(label for label, _ in group.only)} <= known[group.name][1], group.name
    assert {group.word for group in profile.groups} == {"workload", "hardware"}


@pytest.mark.parametrize(
    ("pod", "job"),
    [
        ("train-worker-3", "train-worker"),
        ("web-5d4f7c8b9-x2k4q", "web"),
        ("node-exporter-x2k4q", "node-exporter"),
        ("my-train", "my-train"),
        ("solo", "solo"),
    ],
)
def test_pods_of_one_job_have_one_name(pod: str, job: str) -> None:
    rules = SlowRules.of((shipped("hwsonde"),))
    one = series("hwsonde_workload_info", manager="kubernetes", namespace="ml", pod=pod, **HOST)
    (reading,) = read_slow(batch_of({one: [(5, 1.0)]}), rules, ("node",)).values()
    assert reading.facts == {"workload": (f"kubernetes/ml/{job}",)}


def test_a_long_fact_is_cut_with_a_mark() -> None:
    """Whoever replaces names knows by it that its last word may be part of one."""
    (fact,) = read({series("p_cpu_info", model="x" * 500, package="0", **HOST): [(4, 1.0)]})[N1].facts["hardware"]
    assert fact == "x" * 199 + "\N{HORIZONTAL ELLIPSIS}"

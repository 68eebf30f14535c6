"""The exposition writer against prometheus_client's parser and promtool."""

from __future__ import annotations

import dataclasses
import math
import shutil
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from hwsonde_detector.errors import ConfigError
from hwsonde_detector.published import Held, Published, PublishedHost
from hwsonde_detector.telemetry import COUNTED, READ_REASONS, Counters, Family, Kind, Sample
from hwsonde_detector.types import (
    Channel,
    Contribution,
    Device,
    Entity,
    Episode,
    Learning,
    Scope,
    Score,
    SettingFinding,
    Subsystem,
)
from hwsonde_detector.writers.exposition import FAMILIES, check_entity_labels, exposition
from hwsonde_detector.writers.text import number, render

HOST = Entity((("cluster", "a"), ("node", "n1")))
LEARNING = Learning(300, 240, 50_000, frozen=False, channels=9, channels_judged=7)


def part(index: int, share: float, device: Device | None = None) -> Contribution:
    return Contribution(Channel(f"c{index}", Subsystem.CPU, device), share, 5.0, 2.0, 0.0, 1.0)


def window(end_ms: int, fused: float, **changes: object) -> Score:
    made = Score(
        HOST,
        end_ms,
        fused,
        {"zscore": fused / 2, "mahalanobis": 3 - fused},
        {Subsystem.CPU: fused * 0.75, Subsystem.GPU: fused * 0.25},
        (),
        calibrated=True,
        threshold=1.0,
        coverage=0.9,
        anomalous_channels=0.1,
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def episode(subsystem: Subsystem = Subsystem.CPU) -> Episode:
    return Episode("n1@x", HOST, 1, 1, None, subsystem, 2.0, "t", (part(99, 0.5),))


def host(*held: Held, **changes: object) -> PublishedHost:
    return dataclasses.replace(PublishedHost(HOST, LEARNING, 1000, (), held, 2.0), **changes)  # type: ignore[arg-type]


def parsed(
    published: Published, monotonic: float = 10.0, now_ms: int = 4_000
) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(exposition(published, monotonic, now_ms).decode()):
        for sample in family.samples:
            series = found.setdefault(sample.name, {})
            key = tuple(sorted(sample.labels.items()))
            assert key not in series
            series[key] = sample.value
    return found


def board(*hosts: PublishedHost, **changes: object) -> Published:
    made = Published(taken=10.0, now_ms=4_000, started_ms=1000, hosts=hosts, own=Counters().samples())
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def key(**labels: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({"cluster": "a", "node": "n1", **labels}.items()))


def test_values_are_the_maximum_over_the_trailing_hold_whoever_asks() -> None:
    published = board(host(Held(7.9, window(1, 2.9)), Held(8.5, window(2, 2.0)), Held(9.5, window(3, 0.5))))
    for _ in range(3):
        found = parsed(published)
        assert found["hwsonde_anomaly_score"] == {
            key(detector="fused"): 2.0,
            key(detector="zscore"): 1.0,
            key(detector="mahalanobis"): 2.5,
        }
        assert found["hwsonde_anomaly_subsystem_score"] == {key(subsystem="cpu"): 1.5, key(subsystem="gpu"): 0.5}
        assert found["hwsonde_anomaly_window_end_timestamp_seconds"] == {key(): 0.003}


def test_a_score_outlives_one_late_tick_and_is_withdrawn_when_nothing_renews_it() -> None:
    published = board(host(Held(4.5, window(2, 2.0))))
    assert parsed(published, monotonic=10.0)["hwsonde_anomaly_score"][key(detector="fused")] == 2.0
    silent = parsed(published, monotonic=10.6)
    assert "hwsonde_anomaly_score" not in silent
    assert silent["hwsonde_anomaly_window_end_timestamp_seconds"] == {key(): 0.002}
    assert silent["hwsonde_anomaly_calibrated"] == {key(): 1}


def test_what_is_too_little_to_judge_is_told_and_an_open_episode_goes_on() -> None:
    blind = host(Held(2.0, window(3, 2.0)), open_episodes=(episode(),), window=(60_000, 0.25))
    found = parsed(board(blind), monotonic=70.0, now_ms=61_000)
    assert found["hwsonde_anomaly_coverage_ratio"] == {key(): 0.25}
    assert found["hwsonde_incident_active"] == {key(subsystem="cpu", scope="host"): 1}
    assert "hwsonde_anomaly_score" not in found
    # The newest one that was judged.
    assert found["hwsonde_anomaly_window_end_timestamp_seconds"] == {key(): 0.003}
    late = parsed(board(blind), monotonic=80.0, now_ms=71_000)
    assert not {"hwsonde_anomaly_coverage_ratio", "hwsonde_incident_active"} & set(late)
    never = host(open_episodes=(episode(),), window=(60_000, 0.25))
    assert parsed(board(never), monotonic=70.0, now_ms=61_000)["hwsonde_incident_active"]
    assert parsed(board(never), monotonic=70.0, now_ms=61_000)["hwsonde_anomaly_calibrated"] == {key(): 0}


OF_THE_PRESENT = {
    "hwsonde_anomaly_score",
    "hwsonde_anomaly_subsystem_score",
    "hwsonde_anomaly_channel_share",
    "hwsonde_anomaly_channel_value",
    "hwsonde_anomaly_channel_info",
    "hwsonde_anomaly_expected_lower",
    "hwsonde_anomaly_expected_upper",
    "hwsonde_incident_active",
}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, True),
        ({"catching_up": True}, False),
        # The window ended at 3 ms, the hold is 2 s.
        ({"now_ms": 10_003}, True),
        ({"now_ms": 10_004}, False),
        # The source's clock is half an hour behind ours, and half an hour ahead.
        ({"now_ms": 1_800_000, "source_now_ms": 4_000}, True),
        ({"now_ms": -1_800_000, "source_now_ms": 10_004}, False),
    ],
)
def test_what_is_over_is_never_told_as_present(changes: dict[str, Any], told: bool) -> None:
    published = board(host(Held(9.5, window(3, 2.9)), open_episodes=(episode(),)), **changes)
    found = parsed(published, now_ms=published.now_ms)
    assert (OF_THE_PRESENT & set(found)) == (OF_THE_PRESENT if told else set())
    assert found["hwsonde_anomaly_window_end_timestamp_seconds"] == {key(): 0.003}
    assert found["hwsonde_anomaly_calibrated"] == {key(): 1}


def test_the_age_of_a_window_grows_while_the_loop_stands_still() -> None:
    published = board(host(Held(9.5, window(3, 2.9)), open_episodes=(episode(),)), source_now_ms=4_000)
    assert "hwsonde_incident_active" in parsed(published, monotonic=16.0)
    assert "hwsonde_incident_active" not in parsed(published, monotonic=16.1)


def test_a_score_that_is_not_a_number_is_left_out_and_hides_no_other() -> None:
    published = board(host(Held(9.0, window(1, math.nan)), Held(9.1, window(2, 0.5)), Held(9.2, window(3, math.nan))))
    assert parsed(published)["hwsonde_anomaly_score"][key(detector="fused")] == 0.5
    only = parsed(board(host(Held(9.0, window(1, math.nan)))))
    assert key(detector="fused") not in only.get("hwsonde_anomaly_score", {})


def test_an_open_episode_shows_its_bounded_top_and_a_closed_one_nothing() -> None:
    top = tuple(part(index, 0.05, Device("gpu", f"GPU-{index}")) for index in range(40))
    opened = (episode(Subsystem.CPU), episode(Subsystem.GPU), episode(Subsystem.CPU))
    found = parsed(board(host(Held(9.5, window(3, 2.0, top=top)), open_episodes=opened)))
    assert len(found["hwsonde_anomaly_channel_share"]) == 10
    assert len(found["hwsonde_anomaly_expected_upper"]) == len(found["hwsonde_anomaly_expected_lower"]) == 10
    assert len(found["hwsonde_anomaly_device_score"]) == 10
    assert found["hwsonde_anomaly_device_score"][key(**{"class": "gpu", "device": "GPU-0"})] == pytest.approx(0.1)
    assert found["hwsonde_incident_active"] == {
        key(subsystem="cpu", scope="host"): 1,
        key(subsystem="gpu", scope="host"): 1,
    }
    quiet = parsed(board(host(Held(9.5, window(3, 2.0, top=top)))))
    assert not {"hwsonde_anomaly_channel_share", "hwsonde_anomaly_device_score", "hwsonde_incident_active"} & set(quiet)


def test_a_channel_tells_its_size_and_what_it_is_and_never_its_direction() -> None:
    gpu = Device("gpu", "3")
    clock = Channel("gpu_clock{gpu=3}", Subsystem.GPU, gpu, unit="hertz", title="SM clock", address="0000:8d:00.0")
    top = (Contribution(clock, 0.5, -9.0, 1.2e9, 1.9e9, 2.1e9), part(1, 0.25))
    shares = ((gpu, 0.6), (Device("gpu", "5"), 0.1))
    opened = (episode(Subsystem.GPU),)
    found = parsed(board(host(Held(9.5, window(3, 2.0, top=top, devices=shares)), open_episodes=opened)))
    assert found["hwsonde_anomaly_channel_value"] == {key(channel="gpu_clock{gpu=3}"): 1.2e9, key(channel="c1"): 2.0}
    assert found["hwsonde_anomaly_expected_lower"][key(channel="gpu_clock{gpu=3}")] == 1.9e9
    known = {"channel": "gpu_clock{gpu=3}", "subsystem": "gpu", "title": "SM clock", "unit": "hertz", "class": "gpu"}
    assert found["hwsonde_anomaly_channel_info"] == {
        key(**known, device="3", address="0000:8d:00.0"): 1,
        key(channel="c1", subsystem="cpu"): 1,
    }
    # Of all channels of the device, not only of those that are shown.
    assert found["hwsonde_anomaly_device_score"] == {
        key(**{"class": "gpu", "device": "3"}): pytest.approx(1.2),
        key(**{"class": "gpu", "device": "5"}): pytest.approx(0.2),
    }


def test_while_an_episode_ends_its_peak_still_explains_it() -> None:
    found = parsed(board(host(Held(9.5, window(3, 0.4)), open_episodes=(episode(),))))
    assert list(found["hwsonde_anomaly_channel_share"]) == [key(channel="c99", subsystem="cpu")]


def test_shadow_mode_pages_under_another_name_and_scores_under_the_same() -> None:
    found = parsed(board(host(Held(9.5, window(3, 2.0)), open_episodes=(episode(),)), shadow=True))
    assert "hwsonde_incident_active" not in found
    assert found["hwsonde_shadow_incident_active"] == {key(subsystem="cpu", scope="host"): 1}
    assert found["hwsonde_anomaly_score"][key(detector="fused")] == 2.0


@pytest.mark.parametrize("scope", list(Scope))
def test_an_open_episode_says_how_far_it_reaches(scope: Scope) -> None:
    opened = dataclasses.replace(episode(), scope=scope)
    found = parsed(board(host(Held(9.5, window(3, 2.0)), open_episodes=(opened,))))
    assert found["hwsonde_incident_active"] == {key(subsystem="cpu", scope=str(scope)): 1}


def test_settings_that_differ_are_published_and_bounded() -> None:
    def finding(name: str, usual: str | None, device: str = "") -> SettingFinding:
        return SettingFinding(HOST, name, device, "x", usual, 7, 7)

    few = (finding("cpu.governor", "y"), finding("memory.swap", None), finding("mtu", "9000", "eth0"))
    found = parsed(board(host(settings=few)))
    assert found["hwsonde_setting_differs"] == {
        key(setting="cpu.governor"): 1,
        key(setting="mtu", device="eth0"): 1,
    }
    many = tuple(finding(f"s{number}", "y") for number in range(200))
    assert len(parsed(board(host(settings=many)))["hwsonde_setting_differs"]) == 20
    assert "hwsonde_setting_differs" not in parsed(board(host()))


def test_a_learning_host_is_not_calibrated_and_has_no_score() -> None:
    learning = Learning(12, 240, None, frozen=False, channels=9, channels_judged=0)
    found = parsed(board(host(learning=learning)))
    assert found["hwsonde_anomaly_calibrated"] == {key(): 0}
    assert found["hwsonde_anomaly_learning_rows"] == {key(): 12}
    assert found["hwsonde_anomaly_learning_rows_needed"] == {key(): 240}
    assert "hwsonde_detector_model_age_seconds" not in found


def test_what_is_gone_disappears() -> None:
    assert not [name for name in parsed(board()) if name.startswith(("hwsonde_anomaly", "hwsonde_incident"))]


def test_counters_are_there_at_zero_before_anything_happened() -> None:
    found = parsed(board())
    assert found["hwsonde_detector_read_errors_total"] == {(("reason", reason),): 0 for reason in READ_REASONS}
    assert len(found["hwsonde_detector_episodes_total"]) == len(Subsystem)
    assert found["hwsonde_detector_ticks_total"] == {(): 0}
    assert found["hwsonde_detector_read_duration_seconds_count"] == {(): 0}


def test_a_change_that_is_being_learned_is_told_with_its_reason() -> None:
    found = parsed(board(host(learning=dataclasses.replace(LEARNING, settling="stop", regimes=2))))
    assert found["hwsonde_anomaly_settling"] == {key(reason="start"): 0, key(reason="stop"): 1, key(reason="phase"): 0}
    assert found["hwsonde_anomaly_regimes"] == {key(): 2}
    assert set(parsed(board(host()))["hwsonde_anomaly_settling"].values()) == {0}


def test_every_counted_family_is_among_those_that_are_written() -> None:
    assert set(COUNTED) <= set(FAMILIES)
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


@given(st.text(min_size=1, max_size=30).filter(lambda text: text.isprintable() or "\n" in text))
def test_any_label_value_comes_back_verbatim(value: str) -> None:
    odd = Entity((("cluster", 'a"\\\n'), ("node", value)))
    published = board(dataclasses.replace(host(), entity=odd))
    ((labels, _),) = parsed(published)["hwsonde_anomaly_learning_rows"].items()
    assert dict(labels) == {"cluster": 'a"\\\n', "node": value}


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_number_comes_back_equal(value: float) -> None:
    assert float(number(value)) == value


def test_of_two_samples_of_one_series_the_first_stays_and_labels_without_value_are_left_out() -> None:
    family = Family("hwsonde_x", Kind.GAUGE, "A \\ help\nof two lines.", ("a",))
    text = render(
        (family,), [Sample(family, (("a", ""),), 1), Sample(family, (), 2), Sample(family, (("a", "b"),), 0.5)]
    )
    assert (
        text
        == b'# HELP hwsonde_x A \\\\ help\\nof two lines.\n# TYPE hwsonde_x gauge\nhwsonde_x 1\nhwsonde_x{a="b"} 0.5\n'
    )


def test_an_entity_label_that_our_series_carry_is_refused() -> None:
    with pytest.raises(ConfigError, match="'subsystem' is a label"):
        check_entity_labels(("cluster", "subsystem"))


def test_promtool_finds_nothing_to_complain_about() -> None:
    text = exposition(
        board(host(Held(9.5, window(3, 2.0)), open_episodes=(episode(),)), last_sample_ms=3_000), 10.0, 4_000
    )
    tool = shutil.which("promtool")
    if tool is None:
        print("promtool is not installed: the names are checked by the rules that it would apply")
        assert all(
            family.help.endswith(".") and family.name.endswith("_total") == (family.kind is Kind.COUNTER)
            for family in FAMILIES
        )
        return
    done = subprocess.run([tool, "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

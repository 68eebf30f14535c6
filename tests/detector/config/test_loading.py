"""Whole files: every problem is a line with file, line, key and what is allowed."""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector import settings as s
from hwsonde_detector.config import Config, load_config, load_profiles, parse_config, reload_config, shipped_profiles
from hwsonde_detector.config.loading import FLAGS
from hwsonde_detector.config.models import MEMBERS as NAMED
from hwsonde_detector.config.models import Origin
from hwsonde_detector.config.tree import dotted, read_tree
from hwsonde_detector.config_reference import reference
from hwsonde_detector.connect import metric_names, source_options
from hwsonde_detector.detectors.table import MEMBERS
from hwsonde_detector.errors import ConfigError

ROOT = Path(__file__).parents[3]
LINE = re.compile(r"(f\.yaml:\d+: ([\w\[\].-]+: )?.+|--[\w.-]+: .+)")


def problems(text: str | bytes, **flags: str) -> list[str]:
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(ConfigError) as caught:
        parse_config(data, "f.yaml", Origin(None, flags))
    lines = str(caught.value).split("\n")
    assert all(LINE.fullmatch(line) for line in lines), lines
    return lines


def test_nothing_gives_the_defaults():
    assert parse_config(b"", "f.yaml") == parse_config(b"# only a comment\n", "f.yaml") == Config() == load_config(None)
    assert Config().settings() == s.Settings()


def test_sections_map_one_to_one_onto_the_settings():
    config = Config()
    for section, settings in (
        ("window", s.WindowSettings),
        ("learning", s.LearningSettings),
        ("detectors", s.DetectorSettings),
        ("episodes", s.EpisodeSettings),
        ("regimes", s.RegimeSettings),
    ):
        ours = set(type(getattr(config, section)).model_fields)
        renamed = {
            "alone_after_ms": "alone_after",
            "gone_after_ms": "gone_after",
            "clear_after_ms": "clear_after",
            "forget_ms": "forget_after",
        }
        theirs = {renamed.get(field.name, field.name) for field in dataclasses.fields(settings)}
        assert ours == theirs
    text = b"""
entity_labels: [node]
subsystems: [cpu, memory]
window: {rows: 4, step: 2, features: [mean]}
learning: {first_rows: 20, calibrated_rows: 30, memory_rows: 40, refit_growth: 0.1, refit_rows: 5, frozen_rows: 6}
detectors:
  {members: [zscore], fusion: mean, agreement: 1, alone: [], alone_at: 3, alone_after: 5s, calibration: live, residual: false, correlation: 0.5,
   keep_constant: false, variance_kept: 0.9, knee: 6, trees: 7, tree_rows: 8, seed: 9}
episodes:
  {budget: 20, risk: 1e-4, raise_at: 2, clear_at: 0.5, raise_windows: 1, raise_of: 2, alone_windows: 1, clear_windows: 3,
   clear_after: 2s, settle_rows: 4, gone_after: 90s}
regimes: {learn_rows: 30, confirm_rows: 2, kept: 1, rebase_rows: 40, long_rows: 130, forget_after: 2h}
"""
    found = parse_config(text, "f.yaml").settings()
    assert found == s.Settings(
        ("node",),
        s.WindowSettings(4, 2, ("mean",)),
        s.LearningSettings(20, 30, 40, 0.1, 5, 6),
        s.DetectorSettings(("zscore",), "mean", 1, (), 3.0, 5000, "live", 0.5, False, 0.9, False, 6.0, 7, 8, 9),
        s.EpisodeSettings(20.0, 1e-4, 2.0, 0.5, 1, 2, 1, 3, 2_000, 4, 90_000),
        found.subsystems,
        s.RegimeSettings(30, 2, 1, 40, 130, 7_200_000),
    )
    assert found.subsystems == ("cpu", "memory")


def test_rules_of_data_faults_map_one_to_one_onto_the_settings():
    text = b"data_faults: {usual: 1h, missing: 9s, grace: 0s, accept: 2h, sustained: 3s, events: 4, skew: 500ms, clear_at: 0.5, clear: 6s}"
    found = parse_config(text, "f.yaml").settings().data_faults
    assert found == s.DataFaultSettings(3_600_000, 9_000, 0, 7_200_000, 3_000, 4, 500, 0.5, 6_000)
    assert len(type(Config().data_faults).model_fields) == len(dataclasses.fields(found))
    assert problems("data_faults: {missing: 10}\n")[0].startswith("f.yaml:1: data_faults.missing: ")


def test_the_section_on_peers_maps_onto_its_settings():
    names = {field.name for field in dataclasses.fields(s.PeerSettings)}
    assert set(type(Config().peers).model_fields) == {name.removesuffix("_ms") for name in names}
    text = b"peers: {enabled: false, by: [rack, workload], minimum: 6, risk: 1e-4, settings_every: 1m, settings_before: 2h}"
    found = parse_config(text, "f.yaml").settings().peers
    assert found == s.PeerSettings(False, ("rack", "workload"), 6, 1e-4, 60_000, 7_200_000)
    assert problems("peers: {minimum: 2}") == [
        "f.yaml:1: peers.minimum: 2 is out of range; allowed: a whole number from 3 to 1000"
    ]


def test_the_members_are_those_that_exist():
    assert set(NAMED) == set(MEMBERS)


def test_every_problem_is_listed_in_order_of_lines():
    lines = problems(
        "mode: lve\nwindo: {}\nwindow:\n  rows: x\n  features: [a]\n  rows: 3\n"
        "source:\n  basic: {}\n  tls: 3\n  headers: {a: 3}\nlog: [1]\ntick: 5\n",
        **{"--web.listen-address": "foo"},
    )
    starts = [
        "--web.listen-address: 'foo'",
        "f.yaml:1: mode: 'lve' is not known; allowed: one of live, shadow",
        "f.yaml:2: windo: unknown key, did you mean window?; allowed: mode,",
        "f.yaml:4: window.rows: 'x' is no whole number; allowed: a whole number from 2 to 600",
        "f.yaml:5: window.features: 'a' is not known; allowed: a list of 1 to 7",
        "f.yaml:6: window.rows: given twice, first in line 4",
        "f.yaml:8: source.basic: username is missing; allowed: username, password_file, password_env",
        "f.yaml:9: source.tls: a single value or a list is no section; allowed: keys with values (ca_file,",
        "f.yaml:10: source.headers.a: 3 is not usable",
        "f.yaml:11: log: a single value or a list is no section; allowed: keys with values (level, format)",
        "f.yaml:12: tick: 5 is a number without a unit; allowed: auto, or a duration",
    ]
    assert len(lines) == len(starts)
    for line, start in zip(lines, starts, strict=True):
        assert line.startswith(start)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("window: {rows: 3\n", "f.yaml:2: no valid YAML"),
        ("a: b: c\n", "f.yaml:1: no valid YAML"),
        ("mode: live\n\tlog: {}\n", "f.yaml:2: no valid YAML"),
        ("mode: live\x00\n", "f.yaml:1: no valid YAML"),
        (b"mode: live\n\xff\n", "f.yaml:2: the file is not UTF-8"),
        ("mode: live\n---\nmode: live\n", "f.yaml:2: no valid YAML"),
        ("- a\n- b\n", "f.yaml:1: the file holds ['a', 'b']; allowed: keys with values, one of mode"),
        ("just text\n", "f.yaml:1: the file holds 'just text'"),
        ("mode: !!python/object:os.system live\n", "f.yaml:1: mode: "),
        ("mode: !secret live\n", "f.yaml:1: mode: the tag !secret is not known"),
        ("[a]: b\n", "f.yaml:1: a key that is no plain text"),
        ("a: &x [*x]\n", "f.yaml:1: "),
        ("mode: " + "[" * 3000 + "]" * 3000, "f.yaml:1: "),
        ("#" * ((1 << 20) + 1), "f.yaml:1: the file is larger than 1048576 bytes; allowed"),
    ],
)
def test_files_that_are_no_configuration(text, says):
    assert problems(text)[0].startswith(says)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("window: {rows: 3, step: 4}", "window.step"),
        ("window: {rows: 60}", "window.rows"),
        ("learning: {first_rows: 300}", "learning.calibrated_rows"),
        ("learning: {memory_rows: 100}", "learning.memory_rows"),
        ("detectors: {members: [zscore]}", "detectors.agreement"),
        ("episodes: {clear_at: 1.0}", "episodes.clear_at"),
        ("episodes: {raise_windows: 6}", "episodes.raise_windows"),
        ("tick: 30m", "tick"),
        ("source: {basic: {username: u}}", "source.basic"),
        ("source: {basic: {username: u, password_file: a, password_env: B}}", "source.basic"),
        ("source: {bearer: {}}", "source.bearer"),
        ("source: {basic: {username: u, password_env: P}, bearer: {token_env: T}}", "source.bearer"),
        ("source: {tls: {key_file: a}}", "source.tls.key_file"),
        ("source: {proxy: {url: 'http://p', from_environment: true}}", "source.proxy.from_environment"),
        ("source: {headers: {Authorization: x}}", "source.headers.Authorization"),
        ("source: {headers: {Host: x}}", "source.headers.Host"),
        ("source: {header_files: {'X Y': x}}", "source.header_files.X Y"),
    ],
)
def test_keys_that_contradict_each_other(text, key):
    with pytest.raises(ConfigError) as caught:
        parse_config(text.encode(), "f.yaml")
    (line,) = str(caught.value).split("\n")
    assert line.startswith(f"f.yaml:1: {key}: ")
    assert "; allowed: " in line


@pytest.mark.parametrize(
    "text",
    [
        "source: {bearer: hunter2}",
        "source: {basic: [hunter2]}",
        "source: {url: 'http://u:hunter2@h'}",
        "source: {headers: hunter2}",
    ],
)
def test_secrets_in_the_wrong_place_are_not_repeated(text):
    assert "hunter2" not in "\n".join(problems(text))


def test_empty_sections_and_null():
    config = parse_config(b"web:\nwindow: {rows: }\nstate: {dir: null}\nlinks: {grafana: }\n", "f.yaml")
    assert (config.web, config.window) == (Config().web, Config().window)
    assert config.state.dir is None


def test_flags_win_and_survive_a_reload(tmp_path):
    path = tmp_path / "f.yaml"
    path.write_text("state: {dir: here}\nweb: {listen: ':1'}\nsource:\n")
    flags = {
        "--web.listen-address": "127.0.0.1:2",
        "--web.config.file": "web.yml",
        "--source.url": "http://h:3",
    }
    config = load_config(path, flags)
    assert str(config.web.listen) == "127.0.0.1:2"
    assert config.source.url == "http://h:3"
    assert config.state.dir == tmp_path / "here"
    assert config.web.config_file == tmp_path / "web.yml"
    path.write_text("tick: 2s\n")
    again = reload_config(config)
    assert (again.tick, again.source.url, str(again.web.listen)) == (2000, "http://h:3", "127.0.0.1:2")
    assert again.web.config_file == config.web.config_file
    path.write_text("tick: soon\n")
    with pytest.raises(ConfigError, match="'soon' is no duration"):
        reload_config(config)
    path.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        reload_config(config)


def test_a_flag_below_a_broken_section_hides_nothing():
    assert problems("web: 3\n", **{"--web.listen-address": ":1"})[0].startswith("f.yaml:1: web: ")


def test_flags_name_keys():
    tree = {dotted(path) for path in FLAGS.values()}
    for path in tree:
        section, key = path.split(".")
        assert key in type(getattr(Config(), section)).model_fields


def test_equal_files_give_equal_configurations():
    text = b"source: {url: 'http://a:1'}\n"
    assert parse_config(text, "a").source == parse_config(text, "b").source
    assert parse_config(text, "a").source != Config().source


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 10**6)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["auto", "5s", "1e-4", "2020-01-01", "0x1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*Config.model_fields, "rows", "url", "basic", "username", "dir", "headers", "tls", "x"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_any_tree_is_taken_or_refused_in_lines(tree):
    text = yaml.safe_dump(tree, allow_unicode=True).encode()
    lines = []
    try:
        parse_config(text, "f.yaml")
    except ConfigError as error:
        lines = str(error).split("\n")
    assert all(line.startswith("f.yaml:") for line in lines)


@given(
    st.text(alphabet=st.sampled_from("ab:-[]{}&*!|>\"'#%@ \n\t?,01"), max_size=40)
    | st.binary(max_size=40).map(lambda data: data.decode("latin-1"))
)
def test_any_text_is_read_or_refused_in_lines(text):
    tree = read_tree(text.encode())
    assert all(problem.line >= 1 and "\n" not in problem.text for problem in tree.problems)


@given(PLAIN)
def test_the_tree_equals_yamls_own(value):
    text = yaml.safe_dump(value, allow_unicode=True)
    assert repr(read_tree(text.encode()).value) == repr(yaml.safe_load(text))


def test_the_example_loads_and_is_not_only_defaults(monkeypatch):
    config = load_config(ROOT / "deploy/examples/detector.yaml")
    assert config != Config()
    assert config.mode == "live", "who follows the README gets pages"
    assert "Bearer" not in repr(source_options(config))


def test_the_reference_is_current():
    written = (ROOT / "docs/detector-configuration.md").read_text()
    assert written == reference(), "run: python -m hwsonde_detector.config_reference docs/detector-configuration.md"


def test_the_defaults_in_the_reference_load():
    section, text = "", ""
    for line in reference().split("\n"):
        if line.startswith("## `"):
            section = line.split("`")[1]
        cells = [cell.strip() for cell in line.replace("\\|", "/").split("|")]
        if section and "." not in section and len(cells) > 4 and cells[2].startswith("`"):
            text = f"{section}: {{{cells[1].strip('`')}: {cells[2].strip('`') or chr(34) * 2}}}\n"
            if "=" in text:
                continue
            value = yaml.safe_load(text)
            key = cells[1].strip("`")
            quoted = yaml.safe_dump(value).encode()
            assert getattr(getattr(parse_config(quoted, text), section), key) == getattr(
                getattr(Config(), section), key
            )
    assert text


def test_shipped_profiles_load():
    assert "hwsonde" in shipped_profiles()
    profiles = load_profiles(shipped_profiles())
    assert len(profiles) == len(shipped_profiles())
    names = metric_names(profiles)
    assert list(names) == sorted(set(names))
    assert names


def test_profiles_by_path_and_their_problems(tmp_path):
    from importlib import resources

    text = resources.files("hwsonde_detector.signals.profiles").joinpath("hwsonde.yaml").read_text()
    (tmp_path / "own.yaml").write_text(text)
    (profile,) = load_profiles(["own.yaml"], tmp_path)
    assert profile.metric_names() == load_profiles(["hwsonde"])[0].metric_names()
    (tmp_path / "bad.yaml").write_text("nonsense: 1\n")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe")
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "long.yaml").write_text("#" * ((1 << 20) + 1))
    with pytest.raises(ConfigError) as caught:
        load_profiles(["hwsond", "none.yaml", "pipe.yaml", "long.yaml", "./bad.yaml", "binary.yaml"], tmp_path)
    lines = str(caught.value).split("\n")
    assert "'hwsond' is not shipped; allowed: hwsonde" in lines[0]
    assert lines[1].startswith(f"{tmp_path}/none.yaml: the profile cannot be read: No such file")
    assert lines[2].startswith(f"{tmp_path}/pipe.yaml: the profile cannot be read: it is no regular file")
    assert lines[3].startswith(f"{tmp_path}/long.yaml: the file is larger than 1048576 bytes")
    assert any(line.startswith(f"{tmp_path}/bad.yaml:1: ") for line in lines)
    assert lines[-1] == f"{tmp_path}/binary.yaml: the profile is not UTF-8 text"


def test_anchors_that_hold_each_other_are_refused_at_once() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert any("more than 100000 values" in line for line in problems("\n".join(lines)))

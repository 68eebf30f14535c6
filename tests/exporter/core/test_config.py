import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwsonde_exporter.config import load, parse_file
from hwsonde_exporter.errors import ConfigError
from hwsonde_exporter.guard import Guard
from hwsonde_exporter.host import Ignored
from hwsonde_exporter.metric import Sample
from hwsonde_exporter.option_values import parse_address
from hwsonde_exporter.options import options
from hwsonde_exporter.registry import load_collectors
from tests.exporter.core.fakes import collector_kind, gauge

ADDRESSES = "HOST:PORT, [IPV6]:PORT or :PORT, port 0 to 65535"
LIMIT = "an integer from 10 to 1000000, alone or behind COLLECTOR="
METRICS = 'a regular expression of whole names, such as "hwsonde_(cpu|memory)_.*"'
PATTERN = 'a regular expression of whole names, such as "veth.*|tap[0-9]+"; "(?!)" leaves nothing out'
KINDS = {"cpu": collector_kind("cpu", list), "gpu": collector_kind("gpu", list, enabled=False)}


def loaded(tmp_path: Path, text: str, *flags: str):
    file = tmp_path / "exporter.yaml"
    file.write_text(text)
    return load(["--config.file", str(file), *flags], KINDS)


def refused(tmp_path: Path, text: str, *flags: str) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text, *flags)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(f"{tmp_path}/")


def test_defaults() -> None:
    found = load([], KINDS)
    assert found.listen == (("", 9880),)
    assert found.exporter.runner.enabled == {"cpu"}
    assert (found.exporter.hertz, found.exporter.runner.timeout, found.max_scrapes) == (10.0, 0.8, 4)
    assert found.exporter.runner.series_limit >= 2000
    assert found.paths.procfs == Path("/proc")


def test_flags() -> None:
    found = load(
        [
            "--web.listen-address",
            "127.0.0.1:1",
            "--web.listen-address=[::1]:2",
            "--no-collector.cpu",
            "--collector.gpu",
            "--sampler.hertz=0",
        ],
        KINDS,
    )
    assert found.listen == (("127.0.0.1", 1), ("::1", 2))
    assert found.exporter.runner.enabled == {"gpu"}
    assert found.exporter.hertz == 0


def test_the_file_and_flags_that_win_over_it(tmp_path: Path) -> None:
    text = f"""
web: {{listen-address: [":7000", "[::1]:7001"], max-scrapes: 2}}
path:
  procfs: {tmp_path}
collector: {{timeout: 2, series-limit: 50, cpu: no, gpu: true}}
sampler: {{hertz: 5}}
log: {{level: debug, format: json}}
"""
    found = loaded(tmp_path, text)
    assert found.listen == (("", 7000), ("::1", 7001))
    assert (found.max_scrapes, found.exporter.hertz, found.log_level, found.log_format) == (2, 5.0, "debug", "json")
    assert found.paths.procfs == tmp_path
    assert found.exporter.runner.enabled == {"gpu"}
    assert (found.exporter.runner.timeout, found.exporter.runner.series_limit) == (2.0, 50)
    over = loaded(
        tmp_path, text, "--collector.cpu", "--no-collector.gpu", "--web.listen-address", ":1", "--sampler.hertz", "20"
    )
    assert over.exporter.runner.enabled == {"cpu"}
    assert (over.listen, over.exporter.hertz) == ((("", 1),), 20.0)


def test_collectors_may_have_series_limits_of_their_own(tmp_path: Path) -> None:
    runner = load(["--collector.series-limit=gpu=70", "--collector.series-limit", "90"], KINDS).exporter.runner
    assert (runner.limit("gpu"), runner.limit("cpu")) == (70, 90)
    runner = loaded(tmp_path, "collector: {series-limit: [100, cpu=20]}").exporter.runner
    assert (runner.limit("gpu"), runner.limit("cpu")) == (100, 20)
    assert load(["--collector.series-limit=gpu=70"], KINDS).exporter.runner.limit("cpu") >= 2000


def test_all_links_of_eight_gpus_are_within_the_limit_unless_another_is_stated() -> None:
    kinds = load_collectors()
    kind = kinds["gpu_nvlink_health"]
    # Of NVLink 5: state, nine errors, packets and bit error ratios two each, speed, the other end.
    own = {
        "up": 1,
        "errors_total": 9,
        "packets_total": 2,
        "bit_error_ratio": 2,
        "speed_bytes_per_second": 1,
        "remote_info": 1,
    }
    assert {f"hwsonde_gpu_nvlink_{name}" for name in own} == {metric.name for metric in kind.metrics}
    by_name = {metric.name.removeprefix("hwsonde_gpu_nvlink_"): metric for metric in kind.metrics}
    samples = [
        Sample(by_name[name], (*(str(place) for place in (gpu, gpu, link, number)), "")[: len(by_name[name].labels)], 1)
        for gpu in range(8)
        for link in range(18)
        for name, times in own.items()
        for number in range(times)
    ]
    for flags, most in (
        ((), 10_000),
        (["--collector.series-limit=cpu=70"], 10_000),
        (["--collector.series-limit=90"], 90),
    ):
        limit = load(list(flags), kinds).exporter.runner.limit(kind.name)
        block, dropped = Guard(kind.metrics, limit).block(samples)
        assert block.shape.size == min(len(samples), most)
        assert bool(dropped) == (most < len(samples))
    assert load(["--collector.series-limit=gpu_nvlink_health=70"], kinds).exporter.runner.limit(kind.name) == 70


@pytest.mark.parametrize(
    ("text", "flags", "enabled"),
    [
        ("", ("--collector.disable-defaults",), set()),
        ("", ("--collector.disable-defaults", "--collector.gpu"), {"gpu"}),
        ("collector: {disable-defaults: true, cpu: true}", (), {"cpu"}),
        ("collector: {disable-defaults: true, cpu: true}", ("--no-collector.disable-defaults",), {"cpu"}),
        ("collector: {disable-defaults: true}", ("--no-collector.disable-defaults",), {"cpu"}),
        ("collector: {disable-defaults: true, gpu: true}", ("--no-collector.gpu",), set()),
    ],
)
def test_only_those_that_are_named_may_run(
    tmp_path: Path, text: str, flags: tuple[str, ...], enabled: set[str]
) -> None:
    assert loaded(tmp_path, text, *flags).exporter.runner.enabled == enabled


def test_lists_of_metrics(tmp_path: Path) -> None:
    selection = loaded(tmp_path, "metrics: {allow: 'hwsonde_a_.*', deny: 'hwsonde_a_b'}").exporter.runner.selection
    names = ("hwsonde_a_b", "hwsonde_a_c", "hwsonde_b_c", "hwsonde_xhwsonde_a_c")
    assert [selection.hides(gauge(name.removeprefix("hwsonde_"))) for name in names] == [True, False, True, True]


def test_what_is_ignored_comes_from_flags_and_the_file(tmp_path: Path) -> None:
    text = 'collector: {network.ignored-devices: "eth.*", filesystem.ignored-mounts: "/a|/b", cpu: false}'
    found = loaded(tmp_path, text, "--collector.network.ignored-devices", "ib[0-9]+")
    assert (found.ignored.devices.pattern, found.ignored.mounts.pattern) == ("ib[0-9]+", "/a|/b")
    assert found.exporter.runner.enabled == frozenset()
    assert load([], KINDS).ignored == Ignored()
    message = "exporter.yaml:1: collector.network.ignored-devices: '[' is not allowed; allowed: " + PATTERN
    assert refused(tmp_path, 'collector: {network.ignored-devices: "["}') == message


@pytest.mark.parametrize("text", ["", "# nothing\n", "web:\n", "web: {}\n"])
def test_an_empty_file_or_section_changes_nothing(tmp_path: Path, text: str) -> None:
    assert loaded(tmp_path, text) == load([], KINDS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("web:\n  listen-adress: :1\n", "exporter.yaml:2: web.listen-adress: unknown key; did you mean web.listen-address?"),
        ("webb: {}\n", "exporter.yaml:1: webb: unknown key; did you mean web?"),
        ("zzz: 1\n", "exporter.yaml:1: zzz: unknown key; allowed: collector, log, metrics, nvml, path, privacy, sampler, web"),
        ("sampler: {hertz: fast}\n", "exporter.yaml:1: sampler.hertz: 'fast' is not allowed; allowed: 0, or ticks a second from 0.1 to 100"),
        ("sampler:\n  hertz: 0.01\n", "exporter.yaml:2: sampler.hertz: '0.01' is not allowed; allowed: 0, or ticks a second from 0.1 to 100"),
        ("sampler:\n  hertz:\n", "exporter.yaml:2: sampler.hertz: '' is not allowed; allowed: 0, or ticks a second from 0.1 to 100"),
        ("sampler:\n  hertz: .nan\n", "exporter.yaml:2: sampler.hertz: '.nan' is not allowed; allowed: 0, or ticks a second from 0.1 to 100"),
        ("collector:\n  timeout: [1]\n", "exporter.yaml:2: collector.timeout: 'a list or mapping' is not allowed; allowed: a number from 0.05 to 60"),
        ("collector:\n  cpu: maybe\n", "exporter.yaml:2: collector.cpu: 'maybe' is not allowed; allowed: true or false"),
        ("collector:\n  cpu: true\n  cpu: false\n", "exporter.yaml:3: collector.cpu: given twice; allowed: once"),
        ("web: [1]\n", "exporter.yaml:1: web: must be a mapping; allowed keys: config.file, listen-address, max-scrapes, timeout-offset"),
        ("- a\n", "exporter.yaml:1: the file: must be a mapping; allowed keys: collector, log, metrics, nvml, path, privacy, sampler, web"),
        ("web: {listen-address: []}\n", "exporter.yaml:1: web.listen-address: an empty list is not allowed; allowed: at least one entry"),
        ("web: {listen-address: [':1', x]}\n", f"exporter.yaml:1: web.listen-address: 'x' is not allowed; allowed: {ADDRESSES}"),
        ("path: {procfs: /no/such/folder}\n", "exporter.yaml:1: path.procfs: '/no/such/folder' is not allowed; allowed: a folder that exists"),
        ("log:\n  level: loud\n", "exporter.yaml:2: log.level: 'loud' is not allowed; allowed: debug or info or warning or error"),
        ("{[a]: 1}\n", "exporter.yaml:1: ?: unknown key; allowed: collector, log, metrics, nvml, path, privacy, sampler, web"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    assert refused(tmp_path, text) == message


def test_text_that_is_no_yaml_is_named_with_its_line(tmp_path: Path) -> None:
    assert refused(tmp_path, "web:\n  - : [\n").startswith("exporter.yaml:2: not YAML: ")


def test_a_file_that_is_not_there_or_too_large(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"No such file or directory; see --config\.file"):
        load(["--config.file", str(tmp_path / "none.yaml")], KINDS)
    assert "larger than" in refused(tmp_path, "#" * (1 << 20) + "\n")


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ConfigError) as caught:
            load(["--config.file", str(path)], KINDS)
        assert str(caught.value) == f"{path}: cannot be read: it is no regular file; see --config.file"
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory; see --config\.file"):
        load(["--config.file", str(tmp_path)], KINDS)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--sampler.hertz", "-3"], "--sampler.hertz: '-3' is not allowed; allowed: 0, or ticks a second from 0.1 to 100"),
        (["--web.listen-address", "localhost"], f"--web.listen-address: 'localhost' is not allowed; allowed: {ADDRESSES}"),
        (["--web.listen-address", "a..b:29882"], f"--web.listen-address: 'a..b:29882' is not allowed; allowed: {ADDRESSES}"),
        (["--collector.network.ignored-devices", "a)(b"], f"--collector.network.ignored-devices: 'a)(b' is not allowed; allowed: {PATTERN}"),
        (["--collector.filesystem.ignored-mounts="], f"--collector.filesystem.ignored-mounts: '' is not allowed; allowed: {PATTERN}"),
        (["--no-such-flag"], "unrecognized arguments: --no-such-flag; see --help"),
        (["--collector.cp"], "unrecognized arguments: --collector.cp; see --help"),
        (["--collector.series-limit=1"], f"--collector.series-limit: '1' is not allowed; allowed: {LIMIT}"),
        (["--collector.series-limit=nvme=50"], f"--collector.series-limit: 'nvme=50' is not allowed; allowed: {LIMIT}"),
        (["--metrics.allow=("], f"--metrics.allow: '(' is not allowed; allowed: {METRICS}"),
        (["--web.timeout-offset=-1"], "--web.timeout-offset: '-1' is not allowed; allowed: a number from 0 to 30"),
        (["--log.format"], "argument --log.format: expected one argument; see --help"),
    ],
)  # fmt: skip
def test_bad_flags_are_one_line(flags: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(flags, KINDS)
    assert str(caught.value) == message


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
@settings(max_examples=200, deadline=None)
def test_any_file_gives_values_or_one_line(text: bytes) -> None:
    message = "f.yaml:"
    try:
        parse_file(text, "f.yaml", options(KINDS))
    except ConfigError as error:
        message = str(error)
    assert message.startswith("f.yaml:")
    assert "\n" not in message


def test_a_file_that_refers_to_itself_or_nests_deeply_ends() -> None:
    for text in (b"&a {web: *a}", b"[" * 20000, b"web: &a [*a]"):
        with pytest.raises(ConfigError):
            parse_file(text, "f.yaml", options(KINDS))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":9880", ("", 9880)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
        ("[::]:65535", ("::", 65535)),
        ("node-1.example:80", ("node-1.example", 80)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "9880",
        "::1:80",
        "host:",
        "host:x",
        ":65536",
        ":-1",
        "http://a:1",
        "a b:1",
        ":²",
        "a..b:1",
        ".a:1",
        "a\0b:1",
        "\udcff:1",
        "a" * 300 + ":1",
        "a." * 200 + "a:1",
        ":" + "0" * 5000,
    ],
)
def test_bad_addresses(text: str) -> None:
    with pytest.raises(ValueError, match="PORT"):
        parse_address(text)


@given(st.text(max_size=30))
def test_any_address_is_read_or_refused(text: str) -> None:
    try:
        host, port = parse_address(text)
    except ValueError:
        return
    assert 0 <= port <= 65535
    assert not any(character.isspace() for character in host)

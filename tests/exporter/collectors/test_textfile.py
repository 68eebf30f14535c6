from __future__ import annotations

import logging
import os
import re
import time
from math import isnan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from hwsonde_exporter import config
from hwsonde_exporter.cell import Clocks
from hwsonde_exporter.collectors import textfile
from hwsonde_exporter.collectors._textfile_format import FormatError, metric_of, parse_textfile
from hwsonde_exporter.collectors.textfile import Refused, TextfileCollector, check_trust, family_samples
from hwsonde_exporter.errors import ConfigError, ReadError, Reason, Unavailable
from hwsonde_exporter.exporter import Exporter, ExporterSettings
from hwsonde_exporter.exposition import Format, block_of, render
from hwsonde_exporter.guard import Guard
from hwsonde_exporter.host import Host, Paths
from hwsonde_exporter.metric import Foreign, Kind, Metric, Sample
from hwsonde_exporter.runner import RunnerSettings
from hwsonde_exporter.selection import Selection

GOOD = r"""# HELP backup_seconds Time \ the backup\n took.
# TYPE backup_seconds gauge
backup_seconds{target="db"} 12.5
backup_seconds { zone = "a\"b\\c\nd}" , target="f" , } -3e-2

# a comment that says nothing
plain:thing 3
plain:thing{x="NaN"} NaN
# TYPE lat_seconds histogram
lat_seconds_bucket{le="0.1",path="/"} 3
lat_seconds_bucket{le="+Inf",path="/"} 4
lat_seconds_sum{path="/"} 1.5
lat_seconds_count{path="/"} 4
# TYPE rpc summary
rpc{quantile="0.5"} 2
rpc_sum 9
rpc_count 3
# TYPE done_total counter
done_total 7
"""
# A counter that lacks its ending gets one from the client library, which would compare unequal.
ODD = "# TYPE odd counter\nodd +Inf\n"
LIMIT = 100


def series(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every series by its whole name and labels, as parsed by ours."""
    found = {}
    for family in parse_textfile(text.encode(), LIMIT):
        for (suffix, labels), value in family.series.items():
            found[family.name + suffix, frozenset(labels)] = value
    return found


def refused(text: str | bytes) -> tuple[str, int]:
    with pytest.raises(FormatError) as caught:
        parse_textfile(text if isinstance(text, bytes) else text.encode(), LIMIT)
    return caught.value.reason, caught.value.line


def exposition(text: str, form: Format) -> str:
    samples = [sample for family in parse_textfile(text.encode(), LIMIT) for sample in family_samples(family)]
    return render([Guard((), 1000).block(samples)[0]], form).decode()


def samples_of(families: object) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families  # type: ignore[attr-defined]
        for sample in family.samples
    }


def same(one: dict[tuple[str, frozenset[tuple[str, str]]], float], other: object) -> bool:
    """Equal, not-a-number being equal to itself."""

    def plain(values: dict[tuple[str, frozenset[tuple[str, str]]], float]) -> dict[object, object]:
        return {key: "nan" if isnan(value) else value for key, value in values.items()}

    return plain(one) == plain(other)  # type: ignore[arg-type]


def test_what_is_read_is_what_the_client_library_reads() -> None:
    assert len(series(GOOD)) == 12
    assert same(series(GOOD), samples_of(parse_text(GOOD)))


def test_what_is_printed_is_what_was_read_in_both_formats() -> None:
    assert same(series(GOOD), samples_of(parse_text(exposition(GOOD, Format.TEXT))))
    families = list(parse_openmetrics(exposition(GOOD + ODD, Format.OPENMETRICS)))
    assert same(series(GOOD + ODD), samples_of(families))
    types = {family.name: family.type for family in families}
    # A counter without its ending is none in OpenMetrics.
    assert (types["done"], types["odd"], types["plain:thing"]) == ("counter", "unknown", "unknown")
    assert (types["lat_seconds"], types["rpc"]) == ("histogram", "summary")
    assert (
        next(family for family in families if family.name == "backup_seconds").documentation
        == "Time \\ the backup\n took."
    )


def test_printing_and_reading_again_changes_nothing() -> None:
    once = exposition(GOOD, Format.TEXT)
    assert exposition(once, Format.TEXT) == once


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("a 1", "broken", 1), ("a 1\nb 2\nc", "broken", 3), ("a\n", "broken", 1), ("a x\n", "broken", 1), ("a 1_0\n", "broken", 1),
        ("a 0x1\n", "broken", 1), ("a ٣\n", "broken", 1), ("a 1 2\n", "timestamp", 1), ("a 1 x\n", "broken", 1),
        ("a 1 2 3\n", "broken", 1), ("a 1\r\nb 2\n", "broken", 1), ("a+1\n", "broken", 1), ("a\xa01\n", "broken", 1),
        ("a{ 1\n", "broken", 1), ("a{b} 1\n", "broken", 1),
        ('a{b="1"c="2"} 1\n', "broken", 1), ('a{b="1",,} 1\n', "broken", 1), ("a{,} 1\n", "broken", 1), ('a{b="\\t"} 1\n', "broken", 1),
        ('a{b="1",b="2"} 1\n', "broken", 1), ('a{__b="1"} 1\n', "broken", 1), ('{b="1"} 1\n', "broken", 1), ("1a 1\n", "broken", 1),
        ('a{"b"="1"} 1\n', "broken", 1), ("é 1\n", "broken", 1), ("a 1\na 2\n", "duplicate", 2),
        ('a{b="1",c="2"} 1\na{c="2",b="1"} 2\n', "duplicate", 2), ("# TYPE a gauge\n# TYPE a gauge\n", "broken", 2),
        ("a 1\n# TYPE a gauge\n", "broken", 2), ("# HELP a x\n# HELP a x\n", "broken", 2), ("# TYPE a thing\n", "broken", 1),
        ("# TYPE a\n", "broken", 1), ("# TYPE a histogram\na 1\n", "broken", 2), ("# TYPE a histogram\na_bucket 1\n", "broken", 2),
        ('# TYPE a histogram\na_bucket{le="x"} 1\n', "broken", 2), ("# TYPE a summary\na 1\n", "broken", 2),
        ("hwsonde_cpu_online 1\n", "collision", 0), ("# TYPE a summary\na_sum 1\n# TYPE a_count gauge\n", "", 0),
        ("# TYPE a counter\na 1\na_total 2\n", "", 0), ("# TYPE a_total counter\na_total 2\na 1\n", "collision", 0),
        ("a_sum 1\n# TYPE a summary\na_count 1\n", "collision", 0),
        ("".join(f"a{n} 1\n" for n in range(LIMIT + 1)), "too_many", LIMIT + 1),
        ("a{" + ",".join(f'b{n}="1"' for n in range(65)) + "} 1\n", "broken", 1),
    ],
)  # fmt: skip
def test_what_is_refused_and_where(text: str, reason: str, line: int) -> None:
    if not reason:
        parse_textfile(text.encode(), LIMIT)
    else:
        assert refused(text) == (reason, line)


def test_bytes_that_are_no_text() -> None:
    assert refused(b"a 1\nb\xff 2\n") == ("broken", 2)


def test_an_empty_file_is_no_error() -> None:
    assert parse_textfile(b"", LIMIT) == parse_textfile(b"# HELP a b\n\n# EOF\n", LIMIT) == []


lines = st.one_of(
    st.sampled_from(GOOD.splitlines()),
    st.text(alphabet='abAB_:{}=",\\ n01.eE+-#TYPEHELP\t\r\0\x85é', max_size=40),
    st.text(max_size=20),
)


@given(st.lists(lines, max_size=12))
def test_any_text_is_refused_or_comes_out_as_the_client_library_reads_it(chosen: list[str]) -> None:
    text = "\n".join(chosen) + "\n"
    try:
        mine = series(text)
    except FormatError:
        return
    assert same(mine, samples_of(parse_text(exposition(text, Format.TEXT))))


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_parsed(data: bytes) -> None:
    try:
        for family in parse_textfile(data, LIMIT):
            for _, labels in family.series:
                metric_of(family, labels)
    except FormatError:
        pass


# ---- what a foreign metric may be ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hwsonde_x", "", "a-b", "1a", "a b", "é", "a\n"])
def test_foreign_names(name: str) -> None:
    with pytest.raises(ValueError, match="metric name"):
        Foreign(name, Kind.GAUGE, "H.")


@pytest.mark.parametrize("labels", [("a-b",), ("__a",), ("a", "a"), ("",)])
def test_foreign_labels(labels: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="label"):
        Foreign("a", Kind.GAUGE, "H.", labels)


def test_ours_have_a_type() -> None:
    with pytest.raises(ValueError, match="ours have a type"):
        Metric("hwsonde_x", Kind.UNTYPED, "H.")


def test_series_of_one_family_may_differ_in_their_labels() -> None:
    one, other = Foreign("a", Kind.GAUGE, "H.", ("x",)), Foreign("a", Kind.GAUGE, "H.", ("y",))
    block, dropped = Guard((), 10).block([Sample(one, ("1",), 1), Sample(other, ("1",), 2), Sample(one, ("1",), 3)])
    assert block.text(Format.TEXT) == b'# HELP a H.\n# TYPE a gauge\na{x="1"} 1\na{y="1"} 2\n'
    assert dropped == {"duplicate": 1}


def test_allow_and_deny_lists_hold_for_foreign_metrics() -> None:
    guard = Guard((), 10, Selection(deny=re.compile("secret.*")))
    samples = [Sample(Foreign(name, Kind.GAUGE, "H."), (), 1) for name in ("secret_a", "open")]
    assert guard.block(samples)[0].text(Format.TEXT) == b"# HELP open H.\n# TYPE open gauge\nopen 1\n"


# ---- files ---------------------------------------------------------------------------------------------------------


def errors(samples: list[Sample]) -> dict[str, str]:
    """Reason of each file, empty for a good one; the value must agree."""
    found = {sample.labels[0]: sample for sample in samples if sample.metric is textfile.ERROR}
    assert all(sample.value == bool(sample.labels[1]) for sample in found.values())
    return {file: sample.labels[1] for file, sample in found.items()}


def foreign(samples: list[Sample]) -> dict[str, float]:
    return {sample.metric.name: sample.value for sample in samples if isinstance(sample.metric, Foreign)}


def collector_of(folder: Path) -> TextfileCollector:
    folder.chmod(0o755)
    return TextfileCollector(Host(textfiles=folder))


def test_good_files_are_merged_and_the_others_named(tmp_path: Path) -> None:
    (tmp_path / "a.prom").write_text('# TYPE x gauge\nx{n="1"} 1\n')
    (tmp_path / "b.prom").write_text('# TYPE x gauge\nx{n="2"} 2\n')
    (tmp_path / "broken.prom").write_text("y 1")
    (tmp_path / "c.prom").write_text('# TYPE x gauge\nx{n="2"} 3\nz 1\n')
    (tmp_path / "d.prom").write_text("# TYPE x counter\nx 1\n")
    (tmp_path / "e.prom").write_text("# TYPE x_count gauge\nx_count 1\n# TYPE h histogram\nh_sum 1\n")
    (tmp_path / "f.prom").write_text("h_count 1\n")
    (tmp_path / "note.txt").write_text("y 1\n")
    (tmp_path / ".hidden.prom.swp").write_text("y 1\n")
    collector = collector_of(tmp_path)
    collector.probe()
    samples = list(collector.collect())
    assert errors(samples) == {
        "a.prom": "", "b.prom": "", "broken.prom": "broken", "c.prom": "duplicate", "d.prom": "collision", "e.prom": "",
        "f.prom": "collision",
    }  # fmt: skip
    assert foreign(samples) == {"x": 2, "x_count": 1, "h": 1}
    times = {sample.labels[0]: sample.value for sample in samples if sample.metric is textfile.MTIME}
    assert times["a.prom"] == pytest.approx((tmp_path / "a.prom").stat().st_mtime)
    assert len(times) == 7


def test_files_that_others_may_write_are_left_out(tmp_path: Path) -> None:
    for name, mode in (("all.prom", 0o666), ("group.prom", 0o660), ("own.prom", 0o600)):
        (tmp_path / name).write_text(f"{name[:3]} 1\n")
        (tmp_path / name).chmod(mode)
    samples = list(collector_of(tmp_path).collect())
    assert errors(samples) == {"all.prom": "writable", "group.prom": "", "own.prom": ""}
    assert foreign(samples) == {"gro": 1, "own": 1}


@pytest.mark.parametrize(
    ("owner", "own", "reason"), [(0, 1000, ""), (1000, 1000, ""), (1001, 1000, "owner"), (1001, 0, "owner")]
)
def test_owners(owner: int, own: int, reason: str) -> None:
    status = os.stat_result((0o100644, 1, 1, 1, owner, 0, 0, 0, 0, 0))
    if not reason:
        check_trust(status, own)
        return
    with pytest.raises(Refused) as caught:
        check_trust(status, own)
    assert caught.value.reason == reason


def test_what_is_no_regular_file_or_too_big_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.prom")
    (tmp_path / "folder.prom").mkdir()
    (tmp_path / "zero.prom").symlink_to("/dev/zero")
    (tmp_path / "gone.prom").symlink_to("nowhere")
    (tmp_path / "loop.prom").symlink_to("loop.prom")
    (tmp_path / "big.prom").write_bytes(b"a 1\n" * (1 << 19))
    assert errors(list(collector_of(tmp_path).collect())) == {
        "pipe.prom": "not_regular", "folder.prom": "not_regular", "zero.prom": "not_regular", "loop.prom": "unreadable",
        "big.prom": "too_big",
    }  # fmt: skip


def test_a_file_is_parsed_when_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []

    def parse(data: bytes, limit: int) -> list[textfile.Family]:
        parsed.append(data)
        return parse_textfile(data, limit)

    monkeypatch.setattr(textfile, "parse_textfile", parse)
    (tmp_path / "a.prom").write_text("a 1\n")
    collector = collector_of(tmp_path)
    for _ in range(3):
        assert foreign(list(collector.collect())) == {"a": 1}
    assert len(parsed) == 1
    (tmp_path / "new").write_text("a 2\n")
    (tmp_path / "new").rename(tmp_path / "a.prom")
    assert foreign(list(collector.collect())) == {"a": 2}
    (tmp_path / "a.prom").unlink()
    assert list(collector.collect()) == []
    assert len(parsed) == 2


def test_a_file_whose_rights_are_mended_is_published(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.prom").write_text("a 1\n")
    (tmp_path / "a.prom").chmod(0o666)
    collector = collector_of(tmp_path)
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            assert errors(list(collector.collect())) == {"a.prom": "writable"}
        (tmp_path / "a.prom").chmod(0o644)
        assert errors(list(collector.collect())) == {"a.prom": ""}
    assert caplog.messages == [
        "textfile: a.prom is left out: everybody may write to it; chmod o-w",
        "textfile: a.prom is published again",
    ]


def test_why_there_is_nothing(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        TextfileCollector(Host()).probe()
    assert caught.value.reason is Reason.DISABLED
    assert list(TextfileCollector(Host()).collect()) == []
    missing = TextfileCollector(Host(textfiles=tmp_path / "missing"))
    missing.probe()
    with pytest.raises(ReadError, match="No such file"):
        missing.collect()
    collector = collector_of(tmp_path)
    tmp_path.chmod(0o777)
    with pytest.raises(Unavailable, match="everybody may write") as caught:
        collector.probe()
    assert caught.value.reason is Reason.NO_PERMISSION


def test_too_many_files_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textfile, "_MAX_FILES", 2)
    for number in range(6):
        (tmp_path / f"{number}.prom").write_text(f"a{number} 1\n")
    samples = list(collector_of(tmp_path).collect())
    assert errors(samples) == {"0.prom": "", "1.prom": "", "2.prom": "too_many", "3.prom": "too_many"}


def test_a_block_of_all_is_sound(tmp_path: Path) -> None:
    (tmp_path / "good.prom").write_text(GOOD)
    samples = list(collector_of(tmp_path).collect())
    text = render([block_of(samples)], Format.OPENMETRICS).decode()
    assert len(samples_of(parse_openmetrics(text))) == len(samples) == 14


# ---- as a whole ----------------------------------------------------------------------------------------------------


def test_the_option_wants_a_path_from_the_root() -> None:
    kinds = {"textfile": TextfileCollector}
    assert config.load([], kinds).textfiles is None
    assert config.load(["--collector.textfile.directory=/var/lib/x"], kinds).textfiles == Path("/var/lib/x")
    with pytest.raises(ConfigError, match="from the root"):
        config.load(["--collector.textfile.directory=lib/x"], kinds)


@pytest.mark.parametrize("form", Format)
def test_a_scrape_gives_the_files_with_our_own_metrics(tmp_path: Path, form: Format) -> None:
    (tmp_path / "good.prom").write_text(GOOD)
    tmp_path.chmod(0o755)
    settings = ExporterSettings(RunnerSettings(frozenset({"textfile"}), timeout=10.0), 0.0)
    clocks = Clocks(time.monotonic, time.time)
    exporter = Exporter({"textfile": TextfileCollector}, Paths(), settings, clocks, textfiles=tmp_path)
    exporter.start()
    exporter.settle(10.0)
    text = render(exporter.scrape(), form).decode()
    exporter.stop()
    read = samples_of((parse_text if form is Format.TEXT else parse_openmetrics)(text))
    assert read["rpc", frozenset({("quantile", "0.5")})] == 2
    assert read["hwsonde_exporter_textfile_error", frozenset({("file", "good.prom"), ("reason", "")})] == 0
    assert read["hwsonde_exporter_collector_success", frozenset({("collector", "textfile")})] == 1

"""Which samples an evidence archive has, and which names it has not."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hwsonde_detector.config import load_config, parse_config
from hwsonde_detector.errors import ConfigError
from hwsonde_detector.incidents.book import Book, Mode
from hwsonde_detector.incidents.evidence import samples_of
from hwsonde_detector.incidents.store import Store
from hwsonde_detector.past.world import World
from hwsonde_detector.reports.evidence import Wanted, run_evidence
from hwsonde_detector.reports.finding import narrowed_by_instance
from hwsonde_detector.types import Device, Entity, Series
from hwsonde_detector.web.history import History
from tests.detector.incidents.made import episode
from tests.detector.reports.fleet import HOSTS, START_MS, configured, record, series
from tests.detector.web.data import StillClock

ONSET = START_MS + 30_000
DAY = 86_400_000
Labels = dict[str, str]


def host(node: str) -> Entity:
    return Entity((("cluster", "lab"), ("node", node)))


def kept(folder: Path, one: Entity, labels: Callable[[Labels], Labels], **more: object) -> Path:
    """An incident of a host, and an archive of three hosts whose labels were made other ones."""
    path = configured(folder)
    path.write_text(path.read_text().replace("dir: null", f"dir: {folder / 'state'}"))
    made = []
    for known, values in series(seconds=60):
        other = labels(dict(known.labels))
        made.append((Series(known.name, tuple(sorted(other.items()))), values))
    record(folder / "past", sorted(made, key=lambda pair: pair[0]))
    book = Book(Store(folder / "state" / "incidents"), History(), StillClock(ONSET + DAY), Mode(version="0.1"))
    book.resume([episode(ONSET, one, end_ms=ONSET + 10_000, **more)])
    return path


def evidence(path: Path, **wanted: object) -> dict[str, bytes]:
    config = load_config(path, {})
    store = Store(config.state.dir / "incidents")
    store.peek()
    out, target = io.StringIO(), path.parent / "out.tar.gz"
    asked = Wanted(store.entries()[0].id, target, **{"archive": path.parent / "past", **wanted})
    assert run_evidence(config, asked, World(lambda: 0, lambda: 0.0, out=out, err=out)) == 0
    with tarfile.open(target) as archive:
        return {one.name.partition("/")[2]: archive.extractfile(one).read() for one in archive.getmembers()}


def lines(content: bytes) -> list[dict]:
    return [json.loads(line) for line in content.splitlines()]


def without_node(labels: Labels) -> Labels:
    return {name: value for name, value in labels.items() if name != "node"}


def test_a_host_that_is_named_by_its_instance_has_samples(tmp_path: Path) -> None:
    files = evidence(kept(tmp_path, host("h0"), without_node))
    samples = lines(files["samples.jsonl"])
    assert {one["metric"]["instance"] for one in samples} == {"h0:9880"}
    assert sum(len(one["values"]) for one in samples) > 500
    assert b"samples.jsonl is empty" not in files["summary.txt"]


def test_some_series_of_a_host_may_have_its_label_and_others_not(tmp_path: Path) -> None:
    def labels(own: Labels) -> Labels:
        return {**own, "node": "h0"} if own["instance"] == "h0:9880" and "device" in own else without_node(own)

    samples = lines(evidence(kept(tmp_path, host("h0"), labels))["samples.jsonl"])
    assert {one["metric"]["instance"] for one in samples} == {"h0:9880"}
    assert {one["metric"].get("node") for one in samples} == {"h0", None}


def test_a_label_that_is_missing_is_no_label_of_another_host() -> None:
    made = series(seconds=5)
    from tests.detector.reports.fleet import batches

    some = [batch for batch, _ in batches(made)]
    assert {dict(one.labels)["node"] for one, _ in samples_of(some, host("n1"))} == {"n1"}
    assert not list(samples_of(some, Entity((("cluster", ""), ("node", "n1")))))
    assert not list(samples_of(some, host("h0")))


@pytest.mark.parametrize(
    ("labels", "selector"),
    [
        ([("cluster", "lab"), ("node", "h0")], 'job="x",cluster=~"lab",node="",instance=~"\\\\[?h0\\\\]?(:[0-9]*)?"'),
        ([("cluster", ""), ("node", "h.0")], 'job="x",node="",instance=~"\\\\[?h\\\\.0\\\\]?(:[0-9]*)?"'),
        ([("rack", "a"), ("box", "b")], 'job="x",rack=~"a",box="",instance=~"\\\\[?b\\\\]?(:[0-9]*)?"'),
        ([("node", "h" * 9000)], 'job="x",node=""'),
    ],
)
def test_what_lacks_the_label_is_asked_for_by_its_instance(labels: list[tuple[str, str]], selector: str) -> None:
    config = parse_config(b"""source: {selector: 'job="x"'}""", "test")
    assert [one.source.selector for one in narrowed_by_instance(config, Entity(tuple(labels)))] == [selector]


@pytest.mark.parametrize("labels", [[], [("node", "")], [("instance", "h0:9880")]])
def test_there_is_nothing_to_ask_for_without_a_name(labels: list[tuple[str, str]]) -> None:
    assert narrowed_by_instance(parse_config(b"", "test"), Entity(tuple(labels))) == ()


LONG = f"rack-of-amber-{'x' * 90}-in-the-birch-hall"


def test_a_long_name_is_left_in_no_file(tmp_path: Path) -> None:
    path = kept(tmp_path, host(LONG), lambda own: {**own, "node": LONG if own["node"] == "n1" else own["node"]})
    (tmp_path / "kernel").write_text(f"{LONG}.example.org: I/O error\n")
    files = evidence(path, redact=("node",), kernel_log=tmp_path / "kernel")
    assert b"node-" in files["samples.jsonl"]
    for name, content in files.items():
        assert b"amber" not in content, name
        assert b"birch" not in content, name


def test_a_host_is_hidden_with_the_instance_that_it_is_named_by(tmp_path: Path) -> None:
    files = evidence(kept(tmp_path, host("h0"), without_node), redact=("instance",))
    for name, content in files.items():
        assert not re.search(rb"\bh0\b", content), name
    assert b"Values of the label instance are replaced" in files["summary.txt"]


def test_numbers_of_a_label_do_not_change_numbers(tmp_path: Path) -> None:
    """Job 100 with GPU 1: the samples are full of both."""

    def labels(own: Labels) -> Labels:
        return {**own, "job_id": "100", "workload": "slurm:100", "gpu": "1", "port": "1"}

    path = kept(
        tmp_path, host("n1"), labels, device=Device("gpu", "1"), title="lab/n1 gpu 1: 100 W, expected at most 1 W"
    )
    (tmp_path / "kernel").write_text("[  100.100] NVRM: GPU 1 has 1 of 100 in /slurm/job_100/step_1\n")
    plain = evidence(path)
    files = evidence(path, redact=("job_id", "gpu"), kernel_log=tmp_path / "kernel")
    before, after = lines(plain["samples.jsonl"]), lines(files["samples.jsonl"])
    assert [one["values"] for one in after] == [one["values"] for one in before]
    (metric,) = {
        json.dumps({name: one["metric"][name] for name in ("job_id", "gpu", "port", "workload")}) for one in after
    }
    shown = json.loads(metric)
    assert shown["job_id"].startswith("job_id-")
    assert shown["gpu"].startswith("gpu-")
    assert (shown["port"], shown["workload"]) == ("1", f"slurm:{shown['job_id']}")
    incident = json.loads(files["incident.json"])["incident"]
    assert incident["device"] == {"class": "gpu", "name": shown["gpu"]}
    assert incident["title"] == f"lab/n1 gpu {shown['gpu']}: 100 W, expected at most 1 W"
    assert incident["onset_ms"] == json.loads(plain["incident.json"])["incident"]["onset_ms"]
    assert files["kernel.log"].decode() == (
        f"[  100.100] NVRM: GPU {shown['gpu']} has 1 of 100 in /slurm/job_{shown['job_id']}/step_1\n"
    )
    assert b"Some are numbers" in files["summary.txt"]


def test_values_that_json_escapes_are_replaced(tmp_path: Path) -> None:
    value = 'C:\\zeta "yott"'
    path = kept(tmp_path, host("n1"), lambda own: {**own, "mountpoint": value}, title=f"lab/n1 storage {value}: busy")
    files = evidence(path, redact=("mountpoint",))
    assert {one["metric"]["mountpoint"][:11] for one in lines(files["samples.jsonl"])} == {"mountpoint-"}
    for name, content in files.items():
        assert b"zeta" not in content, name
        assert b"yott" not in content, name


def test_what_is_left_of_a_trimmed_value_is_replaced(tmp_path: Path) -> None:
    path = kept(
        tmp_path, host("n1"), lambda own: {**own, "pod": "secret-run-x7k2p"}, title="kubernetes/ml/secret-run: busy"
    )
    path.write_text(path.read_text().replace("profiles: [./profile.yaml]", "profiles: [./profile.yaml, hwsonde]"))
    files = evidence(path, redact=("pod",))
    for name, content in files.items():
        assert b"secret-run" not in content, name


def test_a_label_without_values_is_said_to_have_none(tmp_path: Path) -> None:
    files = evidence(kept(tmp_path, host("n1"), dict), redact=("uuid", "node"))
    assert b"No value of the label uuid is known" in files["summary.txt"]
    assert b"Values of the label node are replaced by others." in files["summary.txt"]


def test_a_full_disk_costs_no_archive_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = kept(tmp_path, host("n1"), dict)
    evidence(path)
    before = (tmp_path / "out.tar.gz").read_bytes()

    def full(self: Path, content: bytes) -> int:
        with open(self, "wb") as file:
            file.write(content[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ConfigError, match="No space left") as caught:
        evidence(path, samples=False)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "out.tar.gz").read_bytes() == before
    assert not list(tmp_path.glob(".*new"))


def test_a_link_stays_a_link_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    path = kept(tmp_path, host("n1"), dict)
    (tmp_path / "out.tar.gz").symlink_to(tmp_path / "real.tar.gz")
    evidence(path, samples=False)
    assert (tmp_path / "out.tar.gz").is_symlink()
    content = (tmp_path / "real.tar.gz").read_bytes()
    (tmp_path / "out.tar.gz").unlink()
    os.mkfifo(tmp_path / "pipe")
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()), daemon=True)
    reader.start()
    config = load_config(path, {})
    store = Store(config.state.dir / "incidents")
    store.peek()
    asked = Wanted(store.entries()[0].id, tmp_path / "pipe", samples=False)
    assert run_evidence(config, asked, World(lambda: 0, lambda: 0.0, out=io.StringIO())) == 0
    reader.join(20)
    assert found == [content]


def test_other_hosts_are_no_part_of_it(tmp_path: Path) -> None:
    samples = lines(evidence(kept(tmp_path, host("n2"), dict))["samples.jsonl"])
    assert {one["metric"]["node"] for one in samples} == {"n2"} < set(HOSTS)
    assert np.isfinite([float(value) for one in samples for _, value in one["values"]]).all()

"""The command line in this process: what it answers, on which stream, with which status."""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import subprocess
import sys

import pytest

from hwsonde_detector import __version__, logs
from hwsonde_detector.capture import capture
from hwsonde_detector.cli import main
from hwsonde_detector.errors import NO_THREAD, SourceRefused, shortage
from hwsonde_detector.sources.archive import ArchiveRecorder, ArchiveSource
from hwsonde_detector.sources.base import Read
from hwsonde_detector.types import SampleBatch
from tests.detector.past.history import config
from tests.detector.past.runs import HISTORY
from tests.detector.sources import server as fake
from tests.detector.sources.answers import EMPTY

pytestmark = pytest.mark.usefixtures("quiet_logger")


def test_the_version(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"hwsonde-detector {__version__}\n"


def test_a_good_configuration_is_summed_up(capsys, tmp_path):
    (tmp_path / "f.yaml").write_text("mode: shadow\ntick: 5s\n")
    assert main(["check-config", str(tmp_path / "f.yaml")]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"ok: {tmp_path}/f.yaml: mode shadow, tick 5s, hosts named by cluster, node\n")
    for part in (
        'selector job=~"hwsonde-exporter"',
        "profiles: hwsonde, which ask for",
        "of which 2 must agree",
        "pages after 240",
    ):
        assert part in out


def test_all_problems_are_printed(capsys, tmp_path):
    (tmp_path / "f.yaml").write_text("mode: lve\ntikc: 5s\n")
    assert main(["check-config", str(tmp_path / "f.yaml")]) == 2
    caught = capsys.readouterr()
    assert caught.out == ""
    first, second = caught.err.splitlines()
    assert first.startswith(f"hwsonde-detector: {tmp_path}/f.yaml:1: mode: 'lve'")
    assert "did you mean tick?" in second


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("source:\n  bearer: {token_file: none}", "2: source.bearer.token_file: {}/none: the secret cannot be read: No such file"),
        ("source:\n  bearer: {token_file: pipe}", "2: source.bearer.token_file: {}/pipe: the secret cannot be read: it is no regular"),
        ("source: {basic: {username: a, password_file: .}}", "1: source.basic.password_file: {}: the secret cannot be read: Is a dir"),
        ("source:\n  header_files:\n    X-A: none", "3: source.header_files.X-A: {}/none: the secret cannot be read"),
        ("source: {bearer: {token_env: HWSONDE_NO_SUCH}}", "1: source.bearer.token_env: the environment variable HWSONDE_NO_SUCH"),
        ("source: {tls: {ca_file: none}}", "1: source.tls.ca_file: {}/none: No such file or directory; check the path"),
        ("source: {tls: {ca_file: .}}", "1: source.tls.ca_file: {}: it is no regular file; check the path"),
        ("source: {url: 'http://a..b:1'}", "1: source.url: 'http://a..b:1' is no address of a web server"),
        ('source: {headers: {"a\\nb": x}}', "1: source.headers.'a\\nb': no name of a header; allowed: letters"),
        ('"a\\nb": 1', "1: 'a\\nb': unknown key"),
        ("archive:\n  record: /", "2: archive.record: /: it is no regular file; choose another file"),
        ("archive: {record: none/a}", "1: archive.record: {}/none/a: No such file or directory; choose another file"),
        ("web: {listen: 'a..b:1'}", "1: web.listen: 'a..b:1' is no address to listen on"),
    ],
)  # fmt: skip
def test_what_a_start_would_find_missing(capsys, tmp_path, text, says):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "f.yaml").write_text(text)
    assert main(["check-config", str(tmp_path / "f.yaml")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"hwsonde-detector: {tmp_path}/f.yaml:{says.format(tmp_path)}")


@pytest.mark.parametrize(
    ("text", "says"), [("profiles: [nine]", "'nine' is not shipped"), ("entity_labels: [detector]", "detector")]
)
def test_what_profiles_and_labels_cannot_be(capsys, tmp_path, text, says):
    (tmp_path / "f.yaml").write_text(text)
    assert main(["check-config", str(tmp_path / "f.yaml")]) == 2
    assert says in capsys.readouterr().err


def test_a_new_recording_is_no_problem(tmp_path):
    (tmp_path / "f.yaml").write_text("archive: {record: new}")
    assert main(["check-config", str(tmp_path / "f.yaml")]) == 0
    assert not (tmp_path / "new").exists()


def test_a_missing_library_is_one_line_and_status_two():
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.modules['numpy'] = None; import hwsonde_detector.cli"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "hwsonde-detector: numpy is not installed; install hwsonde[detector]\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["check-config", "/none"], "/none: the configuration file cannot be read"),
        (["check-config", "/dev/zero"], "/dev/zero: the configuration file cannot be read: it is no regular file"),
        (["run", "--config.file", "pipe"], "pipe: the configuration file cannot be read: it is no regular file"),
        (["replay", "pipe"], "pipe: this is no archive"),
        (["replay", "/none"], "/none: the archive cannot be read"),
        (["replay", "/dev/null"], "/dev/null: this is no archive"),
        (["run", "--log.level", "loud"], "--log.level: 'loud' is not known; allowed: one of debug"),
        (["run", "--config.file", "/none"], "/none: the configuration file cannot be read"),
        (["capture", "--out", "/none/a", "--for", "1s"], "/none/a: the archive cannot be opened"),
        (["capture", "--out", "a", "--for", "soon"], "--for: 'soon' is not usable; allowed: a duration"),
        (["capture", "--out", "a", "--for", "1s", "--every", "0s"], "--every: '0s' is not usable"),
    ],
)
def test_errors_are_one_line_and_status_two(capsys, tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("hwsonde-detector: ")
    assert says in err
    assert err.count("\n") == 1


def test_a_defect_is_one_line_and_status_one(capsys, monkeypatch):
    monkeypatch.setattr("hwsonde_detector.cli.load_config", lambda *_: 1 / 0)
    assert main(["check-config", "x"]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "ZeroDivisionError: division by zero at test_cli.py:" in err


@pytest.mark.parametrize(("arguments", "status"), [(["run"], 1), (["check-config", "x"], 2)])
@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("libx.so.1: failed to map segment from shared object: Cannot allocate memory"),
    ],
)
def test_too_little_memory_is_no_defect(capsys, monkeypatch, arguments, status, error):
    def short(*_: object) -> None:
        raise error

    monkeypatch.setattr("hwsonde_detector.cli.load_config", short)
    assert main(arguments) == status
    assert capsys.readouterr().err == "hwsonde-detector: too little memory; raise MemoryMax= or `ulimit -v`\n"


def test_what_wraps_too_little_memory_is_that_too_and_nothing_else_is():
    wrapped = ImportError("Importing the C-extensions failed")
    wrapped.__cause__ = ImportError("libx.so.1: cannot map zero-fill pages: Cannot allocate memory")
    assert shortage(wrapped)
    assert not shortage(ImportError("libgomp.so.1: cannot allocate memory in static TLS block"))
    assert shortage(RuntimeError("can't start new thread")) == NO_THREAD
    assert not shortage(RuntimeError("something else"))
    odd = ImportError("libx.so.1: failed to map segment from shared object: Operation not permitted")
    odd.__context__ = OSError(errno.ENOENT, "No such file or directory")
    odd.__context__.__context__ = odd
    assert not shortage(odd)


def test_a_library_that_cannot_be_loaded_is_a_shortage_where_there_is_no_room():
    code = """
import resource
from pathlib import Path
from hwsonde_detector.errors import shortage

error = ImportError("libx.so.1: failed to map segment from shared object")
print(shortage(error) == "")
pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (16 << 20),) * 2)
print(shortage(error))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "True\ntoo little memory; raise MemoryMax= or `ulimit -v`\n"


@pytest.mark.parametrize(("command", "status"), [("run", 1), ("replay", 2)])
def test_too_little_memory_to_begin_with_is_one_line(command, status):
    code = """
import sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "hwsonde_detector.config":
            raise ImportError("libx.so.1: failed to map segment from shared object: Cannot allocate memory")

sys.meta_path.insert(0, Finder())
from hwsonde_detector.__main__ import main
sys.exit(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code, command],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == status
    assert done.stderr == "hwsonde-detector: too little memory; raise MemoryMax= or `ulimit -v`\n"


def test_capture_then_replay(capsys, tmp_path):
    with fake.serving() as server:
        server.play(fake.good(EMPTY))
        path = tmp_path / "a"
        assert (
            main(["capture", "--out", str(path), "--for", "200ms", "--every", "50ms", "--source.url", server.url]) == 0
        )
    assert "reads with 0 samples, 0 reads failed" in capsys.readouterr().out
    assert len(list(ArchiveSource(path).records())) == len(server.asked) >= 2
    assert main(["replay", str(path)]) == 0
    assert capsys.readouterr().out == ""


def test_capture_without_a_source(capsys, tmp_path):
    assert (
        main(
            [
                "capture",
                "--out",
                str(tmp_path / "a"),
                "--for",
                "100ms",
                "--every",
                "50ms",
                "--source.url",
                "http://127.0.0.1:1",
            ]
        )
        == 2
    )
    err = capsys.readouterr().err
    assert err.count("connection refused") == 1
    assert "nothing was recorded" in err


def test_output_that_nobody_reads_to_its_end(tmp_path):
    (tmp_path / "f.yaml").write_text("mode: live\n")
    done = subprocess.run(
        [
            "bash",
            "-c",
            f"{sys.executable} -m hwsonde_detector check-config {tmp_path}/f.yaml | true; echo ${{PIPESTATUS[0]}}",
        ],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "0\n"
    assert done.stderr == ""


def shell(line: str, *arguments: str) -> tuple[int, str]:
    """Status and errors of a command in a shell; PROGRAM stands for the detector."""
    done = subprocess.run(
        ["bash", "-c", line.replace("PROGRAM", f"{sys.executable} -m hwsonde_detector"), "bash", *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


FULL = "hwsonde-detector: the output cannot be written: No space left on device; make room, or send it elsewhere\n"


@pytest.mark.parametrize(
    "command",
    [pytest.param("check-config $1/f.yaml", marks=pytest.mark.slow), "replay $1/a", "kpi --help", "--version"],
)
def test_a_full_disk_behind_the_output_is_no_defect(tmp_path, command):
    (tmp_path / "f.yaml").write_text("mode: live\n")
    HISTORY.archive(tmp_path / "a", every_ms=300_000)
    config(tmp_path)
    if "replay" in command:
        command += " --config.file $1/detector.yml"
    assert shell(f"PROGRAM {command} > /dev/full", str(tmp_path)) == (2, FULL)
    assert shell(f"PROGRAM {command} > /dev/full 2>&1", str(tmp_path)) == (2, "")
    assert shell(f"PROGRAM {command} | true; exit ${{PIPESTATUS[0]}}", str(tmp_path)) == (0, "")
    assert shell(f"PROGRAM {command} >&-", str(tmp_path)) == (0, "")


def test_an_error_after_some_output_keeps_its_status_on_a_full_disk(tmp_path):
    status, err = shell("PROGRAM check-config /none > /dev/full")
    assert (status, err.count("\n")) == (2, 1)
    assert "/none: the configuration file cannot be read" in err
    assert shell("PROGRAM check-config /none 2> /dev/full") == (2, "")


def test_a_stream_for_reading_is_no_output(tmp_path):
    (tmp_path / "f.yaml").write_text("mode: live\n")
    status, err = shell("PROGRAM check-config $1/f.yaml 1< $1/f.yaml", str(tmp_path))
    assert (status, err) == (2, FULL.replace("No space left on device", "Bad file descriptor"))


def test_an_error_of_the_system_that_is_not_of_the_output_is_a_defect(capsys, monkeypatch):
    def broken(*_: object) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr("hwsonde_detector.cli.load_config", broken)
    assert main(["check-config", "x"]) == 1
    assert "a defect of the detector" in capsys.readouterr().err


class Scripted:
    """A source whose answers are prepared; a clock that moves when it is waited for."""

    def __init__(self, failing: set[int]) -> None:
        self.asked: list[tuple[int, int]] = []
        self.failing = failing
        self.now = 1000

    def read(self, since_ms, now_ms):
        self.asked.append((since_ms, now_ms))
        if len(self.asked) in self.failing:
            raise SourceRefused("x:1: no")
        return Read(SampleBatch.empty(), (), EMPTY, since_ms)

    def history(self, start_ms, end_ms, step_ms=None):
        raise AssertionError

    def close(self):
        raise AssertionError

    def pause(self, seconds: float) -> bool:
        self.now += round(seconds * 1000)
        return False


def test_after_a_failed_read_its_stretch_is_asked_for_again(tmp_path, caplog):
    source = Scripted({2, 3})
    with ArchiveRecorder(tmp_path / "a") as recorder, caplog.at_level(logging.WARNING):
        done = capture(source, recorder, 5000, 1000, lambda: source.now, source.pause)
    assert [now for _, now in source.asked] == [1000, 2000, 3000, 4000, 5000, 6000]
    assert [since for since, _ in source.asked] == [-1000, -1000, -1000, -1000, 2000, 3000]
    assert (done.reads, done.failures) == (4, 2)
    assert len(caplog.records) == 1


def test_every_ten_seconds_a_read_goes_back_a_minute_but_not_before_the_first(tmp_path):
    source = Scripted(set())
    with ArchiveRecorder(tmp_path / "a") as recorder:
        capture(source, recorder, 80_000, 1000, lambda: source.now, source.pause)
    wide = [(since, now) for since, now in source.asked if now - since > 3000]
    assert [now for _, now in wide] == list(range(11_000, 82_000, 10_000))
    assert [since for since, _ in wide] == [-1000] * 5 + [0, 10_000, 20_000]


def line(form: str, message: str, **more) -> str:
    stream = io.StringIO()
    logs.set_up("debug", form, stream)
    logging.getLogger("hwsonde_detector.service").info(message, **more)
    return stream.getvalue()


@pytest.mark.parametrize(
    "message",
    ["plain", "two words", 'quo"te = \n newline', "", "é\x1b[31m", "a\u202eb", "c\x85d", "e\u2028f\U000e0001"],
)
def test_log_lines(message):
    text = line("logfmt", message)
    assert text.count("\n") == 1
    assert text.startswith("ts=20")
    assert "Z level=info room=service msg=" in text
    assert text[:-1].isprintable()
    assert line("json", message)[:-1].isprintable()
    found = json.loads(line("json", message))
    assert found["msg"] == message
    assert found["level"] == "info"


def test_an_exception_is_one_line():
    try:
        int("what\nwas it")
    except ValueError:
        text = line("logfmt", "failed", exc_info=True)
    assert text.count("\n") == 1
    assert "ValueError: invalid literal" in text
    assert " at test_cli.py:" in text


def test_setting_up_again_replaces():
    first = io.StringIO()
    logs.set_up("debug", "logfmt", first)
    assert "hello" in line("logfmt", "hello")
    assert first.getvalue() == ""
    logs.set_up("error", "logfmt", first)
    logging.getLogger("hwsonde_detector.service").warning("not this one")
    assert first.getvalue() == ""

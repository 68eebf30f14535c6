"""Acting on incidents: never more than is allowed, never without a line, nothing in a shell."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector import telemetry
from hwsonde_detector.config.loading import parse_config
from hwsonde_detector.incidents.audit import read_audit, read_unfinished
from hwsonde_detector.incidents.automation import Action, ActionError, Automation, Command, Webhook, filled
from hwsonde_detector.incidents.entry import Entry, entry_of
from hwsonde_detector.incidents.marking import Inbox, Marker
from hwsonde_detector.incidents.pages import summary
from hwsonde_detector.incidents.policy import Budget, Policy, Why
from hwsonde_detector.service.wiring import open_automation
from hwsonde_detector.telemetry import Counters
from tests.detector.web.data import NOW, StillClock, entity

from .made import episode

HOUR = 3_600_000
LIVE = Policy(dry_run=False)


def incident(node: str = "n1", at_ms: int = NOW, **more: object) -> Entry:
    return replace(entry_of(episode(at_ms, entity(node)), at_ms), **more)


class Fake:
    def __init__(self) -> None:
        self.told: list[dict] = []
        self.failing = ""

    @property
    def words(self) -> str:
        return "drain"

    def run(self, told) -> None:
        self.told.append(dict(told))
        if self.failing:
            raise ActionError(self.failing)


def automation(policy: Policy, audit: Path | None = None, action: Action | None = None):
    fake, clock, counted = action or Fake(), StillClock(), []
    made = Automation([fake], policy, clock, audit, summary, counted.append)
    return made, fake, clock, counted


def test_by_default_nothing_is_done_and_all_is_said(tmp_path: Path, caplog) -> None:
    caplog.set_level("INFO")
    made, fake, _, counted = automation(Policy(), tmp_path / "audit")
    made.handle(incident())
    assert (fake.told, counted) == ([], ["dry_run"])
    assert "dry run, would do: drain" in caplog.text
    record = json.loads((tmp_path / "audit").read_text())
    assert (record["result"], record["host"]) == ("dry_run", "a/n1")
    assert (tmp_path / "audit").stat().st_mode & 0o077 == 0


def test_a_failing_switch_drains_no_more_than_k_hosts_and_so_many_in_an_hour(tmp_path: Path, caplog) -> None:
    made, fake, clock, counted = automation(Policy(dry_run=False, per_hour=5, hosts=3), tmp_path / "audit")
    for place in range(50):
        made.handle(incident(f"n{place}"))
    assert [told["host"] for told in fake.told] == ["a/n0", "a/n1", "a/n2"]
    assert counted == ["done"] * 3 + ["refused"] * 47
    assert "too many hosts" in caplog.text
    for place in range(10):
        made.handle(incident("n0", NOW + 1000 + place))
    assert len(fake.told) == 5, "no more than five in an hour, on whatever host"
    clock.now += 24 * HOUR
    made.handle(incident("n9", clock.now))
    assert len(fake.told) == 6


def test_what_was_done_counts_after_a_restart(tmp_path: Path) -> None:
    first, _, _, _ = automation(Policy(dry_run=False, hosts=1), tmp_path / "audit")
    first.handle(incident("n1"))
    with (tmp_path / "audit").open("ab") as file:
        file.write(b'{"cut')
    again, fake, _, _ = automation(Policy(dry_run=False, hosts=1), tmp_path / "audit")
    again.start()
    again.handle(incident("n2"))
    again.handle(incident("n1"))
    again.stop()
    assert fake.told == []
    assert [act.host for act in read_audit(tmp_path / "audit", dry_run=True)] == ["a/n1"]
    assert read_audit(tmp_path / "none", dry_run=True) == []


class Killed(BaseException):
    """Nothing that comes after it is done."""


class Fatal(Fake):
    """What is done ends the detector, as a drain of its own node does."""

    def run(self, told) -> None:
        super().run(told)
        raise Killed


def test_what_was_begun_counts_after_the_end_of_the_detector(tmp_path: Path, monkeypatch, caplog) -> None:
    audit, flushed = tmp_path / "audit", []
    monkeypatch.setattr(os, "fsync", lambda number: flushed.append(os.fstat(number).st_ino))
    made, fake, _, _ = automation(Policy(dry_run=False, hosts=1), audit, Fatal())
    with pytest.raises(Killed):
        made.handle(incident("n1"))
    assert len(fake.told) == 1
    assert flushed == [audit.stat().st_ino, tmp_path.stat().st_ino], "it was on the disk before it was done"
    caplog.clear()
    for times in (1, 2):
        again, fake, _, counted = automation(Policy(dry_run=False, hosts=1), audit)
        again.start()
        again.hear(incident("n1"), "opened")
        again.hear(incident("n2"), "opened")
        again.stop()
        assert (fake.told, counted) == ([], ["refused", "refused"])
        told = [one.getMessage() for one in caplog.records if "whether it worked is not known" in one.getMessage()]
        assert len(told) == 1, f"start {times}: it is said once"
        assert told[0].startswith(f"begun a/n1 ({incident('n1').id}): no end of it was written")


def test_what_ended_is_not_unfinished(tmp_path: Path) -> None:
    made, fake, _, _ = automation(Policy(dry_run=False, hosts=3), tmp_path / "audit")
    made.handle(incident("n1"))
    fake.failing = "it ended with 1: no"
    made.handle(incident("n2"))
    assert read_unfinished(tmp_path / "audit") == []
    results = [json.loads(line)["result"] for line in (tmp_path / "audit").read_text().splitlines()]
    assert results == ["begun", "done", "begun", "failed"]


def test_an_end_between_two_actions_is_told_and_the_second_does_not_begin_after_it(tmp_path: Path, caplog) -> None:
    audit = tmp_path / "audit"
    first, second = Fake(), Fatal()
    made = Automation([first, second], LIVE, StillClock(), audit, summary, lambda _: None)
    with pytest.raises(Killed):
        made.handle(incident("n1"))
    assert [act.host for act in read_unfinished(audit)] == ["a/n1"], "the end of the first is not that of both"
    made._actions = [first, Fake()]
    made.handle(incident("n2"))
    assert [act.host for act in read_unfinished(audit)] == ["a/n1"]

    class Last(Fake):
        def run(self, told) -> None:
            super().run(told)
            made._over = True

    made._actions = [Last(), second]
    made.handle(incident("n3"))
    assert [told["host"] for told in second.told] == ["a/n1"]
    again, _, _, _ = automation(LIVE, audit)
    caplog.clear()
    again.start()
    again.stop()
    told = [record.getMessage() for record in caplog.records if "no end of it was written" in record.getMessage()]
    assert [line.split()[1] for line in told] == ["a/n1", "a/n3"]
    assert read_unfinished(audit) == []


def test_what_cannot_be_written_down_is_not_done(tmp_path: Path, caplog) -> None:
    audit = tmp_path / "audit"
    audit.mkdir()
    made, fake, _, counted = automation(Policy(dry_run=False, hosts=1, per_hour=1), audit)
    made.handle(incident("n1"))
    assert (fake.told, counted) == ([], ["refused"])
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"refused a/n1 ({incident('n1').id}): nothing is done: {audit} cannot be written (")
    audit.rmdir()
    made.handle(incident("n2"))
    assert [told["host"] for told in fake.told] == ["a/n2"], "what was not done counts for nothing"


def test_a_line_that_was_cut_off_costs_itself_alone(tmp_path: Path) -> None:
    (tmp_path / "audit").write_bytes(b'{"cut')
    made, _, _, _ = automation(Policy(dry_run=False), tmp_path / "audit", Fatal())
    with pytest.raises(Killed):
        made.handle(incident("n1"))
    assert [act.host for act in read_audit(tmp_path / "audit", dry_run=False)] == ["a/n1"]


def test_a_storm_of_refusals_hides_nothing_of_what_was_done(tmp_path: Path) -> None:
    made, _, _, _ = automation(Policy(dry_run=False, hosts=1), tmp_path / "audit")
    for place in range(3):
        made.handle(incident(f"n{place}"))
    done, other, refused, last = (tmp_path / "audit").read_bytes().splitlines(keepends=True)
    (tmp_path / "audit").write_bytes(done + other + refused * (2_000_000 // len(refused)) + last)
    assert [act.host for act in read_audit(tmp_path / "audit", dry_run=False)] == ["a/n0"]


class Long(Fake):
    """What is done takes until it is told to end."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.end = threading.Event(), threading.Event()

    def run(self, told) -> None:
        super().run(told)
        self.began.set()
        self.end.wait(30)


def test_what_is_under_way_at_the_end_is_told_of_and_nothing_more_begun(tmp_path: Path, monkeypatch, caplog) -> None:
    monkeypatch.setattr("hwsonde_detector.incidents.automation._STOP_S", 0.05)
    made, fake, _, _ = automation(LIVE, tmp_path / "audit", Long())
    made.start()
    made.hear(incident("n1"), "opened")
    made.hear(incident("n2"), "opened")
    assert fake.began.wait(30)
    made.stop()
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        f"begun a/n1 ({incident('n1').id}) and not over: it is not waited for, and nobody ends it after automation.timeout"
    ]
    assert [act.host for act in read_audit(tmp_path / "audit", dry_run=False)] == ["a/n1"]
    fake.end.set()
    made._thread.join(30)
    assert not made._thread.is_alive()
    assert [told["host"] for told in fake.told] == ["a/n1"]


def test_a_large_audit_file_is_put_aside_and_still_counts(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("hwsonde_detector.incidents.audit._MOST", 200)
    made, fake, _, _ = automation(Policy(dry_run=False, hosts=5), tmp_path / "audit")
    for place in range(2):
        made.handle(incident(f"n{place}"))
    assert len(fake.told) == 2
    assert sorted(one.name for one in tmp_path.iterdir()) == ["audit", "audit.1"]
    assert {act.host for act in read_audit(tmp_path / "audit", dry_run=False)} == {"a/n0", "a/n1"}


def test_a_dry_run_spends_nothing_of_what_is_real(tmp_path: Path) -> None:
    dry, _, _, _ = automation(Policy(hosts=1), tmp_path / "audit")
    dry.handle(incident("n1"))
    real, fake, _, _ = automation(Policy(dry_run=False, hosts=1), tmp_path / "audit")
    real.start()
    real.hear(incident("n2"), "opened")
    real.hear(incident("n3"), "closed")
    real.stop()
    assert [told["host"] for told in fake.told] == ["a/n2"]


@pytest.mark.parametrize(
    ("more", "policy", "reason"),
    [
        ({"shadow": True}, LIVE, "nobody was paged"),
        ({"normal": "silence"}, LIVE, "nobody was paged"),
        ({"scope": "fabric"}, LIVE, "automation.scopes leaves out what reaches so far"),
        (
            {"subsystem": "cpu"},
            replace(LIVE, subsystems=frozenset({"gpu"})),
            "automation.subsystems leaves out its part",
        ),
        ({"peak": 2.0}, replace(LIVE, least_peak=3.0), "its score is below automation.least_peak"),
        ({"told_ms": NOW - HOUR}, LIVE, "it was told of more than ten minutes ago"),
    ],
)
def test_others_are_passed_over_with_one_line_each(
    more: dict, policy: Policy, reason: str, tmp_path: Path, caplog
) -> None:
    caplog.set_level("INFO")
    made, fake, _, counted = automation(policy, tmp_path / "audit")
    for _ in range(3):
        made.handle(incident(**more))
    made.handle(incident("n2", **more))
    assert (fake.told, counted) == ([], [])
    first, second = (incident(node, **more).id for node in ("n1", "n2"))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", f"passed over a/n1 ({first}): {reason}"),
        ("INFO", f"passed over a/n2 ({second}): {reason}"),
    ]
    assert not (tmp_path / "audit").exists(), "what nothing was to be done for is no decision on acting"


def test_what_was_passed_over_is_remembered_in_bounds(monkeypatch) -> None:
    monkeypatch.setattr("hwsonde_detector.incidents.automation._REMEMBERED", 10)
    made, _, _, _ = automation(LIVE)
    for place in range(50):
        made.handle(incident(f"n{place}", shadow=True))
    assert len(made._passed_over) == 10


def test_a_failure_is_one_line_and_counts(caplog) -> None:
    made, fake, _, counted = automation(LIVE)
    fake.failing = "it ended with 1: no"
    made.handle(incident())
    made.handle(incident())
    assert counted == ["failed", "refused"]
    assert "drain: it ended with 1: no" in caplog.text
    assert len(fake.told) == 1


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 90)), max_size=60), st.integers(1, 5), st.integers(1, 4))
def test_no_order_of_incidents_passes_the_limits(steps: list[tuple[int, int]], per_hour: int, hosts: int) -> None:
    budget, policy, now = Budget(), Policy(dry_run=False, per_hour=per_hour, hosts=hosts), NOW
    done: list[tuple[int, str]] = []
    for place, (host, minutes) in enumerate(steps):
        now += minutes * 60_000
        if budget.decide(incident(f"n{host}", now, id=str(place)), policy, now) is Why.ACT:
            done.append((now, f"n{host}"))
    for at_ms, _ in done:
        assert sum(at_ms <= other < at_ms + HOUR for other, _ in done) <= per_hour
        assert len({name for other, name in done if at_ms <= other < at_ms + 24 * HOUR}) <= hosts


def test_a_command_gets_its_words_each_in_its_place_and_no_shell(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code = f"import json,os,sys; json.dump([sys.argv[1:], os.environ['HWSONDE_NODE'], json.load(sys.stdin)['id']], open({str(out)!r}, 'w'))"
    evil = "n1; touch /tmp/x $(id) {id}"
    entry = incident(evil)
    Command((sys.executable, "-c", code, "drain={node}", "{id}", "{unknown}", "{"), 20).run(summary(entry))
    assert json.loads(out.read_text()) == [[f"drain={evil}", entry.id, "{unknown}", "{"], evil, entry.id]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((sys.executable, "-c", "import sys; sys.exit('no such\\nnode')"), "it ended with 1: no such node"),
        ((sys.executable, "-c", "import time; time.sleep(60)"), "did not end within"),
        (("/bin/sh", "-c", "sleep 60 & sleep 60"), "did not end within"),
        (("/nonexistent/drain",), "cannot be run"),
    ],
)
def test_a_command_that_fails_is_one_line(arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(ActionError, match=said) as caught:
        Command(arguments, 1).run(summary(incident()))
    assert "\n" not in str(caught.value)


def patiently(file: Path) -> str:
    ends = time.monotonic() + 30
    while not file.exists() or not file.read_text():
        assert time.monotonic() < ends, f"nothing was written to {file}"
        time.sleep(0.02)
    return file.read_text()


def hook(folder: Path, text: str, timeout_s: float) -> Command:
    (folder / "hook").write_text(text)
    os.mkfifo(folder / "go")
    return Command(("/bin/sh", str(folder / "hook"), str(folder / "go"), str(folder / "out")), timeout_s)


def test_what_a_command_leaves_in_the_background_goes_on(tmp_path: Path) -> None:
    """A drain takes minutes: the hook hands it over and is done. It must neither be waited for nor ended."""
    drain = """nohup sh -c 'read go <"$1"; echo drained >"$2"; echo late >&2' drain "$1" "$2" >/dev/null &\n"""
    began = time.monotonic()
    hook(tmp_path, drain, 20).run(summary(incident()))
    assert time.monotonic() - began < 15, "it was waited for"
    (tmp_path / "go").write_text("go\n")
    assert patiently(tmp_path / "out") == "drained\n"


def test_a_command_that_fails_and_leaves_something_says_what_it_said_itself(tmp_path: Path) -> None:
    text = """sh -c 'read go <"$1"; echo late >"$2"' drain "$1" "$2" &\necho no such node >&2\nexit 3\n"""
    with pytest.raises(ActionError, match=r"^it ended with 3: no such node$"):
        hook(tmp_path, text, 20).run(summary(incident()))
    (tmp_path / "go").write_text("go\n")
    assert patiently(tmp_path / "out") == "late\n"


def test_with_a_command_that_does_not_end_goes_what_it_started(tmp_path: Path) -> None:
    with pytest.raises(ActionError, match="did not end within"):
        hook(tmp_path, 'sleep 60 &\necho $! >"$2"\nsleep 60\n', 1).run(summary(incident()))
    child, ends = Path("/proc") / patiently(tmp_path / "out").strip() / "stat", time.monotonic() + 30
    with suppress(FileNotFoundError, ProcessLookupError):
        while child.read_text().rpartition(")")[2].split()[0] not in "ZX":
            assert time.monotonic() < ends
            time.sleep(0.02)


def test_much_that_is_said_is_cut_and_a_lot_to_read_fits() -> None:
    code = "import sys; sys.stderr.write('x' * 300_000 + ' the end'); sys.exit(len(sys.stdin.read()) > 200_000)"
    with pytest.raises(ActionError, match=r"it ended with 1: x+ the end$") as caught:
        Command((sys.executable, "-c", code), 20).run({**summary(incident()), "note": "y" * 300_000})
    assert len(str(caught.value)) < 300


@given(st.text(max_size=30), st.text(max_size=10))
def test_any_text_is_filled(text: str, value: str) -> None:
    assert filled(text.replace("{", "").replace("}", "") + "{a}", {"a": value}).endswith(value)
    filled(text, {"a": value})


class Receiver(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.taken = 204, []


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.taken.append((self.headers.get("Authorization"), body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_webhook_gets_the_incident_and_a_link_to_mark_it(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    (tmp_path / "f").write_text("")
    text = (
        f"automation: {{dry_run: false, webhook: 'http://127.0.0.1:{receiver.server_port}/hook', token_file: {tmp_path}/token}}\n"
        f"links: {{detector: 'https://d.example.org/'}}\nstate: {{dir: {tmp_path}}}\n"
    )
    clock, counters = StillClock(), Counters()
    marker = Marker(b"k", clock, Inbox().put)
    made = open_automation(
        parse_config(text.encode(), "f"), clock, marker, lambda result: counters.add(telemetry.AUTOMATION, 1, result)
    )
    assert made is not None
    made.handle(incident())
    ((authorization, body),) = receiver.taken
    assert authorization == "Bearer s3cret"
    assert body["page"] == f"https://d.example.org/incidents/{incident().id}"
    assert marker.allows(incident().id, body["mark"].partition("token=")[2])
    assert counters.value(telemetry.AUTOMATION, "done") == 1
    assert "s3cret" not in (tmp_path / "automation.log").read_text()


@pytest.mark.parametrize("status", [302, 404, 500])
def test_a_webhook_that_says_no_is_one_line(receiver: Receiver, status: int) -> None:
    receiver.status = status
    with pytest.raises(ActionError, match=f"answered by {status}"):
        Webhook(f"http://127.0.0.1:{receiver.server_port}/", 5).run(summary(incident()))


def test_a_webhook_that_is_not_there_or_has_no_token_is_one_line() -> None:
    with pytest.raises(ActionError, match="nobody takes it"):
        Webhook("http://127.0.0.1:1/", 1).run(summary(incident()))


def test_without_anything_to_do_there_is_no_automation() -> None:
    clock = StillClock()
    assert open_automation(parse_config(b"", "f"), clock, Marker(b"k", clock, Inbox().put), print) is None

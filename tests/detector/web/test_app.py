"""The HTTP interface: what it answers, what it refuses, and that nothing from outside becomes markup."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from hwsonde_detector.published import Held, Noticeboard, Published, SourceState
from hwsonde_detector.types import Device, Entity, Subsystem
from hwsonde_detector.web import documents
from hwsonde_detector.web.app import App, Metrics
from hwsonde_detector.web.links import host_links, safe, score_query

from .data import HOSTILE, NOW, StillClock, entity, episode, fleet, score

STATIC = Path(__file__).parents[3] / "detector_sidecar" / "hwsonde_detector" / "web" / "static"


def app(board: Noticeboard | None = None, hostile: str = "node23") -> App:
    known, history = fleet(hostile)
    metrics = Metrics("text/plain", lambda published, monotonic, now_ms: f"{len(published.hosts)} {now_ms}".encode())
    return App(board or known, history, StillClock(), metrics)


def ask(application: App, path: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    told: list[Any] = []
    environ = {"REQUEST_METHOD": method, "PATH_INFO": path.encode().decode("latin-1")}
    body = b"".join(application(environ, lambda status, headers: told.extend((status, dict(headers)))))  # type: ignore[arg-type]
    return int(told[0].split()[0]), told[1], body


def answer(application: App, path: str) -> Any:
    status, headers, body = ask(application, path)
    assert (status, headers["Content-Type"]) == (200, "application/json")
    return json.loads(body)


def test_hosts_come_worst_first_with_state_and_progress() -> None:
    document = answer(app(), "/api/v1/hosts")
    assert [(host["name"], host["state"]) for host in document["hosts"]] == [
        ("a/node17", "anomalous"),
        ("a/node23", "learning"),
        ("a/node18", "quiet"),
    ]
    worst, learning, _ = document["hosts"]
    assert worst["subsystem"] == "cpu"
    assert worst["score"] > 1
    assert (learning["rows"], learning["rows_needed"], learning["ready_in_s"]) == (80, 240, 160.0)
    assert document["summary"].startswith("a/node17 cpu: cpu_sampled_busy_ratio 98.1 %")
    assert document["source"]["state"] == "ok"


def test_a_host_gives_its_history_thinned_without_losing_the_peak() -> None:
    document = answer(app(), "/api/v1/hosts/a/node17")
    history = document["history"]
    assert len(history["times"]) == len(history["score"]) == 600
    assert history["times"] == sorted(history["times"])
    for index in (0, 300, 599):
        parts = sum(values[index] for values in history["subsystems"].values())
        assert parts == pytest.approx(history["score"][index], abs=1e-3)
    assert set(history["subsystems"]) == {"cpu", "memory", "network", "storage", "power"}
    assert document["top"][0]["channel"] == "cpu_sampled_busy_ratio"
    assert document["top"][3]["device"] == {"class": "disk", "name": "nvme0n1"}
    assert (document["top"][3]["direction"], document["top"][3]["title"], document["top"][3]["address"]) == (
        "high",
        "",
        "",
    )
    assert len(document["episodes"]["open"]) == len(document["episodes"]["past"]) == 1


def asked(query: str) -> Any:
    found = app().answer("GET", "/api/v1/hosts/a/node17", query)
    assert found.status == 200, found
    return json.loads(found.body)


def test_a_host_gives_the_history_of_a_range() -> None:
    """The fixture's host was sick from 1100 s to 1060 s ago."""
    whole = asked("")
    sick = asked(f"from={NOW - 1_120_000}&to={NOW - 1_040_000}")
    times = sick["history"]["times"]
    assert len(times) == 80, "each window, which are thinned in the whole"
    assert NOW - 1_120_000 <= times[0] < times[-1] <= NOW - 1_040_000
    assert max(sick["history"]["score"]) > 2
    quiet = asked(f"from={NOW - 1_000_000}&to={NOW - 500_000}")
    assert max(quiet["history"]["score"]) < 2
    assert {len(values) for values in quiet["history"]["subsystems"].values()} == {len(quiet["history"]["times"])}
    for one in (sick, quiet):
        assert one["history"]["kept_from_ms"] == whole["history"]["kept_from_ms"] < NOW - 1_700_000
        assert {**one, "history": 0} == {**whole, "history": 0}, "all else is of now"


def test_either_end_of_a_range_may_be_left_out_and_both_belong_to_it() -> None:
    times = asked("")["history"]["times"]
    newest = times[-1]
    assert asked(f"from={newest}")["history"]["times"] == [newest]
    assert asked(f"from={newest}&to={newest}")["history"]["times"] == [newest]
    kept = asked("")["history"]["kept_from_ms"]
    empty = {"kept_from_ms": kept, "times": [], "score": [], "subsystems": {}}
    assert asked(f"to={kept - 1}")["history"] == empty
    assert asked(f"from=0&to={'9' * 16}")["history"] == asked("x=1")["history"] == asked("")["history"]


@pytest.mark.parametrize(
    "query",
    ["from=", "from=now-1h", "to=-5", "from=5&to=4", "from=1.5", f"to={'9' * 17}", "from=\u0665", "from=nan&to=3"],
)
def test_a_range_that_makes_no_sense_is_one_line(query: str) -> None:
    found = app().answer("GET", "/api/v1/hosts/a/node17", query)
    assert (found.status, found.body.count(b"\n")) == (400, 1)
    assert b"milliseconds" in found.body


def test_while_the_past_is_read_no_host_is_called_anomalous() -> None:
    board, history = fleet()
    board.put(dataclasses.replace(board.get(), catching_up=True))
    application = App(board, history, StillClock(), Metrics("", lambda *_: b""))
    document = answer(application, "/api/v1/hosts")
    assert {host["name"]: (host["state"], host["score"]) for host in document["hosts"]} == {
        "a/node17": ("silent", None),
        "a/node18": ("silent", None),
        "a/node23": ("learning", None),
    }
    assert document["source"]["state"] == "catching_up"
    assert len(answer(application, "/api/v1/hosts/a/node17")["episodes"]["open"]) == 1


def test_a_host_without_its_label_says_so() -> None:
    document = answer(app(), "/api/v1/hosts")
    assert [host["name"] for host in document["hosts"] if host["named_by_instance"]] == ["a/node23"]
    assert answer(app(), "/api/v1/hosts/a/node23")["named_by_instance"]
    assert ask(app(), "/")[2].decode().count("(named after its instance)") == 1


def test_a_slash_in_a_name_may_come_encoded() -> None:
    assert answer(app(), "/api/v1/hosts/a%2Fnode17") == answer(app(), "/api/v1/hosts/a/node17")


def test_episodes_of_all_hosts() -> None:
    document = answer(app(), "/api/v1/episodes")
    assert [episode["host"] for episode in document["open"]] == ["a/node17"]
    assert document["past"][0]["first_channels"][0]["name"] == "cpu_sampled_busy_ratio"
    assert (document["open"][0]["device"], document["open"][0]["uncertainty_ms"]) == (None, 0)
    named = dataclasses.replace(episode(entity("n1"), 5, None), device=Device("gpu", "3"), uncertainty_ms=1000)
    told = documents.episode(named)
    assert (told["device"], told["uncertainty_ms"]) == ({"class": "gpu", "name": "3"}, 1000)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/", 405),
        ("DELETE", "/api/v1/hosts", 405),
        ("GET", "/nothing", 404),
        ("GET", "/api/v1/hosts/nobody", 404),
        ("GET", "/static/", 404),
        ("GET", "/static/../app.py", 404),
        ("GET", "/static/README.md", 404),
        ("GET", "", 404),
    ],
)
def test_what_is_refused_is_refused_in_one_line(method: str, path: str, status: int) -> None:
    got, headers, body = ask(app(), path, method)
    assert got == status
    assert body.count(b"\n") == 1
    assert headers["Content-Type"].startswith("text/plain")
    assert (status == 405) == ("Allow" in headers)


def test_a_path_that_is_not_text_is_a_bad_request() -> None:
    assert app().answer("GET", "/\xff").status == 400
    assert app().answer("GET", "/\u20ac").status == 400


def test_head_has_the_length_and_no_body() -> None:
    _, headers, body = ask(app(), "/", "HEAD")
    assert body == b""
    assert int(headers["Content-Length"]) == len(ask(app(), "/")[2])


def test_metrics_are_rendered_from_what_was_published() -> None:
    assert ask(app(), "/metrics")[2] == f"3 {NOW}".encode()


def test_every_answer_forbids_what_is_not_ours() -> None:
    for path in ("/", "/metrics", "/api/v1/hosts", "/nothing", "/static/page.js"):
        headers = ask(app(), path)[1]
        assert headers["Content-Security-Policy"].startswith("default-src 'self'")
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_hostile_names_never_become_markup() -> None:
    application = app(hostile=HOSTILE)
    page = ask(application, "/")[2].decode()
    assert "&lt;script&gt;alert" in page
    assert HOSTILE not in page
    assert len(re.findall(r"<script", page)) == 2
    assert answer(application, f"/api/v1/hosts/a/{HOSTILE}")["name"] == f"a/{HOSTILE}"


def test_a_name_that_is_no_unicode_text_is_shown_with_a_replacement() -> None:
    board, history = fleet("n\udcff")
    application = App(board, history, StillClock(), Metrics("text/plain", lambda *_: b""))
    assert [host["name"] for host in answer(application, "/api/v1/hosts")["hosts"]][1] == "a/n?"
    assert ask(application, "/")[0] == 200


def test_the_page_and_its_script_use_nothing_from_elsewhere() -> None:
    page = ask(app(), "/")[2].decode()
    assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//""", page)
    assert "style=" not in page
    for name in re.findall(r"static/([\w.]+)", page):
        assert ask(app(), f"/static/{name}")[0] == 200
    for source in STATIC.iterdir():
        text = source.read_text()
        assert not re.search(r"https?://(?!www\.w3\.org)", text), source.name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text), source.name


def test_the_script_finds_every_element_that_it_names() -> None:
    page = ask(app(), "/")[2].decode()
    wanted = set(re.findall(r'byId\("([\w-]+)"\)', (STATIC / "page.js").read_text()))
    assert len(wanted) > 10
    assert wanted <= set(re.findall(r'id="([\w-]+)"', page))


def test_every_subsystem_has_one_colour_of_its_own() -> None:
    light = (STATIC / "palette.css").read_text().split("@media")[0]
    colours = [re.search(rf"--{subsystem}: (#[0-9a-f]{{6}});", light) for subsystem in Subsystem]
    assert len({found[1] for found in colours if found}) == len(Subsystem)


def test_before_the_first_answer_it_says_what_it_waits_for() -> None:
    waiting = Noticeboard(Published(99.9, NOW, NOW - 4000, source=SourceState("http://p:9090")))
    application = app(waiting)
    status, _, body = ask(application, "/-/ready")
    assert (status, body) == (503, b"waiting for the first answer of http://p:9090\n")
    assert ask(application, "/-/healthy")[0] == 200
    assert answer(application, "/api/v1/hosts")["summary"] == "No host is known yet."
    assert b"waiting for the first answer" in ask(application, "/")[2]


def test_a_failing_source_is_told_with_since_when_and_why() -> None:
    state = SourceState("http://p:9090", answered=True, failing=True, since_ms=NOW - 90_000, message="refused")
    document = answer(app(Noticeboard(Published(99.9, NOW, NOW, source=state))), "/api/v1/hosts")
    assert document["source"]["text"] == "no data for 90 s: refused"


def test_a_loop_that_does_not_turn_is_not_healthy() -> None:
    stuck = Published(taken=-100.0, now_ms=NOW, started_ms=NOW)
    assert ask(app(Noticeboard(stuck)), "/-/healthy")[0] == 503
    assert ask(app(Noticeboard(dataclasses.replace(stuck, tick_ms=120_000))), "/-/healthy")[0] == 200


def test_a_long_step_that_goes_on_is_healthy_and_one_that_hangs_is_not() -> None:
    board = Noticeboard(Published(taken=-100.0, now_ms=NOW, started_ms=NOW))
    application = app(board)
    assert ask(application, "/-/healthy")[0] == 503
    board.beat(50.0)
    assert ask(application, "/-/healthy")[0] == 200
    board.beat(-21.0)
    status, _, body = ask(application, "/-/healthy")
    assert (status, body) == (503, b"the loop has shown no sign of life for 121 s\n")
    board.put(Published(taken=99.0, now_ms=NOW, started_ms=NOW))
    assert ask(application, "/-/healthy")[0] == 200


def test_an_episode_goes_on_while_too_little_is_known_to_judge_it() -> None:
    board, history = fleet()
    (ill, *rest) = board.get().hosts
    (newest,) = ill.recent[-1:]
    old = dataclasses.replace(newest, arrived=20.0, score=dataclasses.replace(newest.score, end_ms=NOW - 80_000))
    for window, state, coverage in (((NOW - 1000, 0.3), "anomalous", 0.3), (None, "silent", newest.score.coverage)):
        blind = dataclasses.replace(ill, recent=(old,), window=window)
        board.put(dataclasses.replace(board.get(), hosts=(blind, *rest)))
        application = App(board, history, StillClock(), Metrics("", lambda *_: b""))
        host = answer(application, "/api/v1/hosts/a/node17")
        assert (host["state"], host["score"], host["coverage"]) == (state, None, coverage)


def test_numbers_that_json_has_not_are_null() -> None:
    board, history = fleet()
    (bad, *rest) = board.get().hosts
    odd = dataclasses.replace(bad, recent=(Held(99.5, score(bad.entity, NOW, math.nan)),))
    board.put(dataclasses.replace(board.get(), hosts=(odd, *rest)))
    application = App(board, history, StillClock(), Metrics("", lambda *_: b""))
    body = ask(application, "/api/v1/hosts/a/node17")[2]
    assert json.loads(body, parse_constant=pytest.fail)["score"] is None


def test_links_lead_only_where_a_browser_may_go() -> None:
    host = Entity((("cluster", 'a"b'), ("node", "n 1")))
    links = host_links(
        {"prometheus": "http://p/x/", "grafana": "javascript:alert(1)", "alertmanager": "https://a"}, host
    )
    assert set(links) == {"prometheus", "alertmanager"}
    assert links["prometheus"].startswith("http://p/x/graph?g0.expr=hwsonde_anomaly_score%7B")
    assert score_query(host) == 'hwsonde_anomaly_score{detector="fused", cluster="a\\"b", node="n 1"}'
    assert safe("http://[broken") is None
    assert safe("//elsewhere") is None

"""Names that stand for others: nothing of the old ones is left on any page."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.keys import derived, load_key
from hwsonde_detector.redaction import Redactor, replaced
from hwsonde_detector.types import Entity
from hwsonde_detector.web.app import App, Metrics

from .data import StillClock, entity, fleet
from .test_app import ask

KEY = b"k" * 32
NODES = Redactor(["node"], KEY)
KNOWN = NODES.known([entity("n1"), entity("n17"), entity("gpu host")])


def test_values_are_replaced_as_whole_words_and_before_what_goes_on() -> None:
    n1, n17, odd = KNOWN["n1"], KNOWN["n17"], KNOWN["gpu host"]
    assert n1.startswith("node-")
    for text, expected in (
        ("a/n1 cpu: busy", f"a/{n1} cpu: busy"),
        ("n1, n17 and n171", f"{n1}, {n17} and n171"),
        ("n1.example.org:9100", f"{n1}.example.org:9100"),
        ("ib0-n17.", f"ib0-{n17}."),
        ("a/n17@2026-11-29T19:23:41Z", f"a/{n17}@2026-11-29T19:23:41Z"),
        ("on gpu host it was", f"on {odd} it was"),
        ("n1x xn1 n_1", "n1x xn1 n_1"),
    ):
        assert replaced(text, KNOWN) == expected
    document = {"n1": [1, 2.5, None, {"at": "n17"}], "x": ("n1",)}
    assert replaced(document, KNOWN) == {n1: [1, 2.5, None, {"at": n17}], "x": [n1]}


@given(st.lists(st.sampled_from(["n1", "n17", ".", "-", ":", " ", "/", "x", "2"]), max_size=12))
def test_no_value_is_left_as_a_word(parts: list[str]) -> None:
    import re

    left = replaced("".join(parts), KNOWN)
    for word in re.split(r"[^\w]+", left):
        assert word not in ("n1", "n17"), left


def test_names_are_the_same_everywhere_and_others_with_another_key() -> None:
    assert NODES.entity(entity("n1")) == Entity((("cluster", "a"), ("node", KNOWN["n1"])))
    assert Redactor(["node"], b"other").known([entity("n1")]) != {"n1": KNOWN["n1"]}
    assert not Redactor().active
    assert replaced("n1", {}) == "n1"


def test_no_answer_names_a_host() -> None:
    board, history = fleet()
    app = App(board, history, StillClock(), Metrics("", lambda *_: b""), (), None, NODES)
    hosts = json.loads(ask(app, "/api/v1/hosts")[2])["hosts"]
    paths = ["/", "/api/v1/hosts", "/api/v1/episodes", *(f"/api/v1/hosts/{host['name']}" for host in hosts)]
    for path in paths:
        status, headers, body = ask(app, path)
        assert status == 200
        for name in ("node17", "node18", "node23"):
            assert name not in body.decode() + str(headers), path
    assert ask(app, "/api/v1/hosts/a/node17")[0] == 404
    assert "a/node-" in ask(app, "/api/v1/episodes")[2].decode()


def test_the_key_is_kept_for_its_owner_alone(tmp_path: Path, caplog) -> None:
    key = load_key(tmp_path / "state")
    file = tmp_path / "state" / "web.key"
    assert load_key(tmp_path / "state") == key
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [one.name for one in file.parent.iterdir()] == ["web.key"]
    file.write_bytes(b"short")
    assert len(load_key(tmp_path / "state")) == 32
    assert load_key(file / "no") != load_key(None)
    assert len(caplog.records) == 2
    assert derived(key, "a") != derived(key, "b")

from __future__ import annotations

import threading

import pytest

from hwsonde_exporter.collectors._asking import Asker, Hanging


def fail() -> int:
    raise OSError(5, "Input/output error")


def test_each_gets_its_own_answer_or_error() -> None:
    asker: Asker[str, int] = Asker("test", 10.0)
    answers = asker.ask({"one": lambda: 1, "two": lambda: 2, "broken": fail})
    assert (answers["one"], answers["two"]) == (1, 2)
    assert isinstance(answers["broken"], OSError)
    assert not asker.hanging


def test_what_hangs_is_left_behind_and_asked_again_only_when_it_has_returned() -> None:
    release, asked = threading.Event(), []

    def hang() -> int:
        asked.append(1)
        release.wait(30)
        return 3

    asker: Asker[str, int] = Asker("test", 0.05)
    before = threading.active_count()
    for _ in range(3):
        answers = asker.ask({"good": lambda: 1, "dead": hang})
        assert answers["good"] == 1
        assert isinstance(answers["dead"], Hanging)
    assert len(asked) == 1
    assert threading.active_count() == before + 1
    thread = asker.hanging["dead"]
    release.set()
    thread.join(10)
    assert asker.ask({"dead": hang}) == {"dead": 3}
    assert len(asked) == 2


def test_the_number_of_threads_is_bounded_and_there_is_no_answer_without_one() -> None:
    release = threading.Event()

    def hang() -> bool:
        return release.wait(30)

    asker: Asker[int, bool] = Asker("test", 0.05, max_threads=3)
    try:
        answers = asker.ask(dict.fromkeys(range(10), hang))
        assert sorted(answers) == [0, 1, 2]
        assert asker.ask({99: lambda: True}) == {}
    finally:
        threads = asker.hanging.values()
        release.set()
        for thread in threads:
            thread.join(10)
    assert asker.ask({99: lambda: True}) == {99: True}


def test_more_questions_than_threads_are_all_answered_when_they_come_back() -> None:
    asker: Asker[int, int] = Asker("test", 30.0, max_threads=2)
    assert asker.ask({key: (lambda key=key: key) for key in range(20)}) == {key: key for key in range(20)}  # type: ignore[misc]


def test_where_no_thread_can_be_had_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert Asker("test", 1.0).ask({"one": lambda: 1}) == {}

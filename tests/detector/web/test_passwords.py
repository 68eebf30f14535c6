"""Who may come in: a right password costs one check, guessing costs the guesser, and one client is one however many addresses it has."""

from __future__ import annotations

import threading
import time
from base64 import b64encode

import bcrypt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector import passwords as module
from hwsonde_detector.passwords import Passwords, Verdict, network_of, parse_basic
from hwsonde_detector.web import server

GRANTED, DENIED, LATER = Verdict.GRANTED, Verdict.DENIED, Verdict.LATER
HOME = "192.0.2.1"


def basic(user: str, password: str) -> str:
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


class Desk:
    """Passwords that are their own hashes; checks are counted and may be held up."""

    def __init__(self, **users: str) -> None:
        self.now = 0.0
        self.checked: list[tuple[bytes, bytes]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.under_way = self.most = 0
        known = users or {"ann": "right", "bob": "other"}
        self.passwords = Passwords({name: one.encode() for name, one in known.items()}, lambda: self.now, self.check)

    def check(self, password: bytes, hashed: bytes) -> bool:
        self.checked.append((password, hashed))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.gate.wait(20)
        self.under_way -= 1
        return password == hashed

    def ask(self, user: str, password: str, address: str = HOME) -> Verdict:
        found, name = self.passwords.verdict(basic(user, password), address)
        assert name == (user if found is GRANTED else "")
        return found

    def crowd(self, *asked: tuple[str, str, str]) -> tuple[list[Verdict], list[threading.Thread]]:
        """Ask all of these at the same time; the verdicts come in as they fall."""
        found: list[Verdict] = []
        threads = [threading.Thread(target=lambda one=one: found.append(self.ask(*one))) for one in asked]
        for thread in threads:
            thread.start()
        return found, threads

    def waiting(self) -> int:
        with self.passwords._lock:
            return sum(check.waiting for check in self.passwords._under_way.values())


def until(holds) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_right_password_is_checked_once_only() -> None:
    desk = Desk()
    for _ in range(5):
        desk.now += 100
        assert desk.ask("ann", "right") is GRANTED
    assert len(desk.checked) == 1


def test_what_is_remembered_is_no_password() -> None:
    one, other = Desk(), Desk()
    for desk in (one, other):
        desk.ask("ann", "right")
    assert b"right" not in b"".join(one.passwords._right)
    assert one.passwords._right.keys() != other.passwords._right.keys()


def test_wrong_passwords_are_slowed_down_and_hold_nobody_else_up() -> None:
    desk = Desk()
    assert desk.ask("ann", "right") is GRANTED
    assert desk.ask("ann", "wrong") is DENIED
    for _ in range(10):
        assert desk.ask("ann", "guess") is LATER
        assert desk.ask("ann", "right") is GRANTED
    assert desk.ask("bob", "right", "192.0.2.2") is DENIED
    assert len(desk.checked) == 3
    desk.now = 1.1
    assert desk.ask("ann", "guess") is DENIED
    assert len(desk.checked) == 4


def test_the_same_wrong_password_again_is_refused_without_a_check() -> None:
    """As from a scraper with a wrong setting: it sees that it is wrong, and costs nothing."""
    desk = Desk()
    for _ in range(30):
        assert desk.ask("ann", "wrong") is DENIED
        desk.now += 1.5
    assert len(desk.checked) == 1
    desk.now += 60
    assert desk.ask("ann", "wrong") is DENIED
    assert len(desk.checked) == 2


def test_one_client_waits_whichever_of_its_addresses_it_takes() -> None:
    desk = Desk()
    assert desk.ask("ann", "wrong", "2001:db8:1:2::1") is DENIED
    assert desk.ask("ann", "guess", "2001:db8:1:2:ffff::9") is LATER
    assert desk.ask("ann", "guess", "2001:db8:1:3::1") is DENIED, "another network is another client"
    assert desk.ask("bob", "wrong", "::ffff:192.0.2.7") is DENIED
    assert desk.ask("bob", "guess", "192.0.2.7") is LATER
    assert desk.ask("bob", "guess", "192.0.2.8") is DENIED


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("rubbish", "rubbish"),
    ],
)
def test_addresses_of_one_network_count_as_one(address: str, network: str) -> None:
    assert network_of(address) == network


@pytest.mark.parametrize(("password", "verdict"), [("right", GRANTED), ("wrong", DENIED)])
def test_the_same_password_at_the_same_time_is_checked_once(password: str, verdict: Verdict) -> None:
    desk = Desk()
    desk.gate.clear()
    found, threads = desk.crowd(*(("ann", password, f"192.0.2.{place}") for place in range(module._MOST_WAITING)))
    until(lambda: desk.waiting() == module._MOST_WAITING)
    desk.gate.set()
    for thread in threads:
        thread.join(20)
    assert found == [verdict] * module._MOST_WAITING
    assert len(desk.checked) == 1


def test_who_joins_another_one_s_check_of_a_wrong_password_waits_as_well() -> None:
    desk = Desk()
    desk.gate.clear()
    first, threads = desk.crowd(("ann", "wrong", HOME))
    until(lambda: desk.waiting() == 1)
    joined, more = desk.crowd(("ann", "wrong", "192.0.2.2"))
    until(lambda: desk.waiting() == 2)
    desk.gate.set()
    for thread in (*threads, *more):
        thread.join(20)
    assert (first, joined) == ([DENIED], [DENIED])
    assert desk.ask("ann", "guess", "192.0.2.2") is LATER
    assert desk.ask("ann", "wrong", "192.0.2.2") is DENIED
    assert len(desk.checked) == 1


def test_checks_run_one_at_a_time_and_a_thread_is_left_for_who_is_known() -> None:
    desk = Desk()
    assert desk.ask("bob", "other") is GRANTED
    desk.gate.clear()
    found, threads = desk.crowd(*(("ann", f"guess{place}", f"192.0.2.{place}") for place in range(20)))
    until(lambda: found.count(LATER) == 20 - module._MOST_WAITING)
    assert module._MOST_WAITING < server._THREADS
    assert desk.ask("bob", "other") is GRANTED
    desk.gate.set()
    for thread in threads:
        thread.join(20)
    assert found.count(DENIED) == module._MOST_WAITING
    assert desk.most == 1


def test_one_client_cannot_take_all_places() -> None:
    desk = Desk()
    desk.gate.clear()
    guesses = (("ann", f"guess{place}", f"2001:db8::{place}") for place in range(10))
    found, threads = desk.crowd(*guesses)
    until(lambda: found.count(LATER) == 8)
    honest, more = desk.crowd(("ann", "right", HOME))
    until(lambda: desk.waiting() == 3)
    desk.gate.set()
    for thread in (*threads, *more):
        thread.join(20)
    assert honest == [GRANTED]


def test_a_check_that_fails_leaves_no_place_taken() -> None:
    def broken(_: bytes, __: bytes) -> bool:
        raise RuntimeError("out of memory")

    passwords = Passwords({"ann": b"x"}, lambda: 0.0, broken)
    for place in range(9):
        with pytest.raises(RuntimeError):
            passwords.verdict(basic("ann", "b"), f"192.0.2.{place}")
    assert passwords._under_way == {}


def test_an_unknown_name_takes_as_long_as_a_known_one_and_is_never_let_in() -> None:
    desk = Desk()
    seen: dict[str, set[bytes]] = {}
    for name in (f"stranger{place}" for place in range(64)):
        for password in ("right", "other"):
            desk.now += 100
            assert desk.ask(name, password) is DENIED
            seen.setdefault(name, set()).add(desk.checked[-1][1])
    assert all(len(hashes) == 1 for hashes in seen.values()), "the same name always takes the same time"
    assert set().union(*seen.values()) == {b"right", b"other"}


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED", 10)
    desk = Desk()
    for place in range(50):
        assert desk.ask("ann", f"guess{place}", f"192.0.2.{place}") is DENIED
    assert len(desk.passwords._wrong) == 10


def test_real_hashes() -> None:
    hashed = bcrypt.hashpw(b"x" * 72, bcrypt.gensalt(4))
    passwords = Passwords({"ann": hashed}, lambda: 0.0)
    assert passwords.verdict(basic("ann", "x" * 80), HOME) == (GRANTED, "ann"), (
        "as other servers, which look at 72 bytes"
    )
    assert passwords.verdict(basic("ann", "x" * 71), HOME) == (DENIED, "")


@given(st.text(max_size=40) | st.binary(max_size=40).map(lambda raw: "Basic " + raw.decode("latin-1")))
def test_any_header_is_read(header: str) -> None:
    found = parse_basic(header)
    assert found is None or len(found) == 2

import threading
import time
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter import passwords as module
from hwsonde_exporter.passwords import Passwords, Verdict, bcrypt_check, network_of, parse_basic
from tests.exporter.core.fakes import Clock

GRANTED, DENIED, LATER = Verdict.GRANTED, Verdict.DENIED, Verdict.LATER
HOME = "192.0.2.1"


def basic(user: str, password: str) -> str:
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


class Checker:
    """Compares with a hash that is the password itself, and counts; may be held up."""

    def __init__(self) -> None:
        self.calls: list[tuple[bytes, bytes]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.under_way = self.most = 0

    def __call__(self, password: bytes, hashed: bytes) -> bool:
        self.calls.append((password, hashed))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.gate.wait(10)
        self.under_way -= 1
        return password == hashed


def made(**users: str) -> tuple[Passwords, Checker, Clock]:
    checker, clock = Checker(), Clock()
    hashes = {name: password.encode() for name, password in (users or {"alice": "secret", "bob": "other"}).items()}
    return Passwords(hashes, checker, clock), checker, clock


def test_a_right_password_is_checked_once_only() -> None:
    found, checker, clock = made()
    for _ in range(5):
        clock.now += 100
        assert found.verdict(basic("alice", "secret"), HOME) is GRANTED
    assert len(checker.calls) == 1


def test_what_is_remembered_is_no_password() -> None:
    found, _, _ = made()
    found.verdict(basic("alice", "secret"), HOME)
    assert b"secret" not in b"".join(found._right)
    other, _, _ = made()
    other.verdict(basic("alice", "secret"), HOME)
    assert found._right.keys() != other._right.keys()


@pytest.mark.parametrize(
    "header", [None, "", "Basic", "Basic !!", "Basic Zm9v", "Bearer abc", "Digest x", "Basic " + "A" * 5]
)
def test_no_password_is_refused_without_a_check(header: str | None) -> None:
    found, checker, _ = made()
    assert found.verdict(header, HOME) is DENIED
    assert checker.calls == []


def test_a_wrong_password_is_refused_and_not_tried_again_at_once() -> None:
    found, checker, clock = made()
    assert found.verdict(basic("alice", "guess"), HOME) is DENIED
    # The same again, as from a scraper with a wrong setting: it sees that it is wrong, and costs nothing.
    assert found.verdict(basic("alice", "guess"), HOME) is DENIED
    # Another one, as from somebody who guesses.
    assert found.verdict(basic("alice", "guess2"), HOME) is LATER
    assert found.verdict(basic("alice", "secret"), HOME) is LATER
    assert len(checker.calls) == 1
    clock.now += 1.1
    assert found.verdict(basic("alice", "secret"), HOME) is GRANTED
    clock.now += 0.1
    assert found.verdict(basic("bob", "guess"), HOME) is DENIED
    assert found.verdict(basic("alice", "secret"), HOME) is GRANTED, "a remembered password is never made to wait"
    assert len(checker.calls) == 3


def test_another_address_is_not_made_to_wait() -> None:
    found, _, _ = made()
    assert found.verdict(basic("alice", "guess"), HOME) is DENIED
    assert found.verdict(basic("alice", "secret"), "192.0.2.2") is GRANTED


def test_an_unknown_name_is_compared_as_long_as_a_known_one_and_never_let_in() -> None:
    found, checker, clock = made()
    seen = {}
    for _ in range(2):
        # Which of the two hashes a name has is by chance: that all forty have the same one happens never.
        for name in (f"nobody{number}" for number in range(40)):
            for password in ("secret", "other"):
                clock.now += 100
                assert found.verdict(basic(name, password), HOME) is DENIED
                seen.setdefault(name, set()).add(checker.calls[-1][1])
    assert len(checker.calls) == 160
    assert all(len(hashes) == 1 for hashes in seen.values()), "the same name always takes the same time"
    assert {hashed for hashes in seen.values() for hashed in hashes} == {b"secret", b"other"}


def test_checks_run_one_at_a_time_and_few_wait() -> None:
    found, checker, _ = made()
    checker.gate.clear()
    verdicts: list[Verdict] = []
    threads = [
        threading.Thread(target=lambda number=number: verdicts.append(found.verdict(basic("alice", f"guess{number}"), f"192.0.2.{number}")))
        for number in range(20)
    ]  # fmt: skip
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 5
    while verdicts.count(LATER) < 16 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert verdicts == [LATER] * 16, "those beyond four are turned away, not queued"
    checker.gate.set()
    for thread in threads:
        thread.join(10)
    assert verdicts.count(DENIED) == 4
    assert checker.most == 1


def test_one_address_cannot_take_all_places() -> None:
    found, checker, _ = made()
    checker.gate.clear()
    verdicts: list[Verdict] = []
    guess = [
        threading.Thread(target=lambda number=number: verdicts.append(found.verdict(basic("alice", f"guess{number}"), HOME)))
        for number in range(10)
    ]  # fmt: skip
    for thread in guess:
        thread.start()
    deadline = time.monotonic() + 5
    while verdicts.count(LATER) < 8 and time.monotonic() < deadline:
        time.sleep(0.01)
    honest = threading.Thread(target=lambda: verdicts.append(found.verdict(basic("alice", "secret"), "192.0.2.9")))
    honest.start()
    time.sleep(0.05)
    checker.gate.set()
    for thread in (*guess, honest):
        thread.join(10)
    assert verdicts.count(GRANTED) == 1


def test_the_same_password_at_the_same_time_is_checked_once() -> None:
    found, checker, _ = made()
    checker.gate.clear()
    verdicts: list[Verdict] = []
    threads = [
        threading.Thread(target=lambda: verdicts.append(found.verdict(basic("alice", "secret"), HOME))) for _ in range(9)
    ]  # fmt: skip
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    checker.gate.set()
    for thread in threads:
        thread.join(10)
    assert verdicts == [GRANTED] * 9
    assert len(checker.calls) == 1


def test_who_joins_another_one_s_check_of_a_wrong_password_waits_as_well() -> None:
    found, checker, clock = made()
    checker.gate.clear()
    verdicts: dict[str, Verdict] = {}

    def ask(address: str) -> threading.Thread:
        guess = basic("alice", "guess")
        asked = threading.Thread(target=lambda: verdicts.update({address: found.verdict(guess, address)}))
        asked.start()
        return asked

    threads = [ask(HOME)]
    deadline = time.monotonic() + 5
    while not checker.calls and time.monotonic() < deadline:
        time.sleep(0.01)
    threads.append(ask("192.0.2.2"))
    time.sleep(0.3)
    checker.gate.set()
    for thread in threads:
        thread.join(10)
    assert verdicts == {HOME: DENIED, "192.0.2.2": DENIED}
    assert found.verdict(basic("alice", "guess2"), "192.0.2.2") is LATER
    assert found.verdict(basic("alice", "guess"), "192.0.2.2") is DENIED
    assert len(checker.calls) == 1
    clock.now += 1.1
    assert found.verdict(basic("alice", "secret"), "192.0.2.2") is GRANTED


def test_a_check_that_fails_leaves_no_place_taken() -> None:
    def broken(_: bytes, __: bytes) -> bool:
        raise RuntimeError("out of memory")

    found = Passwords({"a": b"x"}, broken, Clock())
    for number in range(9):
        with pytest.raises(RuntimeError):
            found.verdict(basic("a", "b"), f"192.0.2.{number}")
    assert found._under_way == {}


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED", 10)
    found, _, clock = made()
    for number in range(50):
        clock.now += 100
        found.verdict(basic("alice", f"guess{number}"), f"192.0.2.{number}")
    assert len(found._wrong) == 10


def test_real_hashes() -> None:
    check = bcrypt_check()
    import bcrypt

    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4))
    assert check(b"secret", hashed)
    assert check(b"secret", hashed.replace(b"$2b$", b"$2y$")), "as htpasswd writes it"
    assert not check(b"Secret", hashed)
    assert not check(b"", hashed)
    assert not check(b"x" * 5000, hashed)
    assert not check(b"sec\0ret", hashed)
    long = bcrypt.hashpw(b"x" * 72, bcrypt.gensalt(4))
    assert check(b"x" * 80, long), "as other servers, which look at 72 bytes"


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


@given(st.text(max_size=60))
def test_any_header_is_read_or_refused(header: str) -> None:
    found = parse_basic(header)
    assert found is None or all(isinstance(part, bytes) for part in found)


@given(st.text(max_size=20), st.text(max_size=20))
def test_what_was_sent_is_what_is_read(user: str, password: str) -> None:
    try:
        header = basic(user, password)
    except UnicodeEncodeError:
        return
    name, _, rest = f"{user}:{password}".partition(":")
    assert parse_basic(header) == (name.encode(), rest.encode())

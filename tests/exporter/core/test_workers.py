import threading
import time

from hwsonde_exporter import workers as module
from hwsonde_exporter.workers import Workers


class Server:
    def __init__(self) -> None:
        self.back: list[object] = []

    def put_conn(self, conn: object) -> None:
        self.back.append(conn)


class Connection:
    """Is served as long as its gate is shut, then as told."""

    def __init__(self, stays: bool = False, error: BaseException | None = None) -> None:
        self.gate = threading.Event()
        self.served = threading.Event()
        self.closed = threading.Event()
        self.stays, self.error = stays, error

    def communicate(self) -> bool:
        self.served.set()
        self.gate.wait(20)
        if self.error is not None:
            raise self.error
        return self.stays

    def close(self) -> None:
        self.closed.set()


def until(work: object, seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not work():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_grows_with_what_is_held_up_and_shrinks_again(monkeypatch) -> None:
    monkeypatch.setattr(module, "_IDLE_SECONDS", 0.2)
    pool = Workers(Server(), 2, 50)
    pool.start()
    slow = [Connection() for _ in range(30)]
    for connection in slow:
        pool.put(connection)
    assert all(connection.served.wait(5) for connection in slow)
    assert 30 <= pool.size <= 32
    for connection in slow:
        connection.gate.set()
    assert all(connection.closed.wait(5) for connection in slow)
    until(lambda: pool.size == 2)
    pool.stop(5)
    assert pool.size == 0


def test_what_is_quick_needs_no_more_threads() -> None:
    pool = Workers(Server(), 2, 50)
    pool.start()
    for _ in range(200):
        connection = Connection()
        connection.gate.set()
        pool.put(connection)
        assert connection.closed.wait(5)
    assert pool.size <= 4
    pool.stop(5)


def test_beyond_the_most_connections_wait() -> None:
    pool = Workers(Server(), 1, 3)
    pool.start()
    held = [Connection() for _ in range(5)]
    for connection in held:
        pool.put(connection)
    assert all(connection.served.wait(5) for connection in held[:3])
    assert not held[3].served.wait(0.1)
    held[0].gate.set()
    assert held[3].served.wait(5)
    assert pool.size == 3
    for connection in held:
        connection.gate.set()
    pool.stop(5)


def test_connections_that_stay_go_back_and_broken_ones_are_closed() -> None:
    server = Server()
    pool = Workers(server, 1, 9)
    pool.start()
    stays, lost, broken, exits = (
        Connection(stays=True),
        Connection(error=ConnectionResetError()),
        Connection(error=ValueError()),
        Connection(),
    )
    for connection in (stays, lost, broken, exits):
        connection.gate.set()
        pool.put(connection)
    assert all(connection.closed.wait(5) for connection in (lost, broken, exits))
    until(lambda: server.back == [stays])
    pool.stop(5)


def test_the_end_waits_for_what_is_under_way_but_not_for_ever() -> None:
    pool = Workers(Server(), 1, 9)
    pool.start()
    slow = Connection()
    pool.put(slow)
    assert slow.served.wait(5)
    began = time.monotonic()
    pool.stop(0.2)
    assert 0.15 < time.monotonic() - began < 3
    slow.gate.set()
    until(lambda: pool.size == 0)

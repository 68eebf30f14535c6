"""Waiting for what comes about by itself."""

import time


def eventually(work: object, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not work():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.05)

"""Who may read what: passwords for everything but what was left open on purpose."""

from __future__ import annotations

from collections.abc import Callable, Collection
from http import HTTPStatus

from hwsonde_detector.passwords import Verdict
from hwsonde_detector.protection import OPEN, Protection
from hwsonde_detector.web.answers import Answer, line

OPENINGS = {"health": ("/-/healthy", "/-/ready"), "metrics": ("/metrics",)}
_ASK = ("WWW-Authenticate", 'Basic realm="hwsonde-detector", charset="UTF-8"')


class Guard:
    """Lets requests in.

    Parameters
    ----------
    protection
        Gives what holds now.
    openings
        Words of `OPENINGS`: what is answered without a password.
    """

    def __init__(self, protection: Callable[[], Protection] = lambda: OPEN, openings: Collection[str] = ()) -> None:
        self._protection = protection
        self._free = frozenset(path for word in openings for path in OPENINGS[word])

    @property
    def asks(self) -> bool:
        """Whether a password is asked for."""
        return self._protection().passwords is not None

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Headers of every answer."""
        return self._protection().headers

    def admit(self, path: str, header: str | None, address: str) -> tuple[str, Answer | None]:
        """Give the name of who is signed in, and the refusal where there is one."""
        passwords = self._protection().passwords
        if passwords is None or (path in self._free and header is None):
            return "", None
        verdict, user = passwords.verdict(header, address)
        if verdict is Verdict.GRANTED:
            return user, None
        if verdict is Verdict.LATER:
            return "", line(HTTPStatus.TOO_MANY_REQUESTS, "too many tries; try again in a second", ("Retry-After", "1"))
        return "", line(HTTPStatus.UNAUTHORIZED, "a name and a password are asked for here", _ASK)

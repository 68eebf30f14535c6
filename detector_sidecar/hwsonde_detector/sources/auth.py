"""Who asks: headers of a request, with secrets that come from files or the environment and are never shown."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from hwsonde_detector.errors import SourceError
from hwsonde_detector.files import read_regular

_MAX_SECRET = 1 << 16


class Secret(Protocol):
    """Something that must not be shown."""

    def get(self) -> str:
        """Give its present value; raises `SourceError` where there is none."""


class FileSecret:
    """The content of a file, read again when the file changes (tokens that are rotated).

    Parameters
    ----------
    path
        The file; space around its content is dropped.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._value = ""

    def get(self) -> str:
        """Read the file if it changed since the last call."""
        try:
            found = self.path.stat()
            seen = (found.st_mtime_ns, found.st_size, found.st_ino)
            if seen != self._seen:
                data = read_regular(self.path, _MAX_SECRET + 1)
                self._value, self._seen = _checked(data, f"the file {self.path}", "the file"), seen
        except OSError as error:
            raise SourceError(
                f"{self.path}: the secret cannot be read: {error.strerror or error}; check the path and its permissions",
                shown=f"the secret cannot be read: {error.strerror or error}; the detector's log names its file",
            ) from None
        return self._value

    def __repr__(self) -> str:
        """Show the place only."""
        return f"FileSecret({str(self.path)!r})"


class EnvSecret:
    """The value of an environment variable.

    Parameters
    ----------
    name
        The variable.
    environment
        Where it is looked up.
    """

    def __init__(self, name: str, environment: Mapping[str, str] = os.environ) -> None:
        self.name = name
        self._environment = environment

    def get(self) -> str:
        """Look it up."""
        value = self._environment.get(self.name)
        if value is None:
            raise SourceError(
                f"the environment variable {self.name} with the secret is not set; set it before the start"
            )
        where = f"the environment variable {self.name}"
        return _checked(value.encode("utf-8", "surrogateescape"), where, where)

    def __repr__(self) -> str:
        """Show the place only."""
        return f"EnvSecret({self.name!r})"


def _checked(data: bytes, where: str, shown: str) -> str:
    text = data.decode("latin-1").strip()
    if not text or len(data) > _MAX_SECRET or any(ord(letter) < 32 or ord(letter) == 127 for letter in text):
        why = "holds no usable secret; it must hold one line of text"
        raise SourceError(f"{where} {why}", shown=f"{shown} {why}")
    return text


@dataclass(frozen=True, slots=True)
class Credentials:
    """Everything that says who asks.

    Attributes
    ----------
    basic
        User and password.
    bearer
        A token.
    tenant
        Sent as ``X-Scope-OrgID``.
    headers, secret_headers
        Further headers.
    """

    basic: tuple[str, Secret] | None = None
    bearer: Secret | None = None
    tenant: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    secret_headers: Mapping[str, Secret] = field(default_factory=dict)

    def fresh(self) -> dict[str, bytes]:
        """Headers of one request, with the secrets' present values.

        Raises
        ------
        SourceError
            A secret is missing or unusable.
        """
        found = {name: value.encode("latin-1") for name, value in self.headers.items()}
        found |= {name: secret.get().encode("latin-1") for name, secret in self.secret_headers.items()}
        if self.tenant is not None:
            found["X-Scope-OrgID"] = self.tenant.encode("latin-1")
        if self.basic is not None:
            user, secret = self.basic
            found["Authorization"] = b"Basic " + base64.b64encode(user.encode() + b":" + secret.get().encode("latin-1"))
        elif self.bearer is not None:
            found["Authorization"] = b"Bearer " + self.bearer.get().encode("latin-1")
        return found

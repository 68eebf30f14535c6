"""Sections that say who asks another server, and which certificates count."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from hwsonde_detector.config.section import Section
from hwsonde_detector.config.values import FilePath, Text

_ENV_NAME = Text(r"[a-zA-Z_][a-zA-Z0-9_]*", "the name of an environment variable")


class Basic(Section):
    """A user and a password, sent as HTTP basic authentication."""

    username: Annotated[str, Text(r"[^:\x00-\x1f]+", "text without a colon")] = Field(description="Name of the user.")
    password_file: Annotated[Path, FilePath()] | None = Field(
        default=None, description="File that holds the password; read again when it changes."
    )
    password_env: Annotated[str, _ENV_NAME] | None = Field(
        default=None, description="Environment variable that holds the password."
    )


class Bearer(Section):
    """A token, sent as ``Authorization: Bearer``."""

    token_file: Annotated[Path, FilePath()] | None = Field(
        default=None, description="File that holds the token; read again when it changes."
    )
    token_env: Annotated[str, _ENV_NAME] | None = Field(
        default=None, description="Environment variable that holds the token."
    )


class Tls(Section):
    """Certificates. That the server's certificate is checked cannot be turned off."""

    ca_file: Annotated[Path, FilePath()] | None = Field(
        default=None, description="Authorities to trust (PEM) instead of the bundle that comes with Python's certifi."
    )
    cert_file: Annotated[Path, FilePath()] | None = Field(default=None, description="Client certificate (PEM).")
    key_file: Annotated[Path, FilePath()] | None = Field(
        default=None, description="Its key, where it is not in the same file."
    )

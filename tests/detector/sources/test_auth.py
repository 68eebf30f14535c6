"""Credentials: what is sent, what is refused, what is never shown."""

from __future__ import annotations

import base64
import os

import pytest

from hwsonde_detector.errors import SourceError
from hwsonde_detector.sources.auth import Credentials, EnvSecret, FileSecret


def test_basic_and_bearer(tmp_path):
    (tmp_path / "p").write_text("pässword with space \n")
    basic = Credentials(basic=("üser", FileSecret(tmp_path / "p"))).fresh()
    assert base64.b64decode(basic["Authorization"].split()[1]) == "üser:pässword with space".encode()
    assert Credentials(bearer=EnvSecret("T", {"T": "abc"})).fresh() == {"Authorization": b"Bearer abc"}
    assert Credentials().fresh() == {}


def test_a_file_is_read_again_when_it_changes(tmp_path):
    path = tmp_path / "token"
    path.write_text("one")
    secret = FileSecret(path)
    assert secret.get() == "one"
    path.write_text("second")
    assert secret.get() == "second"
    (tmp_path / "new").write_text("other!")
    (tmp_path / "new").rename(path)
    assert secret.get() == "other!"
    path.unlink()
    with pytest.raises(SourceError, match="cannot be read: No such file") as caught:
        secret.get()
    assert str(path) in str(caught.value)
    assert "cannot be read: No such file" in caught.value.shown
    assert str(tmp_path) not in caught.value.shown, "who reads the page learns no file of this host"


@pytest.mark.parametrize("content", [b"", b" \n", b"two\nlines", b"a\x00b", b"a\r\nX-Evil: 1", b"x" * 70_000])
def test_unusable_secrets_are_refused_without_showing_them(tmp_path, content):
    (tmp_path / "p").write_bytes(content)
    for secret in (FileSecret(tmp_path / "p"), EnvSecret("T", {"T": content.decode()})):
        with pytest.raises(SourceError, match="no usable secret") as caught:
            secret.get()
        assert "Evil" not in str(caught.value)
        assert "no usable secret" in caught.value.shown
        assert str(tmp_path) not in caught.value.shown


def test_a_missing_variable_is_named():
    with pytest.raises(SourceError, match="variable TOKEN"):
        EnvSecret("TOKEN", {}).get()


def test_nothing_is_shown(tmp_path):
    (tmp_path / "p").write_text("hunter2")
    secrets = FileSecret(tmp_path / "p"), EnvSecret("T", {"T": "hunter2"})
    for secret in secrets:
        assert secret.get() == "hunter2"
        credentials = Credentials(basic=("u", secret), bearer=secret, secret_headers={"X": secret})
        assert "hunter2" not in repr(credentials) + str(secret)


def test_a_pipe_is_no_secret(tmp_path):
    os.mkfifo(tmp_path / "p")
    with pytest.raises(SourceError, match="cannot be read: it is no regular file; check"):
        FileSecret(tmp_path / "p").get()

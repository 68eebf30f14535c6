"""A throw-away certificate authority and what it signs, made by openssl in a folder of the test."""

from __future__ import annotations

import subprocess
from pathlib import Path


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


class Authority:
    """Signs certificates; everything lies in ``folder``."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.cert, self.key = folder / f"{name}.pem", folder / f"{name}-key.pem"
        self._count = 0
        _openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}",
            "-keyout", self.key, "-out", self.cert,
            "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
        )  # fmt: skip

    def sign(self, name: str, names: str = "DNS:localhost,IP:127.0.0.1", *, rsa: bool = False) -> tuple[Path, Path]:
        """Certificate and key of a server or client with these alternative names."""
        self._count += 1
        cert, key = self.folder / f"{name}-{self._count}.pem", self.folder / f"{name}-{self._count}-key.pem"
        request, extensions = self.folder / "request.pem", self.folder / "extensions.cnf"
        extensions.write_text(f"subjectAltName={names}\n")
        kind = ("rsa:2048",) if rsa else ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")
        _openssl("req", "-newkey", *kind, "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        _openssl(
            "x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key, "-set_serial", str(self._count), "-days", "2",
            "-extfile", extensions, "-out", cert,
        )  # fmt: skip
        return cert, key

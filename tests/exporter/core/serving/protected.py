"""A served application behind TLS and passwords, and the real clients that ask it."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import bcrypt

from hwsonde_exporter.gate import Gate
from hwsonde_exporter.protection import Keeper
from hwsonde_exporter.refusals import Refusals
from hwsonde_exporter.server import Listeners
from hwsonde_exporter.web import Application
from tests.exporter.core.serving.certificates import Authority

PASSWORD = "correct horse"


def hashed(password: str, cost: int = 4) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode()


class Place:
    """A folder with an authority, a server's certificate and the file that names them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder, "ca")
        self.file = folder / "web.yml"
        self.cert, self.key = folder / "server.pem", folder / "server-key.pem"
        self.renew()

    def renew(self, authority: Authority | None = None, **how: bool) -> None:
        """Put a new certificate and key in the old one's place, each in one step."""
        for made, place in zip((authority or self.authority).sign("server", **how), (self.cert, self.key), strict=True):
            made.replace(place)

    def write(self, tls: str | None = "", users: dict[str, str] | None = None, more: str = "") -> None:
        lines = []
        if tls is not None:
            lines += ["tls_server_config:", "  cert_file: server.pem", "  key_file: server-key.pem", tls]
        if users:
            lines += ["basic_auth_users:", *(f'  {name}: "{hashes}"' for name, hashes in users.items())]
        new = self.folder / "web.new"
        new.write_text("\n".join([*lines, more]) + "\n")
        new.replace(self.file)


@contextmanager
def served(
    exporter: object, place: Place, clock: Callable[[], float] = time.monotonic, threads: int = 4
) -> Iterator[tuple[int, Keeper, Refusals]]:
    """Port, keeper and refusals of a server that reaps as the program does."""
    keeper, refusals = Keeper(place.file, clock), Refusals()
    application = Gate(Application(exporter, "x", max_scrapes=4), keeper, refusals)  # type: ignore[arg-type]
    listeners = Listeners([("127.0.0.1", 0)], application, threads, keeper, refusals)
    listeners.start()
    ended = threading.Event()

    def reap() -> None:
        while not ended.wait(0.1):
            listeners.reap()

    threading.Thread(target=reap, daemon=True).start()
    try:
        yield listeners.addresses[0][1], keeper, refusals
    finally:
        ended.set()
        listeners.stop()


def curl(port: int, *options: str | Path, path: str = "/-/healthy", scheme: str = "https") -> tuple[int, int, str]:
    """Exit status of curl, HTTP status, body or message."""
    done = subprocess.run(
        [
            "curl",
            "-sS",
            "--max-time",
            "20",
            "-w",
            "\n%{http_code}",
            *map(str, options),
            f"{scheme}://127.0.0.1:{port}{path}",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    body, _, status = done.stdout.rpartition("\n")
    return done.returncode, int(status), body.removesuffix("\n") or done.stderr.strip()


class Prometheus:
    """A real Prometheus that scrapes one target each second, in several ways: ``jobs`` are their settings by name."""

    def __init__(self, folder: Path, port: int, target: int, jobs: Mapping[str, str]) -> None:
        self.url = f"http://127.0.0.1:{port}"
        file = folder / "prometheus.yml"
        parts = [
            f"- job_name: {name}\n  static_configs: [{{targets: ['127.0.0.1:{target}']}}]\n{settings}"
            for name, settings in jobs.items()
        ]
        file.write_text(
            "global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n" + "".join(parts), encoding="utf-8"
        )
        self.log = folder / "prometheus.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}"],
                stdout=log, stderr=log,
            )  # fmt: skip

    def health(self, wanted: Mapping[str, str], seconds: float = 40.0) -> dict[str, str]:
        """Last error of each job, as soon as the health of all is as wanted."""
        deadline = time.monotonic() + seconds
        found: dict[str, tuple[str, str]] = {}
        while time.monotonic() < deadline:
            done = subprocess.run(
                ["curl", "-s", f"{self.url}/api/v1/targets"], capture_output=True, timeout=20, check=False
            )
            if done.returncode == 0 and done.stdout:
                targets = json.loads(done.stdout)["data"]["activeTargets"]
                found = {target["scrapePool"]: (target["health"], target["lastError"]) for target in targets}
                if {name: health for name, (health, _) in found.items()} == wanted:
                    return {name: error for name, (_, error) in found.items()}
            time.sleep(0.2)
        raise AssertionError(f"not within {seconds} s: {found}; {self.log.read_text()[-2000:]}")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)

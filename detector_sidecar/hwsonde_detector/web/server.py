"""The HTTP server: cheroot's threads around the application, with limits."""

from __future__ import annotations

import logging
import sys
import threading
from typing import TYPE_CHECKING

from cheroot import wsgi

from hwsonde_detector.errors import ListenError

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

log = logging.getLogger("hwsonde_detector.web")

_THREADS = 4
_TIMEOUT_S = 10
_HEADER_BYTES = 16_384
_BODY_BYTES = 65_536
_STOP_S = 0.5


class _Server(wsgi.Server):
    """cheroot's server with its complaints in our log."""

    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:  # noqa: FBT001, FBT002 - its signature
        """Write one line: a client's broken request is of no interest, a defect of ours is."""
        error = sys.exc_info()[1] if traceback else None
        said = [*msg.strip().splitlines(), *([f"{type(error).__name__}: {error}"] if error is not None else [])]
        log.log(logging.DEBUG if level < logging.ERROR else logging.WARNING, "%s", " ".join(said))


class WebServer:
    """Serves an application until it is stopped.

    Parameters
    ----------
    host, port
        Where to listen; port 0 takes a free one.
    application
        What answers.

    Raises
    ------
    ListenError
        If the address cannot be bound.
    """

    def __init__(self, host: str, port: int, application: WSGIApplication) -> None:
        self._server = _Server(
            (host, port),
            application,
            numthreads=_THREADS,
            max=_THREADS,
            timeout=_TIMEOUT_S,
            shutdown_timeout=1,
            request_queue_size=64,
            server_name="hwsonde-detector",
        )
        self._server.max_request_header_size = _HEADER_BYTES
        self._server.max_request_body_size = _BODY_BYTES
        try:
            self._server.prepare()
        except OSError as error:
            shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            raise ListenError(
                f"cannot listen on {shown}: {error.strerror or error}; is another detector running? Choose another address by web.listen"
            ) from error
        self._thread = threading.Thread(target=self._serve, name="web", daemon=True)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._server.bind_addr[1])

    def start(self) -> None:
        """Answer from now on, in threads of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more; returns within a second, even when a client reads slowly or not at all."""
        # The server waits for its threads one after the other; they end with the process anyway.
        ending = threading.Thread(target=self._server.stop, name="web-stop", daemon=True)
        ending.start()
        ending.join(_STOP_S)

    def _serve(self) -> None:
        try:
            self._server.serve()
        except Exception as error:  # noqa: BLE001 - scoring and /metrics' absence must be visible, not end the process silently
            log.error("the web server ended: %s: %s", type(error).__name__, error)  # noqa: TRY400 - one line

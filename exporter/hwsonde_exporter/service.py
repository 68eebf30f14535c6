"""The running program: exporter, listeners and signals."""

from __future__ import annotations

import gc
import logging
import os
import queue
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING

from hwsonde_exporter import __version__, logs
from hwsonde_exporter.cell import Clocks
from hwsonde_exporter.config import Settings
from hwsonde_exporter.errors import ConfigError
from hwsonde_exporter.exporter import Exporter
from hwsonde_exporter.exposition import render
from hwsonde_exporter.mesh.service import MeshSettings
from hwsonde_exporter.registry import Collector
from hwsonde_exporter.systemd import Inherited, Notifier, inherited_sockets

if TYPE_CHECKING:
    from hwsonde_exporter.protection import Keeper
    from hwsonde_exporter.refusals import Refusals
    from hwsonde_exporter.server import Listeners

_LOG = logging.getLogger(__name__)

# A program that is asked to end does so within a second; this leaves time to close the interpreter.
_STOP_SECONDS = 0.6
_BACKGROUND_SECONDS = 10.0
_CLOCKS = Clocks(time.monotonic, time.time)


def make_exporter(settings: Settings, kinds: Mapping[str, type[Collector]], *, lasting: bool = True) -> Exporter:
    """Exporter with these settings, not started; if it is not ``lasting``, without sampler and mesh probe, which need time."""
    chosen = settings.exporter if lasting else replace(settings.exporter, hertz=0.0, mesh=MeshSettings())
    return Exporter(kinds, settings.paths, chosen, _CLOCKS, settings.ignored, settings.textfiles)


def print_once(settings: Settings, kinds: Mapping[str, type[Collector]], write: Callable[[bytes], object]) -> int:
    """Give one exposition to ``write``, without the sampler's moments: they need time."""
    exporter = make_exporter(settings, kinds, lasting=False)
    exporter.start()
    exporter.settle(_BACKGROUND_SECONDS)
    write(render(exporter.scrape()))
    exporter.stop()
    return 0


def serve(settings: Settings, kinds: Mapping[str, type[Collector]], reload: Callable[[], Settings]) -> int:
    """Serve until SIGTERM or SIGINT; gives the exit status. systemd is told of start, reload, end and signs of life.

    Parameters
    ----------
    settings
        What is configured.
    kinds
        Collector classes by name.
    reload
        Reads the settings again; called on SIGHUP.

    Raises
    ------
    ListenError
        If an address cannot be bound, or a socket that systemd gives is none.
    ConfigError
        If the file with TLS and users is wrong.
    """
    # Imported here: `--once` needs no server.
    from hwsonde_exporter.protection import Keeper  # noqa: PLC0415
    from hwsonde_exporter.refusals import Refusals  # noqa: PLC0415

    signals = _catch_signals()
    notifier = Notifier(os.environ)
    inherited = inherited_sockets(os.environ)
    keeper, refusals = Keeper(settings.web_config), Refusals()
    exporter = make_exporter(settings, kinds)
    exporter.protection_success = lambda: keeper.success
    if settings.web_config is not None:
        exporter.turned_away = lambda: refusals.counts
    listeners = _listeners(settings, exporter, keeper, refusals, inherited)
    listeners.start()
    exporter.start()
    scheme = "https" if keeper.current.context is not None else "http"
    shown = [f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/metrics" for host, port in listeners.addresses]
    for place, address in enumerate(shown):
        source = f" (socket {inherited[place].name} of systemd)" if inherited else ""
        _LOG.info("hwsonde-exporter %s serves %s%s", __version__, address, source)
    # What exists now lives as long as the program; the garbage collector need not look at it again.
    gc.collect()
    gc.freeze()
    status = f"serves {', '.join(shown)}"
    notifier.ready(status)
    while True:
        try:
            number = signals.get(timeout=min(1.0, notifier.interval or 1.0))
        except queue.Empty:
            listeners.reap()
            if listeners.alive:
                notifier.alive()
            continue
        if number != signal.SIGHUP:
            break
        notifier.reloading()
        settings = _reload(exporter, settings, reload)
        keeper.reload()
        notifier.ready(status)
    _LOG.info("ending on %s", signal.Signals(number).name)
    notifier.stopping()
    exporter.stop()
    closing = threading.Thread(target=listeners.stop, daemon=True)
    closing.start()
    closing.join(_STOP_SECONDS)
    return 0


def _listeners(
    settings: Settings, exporter: Exporter, keeper: Keeper, refusals: Refusals, inherited: Sequence[Inherited]
) -> Listeners:
    from hwsonde_exporter.compression import gzip_compressor  # noqa: PLC0415  (as above)
    from hwsonde_exporter.gate import Gate  # noqa: PLC0415
    from hwsonde_exporter.server import Listeners  # noqa: PLC0415
    from hwsonde_exporter.web import Application  # noqa: PLC0415

    application: Callable[..., Iterable[bytes]] = Application(
        exporter, socket.gethostname(), settings.max_scrapes, gzip_compressor(), settings.timeout_offset
    )
    if settings.web_config is not None:
        application = Gate(application, keeper, refusals)
    sockets = [each.socket for each in inherited]
    return Listeners(settings.listen, application, settings.max_scrapes + 4, keeper, refusals, sockets)


def _catch_signals() -> queue.SimpleQueue[int]:
    caught: queue.SimpleQueue[int] = queue.SimpleQueue()

    def note(number: int, _: FrameType | None) -> None:
        caught.put(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, note)
    return caught


def _reload(exporter: Exporter, settings: Settings, reload: Callable[[], Settings]) -> Settings:
    """Take over the configuration anew; a wrong one changes nothing."""
    try:
        fresh = reload()
    except ConfigError as error:
        exporter.reload_success = False
        _LOG.error("configuration is wrong, the old one stays in force: %s", error)
        return settings
    exporter.reload_success = True
    kept = replace(
        fresh,
        listen=settings.listen,
        web_config=settings.web_config,
        max_scrapes=settings.max_scrapes,
        timeout_offset=settings.timeout_offset,
        paths=settings.paths,
        ignored=settings.ignored,
        textfiles=settings.textfiles,
    )
    if kept != fresh:
        _LOG.warning(
            "web.* but for the file of web.config.file, path.*, what is ignored and the textfile directory take effect with a restart only"
        )
    logs.set_up(fresh.log_level, fresh.log_format)
    exporter.configure(fresh.exporter)
    _LOG.info("configuration read again, collectors are probed anew")
    return kept

"""The running program: exporter, listeners and signals."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from hwsonde_exporter import __version__, logs
from hwsonde_exporter.cell import Clocks
from hwsonde_exporter.config import Settings
from hwsonde_exporter.errors import ConfigError, ListenError, ThreadError
from hwsonde_exporter.exporter import Exporter
from hwsonde_exporter.exposition import render
from hwsonde_exporter.mesh.service import MeshSettings
from hwsonde_exporter.registry import Collector
from hwsonde_exporter.signals import Ended, Signals
from hwsonde_exporter.systemd import Inherited, Notifier, inherited_sockets
from hwsonde_exporter.threads import launch

if TYPE_CHECKING:
    from hwsonde_exporter.protection import Keeper
    from hwsonde_exporter.refusals import Refusals
    from hwsonde_exporter.server import Listeners

_LOG = logging.getLogger(__name__)

# A program that is asked to end does so within a second; this leaves time to close the interpreter.
_STOP_SECONDS = 0.6
_BACKGROUND_SECONDS = 10.0
# Of these, for GPUs that have to be woken: the rest is for what is asked of them then.
_WAKING_SECONDS = 8.0
_CLOCKS = Clocks(time.monotonic, time.time)


def make_exporter(settings: Settings, kinds: Mapping[str, type[Collector]], *, lasting: bool = True) -> Exporter:
    """Exporter with these settings, not started.

    One that is not ``lasting`` is asked once: it has no sampler and no mesh probe, which need time, and GPUs that nobody could ask are a
    failure of their collectors.
    """
    once = replace(settings.exporter, hertz=0.0, mesh=MeshSettings(), once=_WAKING_SECONDS)
    chosen = settings.exporter if lasting else once
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
        If an address cannot be bound, or a socket that systemd gives is none; or if nothing listens any more.
    ConfigError
        If the file with TLS and users is wrong.
    ThreadError
        If the system gives this program too few threads.
    """
    signals = Signals()
    notifier = Notifier(os.environ)
    try:
        exporter, keeper, listeners = _start(settings, kinds)
        signals.started()
    except Ended as ended:
        _LOG.info("ending on %s", signal.Signals(ended.number).name)
        return 0
    # What exists now lives as long as the program; the garbage collector need not look at it again.
    gc.collect()
    gc.freeze()
    status = f"serves {', '.join(_shown(listeners, keeper))}"
    notifier.ready(status)
    interval = min(1.0, notifier.interval or 1.0)
    looked = time.monotonic()
    while (number := signals.wait(looked + interval - time.monotonic())) in {None, signal.SIGHUP}:
        if number == signal.SIGHUP:
            notifier.reloading()
            settings = _reload(exporter, settings, reload)
            keeper.reload()
            notifier.ready(status)
        # By the clock, not when all is quiet: signals that keep coming must not keep connections open, nor signs of life back.
        if time.monotonic() - looked >= interval:
            looked = time.monotonic()
            listeners.reap()
            if not listeners.alive:
                raise ListenError("a thread that accepts connections has ended; the log says why")
            notifier.alive()
    _LOG.info("ending on %s", signal.Signals(number or signal.SIGTERM).name)
    notifier.stopping()
    exporter.stop()
    with suppress(ThreadError):
        closing = threading.Thread(target=listeners.stop, daemon=True)
        launch(closing)
        closing.join(_STOP_SECONDS)
    return 0


def _start(settings: Settings, kinds: Mapping[str, type[Collector]]) -> tuple[Exporter, Keeper, Listeners]:
    # Imported here: `once` needs no server.
    from hwsonde_exporter.protection import Keeper  # noqa: PLC0415
    from hwsonde_exporter.refusals import Refusals  # noqa: PLC0415

    inherited = inherited_sockets(os.environ)
    keeper, refusals = Keeper(settings.web_config), Refusals()
    exporter = make_exporter(settings, kinds)
    exporter.protection_success = lambda: keeper.success
    if settings.web_config is not None:
        exporter.turned_away = lambda: refusals.counts
    listeners = _listeners(settings, exporter, keeper, refusals, inherited)
    listeners.start()
    exporter.start()
    for place, address in enumerate(_shown(listeners, keeper)):
        source = f" (socket {inherited[place].name} of systemd)" if inherited else ""
        _LOG.info("hwsonde-exporter %s serves %s%s", __version__, address, source)
    return exporter, keeper, listeners


def _shown(listeners: Listeners, keeper: Keeper) -> list[str]:
    scheme = "https" if keeper.current.context is not None else "http"
    return [f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/metrics" for host, port in listeners.addresses]


def _listeners(
    settings: Settings, exporter: Exporter, keeper: Keeper, refusals: Refusals, inherited: Sequence[Inherited]
) -> Listeners:
    from hwsonde_exporter.compression import gzip_compressor  # noqa: PLC0415  (as above)
    from hwsonde_exporter.gate import Gate  # noqa: PLC0415
    from hwsonde_exporter.server import Listeners  # noqa: PLC0415
    from hwsonde_exporter.web import Application  # noqa: PLC0415

    application: Callable[..., Iterable[bytes]] = Application(
        exporter,
        lambda: "" if exporter.strict else socket.gethostname(),
        settings.max_scrapes,
        gzip_compressor(),
        settings.timeout_offset,
    )
    if settings.web_config is not None:
        application = Gate(application, keeper, refusals)
    sockets = [each.socket for each in inherited]
    return Listeners(settings.listen, application, settings.max_scrapes + 4, keeper, refusals, sockets)


def _reload(exporter: Exporter, settings: Settings, reload: Callable[[], Settings]) -> Settings:
    """Take over the configuration anew; a wrong one changes nothing."""
    try:
        fresh = reload()
    except ConfigError as error:
        exporter.reload_success = False
        _LOG.error("configuration is wrong, the old one stays in force: %s", error)
        return settings
    except Exception as error:  # noqa: BLE001  (whatever is wrong with a file, the program goes on)
        exporter.reload_success = False
        _LOG.exception("configuration cannot be read, the old one stays in force: %s", type(error).__name__)
        return settings
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
    try:
        exporter.configure(fresh.exporter)
    except ThreadError as error:
        exporter.reload_success = False
        _LOG.error("configuration is not in force as a whole: %s; reload once more", error)
        return kept
    exporter.reload_success = True
    _LOG.info("configuration read again, collectors are probed anew")
    return kept

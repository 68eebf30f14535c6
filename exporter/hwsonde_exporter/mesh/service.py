"""Starts and ends the mesh probe with the exporter."""

from __future__ import annotations

from dataclasses import dataclass

from hwsonde_exporter.errors import ThreadError
from hwsonde_exporter.mesh.board import Board
from hwsonde_exporter.mesh.responder import Responder
from hwsonde_exporter.mesh.sender import Peer, Sender
from hwsonde_exporter.metric import Sample

MOST_PEERS = 256


@dataclass(frozen=True, slots=True)
class MeshSettings:
    """What may be configured.

    Attributes
    ----------
    peers
        Whom to probe.
    listen
        Host and port at which probes are answered; None to answer none.
    interval
        Seconds between two probes of one peer.
    """

    peers: tuple[Peer, ...] = ()
    listen: tuple[str, int] | None = None
    interval: float = 1.0


class Mesh:
    """The probe of this host: sends to its peers, answers theirs, as configured."""

    def __init__(self) -> None:
        self._board = Board()
        self._settings = MeshSettings()
        self._sender: Sender | None = None
        self._responder: Responder | None = None

    @property
    def port(self) -> int | None:
        """Port at which probes are answered; None if none are, or not yet."""
        responder = self._responder
        return responder.port if responder is not None and responder.bound.is_set() else None

    def configure(self, settings: MeshSettings) -> None:
        """Take over settings and start what they ask for; without peers and address nothing runs.

        Raises
        ------
        ThreadError
            If the system gives this program no more threads; then nothing runs.
        """
        if settings == self._settings:
            return
        before, self._settings = self._settings, settings
        try:
            self._take_over(settings, before)
        except ThreadError:
            # Nothing holds any more, so that the same settings are tried once more when they come again.
            self.configure(MeshSettings())
            raise

    def _take_over(self, settings: MeshSettings, before: MeshSettings) -> None:
        self._board.configure([peer.name for peer in settings.peers], answering=settings.listen is not None)
        if settings.listen != before.listen:
            if self._responder is not None:
                self._responder.stop()
            self._responder = Responder(settings.listen, self._board) if settings.listen is not None else None
            if self._responder is not None:
                self._responder.start()
        if self._sender is not None:
            self._sender.stop()
        self._sender = Sender(settings.peers, settings.interval, self._board) if settings.peers else None
        if self._sender is not None:
            self._sender.start()

    def stop(self) -> None:
        """End all threads as soon as each can; returns at once."""
        self.configure(MeshSettings())

    def samples(self) -> list[Sample] | None:
        """What was found so far; None if nothing is to be probed or answered here."""
        if self._settings == MeshSettings():
            return None
        return self._board.samples(listening=self.port is not None)

"""A setting is changed on one of several hosts that are alike."""

from __future__ import annotations

from pathlib import Path

from benchmarks.faults.injectors.base import MEMORY, Effect, Injector, Room

_FILE = Path("proc/sys/vm/swappiness")
_CHANGED = "3\n"
_LEAST_PEERS = 4


class PeerSetting(Injector):
    """vm.swappiness of a simulated host. The exporter looks at settings once a minute, so it stays changed for longer than that."""

    kind = "peer_setting"
    subsystems = MEMORY
    least_seconds = 90.0

    def __init__(self) -> None:
        self._file: Path | None = None
        self._before = ""

    def missing(self, room: Room) -> str | None:
        """Needs enough hosts to compare."""
        if len(room.peer_folders()) < _LEAST_PEERS:
            return f"fewer than {_LEAST_PEERS} simulated hosts run (--peers {_LEAST_PEERS})"
        return None

    def node(self, room: Room) -> str:
        """The second of them."""
        return room.peer_folders()[1][0]

    def start(self, room: Room) -> None:
        """Change it."""
        self._file = room.peer_folders()[1][1] / _FILE
        self._before = self._file.read_text(encoding="ascii")
        self._file.write_text(_CHANGED, encoding="ascii")

    def effect(self, room: Room) -> Effect:
        """Hosts that differ from the first."""
        texts = [(folder / _FILE).read_text(encoding="ascii") for _, folder in room.peer_folders()]
        return Effect("hosts that differ", float(sum(text != texts[0] for text in texts)), 1.0)

    def stop(self, room: Room) -> None:
        """Change it back."""
        del room
        if self._file is not None:
            self._file.write_text(self._before, encoding="ascii")
            self._file = None

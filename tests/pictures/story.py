"""What happens in the pictures: a cluster learns, a setting is changed, a GPU's cooling fails while another host gets busy, all gets well."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from quickstart.fetch import FetchError, get_json
from tests.pictures.fleet import BUSY, CHANGED, MACHINES, TRAINING, Cluster

# Longest waits, in seconds.
START, LEARNING, REST, ONSET, END = 60, 600, 150, 60, 180
# How much of the time before the picture's moment is shown, at most.
SHOWN = 220
# An error of an application, which the driver reports by this number.
XID, XID_GPU = 31, 5
# From the first degree to the last.
HEATING = (0.2, 0.45, 0.7, 0.9, 1.0)
ACTIVE = "max by (node) (hwsonde_incident_active)"


class StoryError(Exception):
    """Something did not happen in time; the text is one line."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What was recorded, in Unix seconds.

    Attributes
    ----------
    start, end
        Of the recording.
    moment
        When both hosts were ill: the end of what graphs show, and the time of tables and tiles.
    channel
        The one with the largest share in the training host's episode then.
    incident
        Address of that episode's page below ``/incidents``.
    """

    start: float
    end: float
    moment: float
    channel: str
    incident: str

    @property
    def shown_from(self) -> float:
        """Where graphs begin."""
        return max(self.start, self.moment - SHOWN)

    def of_board(self) -> dict[str, dict[str, str]]:
        """Which host, setting and channel each board shows."""
        ill = {"node": TRAINING}
        settings = {"node": CHANGED, "setting": "memory.swappiness"}
        explorer = {**ill, "channel": self.channel}
        return {"host": ill, "gpu": ill, "network": ill, "settings": settings, "anomaly-explorer": explorer}

    def save(self, path: Path) -> None:
        """Write it; raises OSError."""
        path.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Scene:
        """What was saved; raises OSError, ValueError or TypeError."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))


class Story:
    """Lets it happen.

    Parameters
    ----------
    cluster
        The hosts, alive.
    say
        Gets one line for every part of it.
    """

    def __init__(self, cluster: Cluster, say: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._say = say
        self._ports = cluster.fleet.options.ports

    def tell(self) -> Scene:
        """From the first scrape until all is well again.

        Raises
        ------
        StoryError
            If something does not happen in time.
        """
        start = time.time()
        hosts = len(MACHINES) + 1
        self._until(lambda: self._number('sum(up{job="hwsonde-exporter"})') == hosts, START, "all exporters")
        control = self._cluster.training.shim.control
        for _ in range(3):
            # An error of an application, long before anything is wrong. More than once: a counter that begins at 1 shows no increase.
            control.xid(XID_GPU, XID)
            time.sleep(8)
        self._until(
            lambda: self._number("sum(max by (node) (hwsonde_anomaly_calibrated))") == hosts, LEARNING, "learning"
        )
        self._quiet(REST)
        self._say("all hosts are learned and quiet")
        self._cluster.change_setting()
        time.sleep(25)
        moment, channel, incident = self._illness()
        self._until(lambda: not {BUSY, TRAINING} & self._ill(), END, "the end of both episodes")
        self._say("both hosts are well again")
        time.sleep(10)
        return Scene(start, time.time(), moment, channel, incident)

    def _illness(self) -> tuple[float, str, str]:
        """Both hosts fall ill and get well; gives the moment, the channel and the incident's identity."""
        machine, gpu = self._cluster.machines[BUSY], self._cluster.training.gpu
        with ExitStack() as illness:
            illness.callback(gpu.heat, 0.0)
            for part in HEATING:
                gpu.heat(part)
                time.sleep(3)
            self._until(lambda: TRAINING in self._ill(), ONSET, "the training host's episode")
            self._say(f"{TRAINING} is ill")
            illness.enter_context(machine.cpu_fault())
            self._until(lambda: BUSY in self._ill(), ONSET, "the busy host's episode")
            self._say(f"{BUSY} is ill")
            time.sleep(20)
            self._until(lambda: {BUSY, TRAINING} <= self._ill(), ONSET, "both episodes")
            moment = time.time() - 1
            channel, incident = self._channel(), self._incident()
            time.sleep(5)
        return moment, channel, incident

    def _channel(self) -> str:
        found = self._ask(f'topk(1, max by (channel) (hwsonde_anomaly_channel_share{{node="{TRAINING}"}}))')
        if not found:
            raise StoryError("the training host's episode names no channel")
        return str(found[0]["metric"]["channel"])

    def _incident(self) -> str:
        """Identity of the training host's open incident."""
        path = "/api/v1/incidents?" + urlencode({"state": "open", "host": TRAINING})
        try:
            listed = get_json(self._ports.detector, path, timeout=10)["incidents"]
        except FetchError as error:
            raise StoryError(f"the detector does not tell its incidents: {error}") from error
        if not listed:
            raise StoryError("the training host has no open incident")
        return str(listed[0]["id"])

    def _ill(self) -> set[str]:
        return {one["metric"]["node"] for one in self._ask(ACTIVE)}

    def _quiet(self, seconds: float) -> None:
        """Wait until no host has had an episode for 20 seconds."""
        calm = 0

        def at_rest() -> bool:
            nonlocal calm
            calm = 0 if self._number("count(hwsonde_incident_active) or vector(0)", 1.0) else calm + 1
            return calm >= 40

        self._until(at_rest, seconds, "quiet hosts")

    def _until(self, true: Callable[[], bool], seconds: float, what: str) -> None:
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                raise StoryError(f"{what}: not after {seconds:.0f} s; see {self._cluster.fleet.options.logs}")
            time.sleep(0.5)

    def _ask(self, expr: str) -> list[Any]:
        """What Prometheus answers now; nothing while it does not."""
        try:
            answer = get_json(self._ports.prometheus, f"/api/v1/query?{urlencode({'query': expr})}")
        except FetchError:
            return []
        found: list[Any] = answer["data"]["result"]
        return found

    def _number(self, expr: str, away: float = 0.0) -> float:
        found = self._ask(expr)
        return float(found[0]["value"][1]) if found else away

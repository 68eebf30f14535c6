"""Which labels are personal, and what they are replaced by where that is wanted.

At the level ``standard`` labels are published as collectors give them; what is personal (user names, process names, command
lines, serial numbers, addresses of other hosts) they give only where an option of theirs switches it on. At ``strict`` every
label that may name a person, a customer or a place in somebody's network is removed or replaced by a pseudonym, whatever
else is switched on.

A pseudonym is a keyed digest: the same text has the same one in every series of a host, and after a restart, so that series
can still be joined and followed. The key belongs to the host, so that nobody can tell which hosts share a file server, nor
try out names without having been on the host.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from hwsonde_exporter.metric import Metric

Labels = tuple[str, ...]
_PURPOSE = b"hwsonde privacy 1"
_DIGITS = 10


class Level(StrEnum):
    """How much is shown."""

    STANDARD = "standard"
    STRICT = "strict"


# Removed: nothing is lost by it that other labels do not tell.
_REMOVED = frozenset((
    "user", "username", "uid", "process", "comm", "command", "cmdline", "executable", "serial", "serial_number",
))  # fmt: skip
# Replaced by a pseudonym as a whole: series are joined by them, or differ in nothing else.
_REPLACED = frozenset((
    "hostname", "pod", "namespace", "container", "uuid", "mig_uuid", "guid", "wwn", "peer", "target", "address", "remote_address", "server",
    "rack", "export", "mac",
))  # fmt: skip
_PLACES = frozenset(("mountpoint", "path", "file", "filesystem", "pool"))
_UNITS = frozenset(("workload", "cgroup"))
# Peers are summed up by their kind of address, or by groups that the configuration names.
_KINDS_OF_PEERS = frozenset(("private", "public", "other", ""))

# Words in mount points that every host has, with a number behind them or not.
_WORDS = re.compile(
    r"(bin|boot|cache|containerd|containers|cvmfs|data|datasets|dev|disk|docker|efi|etc|export|firmware|fsx|gpfs|home|images|kubelet|lib"
    r"|local|log|lustre|media|mnt|models|nfs|nix|nvme|opt|overlay|proc|raid|root|run|scratch|shared|shm|spool|srv|ssd|state|store|sys"
    r"|tmp|usr|var|vol|volumes|weka|work)\d{0,3}"
)
_DEVICE = re.compile(
    r"/dev/(sd[a-z]+\d*|[vx]?vd[a-z]+\d*|nvme\d+n\d+(p\d+)?|mmcblk\d+(p\d+)?|md\d+(p\d+)?|dm-\d+|loop\d+|root)"
)
# What stands in a device's place for filesystems without one.
_NO_DEVICE = re.compile(r"(tmpfs|overlay|none|udev|devtmpfs|rootfs|shm|systemd-1|efivarfs)?")
# Whose a unit is: users' slices and services, and the instance of a template.
_OWNER = re.compile(r"(user[-@]|uid_|session-|jupyter-|(?<=\w)@)([^./@]+)")
_FREE_NAMES = frozenset(("cgroup", "lxc", "machined"))  # managers whose workloads people name as they like
_PLAIN_NAME = re.compile(r".+\.(service|scope|slice|socket|mount|timer)|job_\d+|[0-9a-f]{8,64}")


@dataclass(frozen=True, slots=True)
class Privacy:
    """Rules for labels.

    Attributes
    ----------
    level
        How much is shown.
    key
        Secret of the host that pseudonyms are made with, see `host_key`.
    """

    level: Level = Level.STANDARD
    key: bytes = b""

    def labels(self, metrics: Sequence[Metric], labels: Sequence[Labels]) -> Sequence[Labels]:
        """Label values as they may be published, n of them for n samples; the very same object if there is nothing to hide.

        Where a removal would make one series of two, the removed values are replaced by pseudonyms instead.
        """
        if self.level is Level.STANDARD:
            return labels
        plans = {metric: self._plan(metric) for metric in set(metrics)}
        if not any(plans.values()):
            return labels
        hidden = [self._hide(plans[metric], values) for metric, values in zip(metrics, labels, strict=True)]
        meant: dict[tuple[str, Labels], set[Labels]] = {}
        for metric, values, shown in zip(metrics, labels, hidden, strict=True):
            meant.setdefault((metric.name, shown), set()).add(values)
        for place, (metric, values) in enumerate(zip(metrics, labels, strict=True)):
            if len(meant[metric.name, hidden[place]]) > 1:
                hidden[place] = self._hide(dict.fromkeys(plans[metric], self.pseudonym), values)
        return hidden

    def pseudonym(self, text: str) -> str:
        """Name for a text that says nothing of it; empty for an empty text."""
        if not text:
            return ""
        return f"p-{hmac.new(self.key, text.encode('utf-8', 'surrogatepass'), sha256).hexdigest()[:_DIGITS]}"

    def place(self, path: str) -> str:
        """A path in which the words that every host has are left, and the others replaced."""
        return "/".join(
            part if not part or _WORDS.fullmatch(part) else self.pseudonym(part) for part in path.split("/")
        )

    def source(self, text: str) -> str:
        """What is mounted: a local disk's name is left, everything else (a server, a share, a volume group) replaced."""
        if _DEVICE.fullmatch(text) or _NO_DEVICE.fullmatch(text):
            return text
        return self.pseudonym(text)

    def unit(self, text: str) -> str:
        """Name of a control group or unit, without the number or name of the user whose it is."""
        head, colon, rest = text.partition(":")
        if colon and head in _FREE_NAMES:
            return f"{head}:{self.pseudonym(rest)}"
        return _OWNER.sub(lambda match: f"{match[1]}{self.pseudonym(match[2])}", text)

    def name(self, text: str) -> str:
        """Name of a workload: as of a unit where a program gave it, a pseudonym where a person did."""
        return self.unit(text) if _PLAIN_NAME.fullmatch(text) else self.pseudonym(text)

    def _hide(self, plan: Mapping[int, Callable[[str], str]], values: Labels) -> Labels:
        if not plan:
            return values
        hidden = list(values)
        for place, change in plan.items():
            if place < len(hidden) and isinstance(hidden[place], str):  # what is no label is refused elsewhere
                hidden[place] = change(hidden[place])
        return tuple(hidden)

    def _plan(self, metric: Metric) -> Mapping[int, Callable[[str], str]]:
        """What is done to the values of a metric's labels, by their places."""
        plan: dict[int, Callable[[str], str]] = {}
        for place, label in enumerate(metric.labels):
            if label in _REMOVED:
                plan[place] = _nothing
            elif label in _REPLACED:
                plan[place] = self.pseudonym
            elif label in _PLACES:
                plan[place] = self.place
            elif label in _UNITS:
                plan[place] = self.unit
            elif label == "name":
                plan[place] = self.name
            elif label == "remote":
                plan[place] = self._peer
            elif label == "device" and "mountpoint" in metric.labels:
                plan[place] = self.source
            elif label == "device" and metric.name == "hwsonde_setting_info":
                plan[place] = self._setting_device
        return plan

    def _peer(self, text: str) -> str:
        return text if text in _KINDS_OF_PEERS else self.pseudonym(text)

    def _setting_device(self, text: str) -> str:
        # Of all settings only those of mounts have a path for a device.
        return self.place(text) if text.startswith("/") else text


SHOW = Privacy()


def host_key(identity: bytes) -> bytes:
    """Key for pseudonyms from what identifies a host (the content of /etc/machine-id); machine-id(5) asks not to use it itself."""
    return hmac.new(identity.strip(), _PURPOSE, sha256).digest()


def _nothing(_: str) -> str:
    return ""

"""What pods, containers and users are called, as far as files on the host tell it without asking anybody."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._files import entries
from hwsonde_exporter.collectors._workload_names import Identity

# Made by the kubelet: POD_NAMESPACE_CONTAINER-ID.log, and folders NAMESPACE_POD_UID; no part but the container's may hold "_".
_LOG = re.compile(r"([a-z0-9.-]{1,253})_([a-z0-9-]{1,63})_([a-z0-9-]{1,63})-([0-9a-f]{64})\.log")
_FOLDER = re.compile(r"([a-z0-9-]{1,63})_([a-z0-9.-]{1,253})_([0-9a-f-]{32,36})")
_MAX_NAMES = 20_000


@dataclass(frozen=True, slots=True)
class PodNames:
    """Names by number: ``containers`` gives namespace, pod and container, ``pods`` namespace and pod."""

    containers: Mapping[str, tuple[str, str, str]]
    pods: Mapping[str, tuple[str, str]]

    def of(self, identity: Identity) -> tuple[str, str, str]:
        """Namespace, pod and container of a workload; empty where they are not known."""
        if identity.container_id in self.containers:
            return self.containers[identity.container_id]
        return (*self.pods.get(identity.pod_uid, ("", "")), "")


def read_pod_names(rootfs: str) -> PodNames:
    """Names from the kubelet's log folders; empty on a host without a kubelet."""
    base = f"{rootfs.rstrip('/')}/var/log"
    containers = {}
    for name in entries(f"{base}/containers")[:_MAX_NAMES]:
        log = _LOG.fullmatch(name)
        if log is not None:
            pod, namespace, container, number = log.groups()
            containers[number] = (namespace, pod, container)
    pods = {}
    for name in entries(f"{base}/pods")[:_MAX_NAMES]:
        folder = _FOLDER.fullmatch(name)
        if folder is not None:
            pods[folder.group(3)] = (folder.group(1), folder.group(2))
    return PodNames(containers, pods)


def parse_passwd(data: bytes) -> dict[str, str]:
    """Parse /etc/passwd: user number -> name."""
    users: dict[str, str] = {}
    for line in parsing.lines(data):
        fields = line.split(b":")
        if len(fields) >= 3 and parsing.number(fields[2]) is not None:
            users.setdefault(fields[2].decode("ascii"), parsing.text(fields[0]))
    return users

from ipaddress import ip_network

import pytest

from hwsonde_exporter.config import load
from hwsonde_exporter.errors import ConfigError
from hwsonde_exporter.mesh.sender import Peer
from hwsonde_exporter.mesh.service import MeshSettings
from hwsonde_exporter.registry import load_collectors

KINDS = load_collectors()
PEERS = "--collector.network_probe.peers"
GROUPS = "--collector.network_latency.groups"


def test_nothing_is_probed_if_nobody_says_so() -> None:
    settings = load([], KINDS).exporter
    assert settings.mesh == MeshSettings()
    assert settings.remote_groups == ()
    assert "network_probe" not in settings.runner.enabled


def test_peers_groups_and_address_are_read() -> None:
    flags = [f"{PEERS}=a=10.0.0.9:9881", f"{PEERS}=rack-2.b=[fd00::9]:9", f"{PEERS}=c=host.example:9881"]
    flags += [f"{GROUPS}=rack-a=10.1.0.0/16", f"{GROUPS}=rack-a=fd00:1::/64"]
    flags += ["--collector.network_probe.listen-address=:9881", "--collector.network_probe.interval=0.5"]
    settings = load(flags, KINDS).exporter
    peers = (Peer("a", "10.0.0.9", 9881), Peer("rack-2.b", "fd00::9", 9), Peer("c", "host.example", 9881))
    assert settings.mesh == MeshSettings(peers, ("", 9881), 0.5)
    assert settings.remote_groups == (("rack-a", ip_network("10.1.0.0/16")), ("rack-a", ip_network("fd00:1::/64")))


@pytest.mark.parametrize(
    "flag",
    [
        f"{PEERS}=10.0.0.9:9881",
        f"{PEERS}=10.0.0.9=10.0.0.9:9881",
        f"{PEERS}=a=:9881",
        f"{PEERS}=a=10.0.0.9",
        f"{PEERS}=a=10.0.0.9:0",
        f"{PEERS}=a b=10.0.0.9:1",
        f"{PEERS}==10.0.0.9:1",
        f"{GROUPS}=10.0.0.0/8",
        f"{GROUPS}=a=10.0.0.1/8",
        f"{GROUPS}=a=rack",
        f"{GROUPS}=fd00::1=10.0.0.0/8",
        "--collector.network_probe.listen-address=:0",
        "--collector.network_probe.interval=0",
    ],
)
def test_what_is_wrong_is_one_line(flag: str) -> None:
    with pytest.raises(ConfigError, match="is not allowed; allowed: ") as caught:
        load([flag], KINDS)
    assert "\n" not in str(caught.value)


def test_names_are_given_once_and_peers_are_bounded() -> None:
    with pytest.raises(ConfigError, match="'a' is not allowed twice"):
        load([f"{PEERS}=a=10.0.0.9:1", f"{PEERS}=a=10.0.0.8:1"], KINDS)
    with pytest.raises(ConfigError, match="at most 256"):
        load([f"{PEERS}=a{n}=10.0.0.9:1" for n in range(257)], KINDS)

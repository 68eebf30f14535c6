"""What strict privacy hides, and what it must leave so that series can still be used."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.config import load
from hwsonde_exporter.errors import ConfigError
from hwsonde_exporter.exposition import block_of, render
from hwsonde_exporter.guard import Guard
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.privacy import SHOW, Level, Privacy, host_key
from hwsonde_exporter.privacy_key import read_host_key
from hwsonde_exporter.registry import load_collectors
from tests.exporter.collectors.hosts import NAMES, fixture_host, samples_of

STRICT = Privacy(Level.STRICT, host_key(b"0123456789abcdef0123456789abcdef\n"))
OTHER = Privacy(Level.STRICT, host_key(b"fedcba9876543210fedcba9876543210\n"))
# What the fixture hosts hold that is somebody's: names of hosts, servers, shares, users.
PERSONAL = (
    "vm-example", "node192", "filer", "files.example.net", "home share", "/export/home", "192.0.2.1", "alice", "user-1000", '"lfs"',
    "amd-07", "docker-3", "thinker",
)  # fmt: skip
HARMLESS = frozenset((
    "action", "agent", "allowance", "area", "available", "board_id", "bond", "cache", "cause", "chip", "class", "clock", "codepoint",
    "condition", "constraint", "controller", "core", "cpu", "current", "device", "device_id", "die", "dimm", "direction", "domain", "driver",
    "driver_version", "duplex", "error", "event", "family", "firmware_version", "fstype", "hca_type", "job_id", "kernel", "kind", "label",
    "level", "limit", "link_layer", "machine", "manager", "member", "metadata", "microcode", "mode", "model", "model_name", "netdev",
    "numa_node", "operation", "os", "outcome", "package", "pci_bus_id", "phase", "port", "priority", "product", "protocol", "queue",
    "reason", "resource", "result", "rotational", "scheduler", "scope", "sensor", "setting", "severity", "side", "size", "slot", "socket",
    "source", "state", "statistic", "stepping", "transport", "type", "value", "vector", "vendor", "vendor_id", "zone",
    # Of GPUs.
    "architecture", "aspect", "availability", "board_part_number", "call", "compute_capability", "compute_instance", "cuda_version",
    "engine", "fan", "gpu", "gpu_instance", "gsp_version", "inforom_version", "kernel_module_version", "link", "location", "nvml_version", "pid",
    "pipe", "profile", "reading", "remote_pci_bus_id", "remote_type", "switch", "sxid", "threshold", "unit", "vbios_version", "xid",
))  # fmt: skip


def metric(*labels: str, name: str = "hwsonde_thing_info", kind: Kind = Kind.GAUGE) -> Metric:
    return Metric(name, kind, "Thing.", labels, subsystem="exporter", source="-")


def hidden(*pairs: tuple[str, str], privacy: Privacy = STRICT, name: str = "hwsonde_thing_info") -> tuple[str, ...]:
    """The values that are shown of labels given as (name, value)."""
    labels, values = zip(*pairs, strict=True)
    return tuple(privacy.labels([metric(*labels, name=name)], [values])[0])


def test_standard_hides_nothing_and_costs_nothing() -> None:
    labels = [("alice",)]
    assert SHOW.labels([metric("user")], labels) is labels


def test_strict_leaves_a_collector_without_personal_labels_as_it_is() -> None:
    labels = [("nvme0n1", "read")]
    assert STRICT.labels([metric("device", "operation")], labels) is labels


@pytest.mark.parametrize("label", ["user", "process", "command", "serial", "serial_number"])
def test_names_of_people_processes_and_serials_are_removed(label: str) -> None:
    assert hidden(("device", "nvme0"), (label, "S3CRET")) == ("nvme0", "")


@pytest.mark.parametrize("label", ["hostname", "export", "uuid", "pod", "namespace", "container", "peer"])
def test_what_series_are_joined_by_becomes_a_pseudonym(label: str) -> None:
    (shown,) = hidden((label, "filer.example.net:/home"))
    assert shown == hidden((label, "filer.example.net:/home"))[0]
    assert shown != hidden((label, "filer.example.net:/data"))[0]
    assert shown != hidden((label, "filer.example.net:/home"), privacy=OTHER)[0]
    assert shown.startswith("p-")
    assert "filer" not in shown
    assert hidden((label, ""))[0] == ""


def test_of_mount_points_the_words_that_every_host_has_are_left() -> None:
    assert [STRICT.place(path) for path in ("/", "/boot/efi", "/mnt/nvme0", "/var/lib/containerd", "/scratch2")] == [
        "/", "/boot/efi", "/mnt/nvme0", "/var/lib/containerd", "/scratch2",
    ]  # fmt: skip
    assert STRICT.place("/home/alice") == f"/home/{STRICT.pseudonym('alice')}"


@pytest.mark.parametrize("device", ["/dev/vda1", "/dev/nvme0n1p2", "/dev/md0", "/dev/dm-3", "tmpfs", "overlay", ""])
def test_local_disks_keep_their_names(device: str) -> None:
    assert hidden(("mountpoint", "/"), ("device", device), ("fstype", "ext4")) == ("/", device, "ext4")


@pytest.mark.parametrize(
    "device", ["filer:/home", "//server/share", "192.0.2.1@o2ib:/lfs", "/dev/mapper/alice--vg-root"]
)
def test_servers_and_volume_groups_do_not(device: str) -> None:
    assert hidden(("mountpoint", "/"), ("device", device))[1] == STRICT.pseudonym(device)


def test_a_setting_of_a_mount_hides_its_place_and_no_other_setting_does() -> None:
    name = "hwsonde_setting_info"
    assert hidden(("setting", "mount.access"), ("device", "/home/alice"), ("value", "rw"), name=name)[
        1
    ] == STRICT.place("/home/alice")
    assert hidden(("setting", "network.mtu_bytes"), ("device", "eth0"), ("value", "9000"), name=name)[1] == "eth0"


def test_units_lose_their_user_only() -> None:
    assert STRICT.unit("slurm:1234") == "slurm:1234"
    assert STRICT.unit("systemd:sshd.service") == "systemd:sshd.service"
    assert STRICT.unit("systemd:user-1000.slice") == f"systemd:user-{STRICT.pseudonym('1000')}.slice"
    assert "lab7" not in STRICT.unit("cgroup:/lab7/job")
    for unit in ("user@1000.service", "jupyter-alice.service", "vpn@alice.service", "lxc:alice", "machined:alice"):
        assert "alice" not in STRICT.unit(unit)
        assert "1000" not in STRICT.unit(unit)
    assert (STRICT.name("sshd.service"), STRICT.name("job_7"), STRICT.name("4f1c0d5e9a3b")) == (
        "sshd.service",
        "job_7",
        "4f1c0d5e9a3b",
    )
    assert STRICT.name("alices-vm") == STRICT.pseudonym("alices-vm")


def test_peers_are_known_by_kind_or_not_at_all() -> None:
    assert hidden(("remote", "private")) == ("private",)
    assert hidden(("remote", "rack12")) == (STRICT.pseudonym("rack12"),)


def test_series_that_a_removal_would_merge_stay_apart() -> None:
    table = [metric("user")] * 3
    shown = STRICT.labels(table, [("alice",), ("bob",), ("alice",)])
    assert shown == [(STRICT.pseudonym("alice"),), (STRICT.pseudonym("bob"),), (STRICT.pseudonym("alice"),)]


def test_both_samples_of_a_summary_keep_one_label() -> None:
    summary = metric("uuid", name="hwsonde_thing_sampled_watts", kind=Kind.SUMMARY)
    samples = [Sample(summary, ("GPU-1",), 1.0, "_sum"), Sample(summary, ("GPU-1",), 2.0, "_count")]
    block = block_of(samples, privacy=STRICT)
    assert {sample.labels for sample in block.samples} == {(STRICT.pseudonym("GPU-1"),)}
    assert b"GPU-1" not in render([block])


@given(st.lists(st.tuples(st.text(), st.text(), st.text()), max_size=8))
def test_any_text_is_hidden_in_both_forms_and_none_merges(rows: list[tuple[str, str, str]]) -> None:
    table = metric("user", "mountpoint", "device")
    shown = STRICT.labels([table] * len(rows), rows)
    assert len(set(shown)) == len(set(rows))
    assert all(user == "" or user.startswith("p-") for user, _, _ in shown)


def test_the_guard_hides_and_changes_its_mind() -> None:
    table = metric("user")
    guard = Guard([table], 10)
    assert guard.block([Sample(table, ("alice",), 1)])[0].samples[0].labels == ("alice",)
    guard.privacy = STRICT
    for _ in range(2):
        block, dropped = guard.block([Sample(table, ("alice",), 1)])
        assert block.samples[0].labels == ("",)
        assert not dropped
    assert guard.block([Sample(table, (3,), 1)])[1] == {"undeclared": 1}  # type: ignore[arg-type]


def test_every_label_is_hidden_or_known_to_tell_nothing_of_anybody() -> None:
    """A collector that brings a new label makes this fail: say in `privacy` what becomes of it, or add it to HARMLESS."""
    kinds = load_collectors().values()
    metrics = [metric for kind in kinds for metric in kind.metrics]
    metrics += [quantity.metric for kind in kinds for quantity in getattr(kind, "quantities", ())]
    left = {
        label for metric in metrics for place, label in enumerate(metric.labels) if place not in STRICT._plan(metric)
    }
    assert left <= HARMLESS


def test_the_option_is_a_flag_and_a_key_without_a_section(tmp_path: Path) -> None:
    file = tmp_path / "exporter.yaml"
    file.write_text("privacy: strict\n")
    kinds = load_collectors()
    assert load([], kinds).exporter.runner.privacy == SHOW
    for flags in (["--privacy", "strict"], ["--config.file", str(file)]):
        chosen = load(flags, kinds).exporter.runner.privacy
        assert chosen.level is Level.STRICT
        assert len(chosen.key) == 32
    file.write_text("privacy: some\n")
    with pytest.raises(
        ConfigError, match=r"exporter.yaml:1: privacy: 'some' is not allowed; allowed: standard or strict"
    ):
        load(["--config.file", str(file)], kinds)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_the_fixture_hosts_leaks(name: str) -> None:
    plain, strict = b"", b""
    for samples in samples_of(fixture_host(name)).values():
        plain += render([block_of(samples)])
        block = block_of(samples, privacy=STRICT)
        assert block.shape.size == block_of(samples).shape.size, "a series was lost"
        strict += render([block])
    assert any(word in plain.decode() for word in PERSONAL)
    series = [line for line in strict.decode().splitlines() if not line.startswith("#")]
    for word in PERSONAL:
        assert not [line for line in series if word in line]


def test_the_key_is_the_hosts_and_survives_a_restart(tmp_path: Path) -> None:
    first, second = read_host_key(tmp_path, tmp_path), read_host_key(tmp_path, tmp_path)
    assert first != second, "nothing identifies this host: a new key each time"
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("8f14e45f-ceea-467f-a9e3-1a3c5c4e6b0d\n")
    boot = read_host_key(tmp_path, tmp_path)
    assert boot == read_host_key(tmp_path, tmp_path)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/machine-id").write_text("uninitialized\n")
    assert read_host_key(tmp_path, tmp_path) == boot
    (tmp_path / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    assert read_host_key(tmp_path, tmp_path) == STRICT.key

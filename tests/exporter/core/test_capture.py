# ruff: noqa: E501  (what is compared stands on one line)
"""Records of hosts: what is in them, what is not, and that they can take the host's place."""

import json
import os
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwsonde_exporter.anonymous import Anonymiser, without_device_serial
from hwsonde_exporter.capture import anonymised, capture, summary, write_archive
from hwsonde_exporter.config import load
from hwsonde_exporter.host import Host, Paths
from hwsonde_exporter.recording import Builder, RecordingReader, Seen, Tree, watched
from hwsonde_exporter.registry import load_collectors
from tests.exporter.collectors.hosts import HOSTS, NAMES, values
from tests.exporter.collectors.hosts import collectors as collectors_of
from tests.exporter.core.test_cli import run


def anonymiser(**names: list[str]) -> Anonymiser:
    return Anonymiser(
        names.get("hosts", ["gpu-node-17.lab.example", "gpu-node-17"]), names.get("users", ["alice"]), b"key"
    )


def content(path: str, text: str, used: Anonymiser | None = None) -> str:
    return (used or anonymiser()).content(path.split("/"), text.encode("latin-1")).decode("latin-1")


# ---- replacing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("proc/sys/kernel/hostname", "gpu-node-17\n", r"host1\n"),
        ("proc/sys/kernel/domainname", "(none)\n", r"\(none\)\n"),
        ("sys/class/net/eth0/address", "a0:88:c2:12:34:56\n", r"02:00:00:00:00:01\n"),
        ("sys/class/net/lo/address", "00:00:00:00:00:00\n", r"00:00:00:00:00:00\n"),
        ("sys/class/net/eth0/broadcast", "ff:ff:ff:ff:ff:ff\n", r"ff:ff:ff:ff:ff:ff\n"),
        ("sys/class/net/ib0/address", "00:00:10:49:fe:80:00:00:00:00:00:00:b8:3f:d2:03:00:9c:e2:d4\n", r"02(:00){18}:01\n"),
        ("sys/class/infiniband/mlx5_0/node_guid", "b83f:d203:009c:e2d4\n", r"0000:0000:0000:0001\n"),
        ("sys/x/gids/0", "fe80:0000:0000:0000:ba3f:d2ff:fe9c:e2d4\n", r"fe80:0000:0000:0000:0000:0000:0000:0001\n"),
        ("sys/x/gids/1", "0000:0000:0000:0000:0000:0000:0000:0000\n", r"(0000:){7}0000\n"),
        ("sys/x/gids/2", "0000:0000:0000:0000:0000:ffff:0a01:0203\n", r"0000:(0000:){6}0001\n"),
        ("sys/class/dmi/id/product_serial", "J123ABC4\n", r"SERIAL0001\n"),
        ("sys/class/dmi/id/product_name", "PowerEdge XE9680\n", r"PowerEdge XE9680\n"),
        ("sys/class/nvme/nvme0/serial", "S64HNE0T  \n", r"SERIAL0001  \n"),
        ("sys/class/nvme/nvme0/firmware_rev", "1.2.3.4\n", r"1\.2\.3\.4\n"),
        ("sys/block/sda/device/wwid", "naa.5000c500a1b2c3d4\n", r"SERIAL0001\n"),
        ("sys/class/infiniband/mlx5_0/fw_ver", "28.39.10.2\n", r"28\.39\.10\.2\n"),
        ("proc/net/arp", "10.20.30.40  0x1 a0:88:c2:12:34:56 * eth0\n", r"198\.18\.0\.1  0x1 02:00:00:00:00:01 \* eth0\n"),
        ("proc/net/route", "lo 127.0.0.1 0.0.0.0 255.255.255.0\n", r"lo 127\.0\.0\.1 0\.0\.0\.0 255\.255\.255\.0\n"),
        ("proc/net/tcp", " 0: 0100A8C0:1F90 00000000:0000 0A\n", r" 0: 00000001:1F90 00000000:0000 0A\n"),
        ("proc/1/cgroup", "0::/kubepods/pod1f2e3d4c-1111-2222-3333-444455556666\n", r"0::/kubepods/pod00000000-0000-0000-0000-000000000001\n"),
        ("proc/1/cgroup", "0::/user.slice/user-1234.slice/user@1234.service\n", r"0::/user.slice/user-1000.slice/user@1000.service\n"),
        ("proc/1/cgroup", "0::/system.slice/user-0.slice\n", r"0::/system.slice/user-0.slice\n"),
        ("proc/7/comm", "secret-trainer\n", r"task1\n"),
        ("proc/2/comm", "kthreadd\n", r"kthreadd\n"),
        ("proc/7/cmdline", "python\0--token=abc\0", r"command1\0"),
        ("proc/7/cmdline", "", r""),
        ("proc/7/stat", "7 (a (b) c) S 1 2\n", r"7 \(task1\) S 1 2\n"),
        ("proc/7/status", "Name:\tsecret\nUid:\t1000\t1000\t0\nThreads:\t1000\n", r"Name:\ttask1\nUid:\t1000\t1000\t0\nThreads:\t1000\n"),
        ("proc/cmdline", "root=UUID=1f2e isolcpus=2-3 quiet ip=gpu:1 nosmt -- init secret\n", r"root=replaced isolcpus=2-3 quiet ip=replaced nosmt\n"),
        ("proc/mdstat", "md0 : active raid1 on gpu-node-17\n", r"md0 : active raid1 on host1\n"),
        ("proc/version", "Linux version 6.1 (bob@build.corp.example) #1\n", r"Linux version 6\.1 \(somebody1@example\.org\) #1\n"),
        ("sys/a/cpus", "ffffffff,ffffffff\n", r"ffffffff,ffffffff\n"),
        ("sys/a/siblings", "8000000000000000000000008000000000000000\n", r"8000000000000000000000008000000000000000\n"),
        ("proc/vmstat", "nr_free_pages 123456789012\n", r"nr_free_pages 123456789012\n"),
    ],
)  # fmt: skip
def test_what_is_replaced_and_what_is_not(path: str, text: str, expected: str) -> None:
    assert re.fullmatch(expected, content(path, text))


@pytest.mark.parametrize(
    ("line", "gone", "kept"),
    [
        ("40 1 0:40 / /home/alice/work rw - nfs4 filer.corp.example:/export/alice rw,addr=10.1.2.3,clientaddr=10.1.2.4\n", ("alice", "filer", "corp", "10.1"), ("nfs4", "/home/", "rw")),
        ("41 1 0:41 / /mnt/acme rw - cifs //srv/share rw,username=alice,domain=CORP,uid=1005\n", ("acme", "srv", "share", "alice", "CORP", "1005"), ("cifs", "/mnt/")),
        ("42 1 0:42 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n", (), ("/sys/fs/cgroup/systemd", "name=systemd")),
        ("43 1 0:43 / /var/lib/x rw - overlay overlay rw,lowerdir=/home/alice/a:/b,upperdir=/c/secret\n", ("alice", "secret"), ("overlay", "lowerdir=/home/")),
        ("44 1 259:1 / / rw - ext4 /dev/nvme0n1p1 rw\n", (), ("/dev/nvme0n1p1", " / ")),
        ("45 1 253:0 / /data rw - xfs /dev/mapper/vg-acme rw\n", ("acme",), ("/data", "xfs")),
        ("46 1 0:46 / /run/user/1234 rw - tmpfs tmpfs rw\n", ("1234",), ("/run/user/", "tmpfs")),
        ("47 1 0:47 / /mnt/x rw - tmpfs customer-acme rw\n", ("acme",), ("tmpfs", "/mnt/")),
        ("48 1 0:48 / /proc rw - proc proc rw\n", (), ("- proc proc rw", "/proc")),
        ("49 1 0:49 / /dev rw - devtmpfs udev rw\n", (), ("devtmpfs udev",)),
        ("garbled - line\n", (), ("garbled - line",)),
        ("", (), ()),
    ],
)  # fmt: skip
def test_mounts(line: str, gone: tuple[str, ...], kept: tuple[str, ...]) -> None:
    found = content("proc/1/mountinfo", line)
    assert found.count(" ") == line.count(" ")
    for word in gone:
        assert word not in found, word
    for word in kept:
        assert word in found, word


def test_the_same_becomes_the_same_everywhere() -> None:
    used = anonymiser()
    address = content("sys/class/net/enxa088c2123456/address", "a0:88:c2:12:34:56\n", used).strip()
    assert content("proc/net/arp", f"x {'a0:88:c2:12:34:56'.upper()} y\n", used) == f"x {address} y\n"
    pod = "1f2e3d4c-1111-2222-3333-444455556666"
    in_path = used.name(f"kubepods-pod{pod.replace('-', '_')}.slice")
    assert "_".join(content("proc/1/cgroup", f"0::/pod{pod}\n", used).strip().partition("pod")[2].split("-")) in in_path
    assert used.name("enxa088c2123456") == used.name("enxa088c2123456") != "enxa088c2123456"
    assert (
        content("proc/7/comm", "abc\n", used)
        == content("proc/8/comm", "abc\n", used)
        != content("proc/9/comm", "abd\n", used)
    )
    assert any("hardware addresses" in line for line in used.summary())


@given(
    st.text(alphabet="0123456789abcdefABCDEF:.-_ ()/@\n\0x", max_size=80)
    | st.binary(max_size=80).map(lambda data: data.decode("latin-1"))
)
@settings(max_examples=300, deadline=None)
def test_any_content_is_replaced_once_and_for_all(text: str) -> None:
    for path in (
        "proc/1/mountinfo",
        "proc/7/stat",
        "proc/7/status",
        "proc/cmdline",
        "sys/class/dmi/id/product_serial",
        "sys/a/b",
        "sys/a/config",
    ):
        found = content(path, text)
        assert content(path, text) == found, "the same host gives the same record but for its key"
        assert found.count("\n") <= text.count("\n") + 1


def test_names_of_pods_are_replaced() -> None:
    parts = anonymiser().path(("root", "var", "log", "pods", "team-a_trainer-0_1f2e3d4c-1111-2222-3333-444455556666"))
    assert parts == ("root", "var", "log", "pods", "name1_name2_00000000-0000-0000-0000-000000000001")


def test_the_serial_number_in_a_pci_devices_configuration_is_removed() -> None:
    serial = bytes(range(1, 9))
    config = bytearray(4096)
    config[0x100:0x104] = (0x0001 | 1 << 16 | 0x140 << 20).to_bytes(
        4, "little"
    )  # advanced error reporting, next at 0x140
    config[0x140:0x144] = (0x0003 | 1 << 16).to_bytes(4, "little")  # device serial number, the last one
    config[0x144:0x14C] = serial
    clean = without_device_serial(bytes(config))
    assert serial not in clean
    assert len(clean) == 4096
    assert clean[:0x144] == bytes(config[:0x144])


@given(st.binary(max_size=300) | st.binary(min_size=256, max_size=4096))
@settings(max_examples=100, deadline=None)
def test_any_configuration_space_keeps_its_length(config: bytes) -> None:
    assert len(without_device_serial(config)) == len(config)


def test_a_file_that_still_holds_what_was_replaced_is_left_out() -> None:
    tree = Tree()
    tree.put(("sys", "a", "serial"), b"ABC12345678\n")
    tree.put(("sys", "a", "odd"), b"xxABC12345678xx\n")
    tree.put(("sys", "a", "good"), b"1\n")
    clean, withheld = anonymised(tree, anonymiser())
    assert withheld == ["sys/a/odd"]
    assert clean.entries[("sys", "a", "serial")] == b"SERIAL0001\n"
    assert ("sys", "a", "good") in clean.entries
    assert ("sys", "a", "odd") not in clean.entries


# ---- recording -----------------------------------------------------------------------------------------------------


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A small host with the kinds of files and links that sysfs has."""
    device = tmp_path / "sys/devices/pci0000:00/0000:00:1f.6"
    (device / "net/eth0").mkdir(parents=True)
    (device / "net/eth0/mtu").write_text("1500\n")
    (device / "net/eth0/speed").write_text("1000\n")
    (device / "numa_node").write_text("0\n")
    (device / "driver").symlink_to("../../../bus/pci/drivers/e1000e")
    (tmp_path / "sys/bus/pci/drivers/e1000e").mkdir(parents=True)
    (device / "net/eth0/device").symlink_to("../../../0000:00:1f.6")
    (tmp_path / "sys/class/net").mkdir(parents=True)
    (tmp_path / "sys/class/net/eth0").symlink_to("../../devices/pci0000:00/0000:00:1f.6/net/eth0")
    for number in ("1", "2", "3"):
        (tmp_path / "proc" / number).mkdir(parents=True)
        (tmp_path / "proc" / number / "stat").write_text(f"{number} (x) S\n")
    for number in ("1", "3"):
        (tmp_path / "proc" / number / "net").mkdir()
        (tmp_path / "proc" / number / "net/snmp").write_text("Ip: a\nIp: 1\n")
    (tmp_path / "proc/2/net").mkdir()
    (tmp_path / "proc/2/net/snmp").hardlink_to(tmp_path / "proc/1/net/snmp")
    (tmp_path / "proc/1/cwd").symlink_to("/home/alice")
    (tmp_path / "proc/self").symlink_to("2")
    (tmp_path / "root/etc").mkdir(parents=True)
    (tmp_path / "root/etc/os-release").write_text("ID=x\n")
    (tmp_path / "root/etc/shadow").write_text("secret\n")
    return tmp_path


def paths_of(folder: Path) -> Paths:
    return Paths(folder / "proc", folder / "sys", folder / "root")


def built(host: Path, work: object) -> Tree:
    seen = Seen()
    with watched(seen):
        work(Host(paths_of(host), RecordingReader(seen)))  # type: ignore[operator]
    return Builder(paths_of(host)).build(seen)


def test_what_is_read_is_copied_with_the_links_that_lead_there(host: Path) -> None:
    tree = built(host, lambda it: it.files.read(it.paths.sys("class/net/eth0/device/numa_node")))
    place = ("sys", "devices", "pci0000:00", "0000:00:1f.6")
    assert tree.entries[("sys", "class", "net", "eth0")] == "../../devices/pci0000:00/0000:00:1f.6/net/eth0"
    assert tree.entries[(*place, "net", "eth0", "device")] == "../../../0000:00:1f.6"
    assert tree.entries[(*place, "numa_node")] == b"0\n"
    assert tree.entries[(*place, "driver")] == "../../../bus/pci/drivers/e1000e"
    assert tree.entries[("sys", "bus", "pci", "drivers", "e1000e")] is None
    assert (*place, "net", "eth0", "mtu") not in tree.entries


def test_what_is_listed_keeps_its_names(host: Path) -> None:
    tree = built(host, lambda it: list(it.paths.sys("class/net/eth0").iterdir()))
    place = ("sys", "devices", "pci0000:00", "0000:00:1f.6", "net", "eth0")
    assert tree.entries[(*place, "mtu")] == b""
    assert tree.entries[(*place, "device")] == "../../../0000:00:1f.6"


def test_what_is_only_looked_for_is_there(host: Path) -> None:
    def look(it: Host) -> None:
        assert it.paths.proc("1/stat").exists()
        assert (it.paths.rootfs / "etc/shadow").exists()
        it.paths.sys("class/net/eth0").readlink()
        (it.paths.rootfs / "etc/os-release").read_bytes()

    tree = built(host, look)
    assert tree.entries[("proc", "1", "stat")] == b"1 (x) S\n"
    assert tree.entries[("root", "etc", "shadow")] == b"", "that it is there counts, what is in it does not"
    assert ("sys", "class", "net", "eth0") in tree.entries


def test_processes_of_one_network_namespace_share_it_in_the_copy(host: Path) -> None:
    def look(it: Host) -> None:
        list(it.paths.procfs.iterdir())
        it.files.read(it.paths.proc("2/net/snmp"))
        it.files.read(it.paths.proc("3/net/snmp"))

    tree = built(host, look)
    assert tree.entries[("proc", "2", "net")] == "../1/net"
    assert tree.entries[("proc", "1", "net", "snmp")] == b"Ip: a\nIp: 1\n"
    assert tree.entries[("proc", "3", "net", "snmp")] == b"Ip: a\nIp: 1\n"
    assert ("proc", "self") not in tree.entries


def test_links_out_of_the_tree_are_not_followed(host: Path) -> None:
    def look(it: Host) -> None:
        list(it.paths.proc("1").iterdir())
        it.paths.proc("1/cwd").readlink()

    assert ("proc", "1", "cwd") not in built(host, look).entries


def test_links_in_a_circle_end(host: Path) -> None:
    (host / "sys/a").symlink_to("b")
    (host / "sys/b").symlink_to("a")
    built(host, lambda it: it.paths.sys("a/x").exists())
    built(host, lambda it: it.paths.sys("a").exists())


def test_watching_ends(host: Path) -> None:
    before = os.stat, os.open, os.listdir
    seen = Seen()
    with pytest.raises(RuntimeError), watched(seen):
        raise RuntimeError
    assert (os.stat, os.open, os.listdir) == before


def test_what_is_too_large_is_named(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hwsonde_exporter import recording

    monkeypatch.setattr(recording, "MAX_FILE_BYTES", 4)
    tree = built(host, lambda it: it.files.read(it.paths.proc("1/stat")))
    assert tree.left_out == {"proc/1/stat": "larger than 0 MiB"}
    monkeypatch.undo()
    monkeypatch.setattr(recording, "MAX_ENTRIES", 3)
    assert "..." in built(host, lambda it: [it.files.read(it.paths.proc(f"{n}/net/snmp")) for n in "123"]).left_out


# ---- whole hosts ---------------------------------------------------------------------------------------------------


def record(name: str, target: Path) -> dict[str, Any]:
    """Record of a fixture host, made by the command; gives its note."""
    source = HOSTS / name
    done = run("capture", *(f"--path.{kind}fs={source / kind}" for kind in ("proc", "sys", "root")), str(target))
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads((target / "capture.json").read_text())  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", NAMES)
def test_a_record_of_a_fixture_host_gives_the_same_series(name: str, tmp_path: Path) -> None:
    target = tmp_path / "record"
    note = record(name, target)
    # The fixtures have no mount points that could be asked for their size; the record has.
    assert set(note["replay_differs"]) <= {"filesystem", "settings"}
    assert note["withheld"] == []
    assert note["series"] > 500
    host_name = (HOSTS / name / "proc/sys/kernel/hostname").read_text().strip().encode()
    for path in target.rglob("*"):
        assert host_name not in path.name.encode()
        if len(host_name) > 4 and path.is_file() and not path.is_symlink():
            assert host_name not in path.read_bytes(), path


def test_values_are_those_that_were_read(tmp_path: Path) -> None:
    target, source = tmp_path / "record", HOSTS / "vm"
    record("vm", target)
    for name in ("cpu", "memory", "pressure", "storage", "tcp"):
        both = []
        for folder in (source, target):
            host = Host(paths_of(folder))
            both.append(next(values(list(c.collect())) for c in collectors_of(host) if c.name == name))
            host.files.close()
        assert both[0] == both[1], name


def test_this_machine_into_an_archive(tmp_path: Path) -> None:
    target = tmp_path / "here.tar.gz"
    done = run("capture", str(target))
    assert (done.returncode, done.stderr) == (0, "")
    assert "replaced: " in done.stdout
    with tarfile.open(target) as archive:
        members = archive.getmembers()
        assert all(member.name.split("/")[0] == "here" for member in members)
        assert all((member.uid, member.gid, member.mtime, member.uname) == (0, 0, 0, "") for member in members)
        assert "here/proc/stat" in archive.getnames()
        archive.extractall(tmp_path)
    replayed = run("once", *(f"--path.{kind}fs={tmp_path / 'here' / kind}" for kind in ("proc", "sys", "root")))
    assert "hwsonde_cpu_" in replayed.stdout
    again = run("capture", str(target))
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    assert "is there already" in again.stderr


def test_where_nothing_can_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    for target, words in ((tmp_path / "full", "not empty"), (tmp_path / "no" / "such", "make it first")):
        done = run("capture", str(target))
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert words in done.stderr
    assert "usage: hwsonde-exporter capture" in run("capture", "--help").stdout
    assert run("capture").returncode == 2


def test_the_summary_names_what_differs(tmp_path: Path) -> None:
    kinds = load_collectors()
    flags = ["--collector.disable-defaults", "--collector.cpu", "--collector.memory"]
    outcome = capture(load(flags, kinds), kinds)
    assert outcome.differs == {}
    assert "the same series" in summary(outcome, tmp_path / "x")
    write_archive(outcome.tree, b"{}", tmp_path / "x.tgz")
    with tarfile.open(tmp_path / "x.tgz") as archive:
        assert "x/capture.json" in archive.getnames()

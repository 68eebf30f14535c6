from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors.nfs import BYTES, NfsCollector, parse_statistics, split_mounts
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from tests.exporter.collectors.fakes import memory_host
from tests.exporter.collectors.hosts import HOSTS, fixture_host, values

OPERATIONS = "hwsonde_storage_nfs_operations_total"
STATS = "/proc/1/mountstats"


def mount(export: str, point: str, reads: int, *, fstype: str = "nfs4", errors: str = " 3") -> str:
    return (
        f"device {export} mounted on {point} with fstype {fstype} statvers=1.1\n\topts:\trw,addr=192.0.2.9\n\tevents:\t{'0 ' * 24}7 0 0 \n"
        f"\tbytes:\t1 2 3 4 5000 6000 7 8 \n\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n\tper-op statistics\n"
        f"\t        READ: {reads} {reads + 2} 1 4 5 1000 2000 4000{errors} \n\t OPEN_NOATTR: 5 5 0 0 0 0 10 20{errors} \n\n"
    )


def info(number: str, point: str) -> str:
    return f"36 35 {number} / {point} rw shared:2 - nfs4 x rw\n"


def test_one_mount() -> None:
    host, _ = memory_host({STATS: f"device proc mounted on /proc with fstype proc\n{mount('f:/a', '/a', 10)}".encode()})
    answer = values(list(NfsCollector(host).collect()))
    name = "hwsonde_storage_nfs_{}_total".format
    assert (answer[OPERATIONS, "f:/a", "read"], answer[OPERATIONS, "f:/a", "other"]) == (10, 5)
    assert [answer[name("operation_seconds"), "f:/a", "read", phase] for phase in ("queue", "rtt", "execute")] == [
        1,
        2,
        4,
    ]
    assert (answer[name("bytes"), "f:/a", "read"], answer[name("bytes"), "f:/a", "write"]) == (5000, 6000)
    assert (answer[name("retransmissions"), "f:/a"], answer[name("timeouts"), "f:/a"]) == (2, 1)
    assert (answer[name("delays"), "f:/a"], answer[name("operation_errors"), "f:/a", "read"]) == (7, 3)


def test_an_old_kernel_counts_no_errors() -> None:
    host, _ = memory_host({STATS: mount("f:/a", "/a", 10, errors="").encode()})
    answer = values(list(NfsCollector(host).collect()))
    assert answer[OPERATIONS, "f:/a", "read"] == 10
    assert not [key for key in answer if "errors" in key[0]]


def test_addresses_of_servers_and_clients_are_no_labels() -> None:
    for name in ("vm", "node192"):
        assert not [
            sample for sample in NfsCollector(fixture_host(name)).collect() if "192.0.2" in "".join(sample.labels)
        ]


def test_mounts_that_share_a_filesystem_are_counted_once_under_a_name_that_stays() -> None:
    """The home folders of two users, which an automounter mounts as they come and go."""
    contents = {
        STATS: (mount("f:/home/bob", "/home/bob", 10)).encode(),
        "/proc/1/mountinfo": info("0:60", "/home/bob").encode(),
    }
    host, reader = memory_host(contents)
    collector = NfsCollector(host)
    assert values(list(collector.collect()))[OPERATIONS, "f:/home/bob", "read"] == 10
    both = mount("f:/home/al", "/home/al", 14) + mount("f:/home/bob", "/home/bob", 15)
    reader.contents |= {
        STATS: both.encode(),
        "/proc/1/mountinfo": (info("0:60", "/home/al") + info("0:60", "/home/bob")).encode(),
    }
    answer = values(list(collector.collect()))
    assert answer[OPERATIONS, "f:/home/bob", "read"] == 15
    assert not [key for key in answer if key[1] == "f:/home/al"]
    # mountinfo is read when the mounts have changed, not each time.
    before = reader.reads.count("/proc/1/mountinfo")
    list(collector.collect())
    assert reader.reads.count("/proc/1/mountinfo") == before


def test_filesystems_of_one_name_are_added_up_and_the_sum_never_falls() -> None:
    """One export mounted twice with different options, and once no longer."""
    numbers = (info("0:60", "/a") + info("0:61", "/b")).encode()
    host, reader = memory_host(
        {STATS: (mount("f:/x", "/a", 10) + mount("f:/x", "/b", 100)).encode(), "/proc/1/mountinfo": numbers}
    )
    collector = NfsCollector(host)
    assert values(list(collector.collect()))[OPERATIONS, "f:/x", "read"] == 110
    reader.contents[STATS] = mount("f:/x", "/a", 12).encode()
    assert values(list(collector.collect()))[OPERATIONS, "f:/x", "read"] == 112
    reader.contents[STATS] = (mount("f:/x", "/a", 13) + mount("f:/x", "/b", 4)).encode()
    assert values(list(collector.collect()))[OPERATIONS, "f:/x", "read"] == 117


def test_our_own_mounts_where_those_of_process_1_are_hidden() -> None:
    host, _ = memory_host({"/proc/self/mountstats": mount("f:/a", "/a", 10).encode()})
    collector = NfsCollector(host)
    collector.probe()
    assert values(list(collector.collect()))[OPERATIONS, "f:/a", "read"] == 10


def test_why_there_is_nothing() -> None:
    with pytest.raises(Unavailable) as caught:
        NfsCollector(memory_host({STATS: b"device proc mounted on /proc with fstype proc\n"})[0]).probe()
    assert caught.value.reason is Reason.NO_HARDWARE
    collector = NfsCollector(memory_host({})[0])
    with pytest.raises(Unavailable) as caught:
        collector.probe()
    assert caught.value.reason is Reason.NO_PERMISSION
    with pytest.raises(ReadError):
        collector.collect()


def test_names_are_unescaped_and_other_filesystems_passed_over() -> None:
    mounts = split_mounts((HOSTS / "vm/proc/1/mountstats").read_bytes())
    assert [(mount.export, mount.mountpoint) for mount in mounts] == [
        (b"files.example.net:/export/home", b"/mnt/home share")
    ]
    assert split_mounts(mount("f:/a", "/a", 1, fstype="nfsd").encode()) == []


def test_a_text_that_was_cut_gives_no_wrong_number() -> None:
    body = split_mounts(mount("f:/a", "/a", 10).encode())[0].body
    whole = parse_statistics(body).counts
    for end in range(len(body)):
        for key, value in parse_statistics(body[:end]).counts.items():
            assert value <= whole[key]
    assert whole[BYTES, ("read",)] == 5000


@given(st.binary(max_size=300), st.integers(0, 400))
def test_garbled_text_never_raises(junk: bytes, cut: int) -> None:
    text = mount("f:/a", "/a", 10).encode()
    for found in split_mounts(text[:cut] + junk + text[cut:] + junk):
        assert all(value >= 0 for value in parse_statistics(found.body).counts.values())
